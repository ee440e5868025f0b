//! The head of a command: what is asked, and what a reply repeats, in [`HEAD_SIZE`] bytes.
//!
//! It is a command's first argument, so it travels wherever arguments do: to another lane, into a queue. Layout, numbers
//! little-endian (it never leaves the process):
//! ```text
//!  0 verb     1 framing   2 opcode   3 datatype
//!  4 say      5 0 0 0
//!  8 opaque u32          12 vbucket u16          14 0 0
//! 16 flags u32           20 bits u32
//! 24 exptime i64         32 cas u64   40 delta u64   48 initial u64
//! ```

use super::say::Say;

/// Bytes of a head.
pub const HEAD_SIZE: usize = 56;

/// How a request was framed, and so its reply is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Framing {
    /// Lines of words.
    #[default]
    Text,
    /// Lines of a code of two letters, a key and flags of a letter each.
    Meta,
    /// Headers of 24 bytes.
    Binary,
    /// The same as Couchbase has them ([`crate::couchbase`]).
    Couchbase,
}

/// The first byte of a binary request.
pub const MAGIC_REQUEST: u8 = 0x80;
/// The first byte of a binary reply.
pub const MAGIC_REPLY: u8 = 0x81;

impl Framing {
    /// From `self as u8`.
    #[inline]
    fn of_code(code: u8) -> Framing {
        match code {
            0 => Framing::Text,
            1 => Framing::Meta,
            2 => Framing::Binary,
            code => {
                assert!(code == 3, "a head has one of four framings");
                Framing::Couchbase
            }
        }
    }

    /// What a connection speaks that begins with this byte: binary or text (which has the meta commands too).
    pub fn of(first: u8) -> Framing {
        if first == MAGIC_REQUEST { Framing::Binary } else { Framing::Text }
    }

