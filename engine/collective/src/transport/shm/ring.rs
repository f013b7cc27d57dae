//! The ring buffer of one direction of one channel between two ranks: a bounded number of slots, each a message.
//!
//! A slot's number says whether it is full: the receiver polls the very line that the header comes in, and nothing else
//! moves between the two caches for a small message. The receiver's count of what it has taken, on a line of its own, is
//! the sender's credit.

use std::sync::atomic::Ordering;

use crate::net::link::{HEADER_BYTES, Header};
use crate::transport::shm::map::{LINE_BYTES, Mapping, PAGE_BYTES};

/// Messages in a ring: enough to keep the sender copying while the receiver reduces.
pub(crate) const SLOTS: usize = 8;
/// Payload bytes of a slot. The slots of both directions stay in the second-level cache, a multiple of every element.
pub(crate) const SLOT_BYTES: usize = 64 * 1024;
/// Bytes of a ring: the credit's page, and the slots.
pub(crate) const RING_BYTES: usize = (PAGE_BYTES + SLOTS * STRIDE_BYTES).next_multiple_of(PAGE_BYTES);
const STRIDE_BYTES: usize = LINE_BYTES + SLOT_BYTES;
const CREDIT: usize = 0;
const N_SLOTS: u64 = SLOTS as u64;

// Inside a slot.
const HEADER: usize = 8;
const KIND: usize = HEADER + HEADER_BYTES;
const REGION: usize = KIND + 4;
const ADDRESS: usize = KIND + 8;
const OFFSET: usize = KIND + 16;
const DATA: usize = LINE_BYTES;

/// How a message carries its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    /// So many bytes of it, in the slot.
    Copied(usize),
    /// The receiver reads it from the sender's memory.
    Direct(Direct),
}

/// Where a payload lies that the receiver reads itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Direct {
    /// In the sender's address space.
    pub(crate) address: u64,
    /// The region of `ncclMemAlloc` that the sender has offered and that holds it, and where.
    pub(crate) region: Option<(u32, u64)>,
}

/// A message as the receiver sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    /// The part's.
    pub(crate) header: Header,
    /// How.
    pub(crate) carried: Carried,
    /// What the slot has of the payload.
    pub(crate) data: &'a [u8],
}

/// The sender's end.
#[derive(Debug)]
pub(crate) struct Producer {
    ring: Mapping,
    pushed: u64,
    taken: u64,
}

/// The receiver's end.
#[derive(Debug)]
pub(crate) struct Consumer {
    ring: Mapping,
    taken: u64,
}

impl Producer {
    /// Of a ring that is new.
    pub(crate) fn new(ring: Mapping) -> Self {
        Self { ring, pushed: 0, taken: 0 }
    }

    /// Whether a slot is free.
    pub(crate) fn has_credit(&mut self) -> bool {
        self.pushed - self.taken < N_SLOTS || self.pushed - self.taken() < N_SLOTS
    }

    /// Messages that were pushed.
    pub(crate) fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Messages that the receiver is done with. A count beyond what was pushed is a broken peer's and counts as all.
    pub(crate) fn taken(&mut self) -> u64 {
        self.taken = self.ring.long(CREDIT).load(Ordering::Acquire).min(self.pushed);
        self.taken
    }

    /// What [`Producer::taken`] said last, without looking again.
    pub(crate) fn known_taken(&self) -> u64 {
        self.taken
    }

    /// Fills the next slot, which is free, with as much of `data` as fits; how much that was.
    pub(crate) fn push_copy(&mut self, header: &Header, data: &[u8]) -> usize {
        let len = data.len().min(SLOT_BYTES);
        let slot = self.next_slot();
        self.ring.write(slot + DATA, &data[..len]);
        self.describe(slot, header, [0, len as u64, 0, 0]);
        len
    }

    /// Puts a descriptor into the next slot, which is free.
    pub(crate) fn push_direct(&mut self, header: &Header, direct: Direct) {
        let slot = self.next_slot();
        let (id, offset) = direct.region.unwrap_or_default();
        let kind = if direct.region.is_some() { 2 } else { 1 };
        self.describe(slot, header, [kind, u64::from(id), direct.address, offset]);
    }

    fn next_slot(&self) -> usize {
        debug_assert!(self.pushed - self.taken < N_SLOTS, "a push without credit");
        slot(self.pushed)
    }

    fn describe(&mut self, slot: usize, header: &Header, [kind, extra, address, offset]: [u64; 4]) {
        let mut line = [0; LINE_BYTES - HEADER];
        line[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        // Both fit: there are three kinds, and a slot's length and a region's number have 32 bits.
        line[KIND - HEADER..ADDRESS - HEADER].copy_from_slice(&(kind | extra << 32).to_le_bytes());
        line[ADDRESS - HEADER..OFFSET - HEADER].copy_from_slice(&address.to_le_bytes());
        line[OFFSET - HEADER..].copy_from_slice(&offset.to_le_bytes());
        self.ring.write(slot + HEADER, &line);
        self.pushed += 1;
        self.ring.long(slot).store(self.pushed, Ordering::Release);
    }
}

impl Consumer {
    /// Of a ring from which nothing has been taken.
    pub(crate) fn new(ring: Mapping) -> Self {
        Self { ring, taken: 0 }
    }

