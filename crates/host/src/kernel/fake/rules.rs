//! How settings hang together. Each rule is one that the kernel or a driver has; where they differ, the stricter is taken.
//!
//! * Queue counts: refused while the indirection table or a rule names a queue that would go (net/ethtool/channels.c), and while
//!   a hardware channel set is there (ice). Done, they reset affinities, XPS, per-NAPI settings and per-queue moderation, and a
//!   table that nobody set follows them.
//! * Rings and other changes of the link clear XPS; on veth the NAPI instances are new, and their settings gone.
//! * A new root qdisc takes the tree below the former along. mqprio clears XPS, and in hardware resets what queue counts do; when
//!   a root is removed, `mq` comes, whatever was there before. Its filters to traffic classes go with a hardware channel set.
//! * hw-tc-offload can't go off while such a set is there. rx-ntuple-filter off drops the rules.
//! * A cpu's latency is `n/a` or a number of microseconds below the one that means no limit (drivers/base/power/sysfs.c).
//! * Segmentation is off while scatter-gather or checksums are, and comes back with them (netdev_fix_features).
//! * A clsact with filters is not removed: ours would take others' along.

use super::{Card, Fake};
use crate::kernel::{Cause, Refusal};
use crate::knob::{Direction, Knob, NicKnob, Setting};

/// First part of the ids of classes below a root whose text names no other.
const HANDLE: &str = "e7";
/// The feature without which there are no rules.
const NTUPLE: &str = "rx-ntuple-filter";
/// Features that are off without another: dependent, needed.
const NEEDS: &[(&str, &str)] =
    &[("tx-tcp-segmentation", "tx-scatter-gather"), ("tx-tcp-segmentation", "tx-checksum-ip-generic")];

impl NicKnob {
    /// The same of another queue.
    pub(super) fn of_queue(&self, queue: u32) -> NicKnob {
        match self {
            NicKnob::Coalesce(Some(_)) => NicKnob::Coalesce(Some(queue)),
            NicKnob::IrqAffinity(_) => NicKnob::IrqAffinity(queue),
            NicKnob::RpsCpus(_) => NicKnob::RpsCpus(queue),
            NicKnob::RpsFlowCount(_) => NicKnob::RpsFlowCount(queue),
            NicKnob::XpsCpus(_) => NicKnob::XpsCpus(queue),
            NicKnob::XpsRxqs(_) => NicKnob::XpsRxqs(queue),
            NicKnob::Napi(_, name) => NicKnob::Napi(queue, name.clone()),
            NicKnob::NapiThread(_) => NicKnob::NapiThread(queue),
            other => other.clone(),
        }
    }
}

