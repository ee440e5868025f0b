//! Queueing disciplines and classes: finding them, setting them, taking them away. How each kind is written is in [`super::kinds`].
//!
//! What lanes make has the handle `e7:`. A root that someone else made keeps its own: its text begins with `handle 1:`, so that
//! what is put back is what was there. What the kernel makes by itself has none (`mq`, `noqueue`) or a number above 8000:, which
//! is not kept.

use super::errno::{gone, invalid, unsupported};
use super::filter;
use super::kinds::{self, Place};
use super::netlink::{CREATE, DUMP, EXCLUSIVE, Message, Netlink, REPLACE, Reply, u32_at};
use crate::kernel::Cause;
use crate::knob::Direction;
use crate::{Refusal, Setting};

const NEW_QDISC: u16 = 36;
const DELETE_QDISC: u16 = 37;
const GET_QDISC: u16 = 38;
const NEW_CLASS: u16 = 40;
const DELETE_CLASS: u16 = 41;
const GET_CLASS: u16 = 42;

/// `struct tcmsg`: family u8, 3 bytes of nothing, interface i32, handle u32, parent u32, info u32.
pub(super) const TC_HEADER_SIZE: usize = 20;
const INTERFACE_OFFSET: usize = 4;
const HANDLE_OFFSET: usize = 8;
const PARENT_OFFSET: usize = 12;
pub(super) const INFO_OFFSET: usize = 16;

pub(super) const KIND: u16 = 1;
pub(super) const OPTIONS: u16 = 2;

const ROOT: u32 = 0xffff_ffff;
/// Parent of clsact and of ingress.
const CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = 0xffff_0000;
/// Ours.
const HANDLE: u32 = 0x00e7_0000;
/// From here on the kernel numbers by itself.
const HANDLE_AUTOMATIC: u32 = 0x8000_0000;

/// A qdisc or a class.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) handle: u32,
    pub(crate) parent: u32,
    pub(crate) kind: String,
    /// The kind and its options.
    pub(crate) text: String,
}

/// A tc request about an interface.
pub(super) fn request(kind: u16, flags: u16, interface: u32, handle: u32, parent: u32, info: u32) -> Message {
    let header = [0, interface, handle, parent, info].map(u32::to_ne_bytes).concat();
    Message::new(kind, flags, &header)
}

fn entries(netlink: &mut Netlink, kind: u16, place: Place, interface: u32) -> Result<Vec<Entry>, Refusal> {
    let replies = netlink.ask(&request(kind, DUMP, interface, 0, 0, 0))?;
    let entry = |reply: &Reply| {
        let (header, attributes) = reply.split::<TC_HEADER_SIZE>();
        // Kernels that don't filter tell those of all interfaces.
        (u32_at(&header, INTERFACE_OFFSET) == interface).then(|| {
            let kind = attributes.text(KIND).unwrap_or_default();
            let options = attributes.find(OPTIONS).unwrap_or_default();
            Entry {
                handle: u32_at(&header, HANDLE_OFFSET),
                parent: u32_at(&header, PARENT_OFFSET),
                text: kinds::text(place, &kind, options),
                kind,
            }
        })
    };
    Ok(replies.iter().filter_map(entry).collect())
}

pub(crate) fn qdiscs(netlink: &mut Netlink, interface: u32) -> Result<Vec<Entry>, Refusal> {
    entries(netlink, GET_QDISC, Place::Qdisc, interface)
}

pub(crate) fn classes(netlink: &mut Netlink, interface: u32) -> Result<Vec<Entry>, Refusal> {
    entries(netlink, GET_CLASS, Place::Class, interface)
}

/// `e7:10`: two hexadecimal numbers of 16 bits.
pub(super) fn parse_id(text: &str) -> Result<u32, Refusal> {
    let half = |text: &str| if text.is_empty() { Ok(0) } else { u16::from_str_radix(text, 16) };
    let parsed = text
        .split_once(':')
        .and_then(|(major, minor)| Some(u32::from(half(major).ok()?) << 16 | u32::from(half(minor).ok()?)));
    parsed.ok_or_else(|| invalid(format!("'{text}' is no id like e7:10")))
}

