//! The machine's own kernel: every knob by netlink, ioctl, a system call or a file.
//!
//! Nothing is remembered between two calls but open sockets: what the kernel hands out anew (NAPI ids, interrupts, interface
//! numbers) is looked up at each. Sockets are of the network namespace of the thread that uses [`Live`] first; files of
//! /sys/class/net are of the namespace that /sys was mounted in, which `ip netns exec` sees to.

pub(crate) mod cpu;
pub(crate) mod devlink;
mod errno;
pub(crate) mod ethtool;
pub(crate) mod files;
pub(crate) mod filter;
pub(crate) mod ioctl;
mod kinds;
pub(crate) mod links;
pub(crate) mod napi;
mod netlink;
pub(crate) mod ntuple;
mod program;
pub(crate) mod qdisc;
pub(crate) mod routes;
pub(crate) mod rss;
pub(crate) mod services;
pub(crate) mod threads;
mod units;

use std::ffi::CString;
use std::path::Path;
use std::time::Duration;

use errno::{gone, invalid};
use files::Files;
use netlink::Netlink;

use super::{Cause, Kernel, Refusal};
use crate::cpus::Cpus;
use crate::knob::{Direction, Knob, NicKnob, Setting};

/// How long a card may take to say that a filter is in its hardware (the ice driver's notes: about five seconds).
const IN_HARDWARE_TRIES_COUNT: u32 = 50;
const IN_HARDWARE_PAUSE: Duration = Duration::from_millis(100);

/// The machine that this process runs on.
#[derive(Debug)]
pub struct Live {
    pub(crate) files: Files,
    route: Option<Netlink>,
    generic: Option<Netlink>,
}

impl Default for Live {
    fn default() -> Live {
        Live::new()
    }
}

impl Live {
    /// Sockets are opened when they are first needed.
    #[must_use]
    pub fn new() -> Live {
        Live::below(Path::new("/"))
    }

    /// With the files of a made-up tree; system calls, netlink and ioctls are this machine's.
    #[must_use]
    pub fn below(root: &Path) -> Live {
        Live { files: Files::below(root), route: None, generic: None }
    }

    /// The socket for links, queueing, routes and rules.
    pub(crate) fn route(&mut self) -> Result<&mut Netlink, Refusal> {
        if self.route.is_none() {
            self.route = Some(Netlink::open(netlink::ROUTE)?);
        }
        Ok(self.route.as_mut().expect("it was just opened"))
    }

    /// The socket for families that have names, and the files beside it.
    pub(crate) fn generic(&mut self) -> Result<(&mut Netlink, &Files), Refusal> {
        if self.generic.is_none() {
            self.generic = Some(Netlink::open(netlink::GENERIC)?);
        }
        Ok((self.generic.as_mut().expect("it was just opened"), &self.files))
    }

    fn read_nic(&mut self, nic: &str, knob: &NicKnob) -> Result<Option<Setting>, Refusal> {
        let interface = interface(nic)?;
        let on_off = |is_on| Some(Setting::new(ethtool::on_off(is_on)));
        match knob {
            NicKnob::Channels => {
                let channels = ethtool::channels(self.generic()?.0, nic)?;
                Ok(Some(Setting::new(channels.text())))
            }
            NicKnob::Rings => Ok(Some(ethtool::rings_text(&ethtool::rings(self.generic()?.0, nic)?))),
            NicKnob::Feature(name) => ethtool::feature(self.generic()?.0, nic, name).map(on_off),
            NicKnob::PrivateFlag(name) => ethtool::private_flag(self.generic()?.0, nic, name).map(on_off),
            NicKnob::Devlink(name) => {
                let (netlink, files) = self.generic()?;
                devlink::read(netlink, files, nic, name)
            }
            NicKnob::Coalesce(queue) => self.moderation(nic, *queue).map(Some),
            NicKnob::Indirection => rss::read(nic),
            NicKnob::Context(queues) => rss::read_context(self.generic()?.0, nic, queues),
            NicKnob::Ntuple(location) => {
                let contexts = self.contexts(nic)?;
                ntuple::read(nic, *location, &contexts)
            }
            NicKnob::Root => qdisc::read_root(self.route()?, interface),
            NicKnob::Clsact => qdisc::read_clsact(self.route()?, interface),
            NicKnob::Class(id) => qdisc::read_class(self.route()?, interface, id),
            NicKnob::Qdisc(parent) => qdisc::read_qdisc(self.route()?, interface, parent),
            NicKnob::Filter(direction, pref) => filter::read(self.route()?, interface, *direction, *pref),
            NicKnob::IrqAffinity(queue) => {
                let irq = self.irq(nic, interface, *queue)?;
                Ok(Some(Setting::new(files::read_irq(&self.files, irq)?.to_string())))
            }
            NicKnob::RpsCpus(_)
            | NicKnob::RpsFlowCount(_)
            | NicKnob::XpsCpus(_)
            | NicKnob::XpsRxqs(_)
            | NicKnob::Threaded
            | NicKnob::DeferHardIrqs
            | NicKnob::GroFlushTimeout => files::read_queue_file(&self.files, nic, knob),
            NicKnob::Napi(queue, name) => napi::read_setting(&self.napi(nic, interface, *queue)?, name),
            NicKnob::NapiThread(queue) => napi::read_thread(&self.napi(nic, interface, *queue)?),
        }
    }

