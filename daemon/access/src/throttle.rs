//! Who failed too often waits. By address: an IPv6 host has a whole /64.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use ringscope_api::clock::Timestamp;

/// Failures of late, by address.
#[derive(Debug, Default)]
pub struct Throttle {
    by_address: HashMap<IpAddr, Failures>,
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    since: Timestamp,
    count: u32,
}

impl Throttle {
    /// How long this address has to wait before it may try again. `None`: not at all.
    #[must_use]
    pub fn wait(&self, address: IpAddr, now: Timestamp) -> Option<Duration> {
        let failures = self.by_address.get(&subject(address))?;
        let passed = now.since(failures.since);
        (failures.count >= FAILURES_MAX && passed < WINDOW).then(|| WINDOW.saturating_sub(passed))
    }

    /// Another failure. False: there were so many that no more need be said of it.
    pub fn failed(&mut self, address: IpAddr, now: Timestamp) -> bool {
        let key = subject(address);
        if !self.by_address.contains_key(&key) && self.by_address.len() >= ADDRESSES_MAX {
            self.by_address.retain(|_, failures| now.since(failures.since) < WINDOW);
            if self.by_address.len() >= ADDRESSES_MAX {
                return false;
            }
        }
        let failures = self.by_address.entry(key).or_insert(Failures { since: now, count: 0 });
        if now.since(failures.since) >= WINDOW {
            *failures = Failures { since: now, count: 0 };
        }
        failures.count = failures.count.saturating_add(1);
        failures.count <= FAILURES_MAX
    }
}

/// What counts as one.
fn subject(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address @ IpAddr::V4(_) => address,
    }
}

/// Failures of one address within [`WINDOW`]: a person who mistakes one token for another has fewer.
const FAILURES_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses remembered; beyond, failures are neither told nor slowed, and a guess of 256 bits stays as hopeless.
const ADDRESSES_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_fails_ten_times_waits_out_the_minute_and_nobody_else_does() {
        let at = |s: u64| Timestamp(s * 1_000_000_000);
        let [a, same, other]: [IpAddr; 3] =
            ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"].map(|text| text.parse().unwrap());
        let mut throttle = Throttle::default();
        for n in 0..10 {
            assert_eq!(throttle.wait(a, at(100 + n)), None);
            assert!(throttle.failed(a, at(100 + n)));
        }
        assert!(!throttle.failed(a, at(110)), "the eleventh is not told of");
        assert_eq!(throttle.wait(same, at(110)), Some(Duration::from_secs(50)));
        assert_eq!(throttle.wait(other, at(110)), None);
        assert_eq!(throttle.wait(a, at(160)), None);
        assert!(throttle.failed(a, at(161)));
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        for _ in 0..10 {
            throttle.failed(mapped, at(1));
        }
        assert!(throttle.wait("10.0.0.1".parse().unwrap(), at(2)).is_some());
        assert!(throttle.wait("10.0.0.2".parse().unwrap(), at(2)).is_none());
    }

    #[test]
    fn memory_is_bounded() {
        let mut throttle = Throttle::default();
        let mut told = 0;
        for n in 0..20_000_u32 {
            told += u32::from(throttle.failed(IpAddr::from(n.to_be_bytes()), Timestamp(1)));
        }
        assert_eq!((throttle.by_address.len(), told), (10_000, 10_000));
        assert!(throttle.failed(IpAddr::from([9, 9, 9, 9]), Timestamp(61_000_000_000)), "a minute later");
    }
}
