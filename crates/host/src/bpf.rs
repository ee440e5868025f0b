//! `bpf(2)` by hand: maps, loading a program, and holding it to a made packet. How a program is written is `assembly`'s.
//!
//! Programs here are a few dozen instructions that count or mark packets; a compiler and a loader library would be more to keep
//! than these lines. Layouts: linux/bpf.h (UAPI); both machines that this runs on put the destination register into the low
//! half of the second byte.

mod assembly;

use std::ffi::{CStr, c_int, c_long};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::kernel::{Cause, Refusal};
pub(crate) use assembly::{Assembly, Helper, Instruction, R, Sum, When, Width};

/// Kinds of maps used here.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MapKind {
    /// Any key.
    Hash = 1,
    /// Keys are 32-bit indices; a value for each possible cpu.
    PerCpuArray = 6,
}

/// A table that a program and its user share. It lives as long as somebody holds it.
#[derive(Debug)]
pub(crate) struct Map {
    fd: OwnedFd,
    key_size: usize,
    /// Of what is read and written at once: with one for each cpu all of them.
    value_size: usize,
}

/// Command numbers of bpf(2).
const MAP_CREATE: c_int = 0;
const MAP_LOOKUP: c_int = 1;
const MAP_UPDATE: c_int = 2;
const PROG_LOAD: c_int = 5;
/// The verifier gives up with EAGAIN when a signal comes, as when a session is cut; libbpf tries as often.
const LOADS_MAX: u32 = 5;
const LINK_CREATE: c_int = 28;

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    entries_max: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; 16],
}

#[repr(C)]
struct MapElement {
    map: u32,
    reserved: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    ifindex: u32,
    attach_kind: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    ifindex: u32,
    attach_kind: u32,
    flags: u32,
    relative: u32,
    reserved: u32,
    revision: u64,
}

