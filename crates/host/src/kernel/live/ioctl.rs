//! What of a card only `ioctl(SIOCETHTOOL)` has: the driver's name, moderation per queue, and the way for [`super::rss`] and
//! [`super::ntuple`].
//!
//! Requests are bytes that pure functions lay out, in the machine's order; the kernel answers into the same bytes. Source:
//! include/uapi/linux/ethtool.h.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::errno::{invalid, said, unanswered};
use super::ethtool::{coalesce_words, on_off};
use super::netlink::u32_at;
use crate::{Refusal, Setting};

const SIOCETHTOOL: libc::Ioctl = 0x8946;
const GET_DRIVER: u32 = 0x03;
const GET_COALESCE: u32 = 0x0e;
const SET_COALESCE: u32 = 0x0f;
const PER_QUEUE: u32 = 0x4b;

/// `struct ifreq`: the name and a pointer, and room for its largest member.
#[repr(C)]
struct Interface {
    name: [u8; libc::IF_NAMESIZE],
    data: *mut u8,
    rest: [u8; 16],
}

/// Puts a request to a card. The answer is in the same bytes.
///
/// The caller makes the bytes as long as the request says that the answer is.
pub(super) fn call(nic: &str, request: &mut [u8]) -> Result<(), Refusal> {
    super::files::check_name(nic)?;
    // SAFETY: no memory is passed; the result is checked.
    let number = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if number < 0 {
        return Err(unanswered("a socket could not be opened", &io::Error::last_os_error()));
    }
    // SAFETY: the number is a descriptor that was just opened and is nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    let mut name = [0; libc::IF_NAMESIZE];
    name[..nic.len()].copy_from_slice(nic.as_bytes());
    let mut interface = Interface { name, data: request.as_mut_ptr(), rest: [0; 16] };
    // SAFETY: the structure and the request live through the call; the kernel reads and writes as much of the request as its
    // own sizes say, which those who make requests see to.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut interface) };
    if done < 0 {
        return Err(said(io::Error::last_os_error().raw_os_error().unwrap_or_default(), ""));
    }
    Ok(())
}

/// Numbers of 32 bits, one behind the other.
pub(super) fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// What a driver says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Driver {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) firmware: String,
    pub(crate) bus: String,
}

/// `struct ethtool_drvinfo`: command u32, then texts of 32 bytes: driver, version, firmware, bus, ….
const DRIVER_SIZE: usize = 196;
const DRIVER_TEXT_SIZE: usize = 32;
pub(crate) fn driver(nic: &str) -> Result<Driver, Refusal> {
    let mut request = words(&[GET_DRIVER]);
    request.resize(DRIVER_SIZE, 0);
    call(nic, &mut request)?;
    let text = |index: usize| {
        let bytes = &request[4 + index * DRIVER_TEXT_SIZE..][..DRIVER_TEXT_SIZE];
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(DRIVER_TEXT_SIZE);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    };
    Ok(Driver { name: text(0), version: text(1), firmware: text(2), bus: text(3) })
}

/// Queues that a request per queue can name.
const QUEUES_COUNT_MAX: u32 = 4096;
/// `struct ethtool_per_queue_op`: command, what is done to each queue (u32 both), a bit for each queue.
const PER_QUEUE_SIZE: usize = 8 + QUEUES_COUNT_MAX as usize / 8;
/// `struct ethtool_coalesce`: 23 numbers of 32 bits; here are the places of those that settings have.
const COALESCE_SIZE: usize = 23 * 4;
const COALESCE: &[(&str, usize, bool)] =
    &[("adaptive-rx", 40, true), ("rx-usecs", 4, false), ("adaptive-tx", 44, true), ("tx-usecs", 20, false)];

