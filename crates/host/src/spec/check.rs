//! What is wrong with a wish on any machine: values out of range, and lanes that contradict one another.

use std::net::IpAddr;

use super::{BackendWish, DefaultLane, Host, IrqWish, Lane, Mode, NicWish, Spec};
use crate::cpus::Cpus;
use crate::rate::Rate;

/// Lanes of one file: more than any machine has cores for.
pub const LANES_COUNT_MAX: usize = 1024;
/// Letters of a lane's name: it is part of paths and tables.
pub const NAME_SIZE_MAX: usize = 32;
/// Queues of a lane or card: more than any card has.
pub const QUEUES_COUNT_MAX: u32 = crate::cpus::NUMBER_MAX;
/// Microseconds of busy polling: beyond a second a mistake of the unit is more likely than a wish.
pub const BUSY_POLL_US_MAX: u32 = 1_000_000;
/// Microseconds of interrupt moderation: beyond what any card's timer holds (ice: 8160).
pub const MODERATION_USECS_MAX: u32 = 65_535;
/// Microseconds of waking up: no idle state takes a tenth of a second to leave, so beyond it a mistake of the unit is more likely.
pub const RESUME_LATENCY_US_MAX: u32 = 100_000;
/// Nice values, `setpriority(2)`.
pub const NICE_RANGE: std::ops::RangeInclusive<i32> = -20..=19;

/// Which key of the file something is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum At {
    Host(&'static str),
    Nic(usize, &'static str),
    Lane(usize, &'static str),
    Default(&'static str),
}

impl At {
    /// Table, which of several of that name, key.
    pub(super) fn parts(self) -> (&'static str, usize, &'static str) {
        match self {
            At::Host(key) => ("host", 0, key),
            At::Nic(index, key) => ("nic", index, key),
            At::Lane(index, key) => ("lane", index, key),
            At::Default(key) => ("default", 0, key),
        }
    }
}

/// Something wrong with a key.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) at: At,
    pub(super) sentence: String,
}

/// Collects sentences about one lane, or one card.
struct Faults<'a>(&'a mut Vec<Fault>);

impl Faults<'_> {
    fn add(&mut self, at: At, sentence: String) {
        self.0.push(Fault { at, sentence });
    }
}

impl Spec {
    /// Everything that is wrong, in the order of the file.
    pub(super) fn faults(&self) -> Vec<Fault> {
        let mut list = Vec::new();
        let mut faults = Faults(&mut list);
        self.host.check(&mut faults);
        for (index, nic) in self.nics.iter().enumerate() {
            nic.check(index, self.lanes.iter().any(|lane| self.nic_of(lane) == Some(&nic.name)), &mut faults);
            if self.nics[..index].iter().any(|it| it.name == nic.name) {
                faults.add(At::Nic(index, "name"), format!("nic `{}` is in the file twice", nic.name));
            }
        }
        if self.lanes.is_empty() {
            faults
                .add(At::Lane(0, "name"), "the file has no [[lane]]: there is nothing to isolate".to_owned());
        }
        if self.lanes.len() > LANES_COUNT_MAX {
            let sentence = format!("{} lanes are more than {LANES_COUNT_MAX}", self.lanes.len());
            faults.add(At::Lane(LANES_COUNT_MAX, "name"), sentence);
        }
        for (index, lane) in self.lanes.iter().enumerate() {
            lane.check(index, &mut faults);
            self.check_card(index, lane, &mut faults);
            for other in &self.lanes[..index] {
                self.check_pair(index, lane, other, &mut faults);
            }
            self.check_cores(index, lane, &mut faults);
        }
        self.default.check(&mut faults);
        self.check_default(&mut faults);
        list
    }

    /// The card of a lane as the file names it: its own, or the only one there is.
    #[must_use]
    pub fn nic_of<'a>(&'a self, lane: &'a Lane) -> Option<&'a str> {
        match (&lane.nic, self.nics.as_slice()) {
            (Some(name), _) => Some(name),
            (None, [only]) => Some(&only.name),
            (None, _) => None,
        }
    }

