//! Pause frames that an interface counts, by the system call of `ethtool -S`: most drivers show them in no file. Needs no right,
//! and sets nothing. Source: Linux, include/uapi/linux/ethtool.h and net/ethtool/ioctl.c.
#![expect(unsafe_code, reason = "the kernel takes a pointer to what it fills")]

use std::os::fd::{AsRawFd as _, OwnedFd};

use ringscope_wire::batch::NicCounter;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::MAX_ERRORS;

/// Counters that an interface may have; mlx5 with 64 channels has some three thousand.
const MAX_STATISTICS: usize = 16_384;
/// The kernel fills as many as the driver has at that moment, whatever it is asked for: there is room for many more than it said
/// that there are.
const ROOM: usize = 4 * MAX_STATISTICS;

/// Counters of pause frames of the interface of this name, of those that are not 0. Empty: it counts none, or tells nobody.
pub(super) fn pauses(interface: &str) -> Vec<NicCounter> {
    read(interface).unwrap_or_default()
}

fn read(interface: &str) -> Option<Vec<NicCounter>> {
    let flags = SocketFlags::CLOEXEC;
    let asker = Asker {
        socket: socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None).ok()?,
        name: name(interface)?,
    };
    let n = asker.count().filter(|n| (1..=MAX_STATISTICS).contains(n))?;
    let names = asker.names(n)?;
    let values = asker.values(n)?;
    Some(told(&names, &values))
}

/// What is told of all that an interface counts.
fn told(names: &[u8], values: &[u64]) -> Vec<NicCounter> {
    let counters = names.chunks_exact(NAME_BYTES).zip(values).filter(|(_, value)| **value != 0);
    let named = counters.filter_map(|(name, value)| {
        let name = std::str::from_utf8(name.split(|byte| *byte == 0).next()?).ok()?.trim();
        is_of_pauses(name).then(|| NicCounter { name: name.to_owned(), value: *value })
    });
    named.take(MAX_ERRORS).collect()
}

/// "rx_prio3_pause", "tx_prio3_pause_duration", "rx_pause_ctrl_phy" of mlx5, "rx_pfc_ena_frames_pri3" of bnxt_en.
fn is_of_pauses(name: &str) -> bool {
    let is_of_traffic = name.starts_with("rx") || name.starts_with("tx");
    is_of_traffic && (name.contains("pause") || name.contains("pfc"))
}

struct Asker {
    socket: OwnedFd,
    name: [u8; INTERFACE_BYTES],
}

/// `struct ifreq` with a pointer in its union.
#[repr(C)]
struct Request {
    name: [u8; INTERFACE_BYTES],
    data: *mut u64,
    rest: [u64; 2],
}

impl Asker {
    /// How many statistics there are.
    fn count(&self) -> Option<usize> {
        // `struct ethtool_sset_info`: command, 4 bytes, a mask of sets, and a number for each set that is known.
        let mut buffer = vec![0; 3];
        buffer[0] = pair(GSSET_INFO, 0);
        buffer[1] = 1 << STATISTICS;
        self.ask(&mut buffer)?;
        let is_known = buffer[1] == 1 << STATISTICS;
        is_known.then(|| usize::try_from(first(buffer[2])).ok()).flatten()
    }

    /// Names, [`NAME_BYTES`] each.
    fn names(&self, n: usize) -> Option<Vec<u8>> {
        // `struct ethtool_gstrings`: command, set, how many, and the names from byte 12 on.
        let mut buffer = vec![0; 2 + ROOM * NAME_BYTES / 8];
        buffer[0] = pair(GSTRINGS, STATISTICS);
        self.ask(&mut buffer)?;
        let bytes: Vec<u8> =
            buffer.iter().take(2 + n * NAME_BYTES / 8).flat_map(|word| word.to_ne_bytes()).collect();
        let names = bytes.get(12..12 + n * NAME_BYTES)?.to_vec();
        (first(*buffer.get(1)?) as usize == n).then_some(names)
    }

