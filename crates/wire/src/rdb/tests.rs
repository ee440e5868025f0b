//! Payloads as redis-server 7.0.15 makes and takes them.

use super::lzf::Decompressor;
use super::*;

/// A whole payload of a string.
fn payload(string: &[u8], compressor: Option<&mut Compressor>) -> Vec<u8> {
    let mut out = Vec::new();
    put_string(&mut out, string, compressor);
    let mut crc = Crc64::default();
    crc.update(&out);
    out.extend(trailer(crc));
    out
}

pub(super) fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.as_chunks().0.iter().map(byte).collect()
}

/// What a payload holds, should its end be right.
fn read(payload: &[u8]) -> Result<Vec<u8>, Refusal> {
    match read_head(&payload[..payload.len().min(HEAD_SIZE_MAX)], payload.len())? {
        Head::Number(number) => Ok(crate::number::format_i64(number).as_bytes().to_vec()),
        Head::Plain { start, size } => Ok(payload[start..][..size].to_vec()),
        Head::Compressed { start, size, whole_size } => {
            let mut decompressor = Decompressor::new(whole_size);
            let mut whole = Vec::new();
            let used = decompressor
                .advance(&payload[start..][..size], usize::MAX, |bytes| whole.extend_from_slice(bytes))
                .map_err(|_| Refusal::Broken)?;
            assert_eq!(used, size, "without a limit all is read");
            if decompressor.is_whole() { Ok(whole) } else { Err(Refusal::Broken) }
        }
    }
}

/// Choices from a seed, the same in every language.
struct Dice(u64);

impl Dice {
    fn draw(&mut self) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap()
    }

    fn below(&mut self, end: usize) -> usize {
        self.draw() % end
    }
}

/// Strings of all lengths up to 16,000 bytes, of few different bytes or of many, that repeat themselves.
fn some_string(seed: u64) -> Vec<u8> {
    let mut dice = Dice(seed);
    let sizes = [40, 300, 3000, 16_000].map(|end| dice.below(end));
    let size = sizes[usize::try_from(seed % 4).unwrap()];
    let drawn = dice.draw();
    let kinds = 1 + drawn % [1, 3, 20, 255][dice.below(4)];
    let mut string = Vec::new();
    while string.len() < size {
        if dice.below(4) == 0 && !string.is_empty() {
            let from = dice.below(string.len());
            (from..from + dice.below(400)).for_each(|index| string.push(string[index]));
        } else {
            string.push(u8::try_from(dice.below(kinds)).unwrap());
        }
    }
    string.truncate(size);
    string
}

#[test]
fn payloads_are_those_of_redis() {
    let mut compressor = Compressor::default();
    let mut check = |string: &[u8], want: &str| {
        assert_eq!(payload(string, Some(&mut compressor)), bytes(want), "{string:?}");
    };
    check(b"", "0000 0a005d9b5c400f7fa2da");
    check(b"hello", "000568656c6c6f 0a006372df766534200a");
    check(b"0", "00c000 0a009840a778f8500308");
    check(b"-1", "00c0ff 0a000c937e2485089dc5");
    check(b"127", "00c07f 0a000db5eb315254c514");
    check(b"128", "00c18000 0a00eb7ab3b510cf4b65");
    check(b"-128", "00c080 0a009966326d2f0c5bd9");
    check(b"-129", "00c17fff 0a001760822854808480");
    check(b"32767", "00c1ff7f 0a00495a37da17f4d52b");
    check(b"-32769", "00c2ff7fffff 0a00aee34c4d06c68536");
    check(b"2147483647", "00c2ffffff7f 0a002c74e59ee02eada1");
    check(b"-2147483648", "00c200000080 0a00c74f873e33558187");
    check(b"2147483648", "000a32313437343833363438 0a00e7b129a34c1d76ee");
    check(b"-2147483649", "000b2d32313437343833363439 0a00c261377908f2028c");
    check(b"9223372036854775807", "001339323233333732303336383534373735383037 0a003a657e9481e85f22");
    check(b"012", "0003303132 0a008f5463e9547eeb0c");
    check(b"-0", "00022d30 0a00d5411fd9d6d050cc");
    check(b"+1", "00022b31 0a00c286f0d7439aee6f");
    check(&[b'x'; 20], "00147878787878787878787878787878787878787878 0a005b3c81eca58cc56b");
    check(&[b'x'; 21], "00c30615017878e00a00 0a00941a83676017192f");
    check(&[b'x'; 22], "00c30816017878e00a000078 0a004e1f962f4d963536");
    check(
        &(0..64).collect::<Vec<u8>>(),
        "004040000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f 0a008c0c07acf508b445",
    );
    check(&b"ab".repeat(200), "00c30d419002616261e0ff01e07a01016162 0a003f03619433dd8d9a");
}

