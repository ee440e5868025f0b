//! Where the program is attached: the edge at which the kernel takes over what a card has received.
//!
//! As a link (Linux 6.6), which the kernel takes away when its descriptor is closed; or as a filter of `tc`, whose handle is the
//! process that set it, so that one left behind by a process that was killed is known and taken away by the next.

use std::ffi::{CString, c_int};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use netlink_bindings::tc::{
    OpDelqdiscDo, OpDeltfilterDo, OpGettfilterDump, OpNewqdiscDo, OpNewtfilterDo, OptionsMsg, Tcmsg,
};

use crate::bpf::{Program, refusal};
use crate::kernel::{Cause, Refusal};

use super::Link;

/// The program's name, by which it is known again.
pub(super) const NAME: &str = "xl_witness";
/// The filter's preference: before those of lanes and of most people, since a filter may end the matter for those behind it.
pub(super) const PREFERENCE: u32 = 7;

/// Numbers of linux/pkt_sched.h.
const CLSACT_HANDLE: u32 = 0xffff_0000;
const CLSACT_PARENT: u32 = 0xffff_fff1;
const INGRESS: u32 = 0xffff_fff2;
const EGRESS: u32 = 0xffff_fff3;
/// TCA_BPF_FLAG_ACT_DIRECT: what the program returns is what is done.
const DIRECT_ACTION: u32 = 1;
/// TCA_CLS_FLAGS_SKIP_HW: no card is asked to do it.
const SKIP_HW: u32 = 1;
/// ETH_P_ALL in the byte order of the wire, as the low half of a filter's info.
const ALL_PROTOCOLS: u32 = 0x0300;

/// Message types of linux/rtnetlink.h.
const NEW_QDISC: u16 = 36;
const DEL_QDISC: u16 = 37;
const NEW_FILTER: u16 = 44;
const DEL_FILTER: u16 = 45;
const GET_FILTER: u16 = 46;
const FLAGS_NEW: u16 = flags(libc::NLM_F_CREATE | libc::NLM_F_EXCL);

const fn flags(of: c_int) -> u16 {
    assert!(0 <= of && of <= 0xffff);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range, as asserted")]
    let bits = of as u16;
    bits
}