    /// Refuses what `[default]` and `[host]` say of queues where no card has its queues divided.
    fn check_default(&self, faults: &mut Faults) {
        let is_divided = |lane: &Lane| {
            let mut cards = self.nics.iter().filter(|nic| self.nic_of(lane) == Some(&nic.name));
            cards.any(|nic| nic.backend != BackendWish::Process)
        };
        if self.lanes.iter().any(is_divided) {
            return;
        }
        let given = [
            (At::Default("queues"), "[default]: `queues`", self.default.queues.is_some()),
            (At::Default("rate-max"), "[default]: `rate-max`", self.default.rate_max.is_some()),
            (At::Host("moderation"), "[host]: `moderation`", self.host.moderation.is_some()),
        ];
        for (at, key, _) in given.into_iter().filter(|(_, _, given)| *given) {
            faults.add(at, format!("{key} wants a card with lanes whose `backend` is not \"process\""));
        }
    }

    fn check_card(&self, index: usize, lane: &Lane, faults: &mut Faults) {
        let name = &lane.name;
        match &lane.nic {
            Some(nic) if !self.nics.iter().any(|it| it.name == *nic) => {
                let known: Vec<&str> = self.nics.iter().map(|it| it.name.as_str()).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                let sentence =
                    format!("lane `{name}`: nic `{nic}` has no [[nic]] in the file; there is {known}");
                faults.add(At::Lane(index, "nic"), sentence);
            }
            None if self.nics.len() > 1 => {
                let sentence = format!("lane `{name}`: the file has several cards, so `nic` must say which");
                faults.add(At::Lane(index, "nic"), sentence);
            }
            _ => {}
        }
        let unnamed = lane.ports.is_none() && lane.remote_ports.is_none();
        if self.nic_of(lane).is_some() && unnamed {
            let sentence =
                format!("lane `{name}`: by its `ports` (or `remote-ports`) a card knows its packets");
            faults.add(At::Lane(index, "ports"), sentence);
        }
        let card = self.nics.iter().find(|it| self.nic_of(lane) == Some(&it.name));
        let without = match card {
            Some(nic) if nic.backend == BackendWish::Process => {
                format!("a card's queues, and nic `{}` has `backend = \"process\"`", nic.name)
            }
            None if self.nics.is_empty() => "a card, and the file has no [[nic]]".to_owned(),
            _ => return,
        };
        for (key, given) in lane.keys_of_a_card() {
            // Each port's process has its core without the card's part in it.
            let works = card.is_some() && key == "mode";
            if given && !works {
                faults.add(At::Lane(index, key), format!("lane `{name}`: `{key}` wants {without}"));
            }
        }
    }

    fn check_pair(&self, index: usize, lane: &Lane, other: &Lane, faults: &mut Faults) {
        let (name, theirs) = (&lane.name, &other.name);
        if name == theirs {
            faults.add(At::Lane(index, "name"), format!("two lanes are called `{name}`"));
        }
        let same_card = self.nic_of(lane) == self.nic_of(other) && lane.protocol == other.protocol;
        let anywhere = lane.addresses.is_empty() || other.addresses.is_empty();
        if same_card && (anywhere || lane.addresses.iter().any(|it| other.addresses.contains(it))) {
            let pairs = [("ports", &lane.ports, &other.ports)];
            let remote = [("remote-ports", &lane.remote_ports, &other.remote_ports)];
            for (key, mine, their) in pairs.into_iter().chain(remote) {
                let (Some(mine), Some(their)) = (mine, their) else { continue };
                if let Some(port) = mine.0.iter().find(|port| their.0.contains(port)) {
                    let sentence = format!("lane `{name}`: port {port} is lane `{theirs}`'s too");
                    faults.add(At::Lane(index, key), sentence);
                }
            }
        }
        if let (Some(mine), Some(their)) = (&lane.cores, &other.cores)
            && mine.overlaps(their)
        {
            let sentence = format!("lane `{name}`: core {} is lane `{theirs}`'s too", mine.common(their));
            faults.add(At::Lane(index, "cores"), sentence);
        }
    }

