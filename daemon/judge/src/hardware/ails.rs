//! What is wrong with a NIC, for who asks why something over it is slow: in words that follow its name, and since when. Pure.

use ringscope_api::Evidence;
use ringscope_api::clock::Timestamp;
use ringscope_model::{Hardware, Name, Nic};

use super::words;

/// What is wrong with a NIC now.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Ail {
    /// As its findings name it.
    pub(in super::super) nic: Name,
    pub(in super::super) cause: &'static str,
    /// "its rate fell from 200 to 100 Gb/s at 2026-11-22 14:03:07 UTC".
    pub(in super::super) words: String,
    /// Since when, by our clock. Absent: nobody saw it begin.
    pub(in super::super) since: Option<Timestamp>,
    /// Files of the kernel that say it.
    pub(in super::super) evidence: Vec<Evidence>,
}

/// When a NIC became slower than it was, by our clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fall {
    /// Bits per second before and after.
    from: u64,
    to: u64,
    pub(super) at: Timestamp,
}

impl Fall {
    /// `None`: it was never faster while it was looked at.
    pub(super) fn of(hardware: &Hardware, nic: &Nic) -> Option<Self> {
        let to = nic.rate_bits_per_s.filter(|_| nic.up)?;
        let mut phases = nic.phases.iter().rev();
        let mut since = phases.next()?.since;
        let from = phases.find_map(|before| {
            let faster = before.rate_bits_per_s.filter(|rate| before.up && *rate > to);
            if faster.is_none() {
                since = before.since;
            }
            faster
        })?;
        let ago = u64::try_from(hardware.read_at.since(since).as_nanos()).unwrap_or(u64::MAX);
        Some(Self { from, to, at: Timestamp(hardware.heard().0.saturating_sub(ago)) })
    }

    /// "its rate fell from 200 to 100 Gb/s at 2026-11-22 14:03:07 UTC".
    pub(super) fn words(self) -> String {
        words::fell(self.from, self.to, self.at)
    }
}
