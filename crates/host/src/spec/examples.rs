//! Files to begin with: each is a whole `lanes.toml` with its reasons.

/// Names that [`example`] knows, in the order in which they are shown.
pub const EXAMPLES: &[&str] = &["redis", "aerospike", "memcached", "serve"];

/// The commented file of that name.
#[must_use]
pub fn example(name: &str) -> Option<&'static str> {
    Some(match name {
        "redis" => include_str!("examples/redis.toml"),
        "aerospike" => include_str!("examples/aerospike.toml"),
        "memcached" => include_str!("examples/memcached.toml"),
        "serve" => include_str!("examples/serve.toml"),
        _ => return None,
    })
}