/// The sum of the checksums that redis-server gives to 400 strings.
#[test]
fn compressed_strings_are_those_of_redis() {
    let mut compressor = Compressor::default();
    for round in 0..2 {
        let mut all = Crc64::default();
        let (mut size, mut compressed_count) = (0, 0);
        for seed in 0..400 {
            let string = some_string(seed);
            let payload = payload(&string, Some(&mut compressor));
            assert_eq!(read(&payload).as_ref(), Ok(&string), "seed {seed}");
            size += payload.len();
            compressed_count += usize::from(payload[1] == 0xc3);
            all.update(payload.last_chunk::<8>().unwrap());
        }
        assert_eq!((size, compressed_count), (58_668, 348), "round {round}");
        assert_eq!(all.value(), 0x5542_d270_2c36_f26c, "round {round}");
    }
}

#[test]
fn what_redis_reads_and_what_not() {
    let check = |hex: &str, want: Result<&str, Refusal>| {
        assert_eq!(read(&bytes(hex)), want.map(|text| text.as_bytes().to_vec()), "{hex}");
    };
    let broken = Err(Refusal::Broken);
    check("00 05 68656c6c6f", Ok("hello"));
    check("00 4005 68656c6c6f", Ok("hello"));
    check("00 80 00000005 68656c6c6f", Ok("hello"));
    check("00 81 0000000000000005 68656c6c6f", Ok("hello"));
    check("00 05 68656c6c6f 7878", Ok("hello"));
    check("00 82 00000005 68656c6c6f", broken);
    check("00 06 68656c6c6f", broken);
    check("00 80 7fffffff 68656c6c6f", broken);
    check("00 81 ffffffffffffffff 68656c6c6f", broken);
    check("", broken);
    check("00", broken);
    check("00 c0 ff", Ok("-1"));
    check("00 c1 0102", Ok("513"));
    check("00 c2 01020304", Ok("67305985"));
    check("00 c2 010203", broken);
    check("00 c4 01", broken);
    check("00 ff", broken);
    // Compressed.
    check("00 c3 06 05 04 68656c6c6f", Ok("hello"));
    check("00 c3 c6 c5 04 68656c6c6f", Ok("hello"));
    check("00 c3 06 06 04 68656c6c6f", broken);
    check("00 c3 06 04 04 68656c6c6f", broken);
    check("00 c3 07 05 04 68656c6c6f", broken);
    check("00 c3 00 05 04 68656c6c6f", broken);
    check("00 c3 07 05 04 68656c6c6f 00", broken);
    check("00 c3 00 00", Ok(""));
    check("00 c3 01 00 00", Ok(""));
    check("00 c3 04 04 00 61 2000", Ok("aaaa"));
    check("00 c3 04 04 00 61 2001", broken);
    check("00 c3 04 20 1f 616263", broken);
    check("00 c3 03 0a 00 61 e0", broken);
    check("00 c3 04 0a 00 61 e0 00", broken);
    check("00 c3 03 0a 00 61 20", broken);
    // More than these bytes can become.
    check("00 c3 03 4109 e0ff00", broken);
    check("00 c3 03 81 ffffffffffffffff e0ff00", broken);
    // Other types, and no types.
    for (kinds, name) in [
        (&[1, 10, 14, 18][..], "lists"),
        (&[2, 11], "sets"),
        (&[3, 5, 12, 17], "sorted sets"),
        (&[4, 9, 13, 16], "hashes"),
        (&[6, 7], "values of modules"),
        (&[15, 19], "streams"),
    ] {
        for kind in kinds {
            check(&format!("{kind:02x} 05 68656c6c6f"), Err(Refusal::Type(name)));
        }
    }
    for kind in [8, 20, 21, 255] {
        check(&format!("{kind:02x} 05 68656c6c6f"), broken);
    }
}

