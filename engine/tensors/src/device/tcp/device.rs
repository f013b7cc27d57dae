//! Writes and reads as messages.

use std::collections::{BTreeMap, VecDeque};
use std::net::TcpStream;

use crate::device::tcp::frame::Header;
use crate::device::tcp::incoming::{Came, Incoming};
use crate::device::tcp::outgoing::{Outgoing, Payload};
use crate::device::{Counts, Device, Event, FlagForm, MAX_CONTROL_BYTES, meant};
use crate::error::{Error, Result};
use crate::memory::{Address, Part, Region};

/// Bytes at a message's end that are placed in one piece, however few come at a time: a flag's.
const TAIL_BYTES: usize = 8;

/// Bytes that one call takes in at most, give or take a buffer: a peer that sends without end holds nobody up.
const PROGRESS_BYTES: usize = 4 << 20;
/// Control messages that wait to be taken, and their bytes, from which on the peer is not read any more, so that it is held
/// up: over verbs each of its registrations is one message. What the buffer has begun comes on top. More bytes than one message
/// has, for else it would never be whole.
const HELD_CONTROLS: usize = 1 << 15;
const HELD_CONTROLS_BYTES: u64 = 2 * MAX_CONTROL_BYTES as u64;

/// One end of a connection over TCP.
#[derive(Debug)]
pub struct Tcp {
    stream: TcpStream,
    peer: String,
    own: BTreeMap<u64, Region>,
    next_key: u64,
    outgoing: Outgoing,
    incoming: Incoming,
    /// Where the pieces of the message that has begun go.
    target: Target,
    /// Reads that the peer has not answered yet.
    reads: BTreeMap<u64, Part>,
    /// Control messages that nobody has taken yet, and their bytes, with those of one that comes.
    controls: VecDeque<Vec<u8>>,
    control_bytes: u64,
    events: Vec<Event>,
    /// Whether bytes moved when it was polled last.
    is_moving: bool,
    refusal: Option<Error>,
    writes: u64,
    counts: Counts,
}

/// Where bytes that come go.
#[derive(Debug)]
enum Target {
    /// Nowhere: they were refused.
    Nowhere,
    /// Into memory; with the read that asked for them, and the message's last word as far as it has come. That is placed
    /// at the end, in one piece: it may be a flag.
    Memory { part: Part, read: Option<u64>, tail: [u8; TAIL_BYTES] },
    /// Into a control message.
    Control(Vec<u8>),
}

impl Target {
    fn memory(part: Part, read: Option<u64>) -> Self {
        Self::Memory { part, read, tail: [0; TAIL_BYTES] }
    }
}

impl Tcp {
    pub(super) fn new(stream: TcpStream, peer: String) -> Self {
        Self {
            stream,
            peer,
            own: BTreeMap::new(),
            next_key: 1,
            outgoing: Outgoing::new(),
            incoming: Incoming::new(),
            target: Target::Nowhere,
            reads: BTreeMap::new(),
            controls: VecDeque::new(),
            control_bytes: 0,
            events: Vec::new(),
            is_moving: false,
            refusal: None,
            writes: 0,
            counts: Counts::default(),
        }
    }

    /// Sends what the socket takes and puts down what it has, up to a budget and to what may wait. What has come is taken before
    /// a failure of sending is told.
    fn progress(&mut self) -> Result<()> {
        let mut came_bytes = 0;
        self.is_moving = false;
        loop {
            let sent = self.flush();
            while self.take_one()? {}
            if came_bytes >= PROGRESS_BYTES || self.holds_up() {
                return sent;
            }
            let came = self.incoming.fill(&self.stream).map_err(|error| self.lost(&error))?;
            if came == 0 {
                return sent;
            }
            came_bytes += came;
            self.is_moving = true;
        }
    }

    /// Whether so much waits to be taken that the peer is not read any more.
    fn holds_up(&self) -> bool {
        self.controls.len() >= HELD_CONTROLS || self.control_bytes >= HELD_CONTROLS_BYTES
    }

    fn flush(&mut self) -> Result<()> {
        let sent = self.outgoing.flush(&self.stream).map_err(|error| self.lost(&error))?;
        self.is_moving |= sent > 0;
        Ok(())
    }

    fn lost(&self, error: &std::io::Error) -> Error {
        let why = match error.kind() {
            std::io::ErrorKind::UnexpectedEof => "its connection is closed".to_owned(),
            _ => error.to_string(),
        };
        Error::PeerLost { peer: self.peer.clone(), waiting_for: "talking to it".to_owned(), why }
    }

