//! Writes and reads as work requests.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use verbs::{Completion, CompletionQueue, Domain, Path, QueuePair, Remote, Signal, State, Status};

use crate::clock::{Deadline, Patience};
use crate::device::tcp::Tcp;
use crate::device::verbs::fence::Registered;
use crate::device::verbs::frame::Frame;
use crate::device::verbs::theirs::Theirs;
use crate::device::verbs::unknown::{MOST_READS, Read, Unknown};
use crate::device::{Counts, Device, Event, FlagForm, meeting};
use crate::error::{Error, Result};
use crate::memory::{Address, Part, Region};

/// Requests in flight at most, of each end.
pub(super) const SENDS: u32 = 256;
/// Immediates that may come before they are looked at; who sends more is held up by the NIC.
pub(super) const RECEIVES: u32 = 256;
/// Bytes that a request carries itself: a flag.
pub(super) const INLINE_BYTES: u32 = 32;
/// Bytes of a request at most: what every port takes (`max_msg_sz` is 1 GiB or more).
const MOST_BYTES: u64 = 1 << 30;
/// Control messages that may wait to be taken: a link says two, at its set-up and its end.
const MAX_CONTROLS: usize = 4;
/// How long a full queue may take to move, and a peer to take a message beside it: so long word of new memory may come behind
/// its first use, too.
const PATIENCE: Duration = Duration::from_secs(30);

