//! Auto-pin outside the lanes: what the machine's cards and nodes mean for it, and what the start-up table says of that.
//!
//! Lanes place connections (`lane/src/pin.rs`), the control thread knows when to learn anew; here is what it learns: the cards'
//! queues as `host` reads them. A thread of its own sleeps until a link changes, and wakes the control thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};

use host::watch::Links;
use lane::{Dealt, Queue, QueueTable};

use crate::control::{self, Level};
use crate::machine::{self, Facts};
use crate::numa::{self, Home};
use crate::plan::Plan;
use crate::settings::{AutoPin, BindAddress, ServeSettings};

/// Cards that the start-up table names.
const CARDS_SHOWN_MAX: usize = 4;

/// What lanes begin with, and what the start-up table says of it.
pub(crate) struct Pinning {
    pub(crate) queues: Arc<QueueTable>,
    pub(crate) told: Option<String>,
}

/// Whether cards have changed, as the thread that listens has heard.
pub(crate) struct Cards {
    links: Option<Links>,
    changed: Arc<AtomicBool>,
}

impl Cards {
    /// Listens from now on, in a mode that has to know.
    pub(crate) fn new(auto_pin: AutoPin) -> Cards {
        let links = (auto_pin == AutoPin::Adq).then(Links::open).and_then(|links| {
            let deaf = |why: &host::Refusal| {
                control::log(Level::Warn, &format!("changes of cards go unheard: {why}"))
            };
            links.inspect_err(deaf).ok()
        });
        Cards { links, changed: Arc::default() }
    }

    /// Whether they have since this was last asked.
    pub(crate) fn have_changed(&self) -> bool {
        self.changed.swap(false, Ordering::Relaxed)
    }

    /// Starts the thread that listens, if there is something to hear: it wakes `control`.
    ///
    /// # Errors
    /// A sentence: there is no thread to be had.
    pub(crate) fn listen(
        links: Option<Links>,
        changed: Arc<AtomicBool>,
        control: Thread,
    ) -> Result<(), String> {
        let Some(mut links) = links else { return Ok(()) };
        let hear = move || {
            loop {
                if let Err(why) = links.wait() {
                    return control::log(
                        Level::Warn,
                        &format!("changes of cards go unheard from now on: {why}"),
                    );
                }
                changed.store(true, Ordering::Relaxed);
                control.unpark();
            }
        };
        let thread = thread::Builder::new().name("links".to_owned()).spawn(hear);
        thread
            .map(|_| ())
            .map_err(|error| format!("the thread that hears of cards can't be started: {error}"))
    }

    /// What [`Cards::listen`] needs, once.
    pub(crate) fn ears(&mut self) -> (Option<Links>, Arc<AtomicBool>) {
        (self.links.take(), Arc::clone(&self.changed))
    }
}

/// Binds the process to a memory node where `--auto-pin numa` asks for it: what it may use from then on, and what the start-up
/// table says. An error is a sentence that says what to change.
pub(crate) fn settle(settings: &ServeSettings, facts: Facts) -> Result<(Facts, Option<String>), String> {
    if settings.auto_pin != AutoPin::Numa {
        return Ok((facts, None));
    }
    let cards =
        numa::cards().map_err(|error| format!("the addresses of this machine can't be read: {error}"))?;
    match numa::home(&settings.bind, &cards, &numa::nodes(), &facts)? {
        Home::Anywhere(why) => Ok((facts, Some(format!("numa: {why}; as none")))),
        Home::Node { id, card, address, facts } => {
            numa::bind(id, &facts.cpus)?;
            let cpus = machine::list_of(&facts.cpus);
            let told = format!(
                "numa: node {id}, where {card} ({address}) is: cpus {cpus}, memory of that node alone"
            );
            Ok((facts, Some(told)))
        }
    }
}

/// What lanes begin with. `home` is what [`settle`] has said.
pub(crate) fn begin(settings: &ServeSettings, plan: &Plan, home: Option<String>) -> Pinning {
    let lane_cpus = plan.cpus.clone();
    let mut table = QueueTable::default();
    let told = match settings.auto_pin {
        AutoPin::None => None,
        AutoPin::Numa => home,
        AutoPin::Cpu => Some(cpu_told(&lane_cpus).to_owned()),
        AutoPin::Adq => {
            let learned = queues();
            let dealt = learned.map(|queues| table = QueueTable::deal(queues, &lane_cpus));
            Some(adq_told(&settings.bind, dealt.map(|()| table.cards())))
        }
    };
    Pinning { queues: Arc::new(table), told }
}

/// The queues of all cards of this network namespace. An error is a sentence.
pub(crate) fn queues() -> Result<Vec<Queue>, String> {
    let queues = host::queues::read().map_err(|refusal| refusal.reason)?;
    Ok(queues.into_iter().map(queue_of).collect())
}