    fn malformed(&self, what: &str) -> Error {
        Error::Malformed { peer: self.peer.clone(), what: what.to_owned() }
    }

    fn push(&mut self, header: Header, payload: Payload) {
        self.counts.messages += 1;
        self.outgoing.push(header, payload);
    }

    /// Takes the next message or piece out of the buffer; whether there was one.
    fn take_one(&mut self) -> Result<bool> {
        match self.incoming.next() {
            None => return Ok(false),
            Some(Came::Header(header)) => self.begin(header)?,
            Some(Came::Nonsense) => return Err(self.malformed("bytes that are no message")),
            Some(Came::Piece { offset, bytes, is_last }) => {
                match &mut self.target {
                    Target::Nowhere => {}
                    Target::Memory { part, tail, .. } => {
                        put_down(part, tail, offset, bytes, is_last)?;
                        self.counts.copied_bytes += bytes.len() as u64;
                    }
                    Target::Control(message) => message.extend_from_slice(bytes),
                }
                if is_last {
                    self.end();
                }
            }
        }
        Ok(true)
    }

    fn begin(&mut self, header: Header) -> Result<()> {
        match header {
            Header::Write { to, bytes, .. } => {
                self.target =
                    self.own_part(to, bytes).map_or(Target::Nowhere, |part| Target::memory(part, None));
            }
            Header::Flag { to, value } => {
                if let Some(part) = self.own_part(to, 8) {
                    part.set_word(value)?;
                }
            }
            Header::Read { work, from, bytes } => {
                if let Some(part) = self.own_part(from, bytes) {
                    let payload = payload_of(&part)?;
                    self.push(Header::Answer { work, bytes }, payload);
                }
            }
            Header::Answer { work, bytes } => {
                let part = self.reads.remove(&work).filter(|part| part.size_bytes() == bytes);
                let part = part.ok_or_else(|| self.malformed("an answer that nobody asked for"))?;
                self.target = Target::memory(part, Some(work));
            }
            Header::Refused { at, bytes, size_bytes: 0 } => {
                let _ = bytes;
                self.refusal = Some(Error::StaleKey { peer: self.peer.clone(), key: at.key });
            }
            Header::Refused { at: Address { key, offset }, bytes, size_bytes } => {
                let peer = self.peer.clone();
                self.refusal = Some(Error::OutOfBounds { peer, key, offset, bytes, size_bytes });
            }
            Header::Control { bytes } => {
                if bytes > MAX_CONTROL_BYTES as u64 {
                    return Err(self.malformed("a control message of too many bytes"));
                }
                self.control_bytes += bytes;
                self.target = Target::Control(Vec::new());
            }
        }
        if header.payload_bytes() == 0 && matches!(header, Header::Control { .. } | Header::Answer { .. }) {
            self.end();
        }
        Ok(())
    }

    /// The message that has begun is whole.
    fn end(&mut self) {
        match std::mem::replace(&mut self.target, Target::Nowhere) {
            Target::Memory { read: Some(work), .. } => self.events.push(Event::Read(work)),
            Target::Control(message) => self.controls.push_back(message),
            Target::Memory { read: None, .. } | Target::Nowhere => {}
        }
    }

    /// Own memory that the peer means; where it is not there the peer is told.
    fn own_part(&mut self, at: Address, bytes: u64) -> Option<Part> {
        let size_bytes = match meant(&self.own, "this process", at, bytes) {
            Ok(part) => return Some(part),
            Err(Error::OutOfBounds { size_bytes, .. }) => size_bytes,
            Err(_) => 0,
        };
        self.push(Header::Refused { at, bytes, size_bytes }, Payload::None);
        None
    }
}

/// Puts a piece of a message down: all but the message's last word at once, that word with the last piece.
fn put_down(
    part: &Part,
    tail: &mut [u8; TAIL_BYTES],
    offset: u64,
    bytes: &[u8],
    is_last: bool,
) -> Result<()> {
    let tail_at = part.size_bytes().saturating_sub(TAIL_BYTES as u64);
    let ahead = usize::try_from(tail_at.saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes.len());
    let (ahead, held) = bytes.split_at(ahead);
    if !ahead.is_empty() {
        part.part(offset, ahead.len() as u64)?.place(ahead)?;
    }
    let at = usize::try_from(offset.saturating_sub(tail_at)).unwrap_or(TAIL_BYTES);
    for (place, byte) in tail.iter_mut().skip(at).zip(held) {
        *place = *byte;
    }
    if is_last {
        let len = part.size_bytes() - tail_at;
        let word = usize::try_from(len).ok().and_then(|len| tail.get(..len)).unwrap_or_default();
        part.part(tail_at, len)?.place(word)?;
    }
    Ok(())
}

