//! A card's own counters, where no program can be attached: packets by receive queue, of all traffic together.
//!
//! Drivers name them as they like (`ethtool -S`); the names known here are those of the drivers that lanes know.

use std::collections::BTreeMap;

use crate::kernel::{Cause, Refusal};

/// Packets of each receive queue, from a card's counters by name. Empty: none of the names is known.
#[must_use]
pub fn received(counters: &[(String, u64)]) -> BTreeMap<u32, u64> {
    let mut queues = BTreeMap::new();
    for (name, count) in counters {
        if let Some(queue) = queue_of(name) {
            *queues.entry(queue).or_insert(0) += count;
        }
    }
    queues
}

/// The receive queue whose packets a counter of this name counts.
fn queue_of(name: &str) -> Option<u32> {
    // What stands before and behind the queue's number, and whose driver says so.
    const FORMS: &[(&str, &str)] = &[
        ("rx_queue_", "_packets"),    // ice, ixgbe, igb, igc, virtio_net
        ("rx-", ".packets"),          // i40e, iavf
        ("rx", "_packets"),           // mlx5
        ("queue_", "_rx_cnt"),        // ena
        ("rx_packets[", "]"),         // gve
        ("[", "]: rx_ucast_packets"), // bnxt
    ];
    FORMS.iter().find_map(|(before, behind)| name.strip_prefix(before)?.strip_suffix(behind)?.parse().ok())
}

/// What a card says of itself, by name (`ethtool -S`).
///
/// # Errors
/// [`Cause::Gone`] where there is no such card, [`Cause::Unsupported`] where its driver counts nothing.
pub fn counters(nic: &str) -> Result<Vec<(String, u64)>, Refusal> {
    ioctl::counters(nic).map_err(|error| match error.raw_os_error() {
        Some(libc::ENODEV) => Refusal::new(Cause::Gone, format!("there is no network interface '{nic}'")),
        Some(libc::EOPNOTSUPP) => {
            Refusal::new(Cause::Unsupported, format!("the driver of {nic} has no counters (ethtool -S)"))
        }
        _ => Refusal::new(Cause::Failed, format!("can't read the counters of {nic}: {error}")),
    })
}

/// `SIOCETHTOOL` by hand, for two of its commands (linux/ethtool.h).
mod ioctl {
    use std::io;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    const GET_DRIVER: u32 = 0x03;
    const GET_STRINGS: u32 = 0x1b;
    const GET_STATISTICS: u32 = 0x1d;
    const STRINGS_OF_STATISTICS: u32 = 1;
    const NAME_SIZE: usize = 32;
    /// `struct ethtool_drvinfo` in 32-bit words, and the word that holds the number of counters.
    const DRIVER_WORDS: usize = 49;
    const DRIVER_COUNTER_COUNT: usize = 45;
    /// More counters than any driver has.
    const COUNTERS_MAX: usize = 1 << 20;

    fn ask(socket: &OwnedFd, nic: &str, words: &mut [u64]) -> io::Result<()> {
        // SAFETY: all zeros is a value of it: numbers, and a null pointer.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        let name = nic.as_bytes();
        if name.len() >= request.ifr_name.len() {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name) {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: the kernel reads and writes what `words` holds: every caller makes it as long as its command's answer.
        let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    pub(super) fn counters(nic: &str) -> io::Result<Vec<(String, u64)>> {
        // SAFETY: no address is involved.
        let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, and ours alone.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let mut driver = [0_u64; DRIVER_WORDS.div_ceil(2)];
        driver[0] = u64::from(GET_DRIVER);
        ask(&socket, nic, &mut driver)?;
        let count = u32_at(&driver, DRIVER_COUNTER_COUNT);
        let size = usize::try_from(count).unwrap_or(usize::MAX);
        if size == 0 || size > COUNTERS_MAX {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        // {command, set, count} and then the names; {command, count} and then the numbers.
        let mut names = vec![0_u64; 2 + size * NAME_SIZE / 8];
        names[0] = u64::from(GET_STRINGS) | u64::from(STRINGS_OF_STATISTICS) << 32;
        names[1] = u64::from(count);
        ask(&socket, nic, &mut names)?;
        let mut numbers = vec![0_u64; 1 + size];
        numbers[0] = u64::from(GET_STATISTICS) | u64::from(count) << 32;
        ask(&socket, nic, &mut numbers)?;
        let bytes: Vec<u8> = names.iter().flat_map(|word| word.to_ne_bytes()).skip(12).collect();
        let names = bytes.chunks_exact(NAME_SIZE).map(|name| {
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_SIZE);
            String::from_utf8_lossy(&name[..end]).into_owned()
        });
        Ok(names.zip(numbers[1..].iter().copied()).collect())
    }

    fn u32_at(words: &[u64], index: usize) -> u32 {
        let bytes = words[index / 2].to_ne_bytes();
        let half = &bytes[index % 2 * 4..][..4];
        u32::from_ne_bytes(half.try_into().expect("four bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_names_are_understood() {
        let check = |name: &str, queue: Option<u32>| assert_eq!(queue_of(name), queue, "{name}");
        check("rx_queue_11_packets", Some(11));
        check("rx-3.packets", Some(3));
        check("rx7_packets", Some(7));
        check("queue_2_rx_cnt", Some(2));
        check("rx_packets[5]", Some(5));
        check("[4]: rx_ucast_packets", Some(4));
        check("rx_packets", None);
        check("tx_queue_1_packets", None);
        check("rx_queue_1_bytes", None);
        check("rx_queue_x_packets", None);
        let counters = [("rx_queue_0_packets".to_owned(), 5), ("rx_queue_1_packets".to_owned(), 7)];
        assert_eq!(received(&counters).into_iter().collect::<Vec<_>>(), [(0, 5), (1, 7)]);
    }

    #[test]
    fn a_card_that_is_not_there_is_said() {
        assert_eq!(counters("nosuchcard").unwrap_err().cause, Cause::Gone);
        assert_eq!(counters("a-name-that-is-too-long").unwrap_err().cause, Cause::Gone);
    }
}
