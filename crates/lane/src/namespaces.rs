//! The namespaces behind Redis' databases: what clients call each, which partition function its keys have, and what it is
//! limited to. They are fixed when the server starts.
//!
//! ```text
//! 0 … 15            databases, as SELECT numbers them        Redis' function
//! 16, 17 …          buckets, in the order of the settings    Couchbase's; the first is memcached's, too
//! behind those      namespaces of records, likewise          Aerospike's
//! ```

use std::sync::Arc;

use wire::aerospike;
use wire::route::{Function, Slot};

/// The most namespaces of one function. Each is a database of every lane.
pub const NAMESPACES_MAX: usize = 16;

/// What a namespace is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// What clients call it.
    pub name: String,
    /// `default-ttl`, seconds: how long lives what is stored without an end; 0 for ever.
    pub default_ttl_s: u32,
    /// `memory-share`, percent of `maxmemory` that its keys may take, 1 to 100.
    pub memory_share: Option<u8>,
}

impl Namespace {
    /// One without limits of its own.
    pub fn new(name: &str) -> Namespace {
        Namespace { name: name.to_owned(), default_ttl_s: 0, memory_share: None }
    }
}

/// All of them, in the order of their databases. A clone shares them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaces {
    all: Arc<[Namespace]>,
    bucket_count: u16,
    /// Those of records as their decoder wants them.
    of_records: Arc<[aerospike::Namespace]>,
}

/// Couchbase's function as often as there may be buckets, then Aerospike's: the namespaces of a server are a run of these.
const SLOTS_OF: [fn(&[u8]) -> u16; 2 * NAMESPACES_MAX] = {
    let mut all: [fn(&[u8]) -> u16; 2 * NAMESPACES_MAX] = [|key| Function::Couchbase.slot(key).number(); _];
    let mut index = NAMESPACES_MAX;
    while index < all.len() {
        all[index] = |key| Function::Aerospike.slot(key).number();
        index += 1;
    }
    all
};

impl Namespaces {
    /// Buckets of documents, and namespaces of records.
    ///
    /// # Panics
    /// When there is none of the one or the other, or more than [`NAMESPACES_MAX`]; and when a name of the latter is none
    /// ([`aerospike::Namespace::new`]).
    pub fn new(buckets: Vec<Namespace>, of_records: Vec<Namespace>) -> Namespaces {
        for named in [&buckets, &of_records] {
            assert!((1..=NAMESPACES_MAX).contains(&named.len()), "each function has 1 to {NAMESPACES_MAX}");
        }
        let name = |namespace: &Namespace| aerospike::Namespace::new(&namespace.name).expect("a plain name");
        Namespaces {
            bucket_count: u16::try_from(buckets.len()).expect("just looked"),
            of_records: of_records.iter().map(name).collect(),
            all: buckets.into_iter().chain(of_records).collect(),
        }
    }

    /// The slots of keys in each, for the shard that holds them.
    pub fn functions(&self) -> &'static [fn(&[u8]) -> u16] {
        let first = NAMESPACES_MAX - usize::from(self.bucket_count);
        &(const { &SLOTS_OF })[first..first + self.all.len()]
    }

    /// Bytes that the keys of each may take on one of so many lanes, of those that have a share of `memory_size_max`: an even
    /// part of the share.
    pub(crate) fn shares(&self, memory_size_max: u64, lane_count: u64) -> Vec<Option<u64>> {
        let share = |namespace: &Namespace| {
            let percent = namespace.memory_share.filter(|_| memory_size_max > 0)?;
            Some(memory_size_max / lane_count / 100 * u64::from(percent))
        };
        self.all.iter().map(share).collect()
    }

    /// The slot of a key in the namespace of this number.
    #[inline(never)]
    pub(crate) fn slot(&self, number: u16, key: &[u8]) -> Slot {
        let function = if number < self.bucket_count { Function::Couchbase } else { Function::Aerospike };
        function.slot(key)
    }

    /// The namespace of this number.
    pub(crate) fn of(&self, number: u16) -> &Namespace {
        &self.all[usize::from(number)]
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u16 {
        self.bucket_count + u16::try_from(self.of_records.len()).expect("namespaces are few")
    }

    /// Buckets, with their numbers.
    pub fn buckets(&self) -> impl ExactSizeIterator<Item = (u16, &Namespace)> {
        (0..self.bucket_count).map(|number| (number, self.of(number)))
    }

    /// Namespaces of records, with their numbers.
    pub fn of_records(&self) -> impl ExactSizeIterator<Item = (u16, &Namespace)> {
        (self.bucket_count..self.count()).map(|number| (number, self.of(number)))
    }

    /// The number of the bucket of this name.
    pub(crate) fn bucket(&self, name: &[u8]) -> Option<u16> {
        self.buckets().find(|(_, bucket)| bucket.name.as_bytes() == name).map(|(number, _)| number)
    }

    /// The names of those of records.
    pub(crate) fn record_names(&self) -> Arc<[aerospike::Namespace]> {
        Arc::clone(&self.of_records)
    }

    /// The number of the first one of records.
    #[inline]
    pub(crate) fn first_of_records(&self) -> u16 {
        self.bucket_count
    }
}

impl Default for Namespaces {
    /// One of each, as their tools call them.
    fn default() -> Namespaces {
        Namespaces::new(vec![Namespace::new("default")], vec![Namespace::new("test")])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_namespace_has_the_function_of_its_kind() {
        let named = |names: &[&str]| names.iter().map(|name| Namespace::new(name)).collect::<Vec<_>>();
        let namespaces = Namespaces::new(named(&["a", "b", "c"]), named(&["test", "users"]));
        let key = b"twenty bytes of key!";
        let want = [Function::Couchbase, Function::Couchbase, Function::Couchbase, Function::Aerospike]
            .into_iter()
            .chain([Function::Aerospike]);
        assert_eq!(namespaces.functions().len(), usize::from(namespaces.count()));
        for ((number, of_shard), want) in (0..).zip(namespaces.functions()).zip(want) {
            assert_eq!(of_shard(key), want.slot(key).number(), "namespace {number}");
            assert_eq!(namespaces.slot(number, key), want.slot(key), "namespace {number}");
        }
        assert_eq!((namespaces.bucket(b"c"), namespaces.bucket(b"test")), (Some(2), None));
        let of_records: Vec<_> = namespaces.of_records().map(|(number, it)| (number, &*it.name)).collect();
        assert_eq!(of_records, [(3, "test"), (4, "users")]);
    }

    #[test]
    fn a_share_is_dealt_evenly() {
        let with = |memory_share| Namespace { memory_share, ..Namespace::new("a") };
        let namespaces = Namespaces::new(vec![with(Some(30)), with(None)], vec![with(Some(100))]);
        assert_eq!(namespaces.shares(8000, 4), [Some(600), None, Some(2000)]);
        assert_eq!(namespaces.shares(0, 4), [None; 3], "there is no limit to have a share of");
    }
}
