//! Scans: a command for each partition, or one for all of which some records are wanted.

use wire::aerospike::client::{Message, put_batch, put_op};
use wire::aerospike::op::kind;
use wire::aerospike::{Bits, Code, DIGEST, Limits, OPS, PARTITIONS, SET, USER_KEY, Verb};
use wire::route::{Function, partition};

use crate::{KEY, OTHER, check_refused, framed, head, message, read, read_cut};

#[test]
fn a_scan_is_a_command_for_each_partition() {
    let mut ops = Vec::new();
    put_op(&mut ops, kind::READ, 0, b"a", b"");
    let scan =
        Message { info1: 1, info3: 4, digest: None, partitions: &[0, 4095, 77], ops: (1, &ops), ..message() };
    let commands = read(&[framed(&scan), framed(&Message { info1: 3, ..message() })].concat());
    assert_eq!(commands.len(), 4);
    for (command, pid) in commands.iter().zip([0_u16, 4095, 77]) {
        assert_eq!((head(command).verb, &command[DIGEST][..]), (Verb::Scan, &pid.to_le_bytes()[..]));
        assert_eq!((&command[SET][..], &command[OPS]), (&b"demo"[..], &ops));
        assert_eq!(head(command).is(Bits::LAST), pid == 77);
        assert_eq!(Function::Aerospike.slot(&command[DIGEST]).number(), pid * 4);
    }
    assert_eq!(head(&commands[3]).verb, Verb::Get);
}

/// Partitions of which a client has records are named by the last of them, before the others or behind them.
#[test]
fn a_scan_goes_on_behind_records() {
    let mut ops = Vec::new();
    put_op(&mut ops, kind::READ, 0, b"a", b"");
    let records = [KEY, [0xff; 20]];
    let ids: [u16; 4] = [0, 4095 - 1, partition(&KEY), 4095];
    let message = Message { info1: 1, digest: None, ops: (1, &ops), ..message() };
    let scan = Message { partitions: &ids[..2], records: &records, ..message };
    let behind = framed(&Message { info1: 3, digest: Some(&OTHER), ..message });
    let check = |input: &[u8], want: &[(u16, &[u8])]| {
        let commands = read(&[input, &behind[..]].concat());
        assert_eq!(commands.len(), want.len() + 1);
        for (index, (command, (id, record))) in commands.iter().zip(want).enumerate() {
            assert_eq!((&command[DIGEST][..], &command[USER_KEY][..]), (&id.to_le_bytes()[..], *record));
            assert_eq!((&command[SET][..], &command[OPS]), (&b"demo"[..], &ops));
            assert_eq!(head(command).is(Bits::LAST), index + 1 == want.len());
        }
    };
    let [first, second] = [&records[0][..], &records[1][..]];
    let input = framed(&scan);
    check(&input, &[(ids[0], b""), (ids[1], b""), (ids[2], first), (ids[3], second)]);
    check(&framed(&Message { records: &records, ..message }), &[(ids[2], first), (ids[3], second)]);
    // The same fields the other way round.
    let (partitions_size, records_size) = (5 + 4, 5 + 40);
    let at = input.len() - ops.len() - partitions_size - records_size;
    let mut turned = input.clone();
    turned[at..at + partitions_size + records_size].rotate_left(partitions_size);
    check(&turned, &[(ids[2], first), (ids[3], second), (ids[0], b""), (ids[1], b"")]);
    // Of some records: one command, in which those partitions are the first.
    for input in [input, turned] {
        let limited = Message { max_records: 9, ..scan };
        let commands = read(&framed(&limited));
        assert_eq!((commands.len(), &commands[0][USER_KEY][..]), (1, records.as_flattened()));
        let all: Vec<u8> = [2, 3, 0, 1].iter().flat_map(|place: &usize| ids[*place].to_le_bytes()).collect();
        assert_eq!(commands[0][DIGEST], all);
        // Half a digest.
        let mut odd = input;
        let at = odd.windows(5).position(|bytes| bytes == [0, 0, 0, 41, 12]).unwrap();
        odd[at + 3] = 31;
        odd.drain(at + 5..at + 15);
        let size = u16::try_from(odd.len() - 8).unwrap().to_be_bytes();
        odd[6..8].copy_from_slice(&size);
        check_refused(&odd, &[(Code::PARAMETER, true)]);
    }
}

