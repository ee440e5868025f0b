//! Whose keys are whose, when the server is a Redis Cluster. What CLUSTER SLOTS said when the load began is mended by each
//! MOVED, as smart clients do.

use wire::route::{SLOTS, Slot};

/// A node's address, as the server names it, and its ranges of slots, both ends included.
pub type Node = (String, Vec<(u16, u16)>);

/// The nodes of a server, and which slots each serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// `HOST:PORT` of each, as the server names them.
    addresses: Vec<String>,
    /// Of each slot its node. Empty: there is one node, and it owns all.
    owners: Vec<usize>,
}

impl Nodes {
    /// One server for all keys.
    pub fn one() -> Nodes {
        Nodes { addresses: Vec::new(), owners: Vec::new() }
    }

    /// These nodes.
    ///
    /// # Errors
    /// A slot that nobody serves, or none like it.
    pub fn of(nodes: Vec<Node>) -> Result<Nodes, String> {
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
            None => Ok(Nodes { addresses, owners }),
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

    /// Whose a slot is.
    #[inline]
    pub fn owner(&self, slot: Slot) -> usize {
        self.owners.get(usize::from(slot.number())).copied().unwrap_or(0)
    }

    /// Learns from an error whether it says who owns a slot now: `MOVED 3999 127.0.0.1:6381`. A node that is not known is none
    /// that this load has connections to: the error stays one.
    pub(crate) fn heed(&mut self, error: &[u8]) -> bool {
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
        let mut nodes = Nodes::of(nodes).unwrap();
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
    fn a_cluster_must_be_whole() {
        for ranges in [vec![(0, 8190), (8192, 16383)], vec![(0, 16384)], vec![(9, 8)], vec![]] {
            assert!(Nodes::of(vec![("a:1".to_owned(), ranges)]).is_err());
        }
    }
}
