//! A card with its wish and its lanes: which one is meant, how it is divided, its queue counts and features.

use super::backend::{self, Backend};
use super::draft::{Draft, Stage};
use super::{Problem, Risk};
use crate::facts::{Facts, Nic, Queue};
use crate::knob::{Knob, NicKnob};
use crate::spec::{BackendWish, Lane, Mode, NicWish, Spec, meant};

/// Queues of the default lane where the file says nothing.
pub const DEFAULT_QUEUES: u32 = 2;

/// A card, what is wished of it, and who is on it.
#[derive(Clone, Debug)]
pub(super) struct Card<'a> {
    pub(super) nic: &'a Nic,
    pub(super) wish: &'a NicWish,
    /// Lanes on it, by their place in the file.
    pub(super) lanes: Vec<usize>,
    pub(super) backend: Backend,
}

/// Names that people use, and the kernel's (`ethtool.c`, the old offload flags).
const FEATURES_BY_OLD_NAME: &[(&str, &str)] = &[
    ("ntuple", "rx-ntuple-filter"),
    ("gro", "rx-gro"),
    ("lro", "rx-lro"),
    ("gso", "tx-generic-segmentation"),
    ("tso", "tx-tcp-segmentation"),
    ("rxhash", "rx-hashing"),
    ("rxvlan", "rx-vlan-hw-parse"),
    ("txvlan", "tx-vlan-hw-insert"),
];

/// The cards of the file, each found on the machine and with its backend chosen.
pub(super) fn resolve<'a>(draft: &mut Draft<'a>, spec: &'a Spec) -> Vec<Card<'a>> {
    let mut cards: Vec<Card> = Vec::new();
    for wish in &spec.nics {
        match find(draft.facts, &wish.name) {
            Err(problem) => draft.problems.push(problem),
            Ok(nic) => {
                if let Some(other) = cards.iter().find(|card| card.nic.name == nic.name) {
                    let sentence =
                        format!("nic `{}` and nic `{}` are both {}", other.wish.name, wish.name, nic.name);
                    draft.refuse(sentence);
                    continue;
                }
                let on_it = |lane: &Lane| spec.nic_of(lane) == Some(&wish.name);
                let lanes = (0..spec.lanes.len()).filter(|index| on_it(&spec.lanes[*index])).collect();
                let mut card = Card { nic, wish, lanes, backend: Backend::Soft };
                backend::choose(draft, spec, &mut card);
                cards.push(card);
            }
        }
    }
    cards
}

fn find<'a>(facts: &'a Facts, name: &str) -> Result<&'a Nic, Problem> {
    let is_it = |nic: &&Nic| {
        nic.name == name || nic.mac.eq_ignore_ascii_case(name) || nic.bus.as_deref() == Some(name)
    };
    let found: Vec<&Nic> = facts.nics.iter().filter(is_it).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => {
            let names: Vec<&str> = facts.nics.iter().map(|nic| nic.name.as_str()).collect();
            let hint = meant(name, names.iter().copied()).map(|it| format!(" (did you mean `{it}`?)"));
            let names =
                if names.is_empty() { "is none".to_owned() } else { format!("are {}", names.join(", ")) };
            Err(Problem(format!(
                "nic `{name}`: no card here has this name, hardware address or place on the bus; there {names}{}",
                hint.unwrap_or_default()
            )))
        }
        several => {
            let names: Vec<&str> = several.iter().map(|nic| nic.name.as_str()).collect();
            let names = names.join(" and ");
            Err(Problem(format!("nic `{name}` is {names}: name one of them by its interface")))
        }
    }
}

impl<'a> Card<'a> {
    pub(super) fn lanes_of(&self, spec: &'a Spec) -> impl Iterator<Item = &'a Lane> + '_ {
        self.lanes.iter().map(|index| &spec.lanes[*index])
    }

    /// Whether all its queues are one lane's.
    pub(super) fn is_whole_device(&self) -> bool {
        self.backend == Backend::Virtual
    }

    /// Queues that it has as the facts see it.
    pub(super) fn queues_now(&self) -> u32 {
        match &self.nic.channels {
            Some(channels) if channels.pairs() > 0 => channels.pairs(),
            _ => u32::try_from(self.nic.queues.len()).unwrap_or(u32::MAX),
        }
    }

    /// Queues that it has once the file's `channels` is done.
    pub(super) fn queues_asked(&self) -> u32 {
        self.wish.channels.unwrap_or(self.queues_now())
    }

    /// The most it can have.
    pub(super) fn queues_max(&self) -> u32 {
        let most = self.nic.channels.as_ref().map_or(0, crate::facts::Channels::pairs_max);
        most.max(self.queues_now())
    }

