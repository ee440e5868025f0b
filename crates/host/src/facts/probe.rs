//! Reads [`Facts`] from the machine that this process runs on. It writes nothing, and needs no rights for most of it.
//!
//! What a card, driver or kernel does not have is absent. What is there and could not be read (rights, errors) is in
//! [`Facts::missing`], with the reason. Values are those that [`crate::Kernel::read`] gives for the same knob.

use std::collections::{BTreeMap, BTreeSet};

mod machine;
mod processes;

use super::{Cgroup, Daemon, Facts, Feature, Filter, Nic, Ntuple, Queue, Rss, Thread};
use crate::cpus::Cpus;
use crate::kernel::live::files::Files;
use crate::kernel::live::{
    self, Live, ethtool, filter, ioctl, links, napi, ntuple, qdisc, routes, rss, threads,
};
use crate::kernel::{Cause, Kernel, Refusal};
use crate::knob::{Direction, Knob, NicKnob};
use crate::managers;
use crate::plan::{CPUS, MARK_FIRST, MEMS, PARTITION};
use crate::spec::Match;

/// Sysctls that lanes set or judge; more can be asked for.
pub const SYSCTLS: &[&str] = &[
    "kernel.nmi_watchdog",
    "kernel.numa_balancing",
    "kernel.sched_rt_runtime_us",
    "kernel.timer_migration",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.dev_weight",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.rps_sock_flow_entries",
    "net.core.somaxconn",
    "net.ipv4.tcp_max_syn_backlog",
    "vm.stat_interval",
];

/// Sysctls of a card, below `net.ipv4.conf.NAME.`.
const CARD_SYSCTLS: &[&str] = &["arp_announce", "arp_ignore", "arp_notify", "rp_filter"];

/// What is asked besides what every machine is asked.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// Processes that match any of these.
    pub processes: Vec<Match>,
    /// Further sysctls, by name.
    pub sysctls: Vec<String>,
}

/// All that could be read.
#[must_use]
pub fn read(live: &mut Live, ask: &Ask) -> Facts {
    let mut missing = Vec::new();
    let files = live.files.clone();
    let mut facts = machine::read(&files, &mut missing);
    facts.boot_id = note(live.boot_id(), "boot_id", &mut missing).unwrap_or_default();
    let names: Vec<String> =
        files.names("sys/class/net").into_iter().filter(|name| is_card(&files, name)).collect();
    let card_sysctls = names.iter().flat_map(|nic| {
        let nic = nic.replace('.', "/");
        CARD_SYSCTLS.iter().map(move |name| format!("net.ipv4.conf.{nic}.{name}"))
    });
    let sysctls = SYSCTLS.iter().map(|name| (*name).to_owned()).chain(card_sysctls);
    for name in sysctls.chain(ask.sysctls.iter().cloned()) {
        let value = live.read(&Knob::sysctl(&name));
        if let Some(value) = note(value, &name, &mut missing).flatten() {
            facts.sysctls.insert(name, value.to_string());
        }
    }
    for nic in &names {
        match card(live, nic, &facts.daemons, &mut missing) {
            Ok(card) => facts.nics.push(card),
            Err(refusal) => missing.push(format!("nic/{nic}: {refusal}")),
        }
    }
    addresses(live, &mut facts.nics, &mut missing);
    let routing = live.route().and_then(|route| routes::from(route, MARK_FIRST));
    facts.routing = note(routing, "routing", &mut missing).unwrap_or_default();
    if let Some(session) = processes::session(&files) {
        let number =
            |nic: &Nic| files.read(&format!("sys/class/net/{}/ifindex", nic.name)).unwrap_or_default();
        let ways = facts.nics.iter().filter(|nic| session.is_to(nic, &number(nic)));
        let ways: BTreeSet<String> = ways.flat_map(|nic| way_down(&files, &nic.name)).collect();
        facts.nics.iter_mut().for_each(|nic| nic.carries_session = ways.contains(&nic.name));
    }
    facts.processes = processes::matching(&files, &ask.processes);
    groups(live, &mut facts, ask, &mut missing);
    facts.missing = missing;
    facts
}

/// The control groups that are asked for by name.
fn groups(live: &mut Live, facts: &mut Facts, ask: &Ask, missing: &mut Vec<String>) {
    let Facts { cgroup: Cgroup { version: Some(2), cpuset_root: Some(root), groups }, .. } = facts else {
        return;
    };
    for group in ask.processes.iter().filter_map(|wish| wish.cgroup.as_deref()) {
        let group = group.trim_matches('/');
        if group.is_empty() || !live.files.has(&format!("{}/{group}", root.trim_start_matches('/'))) {
            continue;
        }
        let mut files = BTreeMap::new();
        for file in [CPUS, MEMS, PARTITION] {
            let knob = Knob::Cgroup { group: group.to_owned(), file: file.to_owned() };
            let value = note(live.read(&knob), &knob.to_string(), missing).flatten();
            files.extend(value.map(|value| (file.to_owned(), value.to_string())));
        }
        groups.insert(group.to_owned(), files);
    }
}

