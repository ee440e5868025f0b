//! How a load is divided: connections among agents beforehand, threads by one count over all agents. Rates, requests, keys and
//! seeds follow from a thread's number as they do in one process, so that agents ask for what one process would.

/// Connections of each of `agent_count` agents; the first have one more. None: there are fewer than agents.
pub fn connections(connection_count: u32, agent_count: u32) -> Option<Vec<u32>> {
    if agent_count == 0 || connection_count < agent_count {
        return None;
    }
    let (each, rest) = (connection_count / agent_count, connection_count % agent_count);
    Some((0..agent_count).map(|agent| each + u32::from(agent < rest)).collect())
}

/// The number of each agent's first thread, and how many there are. None: too many to be counted.
pub fn threads(thread_counts: &[u32]) -> Option<(Vec<u32>, u32)> {
    let mut firsts = Vec::new();
    let mut of: u32 = 0;
    for count in thread_counts {
        firsts.push(of);
        of = of.checked_add(*count)?;
    }
    Some((firsts, of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_connection_is_lost_and_none_is_made_up() {
        for count in 1..200 {
            for agents in 1..=count.min(64) {
                let parts = connections(count, agents).unwrap();
                assert_eq!(
                    (parts.len(), parts.iter().sum::<u32>()),
                    (usize::try_from(agents).unwrap(), count)
                );
                assert!(
                    parts[0] - parts[parts.len() - 1] <= 1 && parts.is_sorted_by(|one, next| one >= next)
                );
            }
        }
        assert_eq!((connections(3, 4), connections(3, 0)), (None, None), "an agent without one is no agent");
    }

    #[test]
    fn each_thread_has_its_number() {
        assert_eq!(threads(&[4, 1, 3]), Some((vec![0, 4, 5], 8)));
        assert_eq!(threads(&[u32::MAX, 1]), None);
    }
}