    /// Whether a message is there.
    pub(crate) fn is_full(&self) -> bool {
        self.ring.long(slot(self.taken)).load(Ordering::Acquire) == self.taken + 1
    }

    /// The next message, if there is one; an error says what is wrong with it.
    pub(crate) fn front(&self) -> Option<Result<Message<'_>, &'static str>> {
        self.is_full().then(|| self.parse(slot(self.taken)))
    }

    /// Is done with the message at the front.
    pub(crate) fn pop(&mut self) {
        self.taken += 1;
        self.ring.long(CREDIT).store(self.taken, Ordering::Release);
    }

    fn parse(&self, slot: usize) -> Result<Message<'_>, &'static str> {
        let line = self.ring.read(slot, LINE_BYTES);
        let long =
            |at: usize| u64::from_le_bytes(line[at..at + 8].first_chunk().copied().unwrap_or_default());
        let header =
            line[HEADER..].first_chunk().and_then(Header::from_bytes).ok_or("no header in a slot")?;
        let (kind, extra) = (long(KIND) & 0xffff_ffff, long(KIND) >> 32);
        let region = u32::try_from(extra).map_err(|_| "a region's number")?;
        let direct = |region| Carried::Direct(Direct { address: long(ADDRESS), region });
        let carried = match kind {
            0 if extra <= SLOT_BYTES as u64 => Carried::Copied(region as usize),
            1 => direct(None),
            2 => direct(Some((region, long(OFFSET)))),
            _ => return Err("an unknown kind of message in a slot"),
        };
        let len = if let Carried::Copied(len) = carried { len } else { 0 };
        Ok(Message { header, carried, data: self.ring.read(slot + DATA, len) })
    }
}

fn slot(number: u64) -> usize {
    // Below the number of slots, which is small.
    PAGE_BYTES + (number % N_SLOTS) as usize * STRIDE_BYTES
}

const _: () = assert!(REGION + 4 == ADDRESS && OFFSET + 8 == LINE_BYTES);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::shm::map::{memfd, reserve};

    fn ring() -> (Producer, Consumer) {
        let fd = memfd("a test").unwrap();
        reserve(&fd, 0, RING_BYTES, "a test").unwrap();
        let map = || Mapping::new(&fd, 0, RING_BYTES, "a test").unwrap();
        (Producer::new(map()), Consumer::new(map()))
    }

    fn header(part: u8) -> Header {
        Header { function: 1, sequence: 9, signature: 3, part: part.into(), len: 5 }
    }

    #[test]
    fn messages_come_in_order_and_rings_wrap() {
        let (mut producer, mut consumer) = ring();
        for part in (0_u8..).take(3 * SLOTS) {
            assert!(producer.has_credit() && consumer.front().is_none());
            assert_eq!(producer.push_copy(&header(part), &[part; 5]), 5);
            let message = consumer.front().unwrap().unwrap();
            assert_eq!((message.header, message.data), (header(part), &[part; 5][..]));
            consumer.pop();
        }
    }

    #[test]
    fn a_full_ring_gives_no_credit_until_one_is_taken() {
        let (mut producer, mut consumer) = ring();
        for part in (0_u8..).take(SLOTS) {
            producer.push_copy(&header(part), b"x");
        }
        assert!(!producer.has_credit());
        consumer.pop();
        assert!(producer.has_credit());
        producer.push_copy(&header(99), b"y");
        assert!(!producer.has_credit());
    }

    #[test]
    fn a_slot_takes_what_fits() {
        let (mut producer, consumer) = ring();
        assert_eq!(producer.push_copy(&header(0), &vec![7; SLOT_BYTES + 1]), SLOT_BYTES);
        assert_eq!(consumer.front().unwrap().unwrap().data, vec![7; SLOT_BYTES]);
    }

    #[test]
    fn descriptors_survive_the_slot() {
        let (mut producer, mut consumer) = ring();
        for region in [None, Some((u32::MAX, u64::MAX))] {
            let direct = Direct { address: 0x7fff_1234_5678, region };
            producer.push_direct(&header(1), direct);
            assert_eq!(consumer.front().unwrap().unwrap().carried, Carried::Direct(direct));
            consumer.pop();
        }
    }

    #[test]
    fn garbage_is_an_error() {
        let (mut producer, consumer) = ring();
        producer.push_copy(&header(1), b"x");
        producer.ring.write(slot(0) + HEADER, &[0; 8]);
        assert!(consumer.front().unwrap().is_err());
        producer.ring.write(slot(0) + HEADER, &header(1).to_bytes());
        producer.ring.write(slot(0) + REGION, &[255; 4]);
        assert!(consumer.front().unwrap().is_err());
    }
}