/// What the machine has not is absent; what could not be read is noted.
fn note<T>(answer: Result<T, Refusal>, what: &str, missing: &mut Vec<String>) -> Option<T> {
    match answer {
        Ok(value) => Some(value),
        Err(refusal) => {
            if !matches!(refusal.cause, Cause::Unsupported | Cause::Gone) {
                let reason = refusal.reason;
                let is_named = reason.starts_with(what) || reason.contains(&format!("{what}:"));
                missing.push(if is_named { reason } else { format!("{what}: {reason}") });
            }
            None
        }
    }
}

/// Whatever can have queues; the loopback has none to give, and a file (bonding_masters) is no card.
fn is_card(files: &Files, name: &str) -> bool {
    name != "lo" && files.has(&format!("sys/class/net/{name}/ifindex"))
}

/// The card, and those that it stands on: members of a bond or bridge, the card below a VLAN (`lower_NAME` in sysfs).
fn way_down(files: &Files, name: &str) -> BTreeSet<String> {
    let (mut way, mut next) = (BTreeSet::new(), vec![name.to_owned()]);
    while let Some(name) = next.pop() {
        let names = files.names(&format!("sys/class/net/{name}"));
        next.extend(names.iter().filter_map(|file| file.strip_prefix("lower_").map(str::to_owned)));
        way.insert(name);
    }
    way
}

fn card(live: &mut Live, name: &str, daemons: &[Daemon], missing: &mut Vec<String>) -> Result<Nic, Refusal> {
    let interface = live::interface(name)?;
    let files = live.files.clone();
    let base = format!("sys/class/net/{name}");
    let text = |file: &str| files.read(&format!("{base}/{file}")).ok();
    let path = |knob: NicKnob| Knob::nic(name, knob).to_string();
    let driver = note(ioctl::driver(name), &format!("nic/{name}"), missing).unwrap_or_default();
    let mut nic = Nic {
        name: name.to_owned(),
        mac: text("address").unwrap_or_default(),
        bus: Some(driver.bus).filter(|bus| files.has(&format!("{base}/device")) && !bus.is_empty()),
        driver: driver.name,
        driver_version: driver.version,
        firmware: Some(driver.firmware).filter(|firmware| firmware != "N/A").unwrap_or_default(),
        node: live::files::node(&files, name),
        // A speed that is not known is -1.
        speed_mbit: text("speed").and_then(|speed| speed.parse().ok()).filter(|speed| *speed != u32::MAX),
        up: text("carrier").as_deref() == Some("1"),
        master: files.link(&format!("{base}/master")),
        managers: managers::of_card(&files, daemons, interface),
        xdp: note(links::has_xdp(live.route()?, interface), &format!("nic/{name}/xdp"), missing)
            .unwrap_or(false),
        ..Nic::default()
    };
    if files.has("sys/module/irdma") && matches!(nic.driver.as_str(), "ice" | "i40e") {
        nic.hindrances.push("irdma".to_owned());
    }
    let generic = live.generic()?.0;
    nic.channels = note(ethtool::channels(generic, name), &path(NicKnob::Channels), missing);
    nic.rings = note(ethtool::rings(generic, name), &path(NicKnob::Rings), missing);
    let coalesce = live.read(&Knob::nic(name, NicKnob::Coalesce(None)));
    let coalesce = note(coalesce, &path(NicKnob::Coalesce(None)), missing).flatten();
    nic.coalesce = coalesce.map(|text| text.to_string()).filter(|text| !text.is_empty());
    let generic = live.generic()?.0;
    let features: Option<BTreeMap<String, Feature>> =
        note(ethtool::features(generic, name), &format!("nic/{name}/feature"), missing);
    nic.features = features.unwrap_or_default();
    let flags = note(ethtool::private_flags(generic, name), &format!("nic/{name}/flag"), missing);
    nic.private_flags = flags.unwrap_or_default();
    let (generic, files_of) = live.generic()?;
    let devlink = live::devlink::all(generic, files_of, name);
    nic.devlink = note(devlink, &format!("nic/{name}/devlink"), missing).unwrap_or_default();
    let (generic, files_of) = live.generic()?;
    let modes = live::devlink::hindrances(generic, files_of, name, &nic.driver);
    let modes = note(modes, &format!("nic/{name}/devlink"), missing).unwrap_or_default();
    nic.hindrances.extend(modes.into_iter().map(str::to_owned));
    steering(live, &mut nic, missing)?;
    queueing(live, &mut nic, interface, missing)?;
    queues(live, &mut nic, interface, missing)?;
    Ok(nic)
}