/// What is sent of a part: of a GPU's memory a copy.
fn payload_of(part: &Part) -> Result<Payload> {
    match part.region().gpu() {
        Some(_) => part.to_vec().map(Payload::Bytes),
        None => Ok(Payload::Part(part.clone())),
    }
}

impl Device for Tcp {
    fn peer(&self) -> &str {
        &self.peer
    }

    fn form(&self) -> FlagForm {
        FlagForm::Tail
    }

    fn register(&mut self, region: &Region) -> Result<Region> {
        let region = region.with_key(self.next_key);
        self.next_key += 1;
        self.own.insert(region.key(), region.clone());
        self.counts.registrations += 1;
        Ok(region)
    }

    fn release(&mut self, region: &Region) -> Result<()> {
        match self.own.remove(&region.key()) {
            Some(_) => Ok(()),
            None => Err(Error::StaleKey { peer: "this process".to_owned(), key: region.key() }),
        }
    }

    fn write(&mut self, from: &Part, to: Address) -> Result<u64> {
        self.writes += 1;
        let header = Header::Write { number: self.writes, to, bytes: from.size_bytes() };
        let payload = payload_of(from)?;
        self.push(header, payload);
        self.counts.work_requests += 1;
        self.counts.moved_bytes += from.size_bytes();
        self.flush()?;
        Ok(self.writes)
    }

    fn write_flag(&mut self, value: u64, to: Address) -> Result<u64> {
        self.push(Header::Flag { to, value }, Payload::None);
        self.counts.work_requests += 1;
        self.flush()?;
        Ok(self.writes)
    }

    fn read(&mut self, from: Address, into: &Part, work: u64) -> Result<()> {
        self.reads.insert(work, into.clone());
        self.push(Header::Read { work, from, bytes: into.size_bytes() }, Payload::None);
        self.counts.work_requests += 1;
        self.counts.moved_bytes += into.size_bytes();
        self.flush()
    }

    fn poll(&mut self, events: &mut Vec<Event>) -> Result<()> {
        let outcome = self.progress();
        events.append(&mut self.events);
        match self.refusal.take() {
            Some(refusal) => Err(refusal),
            None => outcome,
        }
    }

    fn sent(&self) -> u64 {
        self.outgoing.copied
    }

    fn is_idle(&self) -> bool {
        self.outgoing.is_empty()
    }

    fn is_moving(&self) -> bool {
        self.is_moving
    }

    fn check_peer(&mut self) -> Result<()> {
        // Whoever polls notices the end of the connection by that, but not behind messages that nobody takes.
        if self.holds_up() {
            return Err(self.malformed("more control messages than anybody waits for"));
        }
        Ok(())
    }

    fn send_control(&mut self, bytes: &[u8]) -> Result<()> {
        self.outgoing.push(Header::Control { bytes: bytes.len() as u64 }, Payload::Bytes(bytes.to_vec()));
        self.counts.controls += 1;
        self.flush()
    }

    fn receive_control(&mut self) -> Result<Option<Vec<u8>>> {
        let outcome = if self.controls.is_empty() { self.progress() } else { Ok(()) };
        // What the peer said before it went is heard.
        let Some(message) = self.controls.pop_front() else { return outcome.map(|()| None) };
        self.control_bytes -= message.len() as u64;
        Ok(Some(message))
    }