    fn values(&self, n: usize) -> Option<Vec<u64>> {
        // `struct ethtool_stats`: command, how many, and the values.
        let mut buffer = vec![0; 1 + ROOM];
        buffer[0] = pair(GSTATS, u32::try_from(n).ok()?);
        self.ask(&mut buffer)?;
        let told = buffer[0].to_ne_bytes();
        let n_told = u32::from_ne_bytes(*told.last_chunk()?) as usize;
        (n_told == n).then(|| buffer.get(1..=n).map(<[u64]>::to_vec)).flatten()
    }

    fn ask(&self, buffer: &mut [u64]) -> Option<()> {
        let mut request = Request { name: self.name, data: buffer.as_mut_ptr(), rest: [0; 2] };
        // SAFETY: an open socket; the request is as long as the kernel's and lives; the buffer that it points to lives, and is
        // longer than what the kernel fills: a fixed head, or as many statistics as a driver has, of which there is room for four
        // times as many as were ever taken for believable a moment ago.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
        (result == 0).then_some(())
    }
}

/// Two numbers one after the other in memory.
fn pair(one: u32, other: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&one.to_ne_bytes());
    bytes[4..].copy_from_slice(&other.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// The first of two.
fn first(pair: u64) -> u32 {
    let [a, b, c, d, ..] = pair.to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

/// Ended by a NUL, as all names of interfaces are.
fn name(interface: &str) -> Option<[u8; INTERFACE_BYTES]> {
    let mut name = [0; INTERFACE_BYTES];
    let bytes = interface.as_bytes();
    name.get_mut(..bytes.len()).filter(|_| bytes.len() < INTERFACE_BYTES)?.copy_from_slice(bytes);
    Some(name)
}

/// IFNAMSIZ, ETH_GSTRING_LEN.
const INTERFACE_BYTES: usize = 16;
const NAME_BYTES: usize = 32;
const SIOCETHTOOL: libc::Ioctl = 0x8946;
const GSTRINGS: u32 = 0x1b;
const GSTATS: u32 = 0x1d;
const GSSET_INFO: u32 = 0x37;
/// ETH_SS_STATS.
const STATISTICS: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_frames_that_were_counted_are_told() {
        let names = [
            "rx_packets",
            "rx_prio3_pause",
            "tx_prio3_pause",
            "tx_prio3_pause_duration",
            "outbound_pci_pause",
        ];
        let mut bytes = Vec::new();
        for name in names {
            bytes.extend(name.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(NAME_BYTES), 0);
        }
        let counters: Vec<_> =
            told(&bytes, &[9, 5, 0, 7, 3]).into_iter().map(|one| (one.name, one.value)).collect();
        assert_eq!(counters, [("rx_prio3_pause".to_owned(), 5), ("tx_prio3_pause_duration".to_owned(), 7)]);
        assert_eq!(told(&[0xff; NAME_BYTES], &[1]), [], "no text");
        assert_eq!(told(&bytes[..40], &[9, 5, 0]).len(), 0, "cut");
    }

    #[test]
    fn interfaces_that_count_nothing_or_are_none_have_no_pause_frames() {
        for interface in ["lo", "no-such", "", "longer-than-a-name-may-be"] {
            assert_eq!(pauses(interface), [], "{interface}");
        }
        // Whatever this machine has is asked without harm.
        for entry in std::fs::read_dir("/sys/class/net").unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(pauses(&name).iter().all(|one| one.value > 0 && is_of_pauses(&one.name)), "{name}");
        }
    }

    #[test]
    fn names_and_values_of_one_interface_are_as_many() {
        let asker = |name: &str| Asker {
            socket: socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).unwrap(),
            name: super::name(name).unwrap(),
        };
        for entry in std::fs::read_dir("/sys/class/net").unwrap() {
            let one = asker(&entry.unwrap().file_name().into_string().unwrap());
            let Some(n) = one.count().filter(|n| (1..=MAX_STATISTICS).contains(n)) else { continue };
            let (names, values) = (one.names(n).unwrap(), one.values(n).unwrap());
            assert_eq!((names.len(), values.len()), (n * NAME_BYTES, n));
            assert!(names[0].is_ascii_alphanumeric(), "a name begins there");
        }
    }
}