    fn write_nic(&mut self, nic: &str, knob: &NicKnob, value: Option<&Setting>) -> Result<(), Refusal> {
        let interface = interface(nic)?;
        match knob {
            NicKnob::Root => return qdisc::write_root(self.route()?, interface, value),
            NicKnob::Clsact => return qdisc::write_clsact(self.route()?, interface, value),
            NicKnob::Class(id) => return qdisc::write_class(self.route()?, interface, id, value),
            NicKnob::Qdisc(parent) => return qdisc::write_qdisc(self.route()?, interface, parent, value),
            NicKnob::Filter(direction, pref) => {
                filter::write(self.route()?, interface, *direction, *pref, value)?;
                return self.wait_for_hardware(interface, *direction, *pref);
            }
            NicKnob::Ntuple(location) => {
                let contexts = self.contexts(nic)?;
                return ntuple::write(nic, *location, value, &contexts);
            }
            NicKnob::Context(queues) => {
                return rss::write_context(self.generic()?.0, nic, queues, value);
            }
            _ => {}
        }
        let value = set(value)?;
        match knob {
            NicKnob::Channels => ethtool::set_channels(self.generic()?.0, nic, value),
            NicKnob::Rings => ethtool::set_rings(self.generic()?.0, nic, value),
            NicKnob::Feature(name) => {
                ethtool::set_feature(self.generic()?.0, nic, name, ethtool::parse_on_off(value)?)
            }
            NicKnob::PrivateFlag(name) => {
                ethtool::set_private_flag(self.generic()?.0, nic, name, ethtool::parse_on_off(value)?)
            }
            NicKnob::Devlink(name) => {
                let (netlink, files) = self.generic()?;
                devlink::write(netlink, files, nic, name, value)
            }
            NicKnob::Coalesce(queue) => {
                let netlink = self.generic()?.0;
                ethtool::check_moderation(nic, value, &ethtool::coalesce(netlink, nic)?)?;
                match queue {
                    None => ethtool::set_coalesce(netlink, nic, value),
                    Some(queue) => ioctl::set_queue_coalesce(nic, *queue, value),
                }
            }
            NicKnob::Indirection => rss::write(nic, value),
            NicKnob::IrqAffinity(queue) => {
                let irq = self.irq(nic, interface, *queue)?;
                let cpus: Cpus = value.as_str().parse().map_err(invalid)?;
                files::write_irq(&self.files, irq, &cpus)
            }
            NicKnob::Napi(queue, name) => {
                let napi = self.napi(nic, interface, *queue)?;
                napi::write_setting(self.generic()?.0, &napi, name, value)
            }
            NicKnob::NapiThread(queue) => napi::write_thread(&self.napi(nic, interface, *queue)?, value),
            _ => files::write_queue_file(&self.files, nic, knob, value),
        }
    }

    /// Moderation that can be set. The driver virtio_net tells zeros of a card that has none, and takes nothing but zeros.
    fn moderation(&mut self, nic: &str, queue: Option<u32>) -> Result<Setting, Refusal> {
        let bit = if queue.is_some() { files::VIRTIO_QUEUE_MODERATION } else { files::VIRTIO_MODERATION };
        if !files::virtio_offers(&self.files, nic, bit) {
            return Err(errno::unsupported(format!(
                "{nic} has no moderation: what emulates the card does not offer it (virtio feature {bit})"
            )));
        }
        let card = ethtool::coalesce(self.generic()?.0, nic)?;
        match queue {
            None => Ok(card),
            Some(queue) => Ok(ethtool::known_moderation(&ioctl::queue_coalesce(nic, queue)?, &card)),
        }
    }

    fn contexts(&mut self, nic: &str) -> Result<std::collections::BTreeMap<u32, Vec<u32>>, Refusal> {
        Ok(rss::contexts(self.generic()?.0, nic)?.unwrap_or_default())
    }

    fn napi(&mut self, nic: &str, interface: u32, queue: u32) -> Result<napi::Napi, Refusal> {
        let (netlink, files) = self.generic()?;
        napi::of_queue(netlink, files, nic, interface, queue)
    }