#[test]
fn lengths_are_as_short_as_they_can_be() {
    for (size, want) in [
        (0, "00 00"),
        (63, "00 3f"),
        (64, "00 4040"),
        (16_383, "00 7fff"),
        (16_384, "00 80 00004000"),
        (0xffff_ffff, "00 80 ffffffff"),
        (0x1_0000_0000, "00 81 0000000100000000"),
    ] {
        let mut out = Vec::new();
        put_plain_head(&mut out, size);
        assert_eq!(out, bytes(want));
        let plain = Head::Plain { start: out.len(), size };
        assert_eq!(read_head(&out, out.len() + size), Ok(plain));
        assert_eq!(read_head(&out, out.len() + size - 1).is_ok(), size == 0 && out.len() == 1);
    }
}

#[test]
fn an_end_is_right_or_not() {
    let whole = payload(b"hello", None);
    let (front, trailer) = whole.split_at(whole.len() - TRAILER_SIZE);
    let is_right = |front: &[u8], trailer: &[u8]| {
        let mut crc = Crc64::default();
        crc.update(front);
        crc.update(&trailer[..2]);
        is_sealed(trailer.try_into().unwrap(), crc)
    };
    assert!(is_right(front, trailer));
    for index in 0..whole.len() {
        let mut other = whole.clone();
        other[index] ^= 0x10;
        let (front, trailer) = other.split_at(whole.len() - TRAILER_SIZE);
        assert!(!is_right(front, trailer), "byte {index}");
    }
    // Versions before and after.
    for (version, want) in [(0_u16, true), (9, true), (10, true), (11, false), (0x0a00, false)] {
        let mut crc = Crc64::default();
        crc.update(front);
        crc.update(&version.to_le_bytes());
        let trailer = [&version.to_le_bytes()[..], &crc.value().to_le_bytes()].concat();
        assert_eq!(is_right(front, &trailer), want, "version {version}");
    }
    // A sum of zero says nothing, unlike at the end of a file.
    assert!(!is_right(front, &[10, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
}

#[test]
fn a_snapshot_names_the_database_of_what_comes_behind_it() {
    let of = |aux: &[u8]| {
        let file = [b"REDIS0010", aux].concat();
        let mut reader = read::Reader::default();
        let (_, size) = reader.next(&file).unwrap().unwrap();
        reader.next(&file[size..]).unwrap().map(|(item, _)| item == read::Item::StreamDatabase(3))
    };
    assert_eq!(of(b"\xfa\x0erepl-stream-db\xc0\x03"), Some(true));
    assert_eq!(of(b"\xfa\x0erepl-stream-db\x013"), Some(true));
    assert_eq!(of(b"\xfa\x0erepl-stream-db\xc0"), None, "it is cut off");
    for other in [
        &b"\xfa\x0erepl-stream-dc\xc0\x03"[..],
        b"\xfa\x0erepl-stream-db\xc0\xff",
        b"\xfa\x0erepl-stream-db\x01x",
    ] {
        assert_eq!(of(other), Some(false));
    }
}