    /// Queues of everything that is no lane's: what the file says, else two, or one where lanes leave no second.
    pub(super) fn default_queues(&self, spec: &Spec) -> u32 {
        if self.is_whole_device() {
            return 0;
        }
        let lanes: u32 = self.lanes_of(spec).map(|lane| self.queues_of(lane)).fold(0, u32::saturating_add);
        let left = self.queues_max().saturating_sub(lanes);
        spec.default.queues.unwrap_or(DEFAULT_QUEUES.min(left).max(1))
    }

    /// Queues that a lane of it wants.
    pub(super) fn queues_of(&self, lane: &Lane) -> u32 {
        let ports = lane.ports.as_ref().map_or(0, |ports| ports.0.len());
        let count = match (lane.mode, &lane.cores) {
            (Mode::OneQueuePerPort, _) => ports,
            (Mode::Spread, Some(cores)) => cores.count(),
            (Mode::Spread, None) if self.is_whole_device() => {
                return lane.queues.unwrap_or(self.queues_asked());
            }
            (Mode::Spread, None) => 1,
        };
        lane.queues.unwrap_or_else(|| u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Queues that it has once planned: as it is, where that is enough.
    pub(super) fn queues_wanted(&self, spec: &Spec) -> u32 {
        let needed = self.queues_needed(spec);
        let exact = matches!(&self.backend, Backend::TcChannel(classes) if classes.exact_count);
        match self.wish.channels {
            Some(channels) => channels,
            None if exact => needed,
            None if matches!(self.backend, Backend::Soft | Backend::Process) => self.queues_now(),
            None => needed.max(self.queues_now()),
        }
    }

    /// Of the default lane and all lanes.
    pub(super) fn queues_needed(&self, spec: &Spec) -> u32 {
        let lanes = self.lanes_of(spec).map(|lane| self.queues_of(lane));
        lanes.fold(self.default_queues(spec), u32::saturating_add)
    }

    /// How the reader finds it in the file.
    pub(super) fn title(&self) -> String {
        if self.wish.name == self.nic.name {
            format!("nic `{}`", self.nic.name)
        } else {
            format!("nic `{}` ({})", self.wish.name, self.nic.name)
        }
    }

    /// Refuses queue counts that the card can't have.
    pub(super) fn check_counts(&self, draft: &mut Draft, spec: &Spec) {
        let (most, title) = (self.queues_max(), self.title());
        let (needed, wanted) = (self.queues_needed(spec), self.queues_wanted(spec));
        if wanted < needed {
            draft.refuse(format!(
                "{title}, `channels`: the lanes and the default lane want {needed} queues, `channels` gives {wanted}"
            ));
        }
        if wanted > most && self.wish.channels.is_none() {
            draft.refuse(format!(
                "{title}: {wanted} queues are wanted (lanes {}, default lane {}) and the card has at most {most}: fewer \
                 `queues` or ports",
                needed.saturating_sub(self.default_queues(spec)),
                self.default_queues(spec)
            ));
        }
        self.check_change(draft, spec);
    }

    /// Refuses another number of queues than it has, where it can't be set.
    pub(super) fn check_change(&self, draft: &mut Draft, spec: &Spec) {
        let (now, most, title) = (self.queues_now(), self.queues_max(), self.title());
        let wanted = self.queues_wanted(spec);
        if self.wish.channels.is_some() && wanted > most {
            draft.refuse(format!("{title}, `channels`: {wanted} is above {most}, the most this card has"));
        }
        if wanted == now {
            return;
        }
        let change = format!("{title}, `channels`: {wanted} queues are wanted, it has {now}, and");
        if self.nic.channels.is_none() {
            draft.refuse(format!("{change} the driver {} can't change how many", self.nic.driver));
        }
        if self.nic.hindrances.iter().any(|it| it == "irdma") {
            draft.refuse(format!(
                "{change} the module irdma blocks that: `rmmod irdma`, or set `queues` to fit"
            ));
        }
        if self.nic.xdp {
            draft.refuse(format!(
                "{change} an XDP program is tied to them: detach it, or set `queues` to fit"
            ));
        }
    }

    /// Queue counts, rings, and features of the file.
    pub(super) fn steps(&self, draft: &mut Draft, spec: &Spec) {
        let (nic, wanted) = (self.nic, self.queues_wanted(spec));
        if let Some(channels) = nic.channels
            && self.uses_queues()
        {
            let text = if channels.combined > 0 || channels.rx == 0 {
                format!("combined {wanted}")
            } else {
                format!("rx {wanted} tx {wanted}")
            };
            let why = "queues for the lanes and for everything else";
            let mut risks = vec![Risk::LinkFlap, Risk::ResetsOthers];
            risks.extend(self.session_risk());
            let disturbed = self.disturbed_by_counts(draft);
            let step = draft.want_nic(Stage::Card, nic, NicKnob::Channels, text, why);
            if step.has_work() {
                step.add_risks(&risks).add_disturbs(disturbed);
            }
        }
        self.ring_steps(draft);
        for (name, on) in &self.wish.features {
            let known = FEATURES_BY_OLD_NAME
                .iter()
                .find(|(old, _)| old == name)
                .map_or(name.as_str(), |(_, new)| new);
            self.feature(draft, known, *on, "asked for by `features`");
        }
    }

    fn ring_steps(&self, draft: &mut Draft) {
        let (Some(rx), Some(tx)) = (
            self.wish.rx_ring.or(self.nic.rings.map(|it| it.rx)),
            self.wish.tx_ring.or(self.nic.rings.map(|it| it.tx)),
        ) else {
            return;
        };
        if self.wish.rx_ring.is_none() && self.wish.tx_ring.is_none() {
            return;
        }
        let Some(rings) = self.nic.rings else {
            return draft.refuse(format!("{}, `rx-ring`: the driver can't change its rings", self.title()));
        };
        for (key, wish, most) in [("rx-ring", rx, rings.rx_max), ("tx-ring", tx, rings.tx_max)] {
            if wish > most {
                draft.refuse(format!(
                    "{}, `{key}`: {wish} is above {most}, the most this card has",
                    self.title()
                ));
            }
        }
        let mut risks = vec![Risk::LinkFlap];
        risks.extend(self.session_risk());
        let disturbed = self.disturbed_by_link(draft);
        let step =
            draft.want_nic(Stage::Card, self.nic, NicKnob::Rings, format!("rx {rx} tx {tx}"), "asked for");
        if step.has_work() {
            step.add_risks(&risks).add_disturbs(disturbed);
        }
    }

    /// Switches a feature, or refuses with what the driver says.
    pub(super) fn feature(&self, draft: &mut Draft, name: &str, on: bool, why: &str) {
        let want = if on { "on" } else { "off" };
        match self.nic.features.get(name) {
            None => draft.refuse(format!(
                "{}, feature `{name}`: the driver {} has none",
                self.title(),
                self.nic.driver
            )),
            Some(feature) if feature.fixed && feature.on != on => {
                let sentence =
                    format!("{}, feature `{name}`: the driver keeps it fixed, not {want}", self.title());
                draft.refuse(sentence);
            }
            Some(_) => {
                let knob = NicKnob::Feature(name.to_owned());
                // veth has NAPI instances only while GRO is on, and other ones each time.
                let disturbed = self.disturbed_by_link(draft);
                let step = draft.want_nic(Stage::Features, self.nic, knob, want, why);
                if step.has_work() && step.disturbs.is_empty() {
                    step.add_disturbs(disturbed);
                    // ixgbe and others set the card up anew for it.
                    if name == "rx-ntuple-filter" {
                        step.add_risks(&[Risk::LinkFlap]);
                    }
                }
            }
        }
    }

    /// Whether the backend divides queues.
    fn uses_queues(&self) -> bool {
        !matches!(self.backend, Backend::Soft) || self.wish.channels.is_some()
    }

    pub(super) fn session_risk(&self) -> Option<Risk> {
        self.nic.carries_session.then_some(Risk::CutsSession)
    }

    /// What a driver forgets or resets when queue counts change or the card is set up anew.
    pub(super) fn disturbed_by_counts(&self, draft: &Draft) -> Vec<Knob> {
        let per_queue: [fn(u32) -> NicKnob; 5] = [
            NicKnob::IrqAffinity,
            NicKnob::RpsCpus,
            NicKnob::RpsFlowCount,
            |queue| NicKnob::Coalesce(Some(queue)),
            NicKnob::NapiThread,
        ];
        let of_card = std::iter::once(NicKnob::Indirection);
        let of_queues = self.nic.queues.iter().flat_map(|queue| per_queue.map(|knob| knob(queue.index)));
        let knobs = of_card.chain(of_queues).map(|knob| Knob::nic(&self.nic.name, knob));
        knobs.filter(|knob| draft.facts.have(knob).is_ok()).chain(self.disturbed_by_link(draft)).collect()
    }

    /// What is forgotten when the link goes down and comes up.
    pub(super) fn disturbed_by_link(&self, draft: &Draft) -> Vec<Knob> {
        let of_queue = |queue: &Queue| {
            let xps = [NicKnob::XpsCpus(queue.index), NicKnob::XpsRxqs(queue.index)];
            let napi = queue.napi_settings.keys().map(|name| NicKnob::Napi(queue.index, name.clone()));
            xps.into_iter().chain(napi).map(|knob| Knob::nic(&self.nic.name, knob)).collect::<Vec<_>>()
        };
        let knobs = self.nic.queues.iter().flat_map(of_queue);
        knobs.filter(|knob| draft.facts.have(knob).is_ok()).collect()
    }
}

/// The backend in the words of the file.
impl From<&Backend> for BackendWish {
    fn from(backend: &Backend) -> BackendWish {
        match backend {
            Backend::TcChannel(_) => BackendWish::TcChannel,
            Backend::RssNtuple => BackendWish::RssNtuple,
            Backend::Virtual => BackendWish::Virtual,
            Backend::Soft => BackendWish::Soft,
            Backend::Process => BackendWish::Process,
        }
    }
}