/// The text that [`parse_id`] reads.
pub(crate) fn id(id: u32) -> String {
    let (major, minor) = (id >> 16, id & 0xffff);
    if minor == 0 { format!("{major:x}:") } else { format!("{major:x}:{minor:x}") }
}

/// The handle that a root of this kind gets when none is said.
fn own_handle(kind: &str) -> u32 {
    if kinds::is_default(kind) { 0 } else { HANDLE }
}

/// The root, as [`crate::knob::NicKnob::Root`] writes it.
pub(crate) fn root_text(entries: &[Entry]) -> Option<Setting> {
    let root = entries.iter().find(|entry| entry.parent == ROOT)?;
    let is_own = root.handle == own_handle(&root.kind)
        || root.handle >= HANDLE_AUTOMATIC && !kinds::has_classes(&root.kind);
    if is_own {
        return Some(Setting::new(&root.text));
    }
    Some(Setting::new(format!("handle {} {}", id(root.handle), root.text)))
}

pub(super) fn read_root(netlink: &mut Netlink, interface: u32) -> Result<Option<Setting>, Refusal> {
    Ok(root_text(&qdiscs(netlink, interface)?))
}

/// A default (`mq`, `noqueue`, `pfifo_fast`, `fq_codel` where it is the system's) comes back when the root goes; only what differs
/// from that is set.
pub(super) fn write_root(
    netlink: &mut Netlink,
    interface: u32,
    value: Option<&Setting>,
) -> Result<(), Refusal> {
    let now = qdiscs(netlink, interface)?;
    if let Some(root) = now.iter().find(|entry| entry.parent == ROOT)
        && root.handle != 0
    {
        netlink.ask(&request(DELETE_QDISC, 0, interface, 0, ROOT, 0))?;
    }
    let Some(value) = value else { return Ok(()) };
    if read_root(netlink, interface)?.as_ref() == Some(value) {
        return Ok(());
    }
    let text = value.as_str();
    let (handle, text) = match text.strip_prefix("handle ") {
        Some(rest) => {
            let (handle, text) = rest.split_once(' ').unwrap_or((rest, ""));
            (parse_id(handle)?, text)
        }
        None => (own_handle(text.split(' ').next().unwrap_or_default()), text),
    };
    add(
        netlink,
        NEW_QDISC,
        Place::Qdisc,
        request(NEW_QDISC, CREATE | REPLACE, interface, handle, ROOT, 0),
        text,
    )
}

/// Puts kind and options behind the header, and asks.
fn add(
    netlink: &mut Netlink,
    what: u16,
    place: Place,
    mut request: Message,
    text: &str,
) -> Result<(), Refusal> {
    let kind = kinds::put(place, &mut request, text)?;
    netlink.ask(&request).map(|_| ()).map_err(|refusal| explained(refusal, what, kind))
}

/// The kernel's refusal with what it means for this kind.
fn explained(mut refusal: Refusal, what: u16, kind: &str) -> Refusal {
    // `hw 1` is an invalid value where the driver offloads nothing (`mqprio_parse_opt`), else not supported.
    let has_no_sets = refusal.cause == Cause::Unsupported || refusal.reason.contains("hardware offload");
    if refusal.cause == Cause::Gone && refusal.reason.contains("kind is unknown") {
        refusal.cause = Cause::Unsupported;
        refusal.reason += &format!(": this kernel has no {kind} (module sch_{kind})");
    } else if what == NEW_QDISC && kind == "mqprio" && has_no_sets {
        refusal.cause = Cause::Unsupported;
        refusal.reason += ": the driver has no queue sets in hardware; `hw 0` does it in the kernel alone";
    }
    refusal
}

pub(super) fn read_clsact(netlink: &mut Netlink, interface: u32) -> Result<Option<Setting>, Refusal> {
    let at_edge = qdiscs(netlink, interface)?.into_iter().find(is_at_edge);
    Ok(at_edge.map(|entry| Setting::new(entry.kind)))
}