fn queue_of(queue: host::queues::CardQueue) -> Queue {
    let cpu = queue.cpus.filter(|cpus| cpus.count() == 1).and_then(|cpus| cpus.first());
    Queue {
        card: queue.card,
        index: queue.index,
        napi_id: queue.napi_id,
        irq: queue.irq,
        cpu: cpu.and_then(|cpu| usize::try_from(cpu).ok()),
    }
}

fn cpu_told(lane_cpus: &[Option<usize>]) -> &'static str {
    if lane_cpus.iter().all(Option::is_none) {
        "cpu: no lane is pinned, so connections go by load; pin lanes with --cpus"
    } else {
        "cpu: a connection goes to the lane on the cpu that takes in its packets, by load where that has none"
    }
}

fn adq_told(bind: &[BindAddress], cards: Result<Vec<Dealt>, String>) -> String {
    let cards = match cards {
        Ok(cards) => cards,
        Err(why) => return format!("adq: {why}; connections go by load"),
    };
    if bind.iter().all(|bind| bind.ip.is_loopback()) {
        return "adq: only loopback is bound, which has no queues: connections go by load; bind a card's address"
            .to_owned();
    }
    if cards.is_empty() {
        return "adq: no card here tells which queue a packet came by, so connections go by load; a veth does with GRO on \
                (ethtool -K NAME gro on) and TSO off at its peer"
            .to_owned();
    }
    let mut texts: Vec<String> = cards.iter().take(CARDS_SHOWN_MAX).map(card_told).collect();
    if cards.len() > CARDS_SHOWN_MAX {
        texts.push(format!("and {} cards more", cards.len() - CARDS_SHOWN_MAX));
    }
    format!("adq: a connection goes to the lane of its queue; {}", texts.join("; "))
}

fn card_told(card: &Dealt) -> String {
    let Dealt { card, count, served_count, is_by_core } = card;
    let plural = if *count == 1 { "" } else { "s" };
    match (is_by_core, count - served_count) {
        (true, 0) => format!("{card}: {count} queue{plural} on lanes' cores"),
        (true, strays) => {
            format!("{card}: {served_count} of {count} queues on lanes' cores, {strays} nobody's")
        }
        (false, _) => format!("{card}: {count} queue{plural} dealt to the lanes in order"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dealt(card: &str, count: usize, served_count: usize, is_by_core: bool) -> Dealt {
        Dealt { card: card.to_owned(), count, served_count, is_by_core }
    }

    #[test]
    fn what_adq_finds_is_told_with_what_to_do() {
        let told = |bind: &[&str], cards: Result<Vec<Dealt>, String>| {
            let bind: Vec<BindAddress> = bind.iter().map(|address| address.parse().unwrap()).collect();
            adq_told(&bind, cards)
        };
        let check = |bind: &[&str], cards: &[Dealt], want: &str| {
            let text = told(bind, Ok(cards.to_vec()));
            assert!(text.contains(want), "{text}");
        };
        check(&["127.0.0.1", "-::1"], &[dealt("ens1", 8, 8, true)], "only loopback is bound");
        check(&["10.0.0.1"], &[], "gro on");
        check(&["10.0.0.1", "127.0.0.1"], &[dealt("ens1", 8, 8, true)], "ens1: 8 queues on lanes' cores");
        check(&["0.0.0.0"], &[dealt("ens1", 8, 6, true)], "6 of 8 queues on lanes' cores, 2 nobody's");
        check(
            &["10.0.0.1"],
            &[dealt("eth0", 1, 1, false), dealt("vs", 4, 4, false)],
            "eth0: 1 queue dealt to the lanes in order; vs: 4 queues dealt",
        );
        check(&["10.0.0.1"], &vec![dealt("v", 1, 1, false); 7], "and 3 cards more");
        let failed = told(&["10.0.0.1"], Err("the kernel is too old (6.8)".to_owned()));
        assert_eq!(failed, "adq: the kernel is too old (6.8); connections go by load");
    }

    #[test]
    fn a_queue_has_a_cpu_where_it_has_but_one() {
        let queue = |cpus: Option<&str>| {
            let cpus = cpus.map(|text| text.parse().unwrap());
            queue_of(host::queues::CardQueue {
                card: "c".to_owned(),
                index: None,
                napi_id: 5,
                irq: Some(7),
                cpus,
            })
            .cpu
        };
        assert_eq!(
            (queue(Some("3")), queue(Some("2-3")), queue(Some("")), queue(None)),
            (Some(3), None, None, None)
        );
        assert!(cpu_told(&[None, None]).contains("--cpus") && !cpu_told(&[None, Some(1)]).contains("--cpus"));
    }
}
