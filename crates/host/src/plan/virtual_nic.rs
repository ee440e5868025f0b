//! A card without rules for ports, virtio or ENA: it is one lane's as a whole. Its table, interrupts and cores are set; which
//! traffic is on it, the network decides by which card a client speaks to.

use super::card::Card;
use super::draft::Draft;
use super::place::Seats;
use super::queues::{self, Division};
use super::rss_ntuple::spread;
use crate::spec::Spec;

pub(super) fn steps(draft: &mut Draft, card: &Card, spec: &Spec, seats: &Seats, division: &Division) {
    let nic = card.nic;
    let count = division.lanes.iter().map(|(_, queues)| queues.len()).sum::<usize>();
    let all = usize::try_from(card.queues_wanted(spec)).unwrap_or(usize::MAX);
    draft.note(format!(
        "{} has no rules for ports: everything that arrives at it is in the lane. Other services belong on another card (an \
         ENI, a second virtio).",
        nic.name
    ));
    if spec.default.queues.is_some() {
        draft.note(format!("[default], `queues`: {} has none for others, its lane has them all.", nic.name));
    }
    match &nic.rss {
        Some(rss) if rss.writable => {
            spread(draft, card, spec, &format!("equal {count}"), "packets spread over the lane's queues");
        }
        _ if count < all => {
            draft.refuse(format!(
                "{}, `queues`: the spreading table of {} can't be written, so the lane has all {all} queues or `channels` makes \
                 them fewer",
                card.title(),
                nic.driver
            ));
        }
        _ => {}
    }
    queues::moderation(draft, card, spec, division);
    queues::interrupts(draft, card, spec, seats, division);
    queues::pollers(draft, card, spec, seats, division);
    queues::deferral(draft, card, spec, division);
    queues::handover(draft, card, spec, seats, division);
    queues::send_by_core(draft, card, spec, seats, division);
}