/// One end of a queue pair.
#[derive(Debug)]
pub struct Verbs {
    // In this order: the queue pair ends before the memory that it uses is forgotten.
    pair: QueuePair,
    sends: CompletionQueue,
    receives: CompletionQueue,
    own: BTreeMap<u64, Registered>,
    domain: Domain,
    control: Tcp,
    peer: String,
    form: FlagForm,
    theirs: Theirs,
    controls: VecDeque<Vec<u8>>,
    /// Reads of memory that was not told of yet.
    unknown: Unknown,
    /// Requests in flight, oldest first.
    in_flight: VecDeque<Request>,
    posted: u64,
    completed: u64,
    events: Vec<Event>,
    counts: Counts,
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
struct Request {
    number: u64,
    /// The peer's region.
    key: u64,
    /// What is to be told when it is done.
    read: Option<u64>,
}

impl Verbs {
    pub(super) fn new(
        control: Tcp,
        peer: String,
        domain: Domain,
        pair: QueuePair,
        [sends, receives]: [CompletionQueue; 2],
        form: FlagForm,
    ) -> Self {
        Self {
            pair,
            sends,
            receives,
            own: BTreeMap::new(),
            domain,
            control,
            peer,
            form,
            theirs: Theirs::default(),
            controls: VecDeque::new(),
            unknown: Unknown::default(),
            in_flight: VecDeque::with_capacity(usize::try_from(SENDS).unwrap_or(0)),
            posted: 0,
            completed: 0,
            events: Vec::new(),
            counts: Counts::default(),
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.pair.number()
    }

    /// Takes the queue pair to where it sends and receives.
    pub(super) fn go(&mut self, path: &Path) -> Result<()> {
        let ready = self.pair.connect(path);
        let posted = ready.and_then(|()| (0..RECEIVES).try_for_each(|id| self.pair.receive(u64::from(id))));
        posted.map_err(|error| self.failed(error.to_string()))
    }

    pub(super) fn failed(&self, what: String) -> Error {
        Error::Device { peer: self.peer.clone(), what }
    }

    pub(super) fn malformed(&self, what: &str) -> Error {
        Error::Malformed { peer: self.peer.clone(), what: what.to_owned() }
    }

    /// Tells the peer, and waits until that has left.
    pub(super) fn tell(&mut self, frame: &Frame, deadline: Deadline) -> Result<()> {
        self.control.send_control(&frame.to_bytes())?;
        let waiting_for = format!("room for a message to {}", self.peer);
        meeting::until(deadline, &waiting_for, || {
            let moved = if self.control.is_idle() { Ok(()) } else { self.control.poll(&mut Vec::new()) };
            if self.control.is_idle() { Ok(Some(())) } else { moved.map(|()| None) }
        })
    }

    /// Waits for the next message that is not of memory that comes and goes.
    pub(super) fn hear(&mut self, deadline: Deadline) -> Result<Frame> {
        let waiting_for = format!("word of {}", self.peer);
        meeting::until(deadline, &waiting_for, || self.next_message())
    }

    /// That message, if it has come.
    fn next_message(&mut self) -> Result<Option<Frame>> {
        while let Some(bytes) = self.control.receive_control()? {
            match Frame::from_bytes(&bytes) {
                Some(Frame::Region { key, address, size_bytes }) => {
                    self.theirs.register(key, address, size_bytes);
                }
                Some(Frame::Revoke { key }) => self.theirs.revoke(key),
                Some(frame) => return Ok(Some(frame)),
                None => return Err(self.malformed("a message that makes no sense")),
            }
        }
        Ok(None)
    }

    /// Takes what has come over the TCP connection.
    fn take_messages(&mut self) -> Result<()> {
        while let Some(frame) = self.next_message()? {
            match frame {
                Frame::Control(_) if self.controls.len() == MAX_CONTROLS => {
                    return Err(self.malformed("more control messages than anybody waits for"));
                }
                Frame::Control(bytes) => self.controls.push_back(bytes),
                _ => return Err(self.malformed("a message at the wrong time")),
            }
        }
        Ok(())
    }

    /// Tells that memory came or went. What the peer tells is taken first: two ends that have much to tell would hold each other
    /// up.
    fn tell_of_memory(&mut self, frame: &Frame) -> Result<()> {
        match self.take_messages() {
            // Whether that matters is for who talks to it next.
            Ok(()) | Err(Error::PeerLost { .. }) => self.tell(frame, Deadline::after(PATIENCE)),
            Err(error) => Err(error),
        }
    }

    /// The peer's memory at an address. Addresses that are written to were told by control messages, which come behind those
    /// of the memory; one that is read may have come by the NIC, ahead of them ([`Unknown`]).
    fn remote(&mut self, at: Address, bytes: u64) -> Result<Remote> {
        if self.theirs.memory(at.key).is_none() {
            self.take_messages()?;
        }
        let stale = || Error::StaleKey { peer: self.peer.clone(), key: at.key };
        let (address, size_bytes) = self.theirs.memory(at.key).ok_or_else(stale)?;
        let Address { key, offset } = at;
        if offset.checked_add(bytes).is_none_or(|end| end > size_bytes) {
            return Err(Error::OutOfBounds { peer: self.peer.clone(), key, offset, bytes, size_bytes });
        }
        Ok(Remote { address: address + offset, key: u32::try_from(key).map_err(|_| stale())? })
    }

    /// Posts a request; its number.
    fn post(
        &mut self,
        key: u64,
        read: Option<u64>,
        post: impl FnOnce(&mut QueuePair, &BTreeMap<u64, Registered>, Signal) -> verbs::Result<()>,
    ) -> Result<u64> {
        self.make_room()?;
        let number = self.posted + 1;
        let posted = post(&mut self.pair, &self.own, Signal::With(number));
        posted.map_err(|error| self.failed(error.to_string()))?;
        self.posted = number;
        self.in_flight.push_back(Request { number, key, read });
        self.counts.work_requests += 1;
        Ok(number)
    }

    fn make_room(&mut self) -> Result<()> {
        let is_full = |own: &Self| own.in_flight.len() as u64 >= u64::from(SENDS);
        if !is_full(self) {
            return Ok(());
        }
        let (deadline, mut patience) = (Deadline::after(PATIENCE), Patience::default());
        while is_full(self) {
            self.take_completions()?;
            if patience.wait() && deadline.passed() {
                let waiting_for = format!("room for a request to {}", self.peer);
                return Err(Error::NoProgress { seconds: deadline.seconds(), waiting_for });
            }
        }
        Ok(())
    }

    fn take_completions(&mut self) -> Result<()> {
        let mut failure: Option<Completion> = None;
        let Self { sends, in_flight, completed, events, .. } = self;
        let polled = sends.poll(|completion| {
            if !completion.status.is_success() {
                failure.get_or_insert(completion);
                return;
            }
            // They complete in their order.
            while let Some(request) = in_flight.pop_front_if(|request| request.number <= completion.id) {
                *completed = request.number;
                events.extend(request.read.map(Event::Read));
            }
        });
        polled.map_err(|error| self.failed(error.to_string()))?;
        // What has come is heard before a failure of sending is told.
        let taken = self.take_immediates();
        match failure {
            Some(completion) => Err(self.explain(completion)),
            None => taken,
        }
    }

    fn take_immediates(&mut self) -> Result<()> {
        let mut failure = None;
        let Self { receives, pair, events, .. } = self;
        let polled = receives.poll(|completion| {
            if !completion.status.is_success() {
                failure.get_or_insert(completion.status.to_string());
                return;
            }
            events.extend(completion.immediate.map(Event::Immediate));
            if let Err(error) = pair.receive(completion.id) {
                failure.get_or_insert(error.to_string());
            }
        });
        polled.map_err(|error| self.failed(error.to_string()))?;
        failure.map_or(Ok(()), |what| Err(self.failed(format!("queue pair {}: {what}", self.number()))))
    }

    /// What a completion that failed means for who posted it.
    fn explain(&self, completion: Completion) -> Error {
        let request = self.in_flight.iter().find(|request| request.number == completion.id);
        let words = format!("queue pair {}: {}", self.number(), completion.status);
        let peer = self.peer.clone();
        match (completion.status, request) {
            (Status::REMOTE_ACCESS, Some(request)) => Error::StaleKey { peer, key: request.key },
            (Status::RETRIES_EXCEEDED, _) => {
                Error::PeerLost { peer, waiting_for: "a request was in flight".to_owned(), why: words }
            }
            _ => self.failed(words),
        }
    }

    /// Writes in pieces that a request takes, the last of which may have an immediate.
    fn write_pieces(&mut self, from: &Part, to: Address, immediate: Option<u32>) -> Result<u64> {
        self.check_registered(from)?;
        self.remote(to, from.size_bytes())?;
        let mut offset = 0;
        loop {
            let bytes = MOST_BYTES.min(from.size_bytes() - offset);
            let is_last = offset + bytes == from.size_bytes();
            let piece = from.part(offset, bytes)?;
            let remote = self.remote(Address { key: to.key, offset: to.offset + offset }, bytes)?;
            let number = immediate.filter(|_| is_last);
            let posted = self.post(to.key, None, |pair, own, signal| {
                pair.write(local(own, &piece)?, remote, number, signal)
            })?;
            self.counts.moved_bytes += bytes;
            if is_last {
                return Ok(posted);
            }
            offset += bytes;
        }
    }

    fn post_read(&mut self, from: Address, into: &Part, work: u64) -> Result<()> {
        self.remote(from, into.size_bytes())?;
        let mut offset = 0;
        while offset < into.size_bytes() {
            let bytes = MOST_BYTES.min(into.size_bytes() - offset);
            let piece = into.part(offset, bytes)?;
            let remote = self.remote(Address { key: from.key, offset: from.offset + offset }, bytes)?;
            offset += bytes;
            let told = (offset == into.size_bytes()).then_some(work);
            self.post(from.key, told, |pair, own, signal| pair.read(local(own, &piece)?, remote, signal))?;
            self.counts.moved_bytes += bytes;
        }
        Ok(())
    }

    /// Posts the reads of whose memory word has come meanwhile; one of memory that was taken back is refused by that.
    fn retry_reads(&mut self) -> Result<()> {
        if self.unknown.is_empty() {
            return Ok(());
        }
        self.take_messages()?;
        let (theirs, mut outcome) = (&self.theirs, Ok(()));
        for Read { from, into, work, .. } in self.unknown.take(|key| theirs.has_word(key)) {
            outcome = outcome.and(self.post_read(from, &into, work));
        }
        let overdue = self.unknown.overdue().map_or(Ok(()), |key| {
            let waiting_for = self.no_word(key);
            Err(Error::NoProgress { seconds: PATIENCE.as_secs_f64(), waiting_for })
        });
        outcome.and(overdue)
    }

    fn no_word(&self, key: u64) -> String {
        format!("word of memory {key} of {} has not come", self.peer)
    }

    fn check_registered(&self, part: &Part) -> Result<()> {
        if self.own.contains_key(&part.region().key()) {
            return Ok(());
        }
        Err(Error::Usage(format!("memory that is not registered for {}", self.peer)))
    }
}

/// Own memory as the NIC knows it.
fn local<'a>(own: &'a BTreeMap<u64, Registered>, part: &Part) -> verbs::Result<verbs::Local<'a>> {
    let number = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let (start, len) = (number(part.offset()), number(part.size_bytes()));
    match own.get(&part.region().key()) {
        Some(registered) => registered.region().local(start, len),
        None => Err(verbs::Error::OutOfRegion { offset: start, end: start.saturating_add(len), len: 0 }),
    }
}

