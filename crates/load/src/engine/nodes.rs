//! Whose keys are whose, when the server is a cluster. What its map said when the load began is mended by each MOVED of Redis and
//! replaced by each map that Couchbase sends, as smart clients do. Aerospike's nodes tell nobody: they forward.
//!
//! Redis' slots are the finest division; vbuckets and partitions of Aerospike are runs of them.

use wire::route::{Function, SLOTS, Slot};

use crate::connect::couchbase;
use crate::protocol::aerospike::Naming;

/// A node's address, as the server names it, and its ranges of slots, both ends included.
pub type Node = (String, Vec<(u16, u16)>);

/// How a key's partition is found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Placing {
    /// By its hash slot.
    #[default]
    Redis,
    /// By its vbucket.
    Couchbase {
        /// That of nodes whose map names none.
        host: String,
    },
    /// By its digest.
    Aerospike(Naming),
}

impl Placing {
    /// The slot that stands for the partition of a key: its name, and its number in the name.
    pub(crate) fn slot(&self, name: &[u8], number: u32) -> Slot {
        match self {
            Placing::Redis => Slot::of(name),
            Placing::Couchbase { .. } => Function::Couchbase.slot(name),
            Placing::Aerospike(naming) => naming.slot(number),
        }
    }
}

/// The nodes of a server, and which slots each serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// `HOST:PORT` of each, as the server names them.
    addresses: Vec<String>,
    /// Of each slot its node. Empty: there is one node, and it owns all.
    owners: Vec<usize>,
    placing: Placing,
}

impl Nodes {
    /// One server for all keys.
    pub fn one() -> Nodes {
        Nodes { addresses: Vec::new(), owners: Vec::new(), placing: Placing::Redis }
    }

    /// These nodes.
    ///
    /// # Errors
    /// A slot that nobody serves, or none like it.
    pub fn of(nodes: Vec<Node>, placing: Placing) -> Result<Nodes, String> {
        let mut owners = vec![usize::MAX; usize::from(SLOTS)];
        let mut addresses = Vec::new();
        for (index, (address, ranges)) in nodes.into_iter().enumerate() {
            addresses.push(address);
            for (first, last) in ranges {
                if first > last || last >= SLOTS {
                    return Err(format!("the server speaks of slots {first} to {last}, of {SLOTS}"));
                }
                owners[usize::from(first)..=usize::from(last)].fill(index);
            }
        }
        match owners.iter().position(|owner| *owner == usize::MAX) {
            Some(slot) => Err(format!("no node serves slot {slot}: the cluster is not whole")),
            None => Ok(Nodes { addresses, owners, placing }),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.addresses.len().max(1)
    }

    /// `HOST:PORT` of each, as the server names them.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// How keys are placed.
    pub(crate) fn placing(&self) -> &Placing {
        &self.placing
    }

    /// Whose a slot is.
    #[inline]
    pub fn owner(&self, slot: Slot) -> usize {
        self.owners.get(usize::from(slot.number())).copied().unwrap_or(0)
    }

    /// Learns from an error whether it says who owns a slot now: `MOVED 3999 127.0.0.1:6381`, or the map of a bucket. A node that
    /// is not known is none that this load has connections to: the error stays one.
    pub(crate) fn heed(&mut self, error: &[u8]) -> bool {
        match &self.placing {
            Placing::Redis => self.heed_move(error),
            Placing::Couchbase { host } => match couchbase::parse(error, host) {
                Ok(nodes) => self.heed_map(nodes),
                Err(_) => false,
            },
            Placing::Aerospike(_) => false,
        }
    }

    fn heed_map(&mut self, nodes: Vec<Node>) -> bool {
        let mut owners = vec![usize::MAX; self.owners.len()];
        for (address, ranges) in nodes {
            let Some(node) = self.addresses.iter().position(|known| *known == address) else { return false };
            for (first, last) in ranges {
                owners[usize::from(first)..=usize::from(last)].fill(node);
            }
        }
        self.owners = owners;
        true
    }

    fn heed_move(&mut self, error: &[u8]) -> bool {
        let Some(rest) = error.strip_prefix(b"MOVED ") else { return false };
        let Ok(rest) = std::str::from_utf8(rest) else { return false };
        let Some((slot, address)) = rest.split_once(' ') else { return false };
        let slot = slot.parse::<usize>().ok().filter(|slot| *slot < self.owners.len());
        let node = self.addresses.iter().position(|known| known == address.trim_end());
        let (Some(slot), Some(node)) = (slot, node) else { return false };
        self.owners[slot] = node;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(number: u16) -> Slot {
        Slot::new(number).unwrap()
    }

    #[test]
    fn a_move_is_learnt_if_the_node_is_known() {
        let ranges = |first, last| vec![(first, last)];
        let nodes = vec![("a:1".to_owned(), ranges(0, 8191)), ("b:2".to_owned(), ranges(8192, 16383))];
        let mut nodes = Nodes::of(nodes, Placing::Redis).unwrap();
        assert_eq!((nodes.owner(slot(8191)), nodes.owner(slot(8192))), (0, 1));
        assert!(nodes.heed(b"MOVED 5 b:2"));
        assert_eq!(nodes.owner(slot(5)), 1);
        let wrong: [&[u8]; 6] =
            [b"MOVED 5 c:3", b"MOVED 16384 a:1", b"MOVED x a:1", b"MOVED 5", b"MOVED \xff a:1", b"ERR no"];
        for error in wrong {
            assert!(!nodes.heed(error), "{}", error.escape_ascii());
        }
        assert_eq!(nodes.owner(slot(5)), 1);
        assert!(!Nodes::one().heed(b"MOVED 5 a:1"));
    }

    #[test]
    fn a_map_is_learnt_if_its_nodes_are_known() {
        use crate::connect::couchbase::tests::map;
        let placing = Placing::Couchbase { host: "h".to_owned() };
        let nodes = |ports: &[u16], owner: fn(u16) -> usize| {
            couchbase::parse(map(ports, owner).as_bytes(), "h").unwrap()
        };
        let mut known = Nodes::of(nodes(&[1, 2], |vbucket| usize::from(vbucket / 512)), placing).unwrap();
        assert_eq!((known.owner(slot(8191)), known.owner(slot(8192))), (0, 1));
        assert!(known.heed(map(&[1, 2], |vbucket| usize::from(vbucket >= 100)).as_bytes()));
        assert_eq!((known.owner(slot(1599)), known.owner(slot(1600))), (0, 1));
        // As does a node that is gone, whose vbuckets the other has.
        assert!(known.heed(map(&[2], |_| 0).as_bytes()));
        assert_eq!(known.owner(slot(0)), 1);
        assert!(
            !known.heed(map(&[1, 3], |vbucket| usize::from(vbucket / 512)).as_bytes()),
            "a node that is not known"
        );
        assert!(!known.heed(b"MOVED 5 h:1") && !known.heed(b""));
        assert_eq!(known.owner(slot(0)), 1);
        assert_eq!(known.placing().slot(b"foo", 0), slot(115 * 16));
    }

    #[test]
    fn a_cluster_must_be_whole() {
        for ranges in [vec![(0, 8190), (8192, 16383)], vec![(0, 16384)], vec![(9, 8)], vec![]] {
            assert!(Nodes::of(vec![("a:1".to_owned(), ranges)], Placing::Redis).is_err());
        }
    }
}