    /// The interrupt of a queue: as the kernel says, else by the names of the device's interrupts.
    pub(crate) fn irq(&mut self, nic: &str, interface: u32, queue: u32) -> Result<u32, Refusal> {
        let said = self.napi(nic, interface, queue).ok().and_then(|napi| napi.irq);
        said.or_else(|| files::irq_by_name(&self.files, nic, queue)).ok_or_else(|| {
            errno::unsupported(format!(
                "queue {queue} of {nic} has no interrupt that could be found: neither the kernel nor the names in \
                 /proc/irq tell (a virtual device has none)"
            ))
        })
    }

    /// A filter that the card alone shall do counts once the card does it.
    #[expect(clippy::disallowed_methods, reason = "the card is waited for; nothing else is done meanwhile")]
    fn wait_for_hardware(&mut self, interface: u32, direction: Direction, pref: u32) -> Result<(), Refusal> {
        for _ in 0..IN_HARDWARE_TRIES_COUNT {
            match filter::is_in_hw(self.route()?, interface, direction, pref)? {
                Some(false) => std::thread::sleep(IN_HARDWARE_PAUSE),
                Some(true) | None => return Ok(()),
            }
        }
        Err(Refusal::new(
            Cause::Failed,
            "not offloaded: the kernel took the filter, and the card does not say that it does it. Look at `tc -s filter show` \
             and the kernel's log; the card may have no room, or lack its package (DDP)",
        ))
    }
}

/// Whose absence can't be asked for.
fn set(value: Option<&Setting>) -> Result<&Setting, Refusal> {
    value.ok_or_else(|| invalid("this can be set to another value, not taken away"))
}

/// The number of an interface, this time.
///
/// # Errors
/// [`Cause::Gone`] where there is none of that name in this network namespace.
pub(crate) fn interface(nic: &str) -> Result<u32, Refusal> {
    files::check_name(nic)?;
    let name = CString::new(nic).expect("the name was checked");
    // SAFETY: the name ends with a zero and lives through the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(gone(format!("there is no interface {nic} (in this network namespace)"))),
        number => Ok(number),
    }
}

impl Kernel for Live {
    fn read(&mut self, knob: &Knob) -> Result<Option<Setting>, Refusal> {
        let answer = match knob {
            Knob::Sysctl { name } => files::read_sysctl(&self.files, name),
            Knob::Service { name } => services::read(&self.files, name),
            Knob::Cgroup { group, file } => files::read_cgroup(&self.files, group, file),
            Knob::Cpu { cpu, what } => cpu::read(&self.files, *cpu, *what).map(Some),
            Knob::Thread { pid, start, tid, what } => threads::check(&self.files, *pid, *start, *tid)
                .and_then(|()| threads::read(*tid, *what))
                .map(Some),
            Knob::Rule { family, pref } => {
                self.route().and_then(|route| routes::read_rule(route, *family, *pref))
            }
            Knob::Route { family, table, destination } => {
                self.route().and_then(|route| routes::read_route(route, *family, *table, destination))
            }
            Knob::Nic { nic, knob } => self.read_nic(nic, knob),
        };
        answer.map_err(|refusal| Refusal::new(refusal.cause, format!("{knob}: {}", refusal.reason)))
    }

    fn write(&mut self, knob: &Knob, setting: Option<&Setting>) -> Result<(), Refusal> {
        let answer = match knob {
            Knob::Sysctl { name } => {
                set(setting).and_then(|value| files::write_sysctl(&self.files, name, value))
            }
            Knob::Service { name } => {
                set(setting).and_then(|value| services::write(&self.files, name, value))
            }
            Knob::Cgroup { group, file } => files::write_cgroup(&self.files, group, file, setting),
            Knob::Cpu { cpu, what } => {
                set(setting).and_then(|value| cpu::write(&self.files, *cpu, *what, value))
            }
            Knob::Thread { pid, start, tid, what } => set(setting).and_then(|value| {
                threads::check(&self.files, *pid, *start, *tid)?;
                threads::write(*tid, *what, value)
            }),
            Knob::Rule { family, pref } => {
                self.route().and_then(|route| routes::write_rule(route, *family, *pref, setting))
            }
            Knob::Route { family, table, destination } => self
                .route()
                .and_then(|route| routes::write_route(route, *family, *table, destination, setting)),
            Knob::Nic { nic, knob } => self.write_nic(nic, knob, setting),
        };
        answer.map_err(|refusal| {
            let wish = setting.map_or_else(|| "nothing".to_owned(), Setting::to_string);
            Refusal::new(refusal.cause, format!("{knob} = {wish}: {}", refusal.reason))
        })
    }

    fn boot_id(&mut self) -> Result<String, Refusal> {
        self.files.read("proc/sys/kernel/random/boot_id")
    }
}