/// What is attached, and how it goes.
#[derive(Debug)]
pub(super) enum Hook {
    /// By being closed.
    Link(#[expect(dead_code, reason = "it is held to be closed")] Link),
    /// By a message.
    Filter(Filter),
}

/// A filter that was set.
#[derive(Debug)]
pub(super) struct Filter {
    edge: Edge,
    handle: u32,
    /// Whether clsact was put there for it.
    made_clsact: bool,
}

impl Hook {
    /// Takes it away.
    pub(super) fn remove(self) -> Result<(), Refusal> {
        match self {
            Hook::Link(_) => Ok(()),
            Hook::Filter(filter) => filter.remove(),
        }
    }
}

/// A card's edge, by number: another card may get its name.
#[derive(Debug)]
pub(super) struct Edge {
    nic: String,
    ifindex: c_int,
    socket: OwnedFd,
}

impl Edge {
    /// Of the card of this name.
    pub(super) fn of(nic: &str) -> Result<Edge, Refusal> {
        let gone = || Refusal::new(Cause::Gone, format!("there is no network interface '{nic}'"));
        let name = CString::new(nic).map_err(|_| gone())?;
        // SAFETY: the name ends with its zero and is only read.
        let ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) };
        let ifindex = c_int::try_from(ifindex).ok().filter(|index| *index > 0).ok_or_else(gone)?;
        let failed = |error: io::Error| Refusal::new(Cause::Failed, format!("can't open netlink: {error}"));
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: no address is involved.
        let socket = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
        if socket < 0 {
            return Err(failed(io::Error::last_os_error()));
        }
        // SAFETY: just made, and ours alone.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        Ok(Edge { nic: nic.to_owned(), ifindex, socket })
    }

    /// Attaches as a link.
    pub(super) fn link(&self, program: &Program) -> Result<Link, Refusal> {
        let ifindex = self.ifindex.unsigned_abs();
        program.attach_ingress(ifindex).map_err(|error| match error.raw_os_error() {
            // An older kernel doesn't know the place, or links at all.
            Some(libc::EINVAL | libc::EOPNOTSUPP) => Refusal::new(
                Cause::Unsupported,
                "this kernel has no BPF links at a card's edge (Linux 6.6 has)".to_owned(),
            ),
            _ => refusal(&format!("attach a BPF program to {}", self.nic), &error),
        })
    }

    /// Attaches as a filter of clsact, which is put there where it isn't. `is_alive` tells of a process whether it runs:
    /// filters of those that don't are taken away.
    pub(super) fn filter(
        self,
        program: &Program,
        handle: u32,
        is_alive: impl Fn(u32) -> bool,
    ) -> Result<Hook, Refusal> {
        let made_clsact = match self.clsact(NEW_QDISC, FLAGS_NEW) {
            Ok(()) => true,
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => false,
            Err(error) => return Err(self.refused("add clsact to", &error)),
        };
        let filter = Filter { edge: self, handle, made_clsact };
        let edge = &filter.edge;
        for left in edge.filters(INGRESS)?.into_iter().filter(|it| it.is_witness) {
            if left.handle == handle || !is_alive(left.handle) {
                edge.remove_filter(left.handle)
                    .map_err(|error| edge.refused("take away a filter that was left at", &error))?;
            }
        }
        let mut body = Vec::new();
        OpNewtfilterDo::encode_request(&mut body, &edge.filter_header(handle))
            .push_kind(c"bpf")
            .nested_options_bpf()
            .push_fd(program.fd())
            .push_name(&CString::new(NAME).expect("a constant without zeros"))
            .push_flags(DIRECT_ACTION)
            .push_flags_gen(SKIP_HW)
            .end_nested();
        match edge.ask(NEW_FILTER, FLAGS_NEW, &body) {
            Ok(_) => Ok(Hook::Filter(filter)),
            Err(error) => {
                let problem = edge.refused("add a filter to", &error);
                filter.remove_clsact()?;
                Err(problem)
            }
        }
    }

    fn filter_header(&self, handle: u32) -> Tcmsg {
        let info = PREFERENCE << 16 | ALL_PROTOCOLS;
        Tcmsg { ifindex: self.ifindex, handle, parent: INGRESS, info, ..Tcmsg::default() }
    }

    fn clsact(&self, message: u16, flags: u16) -> io::Result<()> {
        let header =
            Tcmsg { ifindex: self.ifindex, handle: CLSACT_HANDLE, parent: CLSACT_PARENT, ..Tcmsg::default() };
        let mut body = Vec::new();
        match message {
            NEW_QDISC => drop(OpNewqdiscDo::encode_request(&mut body, &header).push_kind(c"clsact")),
            _ => drop(OpDelqdiscDo::encode_request(&mut body, &header)),
        }
        self.ask(message, flags, &body).map(drop)
    }

    fn remove_filter(&self, handle: u32) -> io::Result<()> {
        let mut body = Vec::new();
        drop(OpDeltfilterDo::encode_request(&mut body, &self.filter_header(handle)).push_kind(c"bpf"));
        self.ask(DEL_FILTER, 0, &body).map(drop)
    }

    /// The filters at an edge.
    fn filters(&self, parent: u32) -> Result<Vec<Seen>, Refusal> {
        let header = Tcmsg { ifindex: self.ifindex, parent, ..Tcmsg::default() };
        let mut body = Vec::new();
        drop(OpGettfilterDump::encode_request(&mut body, &header));
        let replies = self
            .ask(GET_FILTER, flags(libc::NLM_F_DUMP), &body)
            .map_err(|error| self.refused("read the filters of", &error))?;
        let seen = replies.iter().map(|reply| {
            let (header, attributes) = OpNewtfilterDo::decode_request(reply);
            let is_witness = header.info >> 16 == PREFERENCE
                && matches!(attributes.get_options(), Ok(OptionsMsg::Bpf(bpf))
                    if bpf.get_name().is_ok_and(|name| name.to_bytes() == NAME.as_bytes()));
            Seen { handle: header.handle, is_witness }
        });
        // A preference is listed once for itself, without a handle.
        Ok(seen.filter(|filter| filter.handle != 0).collect())
    }

    fn refused(&self, what: &str, error: &io::Error) -> Refusal {
        let nic = &self.nic;
        match error.raw_os_error() {
            Some(libc::EPERM) => {
                Refusal::new(Cause::Forbidden, format!("not allowed to {what} {nic}: it takes CAP_NET_ADMIN"))
            }
            Some(libc::ENODEV) => {
                Refusal::new(Cause::Gone, format!("can't {what} {nic}: the interface is gone"))
            }
            Some(libc::ENOENT) => Refusal::new(
                Cause::Unsupported,
                format!("can't {what} {nic}: this kernel has no clsact or no cls_bpf ({error})"),
            ),
            _ => Refusal::new(Cause::Failed, format!("can't {what} {nic}: {error}")),
        }
    }

    /// Sends a request and collects the replies' bodies until it is acknowledged.
    fn ask(&self, message: u16, more: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        const HEADER: usize = 16;
        let request = flags(libc::NLM_F_REQUEST | libc::NLM_F_ACK) | more;
        let size = u32::try_from(HEADER + body.len()).map_err(io::Error::other)?;
        let mut bytes = size.to_ne_bytes().to_vec();
        bytes.extend(message.to_ne_bytes());
        bytes.extend(request.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(body);
        // SAFETY: as many bytes are read as there are.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut replies = Vec::new();
        let mut buffer = vec![0_u8; 64 << 10];
        loop {
            let room = buffer.len();
            // SAFETY: as many bytes are written as there is room for.
            let got = unsafe { libc::recv(self.socket.as_raw_fd(), buffer.as_mut_ptr().cast(), room, 0) };
            let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
            let mut rest = &buffer[..got];
            while rest.len() >= HEADER {
                let size = u32::from_ne_bytes(rest[..4].try_into().expect("four bytes"));
                let size = usize::try_from(size).map_err(io::Error::other)?.clamp(HEADER, rest.len());
                let kind = u16::from_ne_bytes(rest[4..6].try_into().expect("two bytes"));
                let body = &rest[HEADER..size];
                match c_int::from(kind) {
                    libc::NLMSG_ERROR | libc::NLMSG_DONE => {
                        let code =
                            body.get(..4).map_or(0, |it| i32::from_ne_bytes(it.try_into().expect("four")));
                        let end = Err(io::Error::from_raw_os_error(-code));
                        return if code < 0 { end } else { Ok(replies) };
                    }
                    _ => replies.push(body.to_vec()),
                }
                rest = rest.get(size.next_multiple_of(4)..).unwrap_or(&[]);
            }
        }
    }
}

