//! Where received packets are taken in: the receive queues of all cards, with the NAPI instance that polls each, its interrupt
//! and its cpus, as they are at this moment. A server that knows from a socket by which NAPI instance its packets come
//! (`SO_INCOMING_NAPI_ID`) finds the queue and the core here.

use crate::Refusal;
use crate::cpus::Cpus;
use crate::kernel::live::files::{self, Files};
use crate::kernel::live::napi::{self, All, Napi, Polled};
use crate::kernel::live::{Live, threads};

/// A receive queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardQueue {
    /// The card's name.
    pub card: String,
    /// Its number on the card; `None` where the kernel does not say which queue a NAPI instance polls.
    pub index: Option<u32>,
    /// The NAPI instance that polls it, until the next link event.
    pub napi_id: u32,
    /// The interrupt that starts the polling.
    pub irq: Option<u32>,
    /// Where packets are taken in: the cpus of the kernel thread that polls, where one does, else those that the interrupt goes
    /// to. `None`: nobody says.
    pub cpus: Option<Cpus>,
}

/// Reads the queues of all cards in this thread's network namespace, by card and queue.
///
/// # Errors
/// The kernel does not tell (Linux 6.8 does), or refuses.
pub fn read() -> Result<Vec<CardQueue>, Refusal> {
    let mut live = Live::new();
    let All { napis, polled } = napi::of_all(&mut live)?;
    let files = &live.files;
    let mut queues = Vec::new();
    for napis in napis.chunk_by(|a, b| a.0 == b.0) {
        let interface = napis[0].0;
        // A card that has gone since has no name.
        let Some(card) = napi::card_of(interface) else { continue };
        let napis: Vec<Napi> = napis.iter().map(|(_, napi)| napi.clone()).collect();
        let own: Vec<Polled> = polled.iter().filter(|queue| queue.interface == interface).cloned().collect();
        let is_virtual = !files.has(&format!("sys/class/net/{card}/device"));
        let told = pair(napis, &own, is_virtual).into_iter();
        queues.extend(told.map(|(index, napi)| described(files, &card, index, &napi)));
    }
    queues.sort_by(|a: &CardQueue, b| (&a.card, a.index, a.napi_id).cmp(&(&b.card, b.index, b.napi_id)));
    Ok(queues)
}

/// The number of the queue that each instance polls. Virtual cards (veth) say nothing of instances, and make one for each
/// queue in the queues' order. Elsewhere an instance without a receive queue sends, so it is left out; of a card of which no
/// queue names an instance, all are kept, without a number.
fn pair(mut napis: Vec<Napi>, polled: &[Polled], is_virtual: bool) -> Vec<(Option<u32>, Napi)> {
    napis.sort_by_key(|napi| napi.id);
    let mut polled = polled.to_vec();
    polled.sort_by_key(|queue| queue.queue);
    if polled.iter().all(|queue| queue.napi.is_none()) {
        let is_one_each = is_virtual && polled.len() == napis.len();
        let number = |at: usize| if is_one_each { Some(polled[at].queue) } else { None };
        return napis.into_iter().enumerate().map(|(at, napi)| (number(at), napi)).collect();
    }
    let number =
        |napi: &Napi| polled.iter().find(|queue| queue.napi == Some(napi.id)).map(|queue| queue.queue);
    napis.into_iter().filter_map(|napi| Some((Some(number(&napi)?), napi))).collect()
}

fn described(files: &Files, card: &str, index: Option<u32>, napi: &Napi) -> CardQueue {
    let irq = napi.irq.or_else(|| files::irq_by_name(files, card, index?));
    let thread = napi.thread.and_then(|tid| threads::affinity(tid).ok());
    let cpus = thread.or_else(|| irq.and_then(|irq| cpus_of(files, irq)));
    CardQueue { card: card.to_owned(), index, napi_id: napi.id, irq, cpus }
}

/// The cpus that an interrupt goes to, or may go to where the kernel says no more.
fn cpus_of(files: &Files, irq: u32) -> Option<Cpus> {
    ["effective_affinity_list", "smp_affinity_list"].iter().find_map(|name| {
        let cpus: Cpus = files.read(&format!("proc/irq/{irq}/{name}")).ok()?.parse().ok()?;
        (!cpus.is_empty()).then_some(cpus)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn napi(id: u32) -> Napi {
        Napi { id, irq: None, thread: None, settings: Vec::new() }
    }

    /// Pairs instances with queues and the instances that they name: what each instance's queue is, by id.
    #[track_caller]
    fn check(ids: &[u32], named: &[(u32, Option<u32>)], is_virtual: bool, want: &[(u32, Option<u32>)]) {
        let polled: Vec<Polled> =
            named.iter().map(|(queue, napi)| Polled { interface: 2, queue: *queue, napi: *napi }).collect();
        let paired = pair(ids.iter().copied().map(napi).collect(), &polled, is_virtual);
        let got: Vec<(u32, Option<u32>)> = paired.into_iter().map(|(queue, napi)| (napi.id, queue)).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn an_instance_has_the_queue_that_names_it() {
        let named = [(1, Some(70)), (0, Some(80)), (2, None)];
        check(&[80, 70], &named, false, &[(70, Some(1)), (80, Some(0))]);
        // A third one polls no receive queue.
        check(&[80, 70, 75], &named, false, &[(70, Some(1)), (80, Some(0))]);
        // One for two queues counts as that of the first.
        check(&[9], &[(5, Some(9)), (4, Some(9))], false, &[(9, Some(4))]);
    }

    #[test]
    fn a_virtual_card_has_one_for_each_queue_in_order() {
        check(
            &[72, 70, 71],
            &[(2, None), (0, None), (1, None)],
            true,
            &[(70, Some(0)), (71, Some(1)), (72, Some(2))],
        );
        // Of one that has others too, or of a real card, nobody says which is which.
        check(&[70, 71, 72], &[(0, None), (1, None)], true, &[(70, None), (71, None), (72, None)]);
        check(&[70, 71], &[(0, None), (1, None)], false, &[(70, None), (71, None)]);
        check(&[], &[(0, None)], true, &[]);
    }

    #[test]
    fn a_queue_is_where_its_interrupt_goes() {
        let root = std::env::temp_dir().join(format!("host-queues-{}", std::process::id()));
        for (path, text) in [
            ("proc/irq/40/effective_affinity_list", "3\n"),
            ("proc/irq/40/smp_affinity_list", "0-7\n"),
            ("proc/irq/41/effective_affinity_list", "\n"),
            ("proc/irq/41/smp_affinity_list", "5\n"),
        ] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let files = Files::below(&root);
        let cpus = |irq: Option<u32>| {
            let queue = described(&files, "ens1", Some(0), &Napi { irq, ..napi(7) });
            assert_eq!((queue.irq, queue.napi_id), (irq, 7));
            queue.cpus.map(|cpus| cpus.to_string())
        };
        assert_eq!(cpus(Some(40)).as_deref(), Some("3"));
        assert_eq!(cpus(Some(41)).as_deref(), Some("5"));
        assert_eq!((cpus(Some(42)), cpus(None)), (None, None));
        fs::remove_dir_all(&root).unwrap();
    }
}