    fn check_cores(&self, index: usize, lane: &Lane, faults: &mut Faults) {
        let name = &lane.name;
        let system = [("host", &self.host.cores), ("default", &self.default.cores)];
        for (table, theirs) in system {
            if let (Some(mine), Some(theirs)) = (&lane.cores, theirs)
                && mine.overlaps(theirs)
            {
                let common = mine.common(theirs);
                let sentence = format!("lane `{name}`: core {common} is kept by `cores` of [{table}]");
                faults.add(At::Lane(index, "cores"), sentence);
            }
        }
        let Ok(Some(IrqWish::Reserved(reserved))) = lane.irq_wish() else { return };
        for other in &self.lanes {
            if let Some(cores) = &other.cores
                && cores.overlaps(&reserved)
            {
                let common = cores.common(&reserved);
                let sentence = format!(
                    "lane `{name}`: core {common}, reserved for interrupts, is in `cores` of lane `{}`",
                    other.name
                );
                faults.add(At::Lane(index, "irq"), sentence);
            }
        }
    }
}

impl Host {
    fn check(&self, faults: &mut Faults) {
        check_cores("[host]", self.cores.as_ref(), At::Host("cores"), faults);
        if self.moderation.is_some_and(|it| it.is_too_long()) {
            let sentence = format!("[host]: a moderation is at most {MODERATION_USECS_MAX} microseconds");
            faults.add(At::Host("moderation"), sentence);
        }
        for (name, value) in &self.sysctls {
            if sysctl_text(value).is_none() {
                let sentence = format!("[host]: sysctl `{name}` is a number, true, false or a text");
                faults.add(At::Host("sysctls"), sentence);
            }
            let letters = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
            if name.is_empty() || !name.chars().all(letters) || name.contains("..") {
                faults.add(At::Host("sysctls"), format!("[host]: `{name}` is no name of a sysctl"));
            }
        }
    }
}