/// A filter that was found.
struct Seen {
    handle: u32,
    is_witness: bool,
}

impl Filter {
    fn remove(self) -> Result<(), Refusal> {
        let (nic, handle) = (&self.edge.nic, self.handle);
        match self.edge.remove_filter(handle) {
            Ok(()) => {}
            // With its card, or by somebody else.
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENOENT | libc::EINVAL)) => {}
            Err(error) => {
                return Err(Refusal::new(
                    Cause::Failed,
                    format!(
                        "can't take the counting filter away: {error}; by hand: tc filter del dev {nic} ingress \
                         pref {PREFERENCE} handle {handle:#x} bpf"
                    ),
                ));
            }
        }
        self.remove_clsact()
    }

    /// Takes clsact away where it was put there for this filter and nobody has hung another there meanwhile.
    fn remove_clsact(&self) -> Result<(), Refusal> {
        let edge = &self.edge;
        if !self.made_clsact {
            return Ok(());
        }
        let others = match edge.filters(INGRESS).and_then(|seen| Ok(seen.len() + edge.filters(EGRESS)?.len()))
        {
            Ok(others) => others,
            Err(refusal) if matches!(refusal.cause, Cause::Gone | Cause::Unsupported) => return Ok(()),
            Err(refusal) => return Err(refusal),
        };
        if others > 0 {
            return Ok(());
        }
        match edge.clsact(DEL_QDISC, 0) {
            Err(error)
                if !matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENOENT | libc::EINVAL)) =>
            {
                let nic = &edge.nic;
                Err(Refusal::new(
                    Cause::Failed,
                    format!("can't take clsact away again: {error}; by hand: tc qdisc del dev {nic} clsact"),
                ))
            }
            _ => Ok(()),
        }
    }
}