/// The system call.
///
/// # Safety
/// `attributes` is the layout that `command` wants, and every address in it is valid for what the command does there.
unsafe fn bpf<T>(command: c_int, attributes: &mut T) -> io::Result<c_long> {
    // SAFETY: the size is that of `attributes`; the rest is the caller's promise.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), std::mem::size_of::<T>())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// # Safety
/// As [`bpf`], of a command that returns a descriptor.
unsafe fn bpf_descriptor<T>(command: c_int, attributes: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    let fd = unsafe { bpf(command, attributes)? };
    let fd = c_int::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just given it to us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn address<T: ?Sized>(of: *const T) -> u64 {
    of.cast::<u8>() as u64
}

fn descriptor(fd: &OwnedFd) -> u32 {
    fd.as_raw_fd().unsigned_abs()
}

/// At most fifteen bytes of a name, as the kernel shows it.
fn short(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    let count = name.len().min(15);
    bytes[..count].copy_from_slice(&name.as_bytes()[..count]);
    bytes
}

impl Map {
    /// An empty one. `value_size` is that of one cpu, a multiple of 8.
    ///
    /// # Errors
    /// The kernel's, in words.
    pub(crate) fn new(
        kind: MapKind,
        name: &str,
        key_size: u32,
        value_size: u32,
        entries_max: u32,
    ) -> Result<Map, Refusal> {
        let copies = match kind {
            MapKind::Hash => 1,
            MapKind::PerCpuArray => possible_cpu_count()?,
        };
        let mut attributes = MapCreate {
            kind: kind as u32,
            key_size,
            value_size,
            entries_max,
            flags: 0,
            inner: 0,
            node: 0,
            name: short(name),
        };
        // SAFETY: the layout is MAP_CREATE's and holds no address.
        let fd = unsafe { bpf_descriptor(MAP_CREATE, &mut attributes) }
            .map_err(|error| refusal("make a BPF map", &error))?;
        let size = |size: u32| usize::try_from(size).expect("32 bits fit");
        Ok(Map { fd, key_size: size(key_size), value_size: size(value_size) * copies })
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// The kernel's, in words.
    pub(crate) fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Refusal> {
        assert_eq!((key.len(), value.len()), (self.key_size, self.value_size), "sizes are the map's");
        let mut attributes = MapElement {
            map: descriptor(&self.fd),
            reserved: 0,
            key: address(key),
            value: address(value),
            flags: 0,
        };
        // SAFETY: MAP_UPDATE reads as many bytes as the map was made with, which is what both slices have.
        unsafe { bpf(MAP_UPDATE, &mut attributes) }
            .map(drop)
            .map_err(|error| refusal("write a BPF map", &error))
    }

    /// The value of a key: with one for each cpu, all of them one after the other.
    ///
    /// # Errors
    /// The kernel's, in words.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Vec<u8>, Refusal> {
        assert_eq!(key.len(), self.key_size, "the size is the map's");
        let mut value = vec![0_u8; self.value_size];
        let mut attributes = MapElement {
            map: descriptor(&self.fd),
            reserved: 0,
            key: address(key),
            value: address(value.as_mut_ptr()),
            flags: 0,
        };
        // SAFETY: MAP_LOOKUP reads a key of the map's size and writes a value for each possible cpu: as many bytes as are there.
        unsafe { bpf(MAP_LOOKUP, &mut attributes) }.map_err(|error| refusal("read a BPF map", &error))?;
        Ok(value)
    }
}

/// How many cpus there could be: as many values a per-cpu map has.
fn possible_cpu_count() -> Result<usize, Refusal> {
    let path = "/sys/devices/system/cpu/possible";
    let text = std::fs::read_to_string(path)
        .map_err(|error| Refusal::new(Cause::Failed, format!("can't read {path}: {error}")))?;
    let cpus: crate::Cpus = text
        .parse()
        .map_err(|problem| Refusal::new(Cause::Failed, format!("{path} is not understood: {problem}")))?;
    let last = cpus.iter().last().unwrap_or(0);
    Ok(usize::try_from(last).expect("at most 8191") + 1)
}

/// A program in the kernel that looks at packets where `tc(8)` does.
#[derive(Debug)]
pub(crate) struct Program {
    fd: OwnedFd,
}

/// The kind of programs: BPF_PROG_TYPE_SCHED_CLS.
const SCHED_CLS: u32 = 3;
/// BPF_TCX_INGRESS of linux/bpf.h, since Linux 6.6.
const TCX_INGRESS: u32 = 46;
/// What the verifier may say before it is cut off.
const LOG_SIZE: usize = 64 << 10;
/// Words of the verifier that are kept in an error, the last: they say what is wrong.
const LOG_LINES_MAX: usize = 6;

impl Program {
    /// Has the kernel check and take it.
    ///
    /// # Errors
    /// The kernel's; with what its verifier said last.
    pub(crate) fn load(name: &str, code: &[Instruction]) -> Result<Program, Refusal> {
        let license: &CStr = c"Apache-2.0";
        let mut log = vec![0_u8; LOG_SIZE];
        let mut attributes = ProgLoad {
            kind: SCHED_CLS,
            count: u32::try_from(code.len()).expect("a short program"),
            instructions: address(code),
            license: address(license.as_ptr()),
            log_level: 1,
            log_size: u32::try_from(log.len()).expect("a constant"),
            log: address(log.as_mut_ptr()),
            kernel_version: 0,
            flags: 0,
            name: short(name),
            ifindex: 0,
            attach_kind: 0,
        };
        let mut load_count = 0;
        let loaded = loop {
            load_count += 1;
            // SAFETY: PROG_LOAD reads `count` instructions and the license to its zero, and writes at most `log_size` bytes of log.
            match unsafe { bpf_descriptor(PROG_LOAD, &mut attributes) } {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && load_count < LOADS_MAX => {}
                result => break result,
            }
        };
        let fd = loaded.map_err(|error| {
            let refusal = refusal("load a BPF program", &error);
            let said = verifier_says(&log);
            let reason = if said.is_empty() {
                refusal.reason
            } else {
                format!("{}; its verifier says: {said}", refusal.reason)
            };
            Refusal::new(refusal.cause, reason)
        })?;
        Ok(Program { fd })
    }

    /// Its descriptor, for those who attach it.
    pub(crate) fn fd(&self) -> u32 {
        descriptor(&self.fd)
    }

    /// Attaches it to what a card receives, before all filters of `tc`; it is detached when the descriptor is closed, by
    /// whatever end of the process. Linux 6.6.
    ///
    /// # Errors
    /// The kernel's; EINVAL where it is older.
    pub(crate) fn attach_ingress(&self, ifindex: u32) -> io::Result<OwnedFd> {
        let mut attributes = LinkCreate {
            program: self.fd(),
            ifindex,
            attach_kind: TCX_INGRESS,
            flags: 0,
            relative: 0,
            reserved: 0,
            revision: 0,
        };
        // SAFETY: the layout is LINK_CREATE's and holds no address.
        unsafe { bpf_descriptor(LINK_CREATE, &mut attributes) }
    }
}

/// The last lines of a log that a zero ends, on one line.
fn verifier_says(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log);
    let lines: Vec<&str> =
        text.trim_end_matches('\0').lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join(" | ")
}

/// An error of bpf(2) in words.
pub(crate) fn refusal(what: &str, error: &io::Error) -> Refusal {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Refusal::new(
            Cause::Forbidden,
            format!("not allowed to {what}: it takes CAP_BPF and CAP_NET_ADMIN, or root ({error})"),
        ),
        Some(libc::ENOSYS) => {
            Refusal::new(Cause::Unsupported, format!("can't {what}: this kernel has no bpf(2) ({error})"))
        }
        _ => Refusal::new(Cause::Failed, format!("can't {what}: {error}")),
    }
}