    /// Headers, or else lines?
    #[inline]
    pub fn is_binary(self) -> bool {
        matches!(self, Framing::Binary | Framing::Couchbase)
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Verb {
    /// Only a fixed text is to be said: [`Head::say`].
    #[default]
    Say,
    /// The value of a key.
    Get,
    /// The value of a key, whose expiry becomes [`Head::exptime`].
    Gat,
    /// The expiry alone.
    Touch,
    /// Store, whatever is there.
    Set,
    /// Store if nothing is there.
    Add,
    /// Store if something is there.
    Replace,
    /// Store if what is there has [`Head::cas`]. A CAS of zero fits nothing.
    Cas,
    /// Put the value behind what is there. [`Head::cas`] must fit unless it is zero.
    Append,
    /// Put the value in front of what is there, likewise.
    Prepend,
    /// Delete. [`Head::cas`] must fit if there is one ([`Bits::HAS_CAS`]).
    Delete,
    /// Add [`Head::delta`] to a decimal number, modulo 2⁶⁴; [`Head::initial`] if there is none and [`Bits::CREATES`].
    Incr,
    /// Subtract, not below zero.
    Decr,
    /// `mg`: see [`super::meta::Options`].
    MetaGet,
    /// `me`: what is known of an entry, for people.
    MetaDebug,
    /// Delete the key, because a value that should have replaced its own was too large, and say so.
    Forget,
    /// Forget all keys, at [`Head::exptime`].
    Flush,
    /// Statistics of the group that is the value.
    Stats,
    /// How much is logged: [`Head::delta`].
    Verbosity,
    /// Which version this is.
    Version,
    /// Nothing; the reply shows that everything before it is done.
    Noop,
    /// Close, after what was said.
    Quit,
    /// The SASL mechanisms.
    SaslList,
    /// Begin with the mechanism that is the key, and the payload that is the value.
    SaslAuth,
    /// Go on likewise.
    SaslStep,
    /// The end of a line of keys of which none brought it.
    End,
    /// Only a status is to be said: [`Head::delta`]. This and the following are Couchbase's.
    Refuse,
    /// The value of a key, which is locked for [`Head::exptime`] seconds: whoever has the new CAS may change it.
    GetLocked,
    /// End that. [`Head::cas`] must fit.
    Unlock,
    /// What there is of a key beside its value.
    GetMeta,
    /// Whether a key is there, and persisted: the key is inside of the value.
    Observe,
    /// The newest change of a partition, and of those that are persisted; the value names the history.
    ObserveSeqno,
    /// The value of a key out of a copy of its partition, of which there is none.
    GetReplica,
    /// Which partitions are this node's: what STAT says of the group `vbucket`.
    VbucketStats,
    /// The features that the value lists are known to the client, whose name is the key.
    Hello,
    /// From now on the bucket is the key.
    SelectBucket,
    /// The map of partitions. With [`Bits::KNOWS_MAP`] not the one of epoch [`Head::delta`] and revision [`Head::initial`], nor
    /// an older one.
    ClusterConfig,
    /// What statuses mean, in the form of the version that is the value.
    ErrorMap,
    /// All scopes and collections.
    Manifest,
    /// The number of the collection that is the value.
    CollectionId,
    /// The number of the scope that is the value.
    ScopeId,
    /// What is inside of a document, at the paths in the value ([`crate::couchbase::subdocument`]).
    LookupIn,
    /// Change it there.
    MutateIn,
}

impl Verb {
    /// All, by their code.
    const ALL: [Verb; Verb::MutateIn as usize + 1] = [
        Verb::Say,
        Verb::Get,
        Verb::Gat,
        Verb::Touch,
        Verb::Set,
        Verb::Add,
        Verb::Replace,
        Verb::Cas,
        Verb::Append,
        Verb::Prepend,
        Verb::Delete,
        Verb::Incr,
        Verb::Decr,
        Verb::MetaGet,
        Verb::MetaDebug,
        Verb::Forget,
        Verb::Flush,
        Verb::Stats,
        Verb::Verbosity,
        Verb::Version,
        Verb::Noop,
        Verb::Quit,
        Verb::SaslList,
        Verb::SaslAuth,
        Verb::SaslStep,
        Verb::End,
        Verb::Refuse,
        Verb::GetLocked,
        Verb::Unlock,
        Verb::GetMeta,
        Verb::Observe,
        Verb::ObserveSeqno,
        Verb::GetReplica,
        Verb::VbucketStats,
        Verb::Hello,
        Verb::SelectBucket,
        Verb::ClusterConfig,
        Verb::ErrorMap,
        Verb::Manifest,
        Verb::CollectionId,
        Verb::ScopeId,
        Verb::LookupIn,
        Verb::MutateIn,
    ];

    /// Does it concern one key, which decides the lane?
    pub fn has_key(self) -> bool {
        !matches!(
            self,
            Verb::Say
                | Verb::Flush
                | Verb::Stats
                | Verb::Verbosity
                | Verb::Version
                | Verb::Noop
                | Verb::Quit
                | Verb::SaslList
                | Verb::SaslAuth
                | Verb::SaslStep
                | Verb::End
                | Verb::Refuse
                | Verb::ObserveSeqno
                | Verb::GetReplica
                | Verb::VbucketStats
                | Verb::Hello
                | Verb::SelectBucket
                | Verb::ClusterConfig
                | Verb::ErrorMap
                | Verb::Manifest
                | Verb::CollectionId
                | Verb::ScopeId
        )
    }
}

/// What else a command says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bits(u32);

impl Bits {
    /// `noreply` of text, `q` of meta, a quiet opcode of binary; each silences other replies ([`super::reply::is_said`]).
    pub const QUIET: Bits = Bits(1);
    /// The reply has the CAS: `gets`, `gats`.
    pub const WANTS_CAS: Bits = Bits(1 << 1);
    /// The reply has the key: GETK, GATK.
    pub const WANTS_KEY: Bits = Bits(1 << 2);
    /// The reply has the value: gets of text and binary, `v` of meta.
    pub const WANTS_VALUE: Bits = Bits(1 << 3);
    /// A number that is missing is made.
    pub const CREATES: Bits = Bits(1 << 4);
    /// The key came, and goes, in base64.
    pub const BASE64: Bits = Bits(1 << 5);
    /// There is a CAS to compare with, be it zero.
    pub const HAS_CAS: Bits = Bits(1 << 6);
    /// `I` of meta: what would be deleted becomes stale; a store with an older CAS stores something stale.
    pub const INVALIDATES: Bits = Bits(1 << 7);
    /// The key is its line's last: `END` comes with its reply.
    pub const ENDS: Bits = Bits(1 << 8);
    /// The connection is closed after the reply.
    pub const CLOSES: Bits = Bits(1 << 9);
    /// A document that is replaced keeps its expiry.
    pub const KEEPS_EXPIRY: Bits = Bits(1 << 10);
    /// The reply may have the datatype JSON.
    pub const KNOWS_JSON: Bits = Bits(1 << 11);
    /// The reply may have any status, with words of an error.
    pub const KNOWS_ERRORS: Bits = Bits(1 << 12);
    /// The reply to a change has its number.
    pub const WANTS_TOKEN: Bits = Bits(1 << 13);
    /// The key came, and goes, behind the number of its collection.
    pub const HAS_COLLECTION: Bits = Bits(1 << 14);
    /// The client says which map it has.
    pub const KNOWS_MAP: Bits = Bits(1 << 15);
    /// The extras have the datatype too: the second version of GET_META.
    pub const WANTS_DATATYPE: Bits = Bits(1 << 16);

    /// Are all of these set?
    #[inline]
    pub fn has(self, bits: Bits) -> bool {
        self.0 & bits.0 == bits.0
    }

    /// These and those.
    #[inline]
    #[must_use]
    pub fn and(self, bits: Bits) -> Bits {
        Bits(self.0 | bits.0)
    }

    /// These, and those if `condition`.
    #[inline]
    #[must_use]
    pub fn and_if(self, condition: bool, bits: Bits) -> Bits {
        if condition { self.and(bits) } else { self }
    }
}

/// What is asked, and what a reply repeats of it. The zero of a field stands where a request has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// What is to be done.
    pub verb: Verb,
    /// How the request was framed.
    pub framing: Framing,
    /// The opcode of a binary request, as sent.
    pub opcode: u8,
    /// The datatype of a binary request, as sent.
    pub datatype: u8,
    /// What else it says of itself.
    pub bits: Bits,
    /// What [`Verb::Say`] says.
    pub say: Say,
    /// The number of a binary request that its reply repeats; the four bytes as a big-endian number.
    pub opaque: u32,
    /// The partition that a binary request names.
    pub vbucket: u16,
    /// Client flags.
    pub flags: u32,
    /// Expiry in seconds, as sent: see [`super::expiry`]. For a number that is made, that of the new one.
    pub exptime: i64,
    /// The CAS to compare with.
    pub cas: u64,
    /// What to add or subtract; the level of [`Verb::Verbosity`], the status of [`Verb::Refuse`].
    pub delta: u64,
    /// What a number begins with.
    pub initial: u64,
}

impl Head {
    /// A head that has no more than this.
    pub(crate) fn new(verb: Verb, framing: Framing) -> Head {
        Head { verb, framing, ..Head::default() }
    }