/// A sysctl's value as /proc/sys shows it.
pub(crate) fn sysctl_text(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(on) => Some(u8::from(*on).to_string()),
        toml::Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

impl NicWish {
    fn check(&self, index: usize, has_lane: bool, faults: &mut Faults) {
        let name = &self.name;
        let mut say = |key, sentence| faults.add(At::Nic(index, key), format!("nic `{name}`: {sentence}"));
        if name.is_empty() || name.contains(|c: char| c == '/' || c.is_whitespace()) {
            say("name", "a card is named by interface, hardware address or place on the bus".to_owned());
        }
        for (key, value) in
            [("channels", self.channels), ("rx-ring", self.rx_ring), ("tx-ring", self.tx_ring)]
        {
            if value == Some(0) {
                say(key, format!("`{key}` is at least 1"));
            }
        }
        if self.channels.is_some_and(|it| it > QUEUES_COUNT_MAX) {
            say("channels", format!("no card has more than {QUEUES_COUNT_MAX} queues"));
        }
        if let Some(gateway) = &self.gateway {
            if gateway.parse::<IpAddr>().is_err() {
                say("gateway", format!("`{gateway}` is no address"));
            }
            if !self.source_routing {
                say("gateway", "`gateway` is for `source-routing = true`".to_owned());
            }
        }
        if self.moderation.is_some_and(|it| it.is_too_long()) {
            say("moderation", format!("a moderation is at most {MODERATION_USECS_MAX} microseconds"));
        }
        if self.moderation.is_some() && self.backend == BackendWish::Process {
            say("moderation", "`moderation` is left alone by `backend = \"process\"`".to_owned());
        } else if self.moderation.is_some() && !has_lane {
            say("moderation", "`moderation` is left alone, for no lane is on the card".to_owned());
        }
    }
}

impl DefaultLane {
    fn check(&self, faults: &mut Faults) {
        check_cores("[default]", self.cores.as_ref(), At::Default("cores"), faults);
        if self.queues.is_some_and(|it| it == 0 || it > QUEUES_COUNT_MAX) {
            let sentence = format!("[default]: `queues` is at least 1, and at most {QUEUES_COUNT_MAX}");
            faults.add(At::Default("queues"), sentence);
        }
        if let Err(problem) = rate(self.rate_max.as_ref()) {
            faults.add(At::Default("rate-max"), format!("[default]: {problem}"));
        }
        if self.process.iter().any(super::Match::is_empty) {
            let sentence = "[default]: a process is matched by pid, name, unit or cgroup".to_owned();
            faults.add(At::Default("process"), sentence);
        }
    }
}

impl Lane {
    /// Keys that mean nothing without queues of a card, and whether they are given.
    fn keys_of_a_card(&self) -> [(&'static str, bool); 7] {
        [
            ("queues", self.queues.is_some()),
            ("mode", self.mode == Mode::OneQueuePerPort),
            ("rate-min", self.rate_min.is_some()),
            ("rate-max", self.rate_max.is_some()),
            ("threaded", self.threaded),
            ("moderation", self.moderation.is_some()),
            ("irq", self.irq.is_some()),
        ]
    }

    fn check(&self, index: usize, faults: &mut Faults) {
        let name = &self.name;
        check_cores(&format!("lane `{name}`"), self.cores.as_ref(), At::Lane(index, "cores"), faults);
        let mut say = |key, sentence| faults.add(At::Lane(index, key), format!("lane `{name}`: {sentence}"));
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > NAME_SIZE_MAX || !name.chars().all(letters) {
            say("name", format!("a name has 1 to {NAME_SIZE_MAX} letters, digits, - and _"));
        }
        for (index, address) in self.addresses.iter().enumerate() {
            if address.parse::<IpAddr>().is_err() {
                say("addresses", format!("`{address}` is no address: write 10.0.0.1 or 2001:db8::1"));
            }
            if self.addresses[..index].contains(address) {
                say("addresses", format!("address {address} is twice in `addresses`"));
            }
        }
        let ports_count = self.ports.as_ref().map_or(0, |ports| ports.0.len());
        match (self.mode, self.queues) {
            (_, Some(queues)) if queues == 0 || queues > QUEUES_COUNT_MAX => {
                say("queues", format!("`queues` is at least 1, and at most {QUEUES_COUNT_MAX}"));
            }
            (Mode::OneQueuePerPort, _) if ports_count == 0 => {
                say("ports", "one queue per port wants `ports`".to_owned());
            }
            (Mode::OneQueuePerPort, Some(queues)) if usize::try_from(queues) != Ok(ports_count) => {
                let sentence = format!(
                    "one queue per port: {ports_count} ports want {ports_count} queues, not {queues}"
                );
                say("queues", sentence);
            }
            _ => {}
        }
        match (rate(self.rate_min.as_ref()), rate(self.rate_max.as_ref())) {
            (Err(problem), _) => say("rate-min", problem),
            (_, Err(problem)) => say("rate-max", problem),
            (Ok(Some(min)), Ok(Some(max))) if min > max => {
                say("rate-min", format!("`rate-min` {min} is above `rate-max` {max}"));
            }
            _ => {}
        }
        if self.busy_poll_us.is_some_and(|us| us == 0 || us > BUSY_POLL_US_MAX) {
            say("busy-poll-us", format!("`busy-poll-us` is 1 to {BUSY_POLL_US_MAX} microseconds"));
        }
        if self.busy_poll_us.is_some() && self.threaded {
            let sentence = "`busy-poll-us` and `threaded` both poll the same queues: choose one";
            say("threaded", sentence.to_owned());
        }
        if self.resume_latency_us.is_some_and(|us| us > RESUME_LATENCY_US_MAX) {
            let sentence = format!("`resume-latency-us` is 0 to {RESUME_LATENCY_US_MAX} microseconds");
            say("resume-latency-us", sentence);
        }
        if self.moderation.is_some_and(|it| it.is_too_long()) {
            say("moderation", format!("a moderation is at most {MODERATION_USECS_MAX} microseconds"));
        }
        if let Err(problem) = self.irq_wish() {
            say("irq", problem);
        }
        if let Some(nice) = self.nice {
            if !NICE_RANGE.contains(&nice) {
                say("nice", "`nice` is -20 to 19".to_owned());
            }
            if self.process.is_empty() {
                say("nice", "`nice` wants `process`, to say whose".to_owned());
            }
        }
    }
}

fn check_cores(whose: &str, cores: Option<&Cpus>, at: At, faults: &mut Faults) {
    if cores.is_some_and(Cpus::is_empty) {
        faults.add(at, format!("{whose}: `cores` names none; leave it out to have them chosen"));
    }
}

/// The rate behind a key, where it is given.
pub(crate) fn rate(text: Option<&String>) -> Result<Option<Rate>, String> {
    text.map(|text| text.parse()).transpose()
}
