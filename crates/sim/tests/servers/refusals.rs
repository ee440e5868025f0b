//! Wrong calls, generated from the table: wrong numbers of arguments for every command, wrong integers for every
//! argument that is one.

use crate::check::Talk;
use wire::command::{Command, Id, Scope, all_commands};

/// The words of a call with `count` words, names included.
fn call(command: &Command, count: usize) -> Vec<&'static [u8]> {
    let mut words: Vec<&[u8]> = command.name.split('|').map(str::as_bytes).collect();
    words.resize(count, b"1");
    words
}

#[test]
fn wrong_numbers_of_arguments() {
    let mut talk = Talk::new(2);
    let mut tried = 0;
    for command in all_commands() {
        let least = usize::from(command.arity.unsigned_abs());
        let names = command.name.split('|').count();
        let mut counts = vec![least - 1];
        // A container with more words has a subcommand that does not exist.
        if command.arity > 0 && !command.is_container() {
            counts.extend([least + 1, least + 100]);
        }
        for count in counts.into_iter().filter(|count| *count >= names) {
            let abort = "EXECABORT Transaction discarded because of:";
            let begin = if command.id == Id::Exec { abort } else { "ERR" };
            let want = format!("-{begin} wrong number of arguments for '{}' command\r\n", command.name);
            let got = talk.call(&call(command, count));
            assert_eq!(String::from_utf8_lossy(&got), want, "{} with {count} words", command.name);
            tried += 1;
        }
    }
    assert!(tried > 150, "{tried} calls are most of the table");
    talk.rest();
}

#[test]
fn a_key_may_have_a_length_and_no_more() {
    let mut talk = Talk::new(2);
    let too_long = vec![b'k'; store::KEY_SIZE_MAX + 1];
    // Of MIGRATE the control thread says so, which is not here.
    let is_other = |command: &&Command| matches!(command.id, Id::Watch | Id::Migrate);
    for command in all_commands().filter(|command| command.keys.first > 0 && !is_other(command)) {
        let least = usize::from(command.arity.unsigned_abs()).max(usize::from(command.keys.first) + 1);
        let mut words = call(command, least);
        words[usize::from(command.keys.first)] = &too_long;
        let got = String::from_utf8_lossy(&talk.call(&words)).into_owned();
        let what = if command.scope == Scope::Pubsub { "channel" } else { "key" };
        assert!(got.starts_with(&format!("-ERR {what} is longer")), "{}: {got}", command.name);
    }
    talk.rest();
    // The last of many keys, and of a command whose values may be as long.
    let key: &[u8] = b"k";
    let mut many = vec![key; 602];
    for (name, index) in [(&b"MGET"[..], 601), (b"MSET", 601 - 2), (b"DEL", 1)] {
        many[0] = name;
        many[index] = &too_long;
        many.truncate(601 + usize::from(index == 601));
        assert!(talk.call(&many).starts_with(b"-ERR key is longer"), "{}", name.escape_ascii());
        many[index] = key;
    }
    many[0] = b"MSET";
    many[600] = &too_long;
    assert_eq!(talk.call(&many), b"+OK\r\n");
    talk.rest();
    // Queued, it breaks the transaction.
    assert_eq!(talk.say("MULTI"), "+OK\r\n");
    assert!(talk.call(&[b"SET", &too_long, b"v"]).starts_with(b"-ERR key is longer"));
    assert!(talk.say("EXEC").starts_with("-EXECABORT"));
    talk.rest();
}

/// Every argument of every command is what nobody expects there, with one argument more and two than it must have: one
/// reply, whatever it says, and a server that goes on.
#[test]
fn unexpected_arguments() {
    let mut talk = Talk::new(2);
    let long = vec![b'9'; store::KEY_SIZE_MAX + 8000];
    let wrong: [&[u8]; 9] = [
        b"",
        b"-1",
        b"9223372036854775807",
        b"-9223372036854775808",
        b"18446744073709551616",
        b"1e400",
        b"\xff\0\r\n$1\r\n",
        b"[*\\",
        &long,
    ];
    // These have no reply of their own, or keep the ones after them from having one.
    let silent = [Id::ClientReply, Id::Quit, Id::Multi, Id::Exec, Id::Shutdown];
    // And these have one for each name.
    let says_more = |command: &Command| {
        command.scope == Scope::Pubsub && !matches!(command.id, Id::Publish | Id::Spublish)
    };
    let mut tried = 0;
    for command in all_commands().filter(|command| !silent.contains(&command.id) && !says_more(command)) {
        let names = command.name.split('|').count();
        let least = usize::from(command.arity.unsigned_abs()).max(names);
        let most = if command.arity > 0 { least } else { least + 2 };
        for count in least..=most {
            for index in names..count {
                for word in wrong {
                    let mut words = call(command, count);
                    words[index] = word;
                    // It asserts that there is one reply.
                    talk.call(&words);
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 3000, "{tried} calls");
    talk.rest();
    assert_eq!(talk.say("PING"), "+PONG\r\n");
}

#[test]
fn wrong_integers() {
    let mut talk = Talk::new(2);
    talk.say("SET a 1");
    let lines = [
        "SET a 1 EX ?",
        "SET a 1 PX ?",
        "SET a 1 EXAT ?",
        "SET a 1 PXAT ?",
        "GETEX a EX ?",
        "GETEX a PX ?",
        "SETEX a ? 1",
        "PSETEX a ? 1",
        "INCRBY a ?",
        "DECRBY a ?",
        "GETRANGE a ? 1",
        "GETRANGE a 1 ?",
        "SUBSTR a ? 1",
        "SETRANGE a ? 1",
        "EXPIRE a ?",
        "PEXPIRE a ?",
        "EXPIREAT a ?",
        "PEXPIREAT a ?",
        "COPY a b DB ?",
        "MOVE a ?",
        "SCAN 0 COUNT ?",
        "LCS a b MINMATCHLEN ?",
        "BITCOUNT a ? 1",
        "BITCOUNT a 1 ?",
        "BITPOS a ?",
        "BITPOS a 1 ?",
        "BITPOS a 1 1 ?",
        "BITFIELD a SET u8 0 ?",
        "BITFIELD a INCRBY u8 0 ?",
    ];
    let offsets = ["SETBIT a ? 1", "GETBIT a ?", "BITFIELD a SET u8 ? 1", "BITFIELD_RO a GET u8 ?"];
    let wrong = [
        "\"\"",
        "x",
        "1.0",
        "+1",
        "01",
        "-0",
        "1e3",
        "0x10",
        "1,000",
        "--1",
        "-",
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999999",
        "\u{661}",
        "1\0",
    ];
    for line in lines {
        for word in wrong {
            let line = line.replace('?', word);
            assert_eq!(talk.say(&line), "-ERR value is not an integer or out of range\r\n", "{line}");
        }
    }
    for line in offsets {
        for word in wrong {
            let line = line.replace('?', word);
            let want = "-ERR bit offset is not an integer or out of range\r\n";
            assert_eq!(talk.say(&line), want, "{line}");
        }
    }
    assert_eq!(talk.say("GET a"), "$1\r\n1\r\n", "a refused command changes nothing");
    talk.rest();
}