/// `clsact`, or `ingress` where someone had that.
pub(super) fn write_clsact(
    netlink: &mut Netlink,
    interface: u32,
    value: Option<&Setting>,
) -> Result<(), Refusal> {
    let Some(value) = value else {
        // The kernel would take filters along, and those that are left are others'.
        for direction in [Direction::Ingress, Direction::Egress] {
            if let Some(filter) = filter::list(netlink, interface, direction)?.first() {
                return Err(Refusal::new(
                    Cause::Busy,
                    format!(
                        "filters of others hang there, such as {direction} pref {}: it stays",
                        filter.pref
                    ),
                ));
            }
        }
        return netlink.ask(&request(DELETE_QDISC, 0, interface, CLSACT_HANDLE, CLSACT, 0)).map(|_| ());
    };
    if !matches!(value.as_str(), "clsact" | "ingress") {
        return Err(invalid(format!("'{value}' can't hang there: clsact or ingress")));
    }
    let request = request(NEW_QDISC, CREATE | EXCLUSIVE, interface, CLSACT_HANDLE, CLSACT, 0);
    add(netlink, NEW_QDISC, Place::Qdisc, request, value.as_str())
}

pub(super) fn read_class(
    netlink: &mut Netlink,
    interface: u32,
    name: &str,
) -> Result<Option<Setting>, Refusal> {
    let wanted = parse_id(name)?;
    let found = classes(netlink, interface)?.into_iter().find(|entry| entry.handle == wanted);
    Ok(found.map(|entry| class_text(&entry)))
}

/// `parent e7: htb rate 1Gbit …`. A class right below the root's qdisc is, to the kernel, a child of the root.
pub(crate) fn class_text(entry: &Entry) -> Setting {
    let parent = if entry.parent == ROOT { entry.handle & 0xffff_0000 } else { entry.parent };
    Setting::new(format!("parent {} {}", id(parent), entry.text))
}

pub(super) fn write_class(
    netlink: &mut Netlink,
    interface: u32,
    name: &str,
    value: Option<&Setting>,
) -> Result<(), Refusal> {
    let handle = parse_id(name)?;
    let Some(value) = value else {
        return netlink.ask(&request(DELETE_CLASS, 0, interface, handle, 0, 0)).map(|_| ());
    };
    let mut words = value.as_str().splitn(3, ' ');
    let (Some("parent"), Some(parent), Some(text)) = (words.next(), words.next(), words.next()) else {
        return Err(invalid(format!("'{value}' is not like 'parent e7: htb rate 1Gbit ceil 1Gbit'")));
    };
    let parent = parse_id(parent)?;
    // HTB would hang it below the root instead, and say nothing.
    let is_class = parent & 0xffff != 0;
    if is_class && !classes(netlink, interface)?.iter().any(|entry| entry.handle == parent) {
        return Err(gone(format!("there is no class {} to hang it below", id(parent))));
    }
    let request = request(NEW_CLASS, CREATE, interface, handle, parent, 0);
    add(netlink, NEW_CLASS, Place::Class, request, text)
}

pub(super) fn read_qdisc(
    netlink: &mut Netlink,
    interface: u32,
    parent: &str,
) -> Result<Option<Setting>, Refusal> {
    let parent = parse_id(parent)?;
    let found = qdiscs(netlink, interface)?.into_iter().find(|entry| entry.parent == parent);
    Ok(found.filter(is_below_root).map(|entry| Setting::new(entry.text)))
}

/// What a class has of itself (a queue without handle) is nothing that anyone set.
fn is_set(entry: &Entry) -> bool {
    entry.handle != 0
}

/// Whether someone hung it below a class or a queue.
pub(crate) fn is_below_root(entry: &Entry) -> bool {
    is_set(entry) && entry.parent != ROOT && !is_at_edge(entry)
}

/// Whether filters at the edges hang below it.
pub(crate) fn is_at_edge(entry: &Entry) -> bool {
    entry.parent == CLSACT
}