impl Device for Verbs {
    fn peer(&self) -> &str {
        &self.peer
    }

    fn form(&self) -> FlagForm {
        self.form
    }

    fn register(&mut self, region: &Region) -> Result<Region> {
        let registered = Registered::new(&self.domain, region);
        let registered = registered.map_err(|what| self.failed(what))?;
        let remote = registered.region().remote(0);
        let key = u64::from(remote.key);
        self.own.insert(key, registered);
        self.counts.registrations += 1;
        self.tell_of_memory(&Frame::Region {
            key,
            address: remote.address,
            size_bytes: region.size_bytes(),
        })?;
        Ok(region.with_key(key))
    }

    fn release(&mut self, region: &Region) -> Result<()> {
        if self.own.remove(&region.key()).is_none() {
            return Err(Error::StaleKey { peer: "this process".to_owned(), key: region.key() });
        }
        self.tell_of_memory(&Frame::Revoke { key: region.key() })
    }

    fn write(&mut self, from: &Part, to: Address) -> Result<u64> {
        self.write_pieces(from, to, None)
    }

    fn write_flag(&mut self, value: u64, to: Address) -> Result<u64> {
        let remote = self.remote(to, 8)?;
        let word = value.to_ne_bytes();
        self.post(to.key, None, |pair, _, signal| pair.write_inline(&word, remote, None, signal))
    }