/// Tables, contexts and rules of the card itself.
fn steering(live: &mut Live, nic: &mut Nic, missing: &mut Vec<String>) -> Result<(), Refusal> {
    let name = nic.name.clone();
    let path = |knob: NicKnob| Knob::nic(&name, knob).to_string();
    if let Some(table) = note(rss::default_table(&name), &path(NicKnob::Indirection), missing) {
        let contexts = rss::contexts(live.generic()?.0, &name);
        let contexts = note(contexts, &format!("nic/{name}/rss-context"), missing).flatten();
        nic.rss = Some(Rss { table, writable: true, contexts });
    }
    if let Some((capacity, locations)) = note(ntuple::list(&name), &format!("nic/{name}/ntuple"), missing) {
        let contexts = nic.rss.as_ref().and_then(|rss| rss.contexts.clone()).unwrap_or_default();
        let mut rules = BTreeMap::new();
        for location in locations {
            let rule = ntuple::read(&name, location, &contexts);
            if let Some(rule) = note(rule, &path(NicKnob::Ntuple(location)), missing).flatten() {
                rules.insert(location, rule.to_string());
            }
        }
        nic.ntuple = Some(Ntuple { capacity, rules });
    }
    Ok(())
}

fn queueing(
    live: &mut Live,
    nic: &mut Nic,
    interface: u32,
    missing: &mut Vec<String>,
) -> Result<(), Refusal> {
    let what = format!("nic/{}/qdisc", nic.name);
    let route = live.route()?;
    let qdiscs = note(qdisc::qdiscs(route, interface), &what, missing).unwrap_or_default();
    let classes = note(qdisc::classes(route, interface), &what, missing).unwrap_or_default();
    nic.root_qdisc = qdisc::root_text(&qdiscs).map(|text| text.to_string());
    nic.clsact = qdiscs.iter().any(qdisc::is_at_edge);
    for entry in qdiscs.iter().filter(|entry| qdisc::is_below_root(entry)) {
        nic.below_root.insert(NicKnob::Qdisc(qdisc::id(entry.parent)).to_string(), entry.text.clone());
    }
    // Each queue of mq is a class, too, which nobody set.
    for entry in classes.iter().filter(|entry| entry.kind == "htb") {
        let text = qdisc::class_text(entry).to_string();
        nic.below_root.insert(NicKnob::Class(qdisc::id(entry.handle)).to_string(), text);
    }
    if nic.clsact {
        for direction in [Direction::Ingress, Direction::Egress] {
            let found = filter::list(live.route()?, interface, direction);
            let found =
                note(found, &format!("nic/{}/filter/{direction}", nic.name), missing).unwrap_or_default();
            nic.filters.extend(found.into_iter().map(|filter| Filter {
                direction,
                pref: filter.pref,
                text: filter.text,
                in_hw: filter.in_hw,
            }));
        }
    }
    Ok(())
}

fn queues(live: &mut Live, nic: &mut Nic, interface: u32, missing: &mut Vec<String>) -> Result<(), Refusal> {
    let files = live.files.clone();
    let name = nic.name.clone();
    let numbers = |prefix: &str| -> Cpus {
        let names = files.names(&format!("sys/class/net/{name}/queues"));
        names.iter().filter_map(|queue| queue.strip_prefix(prefix)?.parse::<u32>().ok()).collect()
    };
    let all = numbers("rx-").with(&numbers("tx-"));
    let (generic, files_of) = live.generic()?;
    let napis = napi::of_queues(generic, files_of, &name, interface);
    let napis: BTreeMap<u32, napi::Napi> =
        note(napis, &format!("nic/{name}/napi"), missing).unwrap_or_default().into_iter().collect();
    let mut value = |knob: NicKnob| -> Option<String> {
        let knob = Knob::nic(&name, knob);
        let value = live.read(&knob);
        note(value, &knob.to_string(), missing).flatten().map(|value| value.to_string())
    };
    nic.threaded = value(NicKnob::Threaded).map(|text| text != "0");
    nic.defer_hard_irqs = value(NicKnob::DeferHardIrqs).and_then(|text| text.parse().ok());
    nic.gro_flush_timeout = value(NicKnob::GroFlushTimeout).and_then(|text| text.parse().ok());
    // Where the first queue has no moderation of its own, none has.
    let own = all.first().and_then(|first| value(NicKnob::Coalesce(Some(first))));
    let has_own = own.is_some_and(|text| !text.is_empty());
    for index in all.iter() {
        let cpus = |text: Option<String>| text.and_then(|text| text.parse().ok());
        let napi = napis.get(&index);
        let mut queue = Queue {
            index,
            napi: napi.map(|napi| napi.id),
            irq: napi.and_then(|napi| napi.irq).or_else(|| live::files::irq_by_name(&files, &name, index)),
            coalesce: if has_own { value(NicKnob::Coalesce(Some(index))) } else { None },
            rps_cpus: cpus(value(NicKnob::RpsCpus(index))),
            rps_flow_cnt: value(NicKnob::RpsFlowCount(index)).and_then(|text| text.parse().ok()),
            xps_cpus: cpus(value(NicKnob::XpsCpus(index))),
            xps_rxqs: cpus(value(NicKnob::XpsRxqs(index))),
            ..Queue::default()
        };
        if let Some(irq) = queue.irq {
            queue.irq_cpus = live::files::read_irq(&files, irq).ok();
            let effective = files.read(&format!("proc/irq/{irq}/effective_affinity_list"));
            queue.irq_effective = cpus(effective.ok());
        }
        if let Some(napi) = napi {
            let settings = napi.settings.iter().map(|(name, value)| ((*name).to_owned(), value.to_string()));
            queue.napi_settings = settings.collect();
            queue.napi_thread = napi.thread.and_then(thread);
        }
        nic.queues.push(queue);
    }
    Ok(())
}

