//! What HELLO agrees on: the client lists the features that it knows, the reply those of them that are served.
//!
//! Both lists are numbers of 16 bits, big-endian (`include/mcbp/protocol/feature.h` of `kv_engine`). A second HELLO begins
//! anew.

/// The features of a connection that both sides know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(u16);

/// All that are served, by the place of their bit. Not here, because it does not exist or nobody has it: TLS (2), extended
/// attributes (6), Snappy (0x0a), requests of the server (0x0c, 0x0d, 0x1f), replies out of order (0x0e), tracing (0x0f).
const CODES: [u16; 11] = [0x03, 0x04, 0x07, 0x08, 0x0b, 0x10, 0x11, 0x12, 0x14, 0x1d, 0x1e];

impl Features {
    /// TCP_NODELAY is set, as it is on every connection.
    pub const NODELAY: Features = Features(1);
    /// Replies to changes have the number of the change.
    pub const MUTATION_TOKENS: Features = Features(1 << 1);
    /// The client has read the error map, so that any status may be answered.
    pub const EXTENDED_ERRORS: Features = Features(1 << 2);
    /// SELECT_BUCKET.
    pub const SELECT_BUCKET: Features = Features(1 << 3);
    /// Values are marked as JSON.
    pub const JSON: Features = Features(1 << 4);
    /// Requests with frames.
    pub const FRAMES: Features = Features(1 << 5);
    /// Durability is asked for in frames.
    pub const DURABILITY: Features = Features(1 << 6);
    /// Keys begin with the number of their collection.
    pub const COLLECTIONS: Features = Features(1 << 7);
    /// A frame asks to keep the expiry that there is.
    pub const PRESERVED_EXPIRY: Features = Features(1 << 8);
    /// GET_CLUSTER_CONFIG may say which map the client has.
    pub const KNOWN_MAP: Features = Features(1 << 9);
    /// The map goes with the first NOT_MY_VBUCKET alone.
    pub const MAP_ONCE: Features = Features(1 << 10);

    /// Those of a client's list that are served.
    pub fn accepted(list: &[u8]) -> Features {
        let of = |code: &[u8; 2]| CODES.iter().position(|known| *known == u16::from_be_bytes(*code));
        let bits = list.as_chunks().0.iter().filter_map(of).fold(0, |bits, place| bits | 1 << place);
        Features(bits)
    }

    /// Is it agreed on?
    #[inline]
    pub fn has(self, feature: Features) -> bool {
        self.0 & feature.0 != 0
    }

    /// The list that the reply has, in the order of the codes.
    pub fn list(self) -> Vec<u8> {
        let is_here = |(place, _): &(usize, &u16)| self.0 & 1 << place != 0;
        CODES.iter().enumerate().filter(is_here).flat_map(|(_, code)| code.to_be_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_know_is_agreed_on() {
        let list = |codes: &[u16]| codes.iter().flat_map(|code| code.to_be_bytes()).collect::<Vec<u8>>();
        // What libcouchbase 3.3.19 asks for.
        let asked =
            list(&[2, 6, 0xb, 0xc, 0x1f, 0x1d, 0x1e, 8, 7, 3, 0xa, 0x13, 4, 0xf, 0x12, 0xe, 0x17, 0x14]);
        let features = Features::accepted(&asked);
        assert_eq!(features.list(), list(&[3, 4, 7, 8, 0xb, 0x12, 0x14, 0x1d, 0x1e]));
        assert_eq!(Features::accepted(&features.list()), features);
        assert!(features.has(Features::COLLECTIONS) && !features.has(Features::FRAMES));
        assert_eq!(Features::accepted(&list(&[0xffff, 0])), Features::default());
        assert_eq!(Features::accepted(&list(&CODES)).list(), list(&CODES));
    }

    #[test]
    fn names_are_those_of_the_codes() {
        for (code, feature) in [
            (0x03, Features::NODELAY),
            (0x04, Features::MUTATION_TOKENS),
            (0x07, Features::EXTENDED_ERRORS),
            (0x08, Features::SELECT_BUCKET),
            (0x0b, Features::JSON),
            (0x10, Features::FRAMES),
            (0x11, Features::DURABILITY),
            (0x12, Features::COLLECTIONS),
            (0x14, Features::PRESERVED_EXPIRY),
            (0x1d, Features::KNOWN_MAP),
            (0x1e, Features::MAP_ONCE),
        ] {
            assert_eq!(Features::accepted(&[0, code]), feature);
        }
    }
}
