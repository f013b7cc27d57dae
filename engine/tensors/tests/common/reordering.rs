//! A device that keeps no promise it has not made: two ends in one process, over devices of this host, that place the bytes of a write in any order, as
//! networks may, and keep only the order between requests. The naive flag in the last word of a write must fail on it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rtensor::device::local::Local;
use rtensor::device::{Counts, Device, Event, FlagForm};
use rtensor::error::Result;
use rtensor::memory::{Address, Part, Region};

/// Bytes that arrive together: a packet's.
const PACKET_BYTES: u64 = 1024;

/// The device below, and packets that have not arrived yet.
#[derive(Debug)]
pub(crate) struct Reordering {
    below: Local,
    form: FlagForm,
    late: Vec<(Part, Address)>,
    /// The immediate of the write whose packets are late.
    announced: Option<u32>,
    to_peer: Immediates,
    from_peer: Immediates,
    writes: u64,
    random: u64,
}

/// Immediates on their way from one end to the other.
type Immediates = Arc<Mutex<VecDeque<u32>>>;

impl Reordering {
    /// Two ends that claim a form each, whether or not that is right for them.
    pub(crate) fn pair(one: Local, other: Local, forms: [FlagForm; 2], seed: u64) -> (Self, Self) {
        let [there, back] = [Immediates::default(), Immediates::default()];
        let end = |below, form, to_peer: &Immediates, from_peer: &Immediates| Self {
            below,
            form,
            late: Vec::new(),
            announced: None,
            to_peer: Arc::clone(to_peer),
            from_peer: Arc::clone(from_peer),
            writes: 0,
            random: seed | 1,
        };
        (end(one, forms[0], &there, &back), end(other, forms[1], &back, &there))
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
            self.announce();
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
        self.announce();
        Ok(())
    }

    /// All of a write is there: its immediate comes.
    fn announce(&mut self) {
        lock(&self.to_peer).extend(self.announced.take());
    }
}

fn lock(immediates: &Immediates) -> MutexGuard<'_, VecDeque<u32>> {
    immediates.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.writes += 1;
        Ok(self.writes)
    }

    fn write_flag(&mut self, value: u64, to: Address) -> Result<u64> {
        self.arrive_all()?;
        self.below.write_flag(value, to)?;
        Ok(self.writes)
    }

    fn read(&mut self, from: Address, into: &Part, work: u64) -> Result<()> {
        self.arrive_all()?;
        self.below.read(from, into, work)
    }

    fn write_immediate(&mut self, from: &Part, to: Address, number: u32) -> Result<u64> {
        let sent = self.write(from, to)?;
        self.announced = Some(number);
        Ok(sent)
    }

    fn poll(&mut self, events: &mut Vec<Event>) -> Result<()> {
        self.arrive()?;
        events.extend(lock(&self.from_peer).drain(..).map(Event::Immediate));
        self.below.poll(events)
    }

    fn sent(&self) -> u64 {
        self.writes - u64::from(!self.late.is_empty())
    }

    fn is_idle(&self) -> bool {
        self.late.is_empty() && self.announced.is_none() && self.below.is_idle()
    }

    fn is_moving(&self) -> bool {
        self.below.is_moving()
    }

    fn check_peer(&mut self) -> Result<()> {
        self.below.check_peer()
    }

    fn send_control(&mut self, bytes: &[u8]) -> Result<()> {
        self.below.send_control(bytes)
    }

    fn receive_control(&mut self) -> Result<Option<Vec<u8>>> {
        self.below.receive_control()
    }

    fn counts(&self) -> Counts {
        self.below.counts()
    }
}