    fn write_immediate(&mut self, from: &Part, to: Address, number: u32) -> Result<u64> {
        self.write_pieces(from, to, Some(number))
    }

    fn read(&mut self, from: Address, into: &Part, work: u64) -> Result<()> {
        self.check_registered(into)?;
        if self.theirs.memory(from.key).is_none() {
            self.take_messages()?;
        }
        if !self.theirs.has_word(from.key) {
            let read = Read { from, into: into.clone(), work, deadline: Deadline::after(PATIENCE) };
            let refused = self.unknown.push(read);
            return refused.map_err(|read| {
                self.failed(format!("{}, nor for {MOST_READS} more reads", self.no_word(read.from.key)))
            });
        }
        self.post_read(from, into, work)
    }

    fn poll(&mut self, events: &mut Vec<Event>) -> Result<()> {
        let outcome = self.take_completions();
        let retried = self.retry_reads();
        events.append(&mut self.events);
        // What is to be told moves on with what is heard.
        let told = if self.control.is_idle() { Ok(()) } else { self.take_messages() };
        outcome.and(retried).and(told)
    }

    fn sent(&self) -> u64 {
        self.completed
    }

    fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.unknown.is_empty() && self.control.is_idle()
    }

    fn waits_for(&self) -> Option<String> {
        self.unknown.oldest().map(|key| self.no_word(key))
    }

    fn check_peer(&mut self) -> Result<()> {
        self.take_messages()?;
        // A write of the peer's that was refused here ends the queue pair without a completion.
        match self.pair.state().map_err(|error| self.failed(error.to_string()))? {
            State::Error => {
                Err(self.failed(format!("queue pair {} has failed: see the other end", self.number())))
            }
            _ => Ok(()),
        }
    }

    fn send_control(&mut self, bytes: &[u8]) -> Result<()> {
        self.counts.controls += 1;
        self.control.send_control(&Frame::Control(bytes.to_vec()).to_bytes())
    }

    fn receive_control(&mut self) -> Result<Option<Vec<u8>>> {
        let outcome = if self.controls.is_empty() { self.take_messages() } else { Ok(()) };
        // What the peer said before it went is heard.
        match self.controls.pop_front() {
            Some(message) => Ok(Some(message)),
            None => outcome.map(|()| None),
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}