    /// Is this bit set?
    #[inline]
    pub fn is(&self, bit: Bits) -> bool {
        self.bits.has(bit)
    }

    /// The argument that [`Head::from_bytes`] reads.
    #[inline]
    pub fn to_bytes(&self) -> [u8; HEAD_SIZE] {
        let mut bytes = [0; HEAD_SIZE];
        // `as`: the discriminants of enums of one byte.
        bytes[..4].copy_from_slice(&[self.verb as u8, self.framing as u8, self.opcode, self.datatype]);
        bytes[4] = self.say as u8;
        bytes[8..12].copy_from_slice(&self.opaque.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.vbucket.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.flags.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.bits.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.exptime.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.cas.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.delta.to_le_bytes());
        bytes[48..].copy_from_slice(&self.initial.to_le_bytes());
        bytes
    }

    /// What is to be done and how it was framed, of the head that [`Head::to_bytes`] wrote.
    #[inline]
    pub fn front_of(bytes: &[u8]) -> (Verb, Framing) {
        (Verb::ALL[usize::from(bytes[0])], Framing::of_code(bytes[1]))
    }

    /// The head that [`Head::to_bytes`] wrote.
    ///
    /// # Panics
    /// With any other bytes: no client ever writes a head.
    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Head {
        let bytes: &[u8; HEAD_SIZE] = bytes.try_into().expect("a head has HEAD_SIZE bytes");
        let (verb, framing) = Head::front_of(bytes);
        Head {
            verb,
            framing,
            opcode: bytes[2],
            datatype: bytes[3],
            bits: Bits(u32::from_le_bytes(array(bytes, 20))),
            say: Say::of(bytes[4]),
            opaque: u32::from_le_bytes(array(bytes, 8)),
            vbucket: u16::from_le_bytes(array(bytes, 12)),
            flags: u32::from_le_bytes(array(bytes, 16)),
            exptime: i64::from_le_bytes(array(bytes, 24)),
            cas: u64::from_le_bytes(array(bytes, 32)),
            delta: u64::from_le_bytes(array(bytes, 40)),
            initial: u64::from_le_bytes(array(bytes, 48)),
        }
    }
}

/// `SIZE` bytes from `start` on.
#[inline]
fn array<const SIZE: usize>(bytes: &[u8; HEAD_SIZE], start: usize) -> [u8; SIZE] {
    *bytes[start..].first_chunk().expect("every field lies inside of a head")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_comes_back_from_its_bytes() {
        for verb in Verb::ALL {
            assert_eq!(Verb::ALL[usize::from(verb as u8)], verb);
            for framing in [Framing::Text, Framing::Meta, Framing::Binary, Framing::Couchbase] {
                let head = Head {
                    verb,
                    framing,
                    opcode: 0x24,
                    datatype: 3,
                    bits: Bits::QUIET.and(Bits::CLOSES),
                    say: Say::BadChunk,
                    opaque: 0xdead_beef,
                    vbucket: 1023,
                    flags: u32::MAX,
                    exptime: i64::MIN,
                    cas: u64::MAX,
                    delta: 1 << 63,
                    initial: 7,
                };
                assert_eq!(Head::from_bytes(&head.to_bytes()), head);
            }
        }
    }

    #[test]
    fn bits_are_apart() {
        let all = [
            Bits::QUIET,
            Bits::WANTS_CAS,
            Bits::WANTS_KEY,
            Bits::WANTS_VALUE,
            Bits::CREATES,
            Bits::BASE64,
            Bits::HAS_CAS,
            Bits::INVALIDATES,
            Bits::ENDS,
            Bits::CLOSES,
            Bits::KEEPS_EXPIRY,
            Bits::KNOWS_JSON,
            Bits::KNOWS_ERRORS,
            Bits::WANTS_TOKEN,
            Bits::HAS_COLLECTION,
            Bits::KNOWS_MAP,
            Bits::WANTS_DATATYPE,
        ];
        for (index, bit) in all.into_iter().enumerate() {
            for (other, bits) in all.into_iter().enumerate() {
                assert_eq!(bit.has(bits), index == other);
            }
            assert!(all.into_iter().fold(Bits::default(), Bits::and).has(bit));
        }
    }
}
