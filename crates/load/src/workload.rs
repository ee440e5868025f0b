//! What is asked: which operations, of which keys, with which values. Plain values that flags, plan files and results share,
//! each written the same way everywhere: `get:9,set:1`, `zipf:0.99`, `64:3,1024:1`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Keys at most: their numbers have twelve digits in their names, and are drawn as 32 bits.
pub const KEY_COUNT_MAX: u64 = 4_000_000_000;
/// Bytes of a value at most, as Redis takes them (`proto-max-bulk-len`).
pub const VALUE_SIZE_MAX: usize = 512 * 1024 * 1024;
/// Kinds of operation in a mix, and sizes in a list.
pub const CHOICES_MAX: usize = 16;
/// Keys of one MGET.
const MGET_KEYS_MAX: u16 = 1000;

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Operation {
    /// A key's value.
    Get,
    /// A key gets a value.
    Set,
    /// A key is deleted.
    Del,
    /// A number grows by one.
    Incr,
    /// So many keys' values at once.
    Mget(u16),
    /// No key at all.
    Ping,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Get => f.write_str("get"),
            Operation::Set => f.write_str("set"),
            Operation::Del => f.write_str("del"),
            Operation::Incr => f.write_str("incr"),
            Operation::Mget(count) => write!(f, "mget{count}"),
            Operation::Ping => f.write_str("ping"),
        }
    }
}

impl FromStr for Operation {
    type Err = String;

    fn from_str(text: &str) -> Result<Operation, String> {
        Ok(match text {
            "get" => Operation::Get,
            "set" => Operation::Set,
            "del" => Operation::Del,
            "incr" => Operation::Incr,
            "ping" => Operation::Ping,
            _ => {
                let count = text.strip_prefix("mget").and_then(|count| count.parse().ok());
                let count = count.filter(|count| (1..=MGET_KEYS_MAX).contains(count)).ok_or_else(|| {
                    format!("'{text}' is no operation: get, set, del, incr, ping, mget10 (1 to {MGET_KEYS_MAX} keys)")
                })?;
                Operation::Mget(count)
            }
        })
    }
}

/// Operations with their weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mix(pub Vec<(Operation, u32)>);

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(only, _)] = self.0[..] {
            return write!(f, "{only}");
        }
        list(f, self.0.iter().map(|(operation, weight)| format!("{operation}:{weight}")))
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Mix, String> {
        let mix = weighted(text, Operation::from_str)?;
        for (at, (operation, _)) in mix.iter().enumerate() {
            if mix[..at].iter().any(|(other, _)| other == operation) {
                return Err(format!("'{operation}' stands twice in '{text}'"));
            }
        }
        Ok(Mix(mix))
    }
}

/// How large values are, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Sizes {
    /// All alike.
    Fixed(usize),
    /// Each size between these, both included, equally often.
    Uniform(usize, usize),
    /// These, with weights.
    List(Vec<(usize, u32)>),
}

impl Sizes {
    /// The largest.
    pub fn max(&self) -> usize {
        match self {
            Sizes::Fixed(size) | Sizes::Uniform(_, size) => *size,
            Sizes::List(list) => list.iter().map(|(size, _)| *size).max().unwrap_or(0),
        }
    }

    /// Whether a value may have this size.
    pub fn has(&self, size: usize) -> bool {
        match self {
            Sizes::Fixed(only) => size == *only,
            Sizes::Uniform(min, max) => (*min..=*max).contains(&size),
            Sizes::List(list) => list.iter().any(|(one, _)| *one == size),
        }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sizes::Fixed(size) => write!(f, "{size}"),
            Sizes::Uniform(min, max) => write!(f, "{min}-{max}"),
            Sizes::List(sizes) => list(f, sizes.iter().map(|(size, weight)| format!("{size}:{weight}"))),
        }
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Sizes, String> {
        if let Some((min, max)) = text.split_once('-') {
            let (min, max) = (size(min)?, size(max)?);
            return if min <= max {
                Ok(Sizes::Uniform(min, max))
            } else {
                Err(format!("'{text}' ends before it begins"))
            };
        }
        match text.parse::<usize>() {
            Ok(_) => Ok(Sizes::Fixed(size(text)?)),
            Err(_) => Ok(Sizes::List(weighted(text, size)?)),
        }
    }
}