/// On the loopback of a network namespace of the test's own, which ends with its thread.
#[cfg(test)]
mod tests {
    use super::super::program::{Tables, assemble};
    use super::*;
    use crate::bpf::{Map, MapKind};

    /// Runs a body in a namespace of its own, where this process may make one and load programs.
    fn alone(body: impl FnOnce(&Program) + Send) {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // SAFETY: it concerns this thread alone, which ends with the test.
                if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                    eprintln!("not tried: a network namespace takes CAP_SYS_ADMIN");
                    return;
                }
                let made = Map::new(MapKind::Hash, "ports", 4, 4, 1).and_then(|ports| {
                    let counts = Map::new(MapKind::PerCpuArray, "counts", 4, 16, 2)?;
                    let napis = Map::new(MapKind::Hash, "napis", 4, 4, 1)?;
                    let (ports, napis, counts) = (&ports, &napis, &counts);
                    let tables = Tables { ports, napis, counts, queue_count: 1, is_recorded: true };
                    Program::load(NAME, &assemble(&tables))
                });
                match made {
                    Ok(program) => body(&program),
                    Err(refusal) => eprintln!("not tried: {refusal}"),
                }
            });
            thread.join().expect("the test holds");
        });
    }

    fn edge() -> Edge {
        Edge::of("lo").unwrap()
    }

    fn has_clsact() -> bool {
        match edge().clsact(NEW_QDISC, FLAGS_NEW) {
            Ok(()) => {
                edge().clsact(DEL_QDISC, 0).unwrap();
                false
            }
            Err(error) => error.raw_os_error() == Some(libc::EEXIST),
        }
    }

    fn handles() -> Vec<u32> {
        edge().filters(INGRESS).map_or(vec![], |seen| seen.iter().map(|filter| filter.handle).collect())
    }

    #[test]
    fn clsact_comes_and_goes_with_the_filter() {
        alone(|program| {
            let hook = edge().filter(program, 77, |_| true).unwrap();
            assert_eq!((handles(), has_clsact()), (vec![77], true));
            hook.remove().unwrap();
            assert!(!has_clsact());
        });
    }

    #[test]
    fn clsact_of_somebody_else_stays() {
        alone(|program| {
            edge().clsact(NEW_QDISC, FLAGS_NEW).unwrap();
            edge().filter(program, 77, |_| true).unwrap().remove().unwrap();
            assert_eq!((handles(), has_clsact()), (vec![], true));
        });
    }

    #[test]
    fn clsact_stays_while_somebody_uses_it() {
        alone(|program| {
            let first = edge().filter(program, 77, |_| true).unwrap();
            let second = edge().filter(program, 78, |_| true).unwrap();
            first.remove().unwrap();
            assert_eq!((handles(), has_clsact()), (vec![78], true));
            second.remove().unwrap();
        });
    }

    #[test]
    fn what_a_dead_process_left_is_taken_away() {
        alone(|program| {
            std::mem::forget(edge().filter(program, 77, |_| true).unwrap());
            std::mem::forget(edge().filter(program, 78, |_| true).unwrap());
            let hook = edge().filter(program, 79, |pid| pid == 78).unwrap();
            assert_eq!(handles(), [79, 78], "the living one's stays");
            // Its own number again, of a process before it.
            std::mem::forget(hook);
            edge().filter(program, 79, |_| true).unwrap().remove().unwrap();
            assert_eq!(handles(), [78]);
        });
    }

    #[test]
    fn a_filter_that_is_gone_is_no_trouble() {
        alone(|program| {
            let hook = edge().filter(program, 77, |_| true).unwrap();
            edge().clsact(DEL_QDISC, 0).unwrap();
            hook.remove().unwrap();
            assert!(!has_clsact());
        });
    }

    #[test]
    fn a_link_goes_when_it_is_closed() {
        alone(|program| {
            match edge().link(program) {
                Ok(link) => drop(link),
                Err(refusal) => assert_eq!(refusal.cause, Cause::Unsupported, "{refusal}"),
            }
            assert!(!has_clsact(), "a link needs none");
        });
    }

    #[test]
    fn a_card_that_is_not_there_is_said() {
        for name in ["nosuchcard", "zero\0inside", ""] {
            assert_eq!(Edge::of(name).unwrap_err().cause, Cause::Gone, "{name:?}");
        }
    }
}
