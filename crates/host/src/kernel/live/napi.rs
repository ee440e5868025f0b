//! Queues, the NAPI instances that poll them, their settings, and their kernel threads.
//!
//! Ids change with link events, so they are looked up at every use. Source: Documentation/netlink/specs/netdev.yaml.

use std::ffi::CStr;

use super::errno::{gone, invalid, unsupported};
use super::files::Files;
use super::netlink::{Attributes, DUMP, Family, GENERIC_HEADER_SIZE, Netlink};
use super::{Live, threads};
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

/// A receive queue, and the instance that the driver says polls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Polled {
    pub(crate) interface: u32,
    pub(crate) queue: u32,
    pub(crate) napi: Option<u32>,
}

/// What there is in a network namespace.
#[derive(Debug)]
pub(crate) struct All {
    /// With their interfaces' numbers; by these and ids.
    pub(crate) napis: Vec<(u32, Napi)>,
    pub(crate) polled: Vec<Polled>,
}

/// All instances and all receive queues.
pub(crate) fn of_all(live: &mut Live) -> Result<All, Refusal> {
    let (netlink, _) = live.generic()?;
    let family = family(netlink)?;
    let replies = netlink.ask(&family.request(NAPI_GET, DUMP))?;
    let attributes = replies.iter().map(|reply| reply.split::<GENERIC_HEADER_SIZE>().1);
    let mut napis: Vec<(u32, Napi)> =
        attributes.filter_map(|of| Some((of.u32(NAPI_INTERFACE)?, napi(of)?))).collect();
    napis.sort_by_key(|(interface, napi)| (*interface, napi.id));
    let replies = netlink.ask(&family.request(QUEUE_GET, DUMP))?;
    let polled = replies.iter().filter_map(|reply| polled(reply.split::<GENERIC_HEADER_SIZE>().1)).collect();
    Ok(All { napis, polled })
}

/// The receive queue that an answer is about; none if it is about a transmit queue.
fn polled(attributes: Attributes<'_>) -> Option<Polled> {
    (attributes.u32(QUEUE_TYPE)? == TYPE_RX).then_some(())?;
    let (interface, queue) = (attributes.u32(QUEUE_INTERFACE)?, attributes.u32(QUEUE_ID)?);
    Some(Polled { interface, queue, napi: attributes.u32(QUEUE_NAPI) })
}

/// The name of an interface; none if it has gone.
pub(crate) fn card_of(interface: u32) -> Option<String> {
    let mut name = [0_u8; libc::IF_NAMESIZE];
    // SAFETY: there is room for as long a name as an interface can have, with its zero.
    let found = unsafe { libc::if_indextoname(interface, name.as_mut_ptr().cast()) };
    if found.is_null() {
        return None;
    }
    Some(CStr::from_bytes_until_nul(&name).ok()?.to_string_lossy().into_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of attributes as the kernel sends them: length, kind, number.
    fn sent(numbers: &[(u16, u32)]) -> Vec<u8> {
        let attribute = |(kind, number): &(u16, u32)| {
            [&8_u16.to_ne_bytes()[..], &kind.to_ne_bytes(), &number.to_ne_bytes()].concat()
        };
        numbers.iter().flat_map(attribute).collect()
    }

    #[test]
    fn an_instance_is_read_of_what_the_kernel_sends() {
        let read = |numbers: &[(u16, u32)]| napi(Attributes(&sent(numbers)));
        // As a veth says it, and as a card with interrupts and a polling thread does.
        let veth = read(&[(1, 4), (2, 513), (5, 0), (6, 0), (7, 0), (8, 0)]).unwrap();
        assert_eq!((veth.id, veth.irq, veth.thread, veth.settings.len()), (513, None, None, 4));
        let card = read(&[(1, 4), (2, 8193), (3, 40), (4, 77), (5, 2)]).unwrap();
        assert_eq!((card.id, card.irq, card.thread), (8193, Some(40), Some(77)));
        assert_eq!(card.settings, [("defer-hard-irqs", 2)]);
        assert_eq!(read(&[(1, 4), (3, 40)]), None, "without an id it is none");
        // Kinds of later kernels are passed over, and what is cut off is not there.
        assert_eq!(read(&[(99, 1), (2, 5)]).unwrap().id, 5);
        let bytes = sent(&[(1, 4), (2, 513)]);
        for end in 0..bytes.len() {
            assert_eq!(napi(Attributes(&bytes[..end])), None, "{end}");
        }
    }

    #[test]
    fn a_receive_queue_is_read_of_what_the_kernel_sends() {
        let read = |numbers: &[(u16, u32)]| polled(Attributes(&sent(numbers)));
        let queue = |napi| Some(Polled { interface: 4, queue: 1, napi });
        assert_eq!(read(&[(1, 1), (3, 0), (4, 8193), (2, 4)]), queue(Some(8193)));
        assert_eq!(read(&[(1, 1), (3, 0), (2, 4)]), queue(None), "a veth names no instance");
        assert_eq!(read(&[(1, 1), (3, 1), (4, 8193), (2, 4)]), None, "it sends");
        assert_eq!((read(&[(1, 1), (2, 4)]), read(&[(3, 0), (2, 4)]), read(&[])), (None, None, None));
    }

    #[test]
    fn loopback_has_a_name_and_what_has_gone_has_none() {
        assert_eq!(card_of(1).as_deref(), Some("lo"));
        assert_eq!((card_of(0), card_of(u32::MAX)), (None, None));
    }
}