/// Holding a program to a packet, in tests.
#[cfg(test)]
mod trial {
    use super::{Program, address, bpf};

    const PROG_TEST_RUN: std::ffi::c_int = 10;

    #[repr(C)]
    struct TestRun {
        program: u32,
        result: u32,
        packet_size: u32,
        packet_out_size: u32,
        packet: u64,
        packet_out: u64,
        repeat: u32,
        duration: u32,
        context_size: u32,
        context_out_size: u32,
        context: u64,
        context_out: u64,
    }

    impl Program {
        /// What it returns for a packet; `context` is the start of a `struct __sk_buff`.
        pub(crate) fn run(&self, packet: &[u8], context: &[u8]) -> std::io::Result<i32> {
            let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
            let mut attributes = TestRun {
                program: self.fd(),
                result: 0,
                packet_size: size(packet),
                packet_out_size: 0,
                packet: address(packet),
                packet_out: 0,
                repeat: 1,
                duration: 0,
                context_size: size(context),
                context_out_size: 0,
                context: if context.is_empty() { 0 } else { address(context) },
                context_out: 0,
            };
            // SAFETY: PROG_TEST_RUN reads packet and context in their sizes and writes nothing back without room for it.
            unsafe { bpf(PROG_TEST_RUN, &mut attributes)? };
            Ok(attributes.result.cast_signed())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifiers_last_words_are_kept() {
        let log = b"0: (b7) r0 = 1\n\n1: (61) r2 = *(u32 *)(r1 +400)\ninvalid bpf_context access off=400 size=4\n\0\0\0";
        assert_eq!(
            verifier_says(log),
            "0: (b7) r0 = 1 | 1: (61) r2 = *(u32 *)(r1 +400) | invalid bpf_context access off=400 size=4"
        );
        let long = "line\n".repeat(100) + "last";
        assert_eq!(verifier_says(long.as_bytes()).matches('|').count(), LOG_LINES_MAX - 1);
    }

    #[test]
    fn a_refusal_names_the_capability() {
        let check = |code: i32, cause: Cause, want: &str| {
            let refusal = refusal("make a BPF map", &io::Error::from_raw_os_error(code));
            assert_eq!(refusal.cause, cause);
            assert!(refusal.reason.contains(want), "{refusal}");
        };
        check(libc::EPERM, Cause::Forbidden, "CAP_BPF and CAP_NET_ADMIN");
        check(libc::ENOSYS, Cause::Unsupported, "no bpf(2)");
        check(libc::E2BIG, Cause::Failed, "can't make a BPF map");
    }

    /// A program that reads what it may not: the kernel's reason reaches the user.
    #[test]
    fn a_program_that_is_refused_says_why() {
        let mut it = Assembly::default();
        it.load(Width::Word, R(2), R(1), 4000);
        it.exit(0);
        match Program::load("refused", &it.finish()) {
            Ok(_) => panic!("the kernel takes what it must not"),
            Err(refusal) if refusal.cause == Cause::Forbidden && !refusal.reason.contains("verifier") => {
                eprintln!("not shown: {refusal}");
            }
            Err(refusal) => assert!(refusal.reason.contains("off=4000"), "{refusal}"),
        }
    }
}
