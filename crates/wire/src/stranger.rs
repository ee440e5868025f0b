//! Clients of another protocol at the wrong port, known by the first byte that they send.

/// Whether a request of a binary protocol begins with this byte and no line of words does: Aerospike's (2), those of memcached
/// and Couchbase (8 and 0x80), TLS (0x16). Whoever waited for the line's end would wait until the client gives up.
pub(crate) fn is_binary(first: u8) -> bool {
    matches!(first, 0x02 | 0x08 | 0x16 | 0x80)
}