/// A request about one queue's moderation, with room for it.
fn per_queue(what: u32, queue: u32) -> Result<Vec<u8>, Refusal> {
    if queue >= QUEUES_COUNT_MAX {
        return Err(invalid(format!("there is no queue {queue}: they go to {}", QUEUES_COUNT_MAX - 1)));
    }
    let mut request = words(&[PER_QUEUE, what]);
    request.resize(PER_QUEUE_SIZE + COALESCE_SIZE, 0);
    let word = 8 + queue as usize / 32 * 4;
    request[word..word + 4].copy_from_slice(&(1_u32 << (queue % 32)).to_ne_bytes());
    request[PER_QUEUE_SIZE..][..4].copy_from_slice(&what.to_ne_bytes());
    Ok(request)
}

/// Moderation of one queue.
pub(crate) fn queue_coalesce(nic: &str, queue: u32) -> Result<Setting, Refusal> {
    let mut request = per_queue(GET_COALESCE, queue)?;
    call(nic, &mut request)?;
    Ok(coalesce_text(&request[PER_QUEUE_SIZE..]))
}

fn coalesce_text(coalesce: &[u8]) -> Setting {
    let word = |(name, offset, is_switch): &(&str, usize, bool)| {
        let number = u32_at(coalesce, *offset);
        if *is_switch { format!("{name} {}", on_off(number != 0)) } else { format!("{name} {number}") }
    };
    Setting::new(COALESCE.iter().map(word).collect::<Vec<_>>().join(" "))
}

/// What is not named stays as it is.
pub(super) fn set_queue_coalesce(nic: &str, queue: u32, value: &Setting) -> Result<(), Refusal> {
    let wish = coalesce_words(value)?;
    let mut now = per_queue(GET_COALESCE, queue)?;
    call(nic, &mut now)?;
    let mut request = per_queue(SET_COALESCE, queue)?;
    request[PER_QUEUE_SIZE..].copy_from_slice(&now[PER_QUEUE_SIZE..]);
    put_coalesce(&mut request[PER_QUEUE_SIZE..], &wish);
    call(nic, &mut request)
}

fn put_coalesce(coalesce: &mut [u8], wish: &[(&'static str, u32)]) {
    coalesce[..4].copy_from_slice(&SET_COALESCE.to_ne_bytes());
    for (name, number) in wish {
        let (_, offset, _) = COALESCE.iter().find(|(this, _, _)| this == name).expect("names were checked");
        coalesce[*offset..][..4].copy_from_slice(&number.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_queue_is_one_bit_and_its_numbers_lie_behind_the_bits() {
        let request = per_queue(SET_COALESCE, 70).unwrap();
        assert_eq!(request.len(), 520 + 92);
        let set: Vec<usize> = (0..request.len()).filter(|index| request[*index] != 0).collect();
        // Command, sub-command, bit 6 of the third word, and the command of the numbers.
        assert_eq!(set, [0, 4, 8 + 2 * 4, 520]);
        assert_eq!((request[0], request[4], request[16], request[520]), (0x4b, 0x0f, 1 << 6, 0x0f));
        assert!(per_queue(GET_COALESCE, 4096).is_err());
    }

    #[test]
    fn moderation_is_read_from_its_places_and_what_is_not_named_stays() {
        let mut coalesce = [0; COALESCE_SIZE];
        // rx frames, which no setting names.
        coalesce[8..12].copy_from_slice(&64_u32.to_ne_bytes());
        put_coalesce(&mut coalesce, &[("rx-usecs", 50), ("adaptive-tx", 1), ("tx-usecs", 7)]);
        assert_eq!(u32_at(&coalesce, 0), 0x0f);
        assert_eq!((u32_at(&coalesce, 4), u32_at(&coalesce, 8), u32_at(&coalesce, 20)), (50, 64, 7));
        assert_eq!((u32_at(&coalesce, 40), u32_at(&coalesce, 44)), (0, 1));
        assert_eq!(
            coalesce_text(&coalesce).as_str(),
            "adaptive-rx off rx-usecs 50 adaptive-tx on tx-usecs 7"
        );
    }
}
