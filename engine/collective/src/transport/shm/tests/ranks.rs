//! What the tests share: hosts of ranks, a sink, and drivers that give up instead of hanging.

use std::thread;
use std::time::Duration;

use crate::clock::Deadline;
use crate::net::link::Header;
use crate::transport::shm::Tuning;
use crate::transport::shm::connect::{self, Announcement, Endpoint, Plan};
use crate::transport::shm::doorbell::{Doorbell, Mode};
use crate::transport::shm::host::Host;
use crate::transport::shm::recv::Receiver;
use crate::transport::shm::send::Sender;
use crate::transport::{Fault, Part, Progress, RecvHalf, SendHalf, Sink};

pub(super) const SECRET: [u8; 16] = [7; 16];
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// Nothing is read in place.
pub(super) const SLOTS_ONLY: Tuning =
    Tuning { own_bytes: usize::MAX, map_bytes: usize::MAX, read_bytes: usize::MAX };

pub(super) fn endpoints(n_ranks: usize) -> (Vec<Endpoint>, Vec<Option<Announcement>>) {
    let endpoints: Vec<_> = (0..n_ranks).map(|_| Endpoint::new().unwrap()).collect();
    let announcements = endpoints.iter().map(|endpoint| Some(endpoint.announcement())).collect();
    (endpoints, announcements)
}

pub(super) fn plan(rank: usize, announcements: &[Option<Announcement>], tuning: Tuning) -> Plan<'_> {
    let members = (0..announcements.len()).collect();
    Plan { rank, members, announcements, secret: SECRET, timeout: PATIENCE, tuning, kin: None }
}

/// Runs `body` as every rank, each a thread; returns what they return, by rank.
pub(super) fn threads<T: Send>(
    n_ranks: usize,
    tuning: Tuning,
    body: impl Fn(usize, Host) -> T + Sync,
) -> Vec<T> {
    let (endpoints, announcements) = endpoints(n_ranks);
    thread::scope(|scope| {
        let run = |(rank, endpoint)| {
            let (announcements, body) = (&announcements, &body);
            scope.spawn(move || {
                let host = connect::join(endpoint, &plan(rank, announcements, tuning), None).unwrap();
                body(rank, host)
            })
        };
        let threads: Vec<_> = endpoints.into_iter().enumerate().map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

pub(super) fn header(part: u32, len: usize) -> Header {
    Header { function: 1, sequence: 5, signature: 99, part, len: len.try_into().unwrap() }
}

/// Bytes that tell where they come from.
pub(super) fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at * 7 + at / 251 + seed * 31) % 256).unwrap()).collect()
}

/// Calls `step` until it is done, asleep in between.
pub(super) fn drive(bell: &Doorbell, mut step: impl FnMut() -> Result<Progress, Fault>) -> Result<(), Fault> {
    let deadline = Deadline::after(PATIENCE);
    while !deadline.passed() {
        match step()? {
            Progress::Done => return Ok(()),
            Progress::Moved => continue,
            Progress::Idle => {}
        }
        let nap = bell.prepare(Mode::Bell);
        match step()? {
            Progress::Done => return Ok(()),
            Progress::Moved => {}
            Progress::Idle => nap.sleep(&[], deadline.left()).unwrap(),
        }
    }
    panic!("nothing moved for {PATIENCE:?}");
}

pub(super) fn send(bell: &Doorbell, sender: &mut Sender, part: u32, payload: &[u8]) {
    let part = Part { header: header(part, payload.len()), payload };
    drive(bell, || sender.post(part)).unwrap();
}

pub(super) fn wait_released(bell: &Doorbell, sender: &mut Sender, count: u64) {
    drive(bell, || Ok(if sender.released()? >= count { Progress::Done } else { Progress::Idle })).unwrap();
}

pub(super) fn recv(bell: &Doorbell, receiver: &mut Receiver, part: u32, sink: &mut Target) {
    let expected = header(part, sink.bytes.len());
    drive(bell, || receiver.pull(&expected, sink)).unwrap();
    assert_eq!(sink.next, sink.bytes.len(), "every byte comes once, in order");
}

/// Takes a payload, as a copy or as a reduction that gives no space.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) bytes: Vec<u8>,
    reduces: bool,
    next: usize,
}

impl Target {
    pub(super) fn new(len: usize, reduces: bool) -> Self {
        Self { bytes: vec![0; len], reduces, next: 0 }
    }
}

impl Sink for Target {
    fn take(&mut self, offset: usize, bytes: &[u8]) {
        assert_eq!(offset, self.next);
        self.next += bytes.len();
        assert!(self.next == self.bytes.len() || bytes.len().is_multiple_of(self.grain()));
        self.bytes[offset..self.next].copy_from_slice(bytes);
    }

    fn space(&mut self, offset: usize) -> Option<&mut [u8]> {
        assert_eq!(offset, self.next);
        if self.reduces { None } else { Some(&mut self.bytes[offset..]) }
    }

    fn filled(&mut self, offset: usize, len: usize) {
        assert_eq!(offset, self.next);
        self.next += len;
    }

    fn grain(&self) -> usize {
        8
    }
}