impl Fake {
    /// Refuses knobs of what is not there.
    pub(super) fn exists(&self, knob: &Knob) -> Result<(), Refusal> {
        let gone = |what: String| Err(Refusal::new(Cause::Gone, what));
        match knob {
            Knob::Thread { pid, start, .. } if !self.processes.contains(&(*pid, *start)) => {
                gone(format!("process {pid} has ended"))
            }
            Knob::Thread { .. } | Knob::Cgroup { .. } | Knob::Service { .. }
                if !self.settings.contains_key(knob) =>
            {
                gone(format!("{knob} is not there"))
            }
            Knob::Cpu { cpu, .. } if !self.cpus.contains(*cpu) => gone(format!("there is no cpu {cpu}")),
            Knob::Nic { nic, .. } if !self.cards.contains_key(nic) => gone(format!("{nic} is not there")),
            Knob::Nic { nic, knob } => match knob.queue() {
                Some(queue) if queue >= self.queues_count(nic) => gone(format!("{nic} has no queue {queue}")),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Refuses knobs that can't be made where they are not.
    pub(super) fn can_be_made(&self, knob: &Knob) -> Result<(), Refusal> {
        let can = match knob {
            Knob::Rule { .. } | Knob::Route { .. } => true,
            Knob::Nic { nic, knob } => {
                let card = self.card(nic)?;
                match knob {
                    NicKnob::Ntuple(location) => *location < card.rules_count_max,
                    NicKnob::Context(_) => card.has_contexts,
                    NicKnob::Clsact | NicKnob::Filter(..) => card.can_filter,
                    NicKnob::Class(_) | NicKnob::Qdisc(_) => true,
                    _ => false,
                }
            }
            _ => false,
        };
        if can {
            return Ok(());
        }
        Err(Refusal::new(Cause::Unsupported, format!("this machine has no {knob}")))
    }

    /// Does what is asked, with all that comes of it.
    pub(super) fn obey(&mut self, knob: &Knob, setting: Option<&Setting>) -> Result<(), Refusal> {
        self.exists(knob)?;
        if !self.settings.contains_key(knob) {
            self.can_be_made(knob)?;
        }
        match knob {
            Knob::Nic { nic, knob } => return self.obey_card(nic, knob, setting),
            Knob::Cpu { .. } if !setting.is_some_and(is_latency) => {
                return Err(invalid(format!("{knob} is n/a or microseconds, and can't be removed")));
            }
            _ => {}
        }
        match setting {
            Some(setting) => {
                self.settings.insert(knob.clone(), setting.clone());
            }
            None => {
                self.can_be_made(knob)?;
                self.settings.remove(knob);
            }
        }
        Ok(())
    }

    fn obey_card(&mut self, nic: &str, knob: &NicKnob, setting: Option<&Setting>) -> Result<(), Refusal> {
        match (knob, setting) {
            (NicKnob::Channels, Some(setting)) => return self.set_channels(nic, setting),
            (NicKnob::Root, setting) => return self.set_root(nic, setting),
            (NicKnob::Feature(name), Some(setting)) => return self.set_feature(nic, name, setting),
            (NicKnob::Rings, Some(_)) => self.reset_by_link(nic),
            (NicKnob::Indirection, Some(table)) if queue_last(table) >= self.queues_count(nic) => {
                return Err(invalid(format!("{nic} has no queue {}", queue_last(table))));
            }
            (NicKnob::Ntuple(_), Some(rule)) => self.check_rule(nic, rule)?,
            (NicKnob::NapiThread(_), Some(_)) if self.is_asleep(&Knob::nic(nic, knob.clone())) => {
                return Err(Refusal::new(Cause::Gone, format!("no thread polls {nic}")));
            }
            (NicKnob::Context(queues), Some(_))
                if queues.iter().any(|queue| queue >= self.queues_count(nic)) =>
            {
                return Err(invalid(format!("{nic} has no queues {queues}")));
            }
            (NicKnob::Context(queues), None) => {
                let name = queues.to_string();
                if self.rules(nic).any(|rule| rule.after("context") == Some(&name)) {
                    return Err(busy(format!("a rule of {nic} sends to this context")));
                }
            }
            (NicKnob::Filter(..), Some(filter)) => self.check_filter(nic, filter)?,
            (NicKnob::Clsact, None) if self.has_filters(nic) => {
                return Err(busy(format!("filters hang on the clsact of {nic}")));
            }
            (NicKnob::Class(id), Some(_)) => self.check_below(nic, id)?,
            (NicKnob::Qdisc(parent), Some(_)) => self.check_below(nic, parent)?,
            (NicKnob::Class(id), None)
                if self.settings.contains_key(&Knob::nic(nic, NicKnob::Qdisc(id.clone()))) =>
            {
                return Err(busy(format!("a qdisc lies below class {id}")));
            }
            (NicKnob::Threaded, Some(threaded)) => {
                let was = self.settings.get(&Knob::nic(nic, knob.clone()));
                if was != Some(threaded) {
                    self.reset(nic, |knob| matches!(knob, NicKnob::NapiThread(_)));
                }
            }
            (
                NicKnob::Ntuple(_)
                | NicKnob::Filter(..)
                | NicKnob::Clsact
                | NicKnob::Class(_)
                | NicKnob::Qdisc(_),
                None,
            ) => {}
            (_, None) => return Err(invalid(format!("nic/{nic}/{knob} can't be removed"))),
            _ => {}
        }
        match setting {
            Some(setting) => self.settings.insert(Knob::nic(nic, knob.clone()), setting.clone()),
            None => self.settings.remove(&Knob::nic(nic, knob.clone())),
        };
        Ok(())
    }

    fn set_channels(&mut self, nic: &str, setting: &Setting) -> Result<(), Refusal> {
        let (was, count) = (self.queues_count(nic), queues_count(setting));
        if count == 0 || count > self.card(nic)?.queues_count_max {
            return Err(invalid(format!("{nic} can't have '{setting}'")));
        }
        if self.is_channel_set(nic) {
            return Err(busy(format!("{nic} has hardware traffic classes")));
        }
        let indirection = Knob::nic(nic, NicKnob::Indirection);
        let table = self.settings.get(&indirection).cloned();
        let is_own = table.as_ref().is_some_and(|table| *table != equal(was));
        if is_own && table.as_ref().is_some_and(|table| queue_last(table) >= count) {
            return Err(invalid(
                "requested channel counts are too low for existing indirection table".to_owned(),
            ));
        }
        if self.rules(nic).any(|rule| rule.after("action").is_some_and(|queue| number(queue) >= count)) {
            return Err(invalid("requested channel counts are too low for existing ntuple rules".to_owned()));
        }
        self.settings.insert(Knob::nic(nic, NicKnob::Channels), setting.clone());
        if table.is_some() && !is_own {
            self.settings.insert(indirection, equal(count));
        }
        for queue in 0..count.max(was) {
            for (knob, setting) in self.card(nic)?.queue_knobs.clone() {
                let is_new = queue >= was || queue >= count;
                if is_new || is_reset_with_queues(&knob) {
                    self.settings.insert(Knob::nic(nic, knob.of_queue(queue)), setting);
                }
            }
        }
        Ok(())
    }

    fn set_root(&mut self, nic: &str, setting: Option<&Setting>) -> Result<(), Refusal> {
        let card_root = self.card(nic)?.root.clone();
        let root = Knob::nic(nic, NicKnob::Root);
        let was = self.settings.get(&root).cloned().unwrap_or_else(|| card_root.clone());
        let to = setting.cloned().unwrap_or(card_root);
        if is_channel_set(&to) && !self.has(nic, &NicKnob::Feature("hw-tc-offload".to_owned()), "on") {
            return Err(invalid(format!("{nic}: hw-tc-offload is off")));
        }
        let queues = to
            .words()
            .filter_map(|word| word.split_once('@'))
            .map(|(count, first)| number(count) + number(first));
        if queues.max().unwrap_or(0) > self.queues_count(nic) {
            return Err(invalid(format!("{nic} has fewer queues than '{to}' names")));
        }
        if is_channel_set(&was) {
            self.settings.retain(|knob, setting| {
                !matches!(knob, Knob::Nic { nic: of, knob: NicKnob::Filter(..) } if of == nic && setting.after("hw_tc").is_some())
            });
        }
        self.settings.retain(|knob, _| {
            !matches!(knob, Knob::Nic { nic: of, knob: NicKnob::Class(_) | NicKnob::Qdisc(_) } if of == nic)
        });
        let kind = |setting: &Setting| setting.words().any(|word| word == "mqprio");
        if is_channel_set(&was) || is_channel_set(&to) {
            self.reset(nic, is_reset_with_queues);
        } else if kind(&was) || kind(&to) {
            self.reset(nic, is_xps);
        }
        self.settings.insert(root, to);
        Ok(())
    }

    fn set_feature(&mut self, nic: &str, name: &str, setting: &Setting) -> Result<(), Refusal> {
        let on = setting.as_str() == "on";
        if name == "hw-tc-offload" && !on && self.is_channel_set(nic) {
            return Err(busy(format!("{nic} has hardware traffic classes")));
        }
        let was = self.has(nic, &NicKnob::Feature(name.to_owned()), "on");
        let card = self.cards.get_mut(nic).expect("the card was found before its feature");
        if on {
            card.wanted.insert(name.to_owned());
        } else {
            card.wanted.remove(name);
        }
        let is_veth = card.is_veth;
        self.settings.insert(Knob::nic(nic, NicKnob::Feature(name.to_owned())), setting.clone());
        for (dependent, _) in NEEDS {
            let needed = NEEDS.iter().filter(|(other, _)| other == dependent).map(|(_, needed)| *needed);
            let has_all =
                needed.into_iter().all(|needed| !self.has(nic, &NicKnob::Feature(needed.to_owned()), "off"));
            let on = has_all && self.cards[nic].wanted.contains(*dependent);
            if let Some(setting) =
                self.settings.get_mut(&Knob::nic(nic, NicKnob::Feature((*dependent).to_owned())))
            {
                *setting = Setting::new(if on { "on" } else { "off" });
            }
        }
        if name == NTUPLE && !on {
            self.settings.retain(
                |knob, _| !matches!(knob, Knob::Nic { nic: of, knob: NicKnob::Ntuple(_) } if of == nic),
            );
        }
        if name == "rx-gro" && is_veth && was != on {
            self.reset(nic, |knob| matches!(knob, NicKnob::Napi(..)));
        }
        Ok(())
    }

    /// What a link that went down and came up has lost.
    pub(super) fn reset_by_link(&mut self, nic: &str) {
        let is_veth = self.cards.get(nic).is_some_and(|card| card.is_veth);
        self.reset(nic, |knob| is_xps(knob) || is_veth && matches!(knob, NicKnob::Napi(..)));
    }

    fn reset(&mut self, nic: &str, is_reset: impl Fn(&NicKnob) -> bool) {
        let knobs = self.cards.get(nic).map(|card| card.queue_knobs.clone()).unwrap_or_default();
        for queue in 0..self.queues_count(nic) {
            for (knob, setting) in knobs.iter().filter(|(knob, _)| is_reset(knob)) {
                self.settings.insert(Knob::nic(nic, knob.of_queue(queue)), setting.clone());
            }
        }
    }

    fn check_rule(&self, nic: &str, rule: &Setting) -> Result<(), Refusal> {
        if self.has(nic, &NicKnob::Feature(NTUPLE.to_owned()), "off") {
            return Err(Refusal::new(Cause::Unsupported, format!("{nic}: ntuple is off")));
        }
        if let Some(queue) = rule.after("action").filter(|queue| number(queue) >= self.queues_count(nic)) {
            return Err(invalid(format!("{nic} has no queue {queue}")));
        }
        let Some(queues) = rule.after("context") else { return Ok(()) };
        let context = queues.parse().map(|queues| Knob::nic(nic, NicKnob::Context(queues)));
        if context.is_ok_and(|context| self.settings.contains_key(&context)) {
            return Ok(());
        }
        Err(invalid(format!("{nic} has no context {queues}")))
    }

    fn check_filter(&self, nic: &str, filter: &Setting) -> Result<(), Refusal> {
        if !self.settings.contains_key(&Knob::nic(nic, NicKnob::Clsact)) {
            return Err(invalid(format!("{nic} has no clsact that filters could hang on")));
        }
        if filter.after("hw_tc").is_some() && !self.is_channel_set(nic) {
            return Err(invalid(format!("{nic} has no hardware traffic classes")));
        }
        Ok(())
    }

    /// A class or qdisc needs the root that its number's first part names.
    fn check_below(&self, nic: &str, id: &str) -> Result<(), Refusal> {
        let root = self.settings.get(&Knob::nic(nic, NicKnob::Root));
        let handle = root.map_or(HANDLE, |root| root.after("handle").unwrap_or(HANDLE));
        if handle.trim_end_matches(':') == id.split(':').next().unwrap_or_default() {
            return Ok(());
        }
        Err(invalid(format!("{nic} has no root that {id} could lie below")))
    }

    fn card(&self, nic: &str) -> Result<&Card, Refusal> {
        self.cards.get(nic).ok_or_else(|| Refusal::new(Cause::Gone, format!("{nic} is not there")))
    }

    /// Queues, of the kind of which there are most.
    pub(super) fn queues_count(&self, nic: &str) -> u32 {
        match self.settings.get(&Knob::nic(nic, NicKnob::Channels)) {
            Some(setting) => queues_count(setting),
            // A card whose count can't be read keeps those that it has.
            None => self
                .settings
                .keys()
                .filter_map(|knob| match knob {
                    Knob::Nic { nic: of, knob } if of == nic => knob.queue().map(|queue| queue + 1),
                    _ => None,
                })
                .max()
                .unwrap_or(0),
        }
    }

    /// A thread that does not run: its knob has no value.
    pub(super) fn is_asleep(&self, knob: &Knob) -> bool {
        let Knob::Nic { nic, knob: NicKnob::NapiThread(queue) } = knob else { return false };
        let by_itself = NicKnob::Napi(*queue, "threaded".to_owned());
        self.has(nic, &NicKnob::Threaded, "0") && !self.has(nic, &by_itself, "1")
    }

    fn has(&self, nic: &str, knob: &NicKnob, value: &str) -> bool {
        self.settings.get(&Knob::nic(nic, knob.clone())).is_some_and(|setting| setting.as_str() == value)
    }

    fn is_channel_set(&self, nic: &str) -> bool {
        self.settings.get(&Knob::nic(nic, NicKnob::Root)).is_some_and(is_channel_set)
    }

    fn rules(&self, nic: &str) -> impl Iterator<Item = &Setting> {
        self.settings.iter().filter_map(move |(knob, setting)| {
            matches!(knob, Knob::Nic { nic: of, knob: NicKnob::Ntuple(_) } if of == nic).then_some(setting)
        })
    }

    fn has_filters(&self, nic: &str) -> bool {
        let is_filter = |knob: &Knob| matches!(knob, Knob::Nic { nic: of, knob: NicKnob::Filter(Direction::Ingress | Direction::Egress, _) } if of == nic);
        self.settings.keys().any(is_filter)
    }
}

fn is_channel_set(root: &Setting) -> bool {
    root.words().next() == Some("mqprio")
        && root.after("hw") == Some("1")
        && root.after("mode") == Some("channel")
}

fn is_xps(knob: &NicKnob) -> bool {
    matches!(knob, NicKnob::XpsCpus(_) | NicKnob::XpsRxqs(_))
}

fn is_reset_with_queues(knob: &NicKnob) -> bool {
    is_xps(knob) || matches!(knob, NicKnob::IrqAffinity(_) | NicKnob::Napi(..) | NicKnob::Coalesce(Some(_)))
}

fn queues_count(channels: &Setting) -> u32 {
    let of = |kind| channels.after(kind).map_or(0, number);
    of("combined") + of("rx").max(of("tx"))
}

/// The highest queue that a table names.
fn queue_last(table: &Setting) -> u32 {
    match table.after("equal") {
        Some(count) => (table.after("start").map_or(0, number) + number(count)).saturating_sub(1),
        None => table.words().skip(1).map(number).max().unwrap_or(0),
    }
}

fn equal(count: u32) -> Setting {
    Setting::new(format!("equal {count}"))
}

/// What a cpu's latency can be: all that counts as no limit is written `0`.
fn is_latency(setting: &Setting) -> bool {
    setting.as_str() == "n/a" || setting.as_str().parse().is_ok_and(|us: i32| (0..i32::MAX).contains(&us))
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or(u32::MAX / 2)
}

fn invalid(reason: String) -> Refusal {
    Refusal::new(Cause::Invalid, reason)
}

fn busy(reason: String) -> Refusal {
    Refusal::new(Cause::Busy, reason)
}