pub(super) fn write_qdisc(
    netlink: &mut Netlink,
    interface: u32,
    parent: &str,
    value: Option<&Setting>,
) -> Result<(), Refusal> {
    let parent_id = parse_id(parent)?;
    let Some(value) = value else {
        return netlink.ask(&request(DELETE_QDISC, 0, interface, 0, parent_id, 0)).map(|_| ());
    };
    let is_there = qdiscs(netlink, interface)?.iter().any(|entry| entry.handle == parent_id & 0xffff_0000);
    if !is_there {
        return Err(gone(format!(
            "there is no qdisc {} to hang it below: set the root first",
            id(parent_id & 0xffff_0000)
        )));
    }
    add(
        netlink,
        NEW_QDISC,
        Place::Qdisc,
        request(NEW_QDISC, CREATE | REPLACE, interface, 0, parent_id, 0),
        value.as_str(),
    )
}

/// Options of a kind that can be read and not written.
pub(super) fn read_only(kind: &str) -> Refusal {
    unsupported(format!(
        "a queueing discipline of kind {kind} can't be made here: it was someone else's, and would not come back as it was"
    ))
}

/// Options within a request, for tests.
#[cfg(test)]
pub(super) fn options_of(message: &Message) -> (String, &[u8]) {
    let attributes = message.attributes(TC_HEADER_SIZE);
    (attributes.text(KIND).unwrap(), attributes.find(OPTIONS).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(handle: u32, kind: &str, text: &str) -> String {
        let entry = Entry { handle, parent: ROOT, kind: kind.to_owned(), text: text.to_owned() };
        root_text(&[entry]).unwrap().to_string()
    }

    #[test]
    fn a_root_of_someone_else_keeps_its_handle() {
        assert_eq!(root(0, "mq", "mq"), "mq");
        assert_eq!(root(HANDLE, "htb", "htb default 10"), "htb default 10");
        assert_eq!(root(0x1_0000, "htb", "htb default 10"), "handle 1: htb default 10");
        assert_eq!(root(0x8001_0000, "htb", "htb default 10"), "handle 8001: htb default 10");
        assert_eq!(root(0x8001_0000, "tbf", "tbf rate 1Gbit"), "tbf rate 1Gbit", "nothing hangs below it");
        assert_eq!(root(HANDLE, "mq", "mq"), "handle e7: mq");
        assert_eq!(root_text(&[]), None);
    }

    #[test]
    fn what_a_kernel_or_card_has_not_is_unsupported_with_what_to_do() {
        let check = |cause, reason: &str, kind: &str, want: Cause, word: &str| {
            let refusal = explained(Refusal::new(cause, reason), NEW_QDISC, kind);
            assert!(refusal.cause == want && refusal.reason.contains(word), "{refusal:?}");
        };
        // Linux 7.2 on a card of virtio, a driver with other offloads, a kernel without the module.
        let offload = "the kernel says: Device does not support hardware offload (EINVAL)";
        check(Cause::Invalid, offload, "mqprio", Cause::Unsupported, "hw 0");
        check(Cause::Unsupported, "(EOPNOTSUPP)", "mqprio", Cause::Unsupported, "hw 0");
        check(
            Cause::Gone,
            "the kernel says: Specified qdisc kind is unknown",
            "fq",
            Cause::Unsupported,
            "sch_fq",
        );
        check(Cause::Invalid, "(EINVAL)", "mqprio", Cause::Invalid, "(EINVAL)");
        check(Cause::Invalid, offload, "taprio", Cause::Invalid, "offload");
    }

    #[test]
    fn ids_are_hexadecimal() {
        for (text, number) in
            [("e7:10", 0x00e7_0010), ("e7:", 0x00e7_0000), ("1:ffff", 0x0001_ffff), ("8001:", 0x8001_0000)]
        {
            assert_eq!((parse_id(text).unwrap(), id(number).as_str()), (number, text));
        }
        for odd in ["", "e7", "x:1", "e7:10000", "e7:1:1"] {
            assert!(parse_id(odd).is_err(), "{odd}");
        }
    }
}
