//! CRC-64 as Redis has it: Jones' polynomial, reflected, from zero, with nothing added at the end.

/// The polynomial, its lowest power in the highest bit.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

/// What a byte at each of eight places adds, so that eight bytes are taken at a time (slicing-by-8: Kounavis, Berry, 2005).
static TABLES: [[u64; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ POLYNOMIAL } else { value >> 1 };
            bit += 1;
        }
        tables[0][byte] = value;
        byte += 1;
    }
    let mut place = 1;
    while place < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[place - 1][byte];
            tables[place][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        place += 1;
    }
    tables
};

/// The sum of the bytes so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crc64(u64);

impl Crc64 {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut sum = self.0;
        for word in words {
            let bytes = (sum ^ u64::from_le_bytes(*word)).to_le_bytes();
            // The first byte is the furthest from the end.
            let added = |(byte, table): (u8, &[u64; 256])| table[usize::from(byte)];
            sum = bytes.into_iter().zip(TABLES.iter().rev()).map(added).fold(0, |all, one| all ^ one);
        }
        for byte in rest {
            let [low, ..] = sum.to_le_bytes();
            sum = TABLES[0][usize::from(low ^ byte)] ^ sum >> 8;
        }
        self.0 = sum;
    }

    /// The sum.
    pub fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bit_by_bit(bytes: &[u8]) -> u64 {
        bytes.iter().fold(0, |sum, byte| {
            (0..8).fold(sum ^ u64::from(*byte), |sum, _| sum >> 1 ^ if sum & 1 == 1 { POLYNOMIAL } else { 0 })
        })
    }

    #[test]
    fn sums_are_those_of_the_definition_however_bytes_are_cut() {
        let bytes: Vec<u8> = (0..100_u8).map(|byte| byte.wrapping_mul(167)).collect();
        for end in 0..bytes.len() {
            let bytes = &bytes[..end];
            for cut in 0..=end {
                let mut crc = Crc64::default();
                crc.update(&bytes[..cut]);
                crc.update(&bytes[cut..]);
                assert_eq!(crc.value(), bit_by_bit(bytes), "{end} bytes, {cut} first");
            }
        }
        let mut crc = Crc64::default();
        crc.update(b"123456789");
        assert_eq!(crc.value(), 0xe9c6_d914_c4b8_d9ca);
    }
}