    fn counts(&self) -> Counts {
        Counts { copied_bytes: self.counts.copied_bytes + self.outgoing.copied_bytes, ..self.counts }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    /// A device, and the socket of a peer that says what a test wants.
    fn beside() -> (Tcp, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        peer.set_nodelay(true).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        (Tcp::new(stream, "a peer of a test".to_owned()), peer)
    }

    #[test]
    fn a_flag_is_whole_however_few_bytes_come_at_a_time() {
        for payload_bytes in [0_u64, 3, 64, 200] {
            let (mut device, mut peer) = beside();
            let region = device.allocate(4096).unwrap();
            let bytes = payload_bytes + 8;
            let flag = region.part(payload_bytes.next_multiple_of(8), 8).unwrap();
            let start = flag.offset() + 8 - bytes;
            let to = Address { key: region.key(), offset: start };
            let mut message = Header::Write { number: 1, to, bytes }.to_bytes().to_vec();
            message.extend((0..payload_bytes).map(|_| 5));
            message.extend(0x0102_0304_0506_0708_u64.to_ne_bytes());
            let mut events = Vec::new();
            let (last, ahead) = message.split_last().unwrap();
            for byte in ahead {
                peer.write_all(&[*byte]).unwrap();
                device.poll(&mut events).unwrap();
                assert_eq!(flag.word().unwrap(), 0);
            }
            peer.write_all(&[*last]).unwrap();
            while flag.word().unwrap() == 0 {
                device.poll(&mut events).unwrap();
            }
            assert_eq!(flag.word().unwrap(), 0x0102_0304_0506_0708);
            let payload = region.part(start, payload_bytes).unwrap();
            assert!(payload.bytes().iter().all(|byte| *byte == 5));
        }
    }

    #[test]
    fn a_peer_that_says_much_is_held_up_and_heard_to_the_end() {
        for (count, bytes) in [(4 * HELD_CONTROLS, 8), (6, MAX_CONTROL_BYTES)] {
            let (mut device, mut peer) = beside();
            let message = move |number: usize| {
                let mut message = vec![0; bytes];
                message[..8].copy_from_slice(&(number as u64).to_le_bytes());
                message
            };
            let sender = std::thread::spawn(move || {
                for number in 0..count {
                    peer.write_all(&Header::Control { bytes: bytes as u64 }.to_bytes()).unwrap();
                    peer.write_all(&message(number)).unwrap();
                }
            });
            let mut events = Vec::new();
            while !device.holds_up() {
                device.poll(&mut events).unwrap();
            }
            let held = (device.controls.len(), device.control_bytes);
            assert!(held.0 < 2 * HELD_CONTROLS && held.1 <= HELD_CONTROLS_BYTES + MAX_CONTROL_BYTES as u64);
            device.poll(&mut events).unwrap();
            assert_eq!((device.controls.len(), device.control_bytes), held);
            // Whoever waits for something else is told why that does not come.
            let error = device.check_peer().unwrap_err();
            assert!(matches!(error, Error::Malformed { .. }), "{error}");
            for number in 0..count {
                let heard = loop {
                    if let Some(heard) = device.receive_control().unwrap() {
                        break heard;
                    }
                };
                assert!(heard == message(number), "message {number}");
            }
            device.check_peer().unwrap();
            sender.join().unwrap();
        }
    }

    #[test]
    fn a_message_that_is_too_large_is_refused() {
        let (mut device, mut peer) = beside();
        peer.write_all(&Header::Control { bytes: MAX_CONTROL_BYTES as u64 + 1 }.to_bytes()).unwrap();
        let error = loop {
            if let Err(error) = device.poll(&mut Vec::new()) {
                break error.to_string();
            }
        };
        assert!(error.contains("a control message of too many bytes"), "{error}");
    }

    #[test]
    fn one_call_takes_a_budget_at_most_and_what_came_before_a_failure_of_sending() {
        let (mut device, mut peer) = beside();
        let region = device.allocate(1 << 20).unwrap();
        let to = Address { key: region.key(), offset: 0 };
        let sender = std::thread::spawn(move || {
            let bytes = 1 << 20;
            let mut message = Header::Write { number: 1, to, bytes }.to_bytes().to_vec();
            message.extend(vec![7; 1 << 20]);
            while peer.write_all(&message).is_ok() {}
        });
        for _ in 0..20 {
            let before = device.counts().copied_bytes;
            device.progress().unwrap();
            assert!(device.counts().copied_bytes - before <= (PROGRESS_BYTES + (256 << 10)) as u64);
        }
        drop(device);
        sender.join().unwrap();
        // The peer has said something, and takes nothing any more.
        let (mut device, mut peer) = beside();
        peer.write_all(&Header::Control { bytes: 0 }.to_bytes()).unwrap();
        device.stream.shutdown(std::net::Shutdown::Write).unwrap();
        let own = device.allocate(64).unwrap();
        assert!(device.write(&own.part(0, 8).unwrap(), to).is_err());
        assert!(device.poll(&mut Vec::new()).is_err());
        assert_eq!(device.receive_control().unwrap(), Some(Vec::new()));
    }
}
