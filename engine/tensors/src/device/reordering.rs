//! A device for tests: a device of this host that places the bytes of a write in any order, as networks may, and keeps only
//! the order between requests. The naive flag in the last word of a write must fail on it.

use crate::clock::Deadline;
use crate::device::local::Local;
use crate::device::{Counts, Device, Event, FlagForm};
use crate::error::Result;
use crate::memory::{Address, Part, Region};

/// Bytes that arrive together: a packet's.
const PACKET_BYTES: u64 = 1024;

/// The device below, and packets that have not arrived yet.
#[derive(Debug)]
pub struct Reordering {
    below: Local,
    form: FlagForm,
    late: Vec<(Part, Address)>,
    random: u64,
}

impl Reordering {
    /// A device that claims `form`, whether or not that is right for it.
    pub fn new(below: Local, form: FlagForm, seed: u64) -> Self {
        Self { below, form, late: Vec::new(), random: seed | 1 }
    }

    /// The next number (xorshift).
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Any of the packets that are late arrives.
    fn arrive(&mut self) -> Result<()> {
        if self.late.is_empty() {
            return Ok(());
        }
        let which = self.random() % self.late.len() as u64;
        let (part, to) = self.late.swap_remove(usize::try_from(which).unwrap_or(0));
        self.below.write(&part, to).map(|_| ())
    }

    fn arrive_all(&mut self) -> Result<()> {
        while !self.late.is_empty() {
            self.arrive()?;
        }
        Ok(())
    }
}

impl Device for Reordering {
    fn peer(&self) -> &str {
        self.below.peer()
    }

    fn form(&self) -> FlagForm {
        self.form
    }

    fn register(&mut self, region: &Region) -> Result<Region> {
        self.below.register(region)
    }

    fn release(&mut self, region: &Region) -> Result<()> {
        self.below.release(region)
    }

    fn write(&mut self, from: &Part, to: Address) -> Result<u64> {
        self.arrive_all()?;
        let mut offset = 0;
        while offset < from.size_bytes() {
            let bytes = PACKET_BYTES.min(from.size_bytes() - offset);
            let target = Address { key: to.key, offset: to.offset + offset };
            self.late.push((from.part(offset, bytes)?, target));
            offset += bytes;
        }
        // Most arrive at once, in any order; some at later polls.
        let at_once = self.late.len() as u64 - self.random() % (self.late.len() as u64 / 2 + 1);
        for _ in 0..at_once {
            self.arrive()?;
        }
        Ok(self.sent())
    }

    fn write_flag(&mut self, value: u64, to: Address) -> Result<u64> {
        self.arrive_all()?;
        self.below.write_flag(value, to)
    }

    fn read(&mut self, from: Address, into: &Part, work: u64) -> Result<()> {
        self.arrive_all()?;
        self.below.read(from, into, work)
    }

    fn poll(&mut self, events: &mut Vec<Event>) -> Result<()> {
        self.arrive()?;
        self.below.poll(events)
    }

    fn sent(&self) -> u64 {
        self.below.sent()
    }

    fn check_peer(&mut self) -> Result<()> {
        self.below.check_peer()
    }

    fn send_control(&mut self, bytes: &[u8], deadline: Deadline) -> Result<()> {
        self.below.send_control(bytes, deadline)
    }

    fn receive_control(&mut self, deadline: Deadline) -> Result<Vec<u8>> {
        self.below.receive_control(deadline)
    }

    fn counts(&self) -> Counts {
        self.below.counts()
    }
}
