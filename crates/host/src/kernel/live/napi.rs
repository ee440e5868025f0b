//! Queues, the NAPI instances that poll them, their settings, and their kernel threads.
//!
//! Ids change with link events, so they are looked up at every use. Source: Documentation/netlink/specs/netdev.yaml.

use super::errno::{gone, invalid, unsupported};
use super::files::Files;
use super::netlink::{Attributes, DUMP, Family, GENERIC_HEADER_SIZE, Netlink};
use super::threads;
use crate::{Cpus, Refusal, Setting};

const FAMILY: &str = "netdev";
const QUEUE_GET: u8 = 10;
const NAPI_GET: u8 = 11;
const NAPI_SET: u8 = 14;

const QUEUE_ID: u16 = 1;
const QUEUE_INTERFACE: u16 = 2;
const QUEUE_TYPE: u16 = 3;
const QUEUE_NAPI: u16 = 4;
const TYPE_RX: u32 = 0;

const NAPI_INTERFACE: u16 = 1;
const NAPI_ID: u16 = 2;
const NAPI_IRQ: u16 = 3;
const NAPI_PID: u16 = 4;

/// Settings of an instance, in the specification's names, and their attributes.
pub(crate) const SETTINGS: &[(&str, u16)] =
    &[("defer-hard-irqs", 5), ("gro-flush-timeout", 6), ("irq-suspend-timeout", 7), ("threaded", 8)];

/// One instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Napi {
    pub(crate) id: u32,
    pub(crate) irq: Option<u32>,
    /// The kernel thread that polls it.
    pub(crate) thread: Option<u32>,
    /// Those that this kernel has, by name.
    pub(crate) settings: Vec<(&'static str, u64)>,
}

fn family(netlink: &mut Netlink) -> Result<Family, Refusal> {
    Family::find(netlink, FAMILY)?.ok_or_else(|| {
        unsupported("this kernel does not tell which NAPI polls a queue: it has no netdev netlink (6.8)")
    })
}

/// The instance of each receive queue, by the queue's number; an instance that the driver ties to no queue is not there.
pub(crate) fn of_queues(
    netlink: &mut Netlink,
    files: &Files,
    nic: &str,
    interface: u32,
) -> Result<Vec<(u32, Napi)>, Refusal> {
    let family = family(netlink)?;
    let mut request = family.request(NAPI_GET, DUMP);
    request.put_u32(NAPI_INTERFACE, interface);
    let mut napis: Vec<Napi> = netlink
        .ask(&request)?
        .iter()
        .filter_map(|reply| napi(reply.split::<GENERIC_HEADER_SIZE>().1))
        .collect();
    napis.sort_unstable_by_key(|napi| napi.id);

    let mut request = family.request(QUEUE_GET, DUMP);
    request.put_u32(QUEUE_INTERFACE, interface);
    let replies = netlink.ask(&request)?;
    let attributes = replies.iter().map(|reply| reply.split::<GENERIC_HEADER_SIZE>().1);
    let mut queues: Vec<(u32, Option<u32>)> = attributes
        .filter(|queue| queue.u32(QUEUE_TYPE) == Some(TYPE_RX))
        .filter_map(|queue| Some((queue.u32(QUEUE_ID)?, queue.u32(QUEUE_NAPI))))
        .collect();
    queues.sort_unstable();
    // Virtual devices (veth) say nothing of ids, and make their instances in the order of their queues.
    let is_virtual = !files.has(&format!("sys/class/net/{nic}/device"));
    if is_virtual && queues.len() == napis.len() && queues.iter().all(|(_, id)| id.is_none()) {
        return Ok(queues.into_iter().map(|(queue, _)| queue).zip(napis).collect());
    }
    let named = |(queue, id): (u32, Option<u32>)| {
        Some((queue, napis.iter().find(|napi| Some(napi.id) == id)?.clone()))
    };
    Ok(queues.into_iter().filter_map(named).collect())
}

fn napi(attributes: Attributes<'_>) -> Option<Napi> {
    let setting = |(name, kind): &(&'static str, u16)| Some((*name, attributes.number(*kind)?));
    Some(Napi {
        id: attributes.u32(NAPI_ID)?,
        irq: attributes.u32(NAPI_IRQ),
        thread: attributes.u32(NAPI_PID),
        settings: SETTINGS.iter().filter_map(setting).collect(),
    })
}

/// The instance of one queue.
pub(crate) fn of_queue(
    netlink: &mut Netlink,
    files: &Files,
    nic: &str,
    interface: u32,
    queue: u32,
) -> Result<Napi, Refusal> {
    let napis = of_queues(netlink, files, nic, interface)?;
    napis.into_iter().find(|(number, _)| *number == queue).map(|(_, napi)| napi).ok_or_else(|| {
        gone(format!(
            "the kernel names no NAPI for queue {queue} of {nic}: the link may be down, the queue not there, the driver \
             too old to say, or the device (veth) may need GRO on to have one"
        ))
    })
}

pub(super) fn read_setting(napi: &Napi, name: &str) -> Result<Option<Setting>, Refusal> {
    kind_of(name)?;
    let value = napi.settings.iter().find(|(this, _)| *this == name).map(|(_, value)| *value);
    let value = value.ok_or_else(|| unsupported(format!("this kernel has no {name} per NAPI")))?;
    Ok(Some(Setting::new(value.to_string())))
}

pub(super) fn write_setting(
    netlink: &mut Netlink,
    napi: &Napi,
    name: &str,
    value: &Setting,
) -> Result<(), Refusal> {
    let kind = kind_of(name)?;
    let number: u32 = value
        .as_str()
        .parse()
        .map_err(|_| invalid(format!("'{value}' is no number from 0 to {}", u32::MAX)))?;
    let mut request = family(netlink)?.request(NAPI_SET, 0);
    request.put_u32(NAPI_ID, napi.id).put_u32(kind, number);
    netlink.ask(&request).map(|_| ())
}

fn kind_of(name: &str) -> Result<u16, Refusal> {
    let known = SETTINGS.iter().find(|(this, _)| *this == name).map(|(_, kind)| *kind);
    known.ok_or_else(|| {
        let names: Vec<&str> = SETTINGS.iter().map(|(name, _)| *name).collect();
        invalid(format!("a NAPI has no setting '{name}', only {}", names.join(", ")))
    })
}

/// `cpus 2 fifo 50`; none where no thread polls it.
pub(crate) fn read_thread(napi: &Napi) -> Result<Option<Setting>, Refusal> {
    let Some(tid) = napi.thread else { return Ok(None) };
    let text = format!("cpus {} {}", threads::affinity(tid)?, threads::scheduler(tid)?);
    Ok(Some(Setting::new(text)))
}

pub(super) fn write_thread(napi: &Napi, value: &Setting) -> Result<(), Refusal> {
    let tid = napi.thread.ok_or_else(|| gone("no kernel thread polls this queue: set `threaded` first"))?;
    let bad = || invalid(format!("'{value}' is not like 'cpus 2-3 other' or 'cpus 2 fifo 50'"));
    let mut words = value.words();
    if words.next() != Some("cpus") {
        return Err(bad());
    }
    let cpus: Cpus = words.next().ok_or_else(bad)?.parse().map_err(invalid)?;
    let policy: Vec<&str> = words.collect();
    threads::set_affinity(tid, &cpus)?;
    threads::set_scheduler(tid, &policy.join(" "))
}