/// Which keys are asked for more often.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// The k-th most popular key in proportion to 1/k^s; the popular ones lie anywhere among the numbers.
    Zipf(f64),
    /// So many percent of the keys get so many percent of the requests.
    Hot {
        /// Percent of the keys.
        keys: f64,
        /// Percent of the requests.
        requests: f64,
    },
    /// One after the other, and from the first again after the last.
    Sequential,
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Uniform => f.write_str("uniform"),
            Distribution::Zipf(exponent) => write!(f, "zipf:{exponent}"),
            Distribution::Hot { keys, requests } => write!(f, "hot:{keys}:{requests}"),
            Distribution::Sequential => f.write_str("sequential"),
        }
    }
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Distribution, String> {
        let wrong = || {
            format!(
                "'{text}' is no distribution of keys: uniform, sequential, zipf:EXPONENT (0 to 10), \
                 hot:PERCENT-OF-KEYS:PERCENT-OF-REQUESTS"
            )
        };
        let percent =
            |text: &str| text.parse().ok().filter(|share| *share > 0.0 && *share <= 100.0).ok_or_else(wrong);
        match text.split(':').collect::<Vec<_>>()[..] {
            ["uniform"] => Ok(Distribution::Uniform),
            ["sequential"] => Ok(Distribution::Sequential),
            ["zipf", exponent] => {
                let exponent = exponent.parse().ok().filter(|s| (0.0..=10.0).contains(s));
                Ok(Distribution::Zipf(exponent.ok_or_else(wrong)?))
            }
            ["hot", keys, requests] => {
                Ok(Distribution::Hot { keys: percent(keys)?, requests: percent(requests)? })
            }
            _ => Err(wrong()),
        }
    }
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// What is done.
    pub operations: Mix,
    /// Keys that there are: `PREFIX` and twelve digits, numbered from 0.
    pub key_count: u64,
    /// What stands before the digits.
    pub key_prefix: String,
    /// Which of them are asked for.
    pub key_distribution: Distribution,
    /// Bytes of the values that are set.
    pub value_size: Sizes,
    /// Seconds after which what is set expires.
    pub ttl_s: Option<u32>,
    /// Whether values that come back are looked at. They must have been set by a load with the same sizes.
    pub verify: bool,
}

impl Default for Workload {
    /// The published sweep's: GET of 10,000 keys with values of 100 bytes.
    fn default() -> Workload {
        Workload {
            operations: Mix(vec![(Operation::Get, 1)]),
            key_count: 10_000,
            key_prefix: "key:".to_owned(),
            key_distribution: Distribution::Uniform,
            value_size: Sizes::Fixed(100),
            ttl_s: None,
            verify: false,
        }
    }
}

fn size(text: &str) -> Result<usize, String> {
    let size = text.parse().ok().filter(|size| *size <= VALUE_SIZE_MAX);
    size.ok_or_else(|| format!("'{text}' is no size in bytes up to {VALUE_SIZE_MAX}"))
}

/// `what:weight,what:weight`; a weight that is left out is 1.
fn weighted<T>(text: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<(T, u32)>, String> {
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > CHOICES_MAX {
        return Err(format!("'{text}' has more than {CHOICES_MAX} parts"));
    }
    parts
        .into_iter()
        .map(|part| match part.split_once(':') {
            None => Ok((parse(part)?, 1)),
            Some((what, weight)) => {
                let weight = weight.parse().ok().filter(|weight| *weight > 0);
                Ok((parse(what)?, weight.ok_or_else(|| format!("'{part}' has no weight above zero"))?))
            }
        })
        .collect()
}

fn list(f: &mut fmt::Formatter<'_>, parts: impl Iterator<Item = String>) -> fmt::Result {
    f.write_str(&parts.collect::<Vec<_>>().join(","))
}

/// Written as its text, in TOML and in JSON.
macro_rules! as_text {
    ($($type:ty),*) => {$(
        impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> String {
                value.to_string()
            }
        }
    )*};
}

as_text!(Operation, Mix, Sizes, Distribution);

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written back is what was read.
    fn check<T: FromStr<Err = String> + fmt::Display>(texts: &[&str], wrong: &[&str]) {
        for text in texts {
            match text.parse::<T>() {
                Ok(value) => assert_eq!(value.to_string(), *text),
                Err(problem) => panic!("{text}: {problem}"),
            }
        }
        for text in wrong {
            let problem = text.parse::<T>().err().unwrap_or_else(|| panic!("'{text}' is taken"));
            assert!(problem.contains('\''), "{problem}");
        }
    }

    #[test]
    fn texts_are_read_and_written_alike() {
        check::<Mix>(
            &["get", "get:9,set:1", "mget10:1,ping:2"],
            &["", "got", "get:0", "get:-1", "get:9,get:1", "mget0", "mget1001", "mget", "get,"],
        );
        check::<Sizes>(
            &["0", "100", "10-100", "64:3,1024:1"],
            &["", "-1", "100-10", "64:", "64:0", "9999999999", "1-9999999999"],
        );
        check::<Distribution>(
            &["uniform", "sequential", "zipf:0.99", "hot:20:95"],
            &["", "zipf", "zipf:-1", "zipf:11", "hot:20", "hot:0:5", "hot:101:5", "uniform:1", "zipf:nan"],
        );
    }

    #[test]
    fn weights_may_be_left_out() {
        assert_eq!("get,set:3".parse(), Ok(Mix(vec![(Operation::Get, 1), (Operation::Set, 3)])));
    }
}