/// None: it has ended meanwhile.
fn thread(tid: u32) -> Option<Thread> {
    Some(Thread {
        tid,
        cpus: threads::affinity(tid).ok()?,
        nice: threads::nice(tid).ok()?,
        scheduler: threads::scheduler(tid).ok()?,
    })
}

fn addresses(live: &mut Live, nics: &mut [Nic], missing: &mut Vec<String>) {
    let answers = live.route().and_then(|route| Ok((links::addresses(route)?, links::gateways(route)?)));
    let Some((addresses, gateways)) = note(answers, "addresses", missing) else { return };
    for nic in nics {
        let Ok(interface) = live::interface(&nic.name) else { continue };
        let own = addresses.iter().filter(|(number, ..)| *number == interface);
        nic.addresses = own.map(|(_, address, length)| links::address_text(*address, *length)).collect();
        let over = gateways.iter().filter(|(number, _)| *number == interface);
        nic.gateways = over.map(|(_, gateway)| gateway.to_string()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::live::files::made_up::Tree;

    #[test]
    fn a_session_goes_over_what_its_card_stands_on() {
        let file = |path: &'static str| (path, "");
        let tree = Tree::new(
            "way-down",
            &[
                file("sys/class/net/bond0.7/lower_bond0"),
                file("sys/class/net/bond0/lower_ens1"),
                file("sys/class/net/bond0/lower_ens2"),
                file("sys/class/net/bond0/upper_bond0.7"),
                file("sys/class/net/ens1/upper_bond0"),
                file("sys/class/net/ens2/ifindex"),
                file("sys/class/net/ens3/ifindex"),
            ],
        );
        let check = |name: &str, want: &[&str]| {
            assert_eq!(way_down(&tree.files(), name).iter().collect::<Vec<_>>(), want, "{name}");
        };
        check("bond0.7", &["bond0", "bond0.7", "ens1", "ens2"]);
        check("bond0", &["bond0", "ens1", "ens2"]);
        check("ens1", &["ens1"]);
        check("ens3", &["ens3"]);
    }

    #[test]
    fn groups_that_are_asked_for_have_the_files_that_they_have() {
        let root = "sys/fs/cgroup";
        let tree = Tree::new(
            "cpusets",
            &[
                (&format!("{root}/cgroup.controllers"), "cpuset\n"),
                (&format!("{root}/db/cpuset.cpus"), "2-3\n"),
                (&format!("{root}/db/cpuset.mems"), "\n"),
                (&format!("{root}/db/cpuset.cpus.partition"), "member\n"),
                (&format!("{root}/bare/cgroup.procs"), "\n"),
            ],
        );
        let wish = |group: &str| Match { cgroup: Some(group.to_owned()), ..Match::default() };
        let ask = Ask { processes: ["/db/", "bare", "gone", "/"].map(wish).into(), ..Ask::default() };
        let mut live = Live::below(&tree.files().path(""));
        let read = |live: &mut Live, version| {
            let (mut facts, mut missing) = (Facts::default(), Vec::new());
            facts.cgroup = Cgroup { cpuset_root: Some(format!("/{root}")), version, ..Cgroup::default() };
            groups(live, &mut facts, &ask, &mut missing);
            assert_eq!(missing, Vec::<String>::new());
            facts.cgroup.groups
        };
        let files = [(CPUS, "2-3"), (MEMS, ""), (PARTITION, "member")];
        let files = files.map(|(file, value)| (file.to_owned(), value.to_owned()));
        let want = [("bare".to_owned(), BTreeMap::new()), ("db".to_owned(), files.into())];
        assert_eq!(read(&mut live, Some(2)), want.into());
        assert_eq!(read(&mut live, Some(1)), BTreeMap::new());
    }
}