/// What counts the records sees all partitions; a limit that is no limit, or too high to be counted to, is none.
#[test]
fn a_scan_of_some_records_is_one_command() {
    let ids = [0_u16, 4095, 77];
    let scan = |max_records| Message { info1: 1, digest: None, partitions: &ids, max_records, ..message() };
    let all: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    for limit in [1, 100, 65_536] {
        let commands = read(&[framed(&scan(limit)), framed(&Message { info1: 3, ..message() })].concat());
        assert_eq!((commands.len(), &commands[0][DIGEST], &commands[0][SET][..]), (2, &all, &b"demo"[..]));
        let head = head(&commands[0]);
        assert_eq!((head.verb, u64::from(head.index), head.is(Bits::LAST)), (Verb::Scan, limit, true));
        assert_eq!(self::head(&commands[1]).verb, Verb::Get);
    }
    for limit in [0, 65_537, u64::MAX] {
        let commands = read(&framed(&scan(limit)));
        assert_eq!(commands.len(), 3);
        assert!(commands.iter().all(|command| head(command).index == 0));
    }
    // Four bytes are no number of records.
    let mut short = framed(&scan(1));
    let at = short.len() - 13;
    short[at..at + 5].copy_from_slice(&[0, 0, 0, 5, 13]);
    short.truncate(at + 9);
    let size = short.len() - 8;
    short[7] = u8::try_from(size).unwrap();
    let commands = read(&short);
    assert_eq!((commands.len(), head(&commands[0]).code), (1, Code::PARAMETER));
}

/// A digest in this partition.
fn record(id: u16) -> [u8; 20] {
    let mut digest = [0xab; 20];
    digest[..2].copy_from_slice(&id.to_le_bytes());
    digest
}

/// All partitions, some of them named by a record. However the frame comes, the commands are those of a short scan.
#[test]
fn a_scan_may_go_on_behind_a_record_of_each_partition() {
    let mut ops = Vec::new();
    put_op(&mut ops, kind::READ, 0, b"a", b"");
    let message = Message { info1: 1, digest: None, ops: (1, &ops), ..message() };
    for record_count in [1700, 4095, 4096] {
        let records: Vec<_> = (0..record_count).map(record).collect();
        let partitions: Vec<u16> = (record_count..PARTITIONS).collect();
        let scan = Message { partitions: &partitions, records: &records, ..message };
        let ids: Vec<u8> = (0..PARTITIONS).flat_map(u16::to_le_bytes).collect();
        let get = framed(&Message { info1: 3, digest: Some(&KEY), ..message });
        let limited = [&framed(&Message { max_records: 100, ..scan }), &get[..]].concat();
        let commands = read(&limited);
        assert_eq!((commands.len(), head(&commands[1]).verb), (2, Verb::Get));
        let command = &commands[0];
        assert_eq!((head(command).verb, head(command).index), (Verb::Scan, 100));
        assert!(head(command).is(Bits::LAST));
        assert_eq!((&command[DIGEST], &command[USER_KEY][..]), (&ids, records.as_flattened()));
        assert_eq!((&command[SET][..], &command[OPS]), (&b"demo"[..], &ops));
        // Pieces of a packet, and of a large buffer.
        for size in [512, 40_000] {
            let cuts = (1..).map(|count| count * size).take_while(|cut| *cut < limited.len());
            assert_eq!(read_cut(&limited, cuts, &Limits::default()), commands);
        }
        let commands = read(&[&framed(&scan), &get[..]].concat());
        assert_eq!(commands.len(), usize::from(PARTITIONS) + 1);
        assert_eq!(head(commands.last().unwrap()).verb, Verb::Get);
        for (command, id) in commands.iter().zip(0..PARTITIONS) {
            assert_eq!((head(command).verb, head(command).index), (Verb::Scan, 0));
            assert_eq!(command[DIGEST], id.to_le_bytes());
            let behind = if id < record_count { &record(id)[..] } else { &b""[..] };
            assert_eq!((&command[USER_KEY][..], &command[OPS]), (behind, &ops));
            assert_eq!(head(command).is(Bits::LAST), id + 1 == PARTITIONS);
        }
    }
}

/// What names more than there is, is longer than a scan may be, or is none.
#[test]
fn long_requests_that_are_no_scans_are_refused() {
    let records: Vec<_> = (0..PARTITIONS).map(record).collect();
    let scan = Message { info1: 1, digest: None, records: &records, ..message() };
    check_refused(&framed(&Message { partitions: &[7], ..scan }), &[(Code::PARAMETER, true)]);
    check_refused(&framed(&Message { ops: (1, &[0; 24_600]), ..scan }), &[(Code::PARAMETER, false)]);
    check_refused(&framed(&Message { user_key: b"\x03key", ..scan }), &[(Code::PARAMETER, true)]);
    check_refused(&framed(&Message { namespace: b"other", ..scan }), &[(Code::NAMESPACE, true)]);
    check_refused(&framed(&Message { info2: 1, ..scan }), &[(Code::PARAMETER, false)]);
    check_refused(&framed(&Message { digest: Some(&KEY), ..scan }), &[(Code::PARAMETER, false)]);
    let mut batch = framed(&scan);
    batch[9] |= 8;
    check_refused(&batch, &[(Code::PARAMETER, true)]);
    // As a row of a batch, where partitions mean nothing.
    let (mut rows, mut input) = (Vec::new(), Vec::new());
    scan.put_row(&mut rows, 0, &KEY);
    put_batch(&mut input, 1, &rows);
    check_refused(&input, &[(Code::PARAMETER, true)]);
}
