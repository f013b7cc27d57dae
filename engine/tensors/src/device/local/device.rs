//! Writes and reads as copies between mappings.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::device::local::frame::{self, Frame};
use crate::device::{Counts, Device, Event, FlagForm, MAX_CONTROL_BYTES, meant};
use crate::error::{Error, Result};
use crate::memory::{Address, Part, Region};

/// Control messages that may wait to be taken: a link says two, at its set-up and its end.
const MAX_CONTROLS: usize = 4;

/// One end of a connection to a process of this host.
#[derive(Debug)]
pub struct Local {
    socket: OwnedFd,
    peer: String,
    own: BTreeMap<u64, Region>,
    theirs: BTreeMap<u64, Region>,
    next_key: u64,
    /// Control messages that came while something else was looked for, and the pieces of the next one.
    controls: VecDeque<Vec<u8>>,
    pieces: Vec<u8>,
    /// Pieces of control messages that have found no room yet, and whether each is the last of its message.
    saying: VecDeque<(bool, Vec<u8>)>,
    /// Where frames are received.
    buffer: Box<[u8]>,
    events: Vec<Event>,
    writes: u64,
    counts: Counts,
}

impl Local {
    pub(super) fn new(socket: OwnedFd, peer: String) -> Self {
        Self {
            socket,
            peer,
            own: BTreeMap::new(),
            theirs: BTreeMap::new(),
            next_key: 1,
            controls: VecDeque::new(),
            pieces: Vec::new(),
            saying: VecDeque::new(),
            buffer: vec![0; frame::PIECE_BYTES].into(),
            events: Vec::new(),
            writes: 0,
            counts: Counts::default(),
        }
    }

    /// Takes what the socket has. The peer's memory is announced before its keys are told, so it is known by then.
    fn take_frames(&mut self) -> Result<()> {
        loop {
            match frame::receive(&self.socket, &mut self.buffer) {
                Ok(Some(frame)) => self.take(frame)?,
                Ok(None) => return Ok(()),
                Err(error) => return Err(self.lost(error)),
            }
        }
    }

    fn take(&mut self, frame: Frame) -> Result<()> {
        match frame {
            Frame::Region { key, size_bytes, fd } => {
                let malformed = |error: Error| self.malformed(&error.to_string());
                self.theirs.insert(key, Region::of_peer(fd, size_bytes, key).map_err(malformed)?);
            }
            Frame::Revoke { key } => {
                self.theirs.remove(&key);
            }
            Frame::Control { is_last, bytes } => {
                if self.pieces.len() + bytes > MAX_CONTROL_BYTES {
                    return Err(self.malformed("a control message of too many bytes"));
                }
                self.pieces.extend_from_slice(self.buffer.get(..bytes).unwrap_or_default());
                if is_last {
                    if self.controls.len() == MAX_CONTROLS {
                        return Err(self.malformed("more control messages than anybody waits for"));
                    }
                    self.controls.push_back(std::mem::take(&mut self.pieces));
                }
            }
        }
        Ok(())
    }

    fn malformed(&self, what: &str) -> Error {
        Error::Malformed { peer: self.peer.clone(), what: what.to_owned() }
    }

    fn lost(&self, error: Errno) -> Error {
        let why = match error {
            Errno::CONNRESET | Errno::PIPE => "its connection is closed".to_owned(),
            other => std::io::Error::from(other).to_string(),
        };
        Error::PeerLost { peer: self.peer.clone(), waiting_for: "talking to it".to_owned(), why }
    }

    /// The peer's memory at an address, asking the socket for it if it is not known yet.
    fn remote(&mut self, at: Address, bytes: u64) -> Result<Part> {
        if !self.theirs.contains_key(&at.key) {
            self.take_frames()?;
        }
        meant(&self.theirs, &self.peer, at, bytes)
    }

    /// Sends what is to be told, as far as there is room. The peer makes some whenever it polls in vain or waits for word.
    fn say(&mut self) -> Result<()> {
        while let Some((is_last, piece)) = self.saying.front() {
            let fields = [u64::from(*is_last), 0];
            let sent = frame::send(&self.socket, frame::CONTROL, fields, piece, None);
            if !sent.map_err(|error| self.lost(error))? {
                return Ok(());
            }
            self.counts.controls += 1;
            self.saying.pop_front();
        }
        Ok(())
    }
}

impl Device for Local {
    fn peer(&self) -> &str {
        &self.peer
    }

    fn form(&self) -> FlagForm {
        FlagForm::Tail
    }

    fn register(&mut self, region: &Region) -> Result<Region> {
        let region = region.with_key(self.next_key);
        // A GPU's memory is read into, and no peer of this host maps it.
        if let Some((fd, mapped_bytes)) = region.to_map() {
            let fields = [region.key(), mapped_bytes];
            let sent = frame::send(&self.socket, frame::REGION, fields, &[], Some(fd));
            if !sent.map_err(|error| self.lost(error))? {
                let what = "it takes no more registrations: allocate fewer, larger regions".to_owned();
                return Err(Error::Device { peer: self.peer.clone(), what });
            }
        }
        self.next_key += 1;
        self.own.insert(region.key(), region.clone());
        self.counts.registrations += 1;
        Ok(region)
    }

    fn release(&mut self, region: &Region) -> Result<()> {
        let Some(own) = self.own.remove(&region.key()) else {
            return Err(Error::StaleKey { peer: "this process".to_owned(), key: region.key() });
        };
        own.revoke();
        // Without room it is not told; the memory itself says that it was taken back.
        let told = frame::send(&self.socket, frame::REVOKE, [region.key(), 0], &[], None);
        told.map(|_| ()).map_err(|error| self.lost(error))
    }

    fn write(&mut self, from: &Part, to: Address) -> Result<u64> {
        let target = self.remote(to, from.size_bytes())?;
        match from.region().gpu() {
            Some(_) => target.place(&from.to_vec()?)?,
            None => target.place(from.bytes())?,
        }
        self.writes += 1;
        self.counts.work_requests += 1;
        self.counts.moved_bytes += from.size_bytes();
        Ok(self.writes)
    }

    fn write_flag(&mut self, value: u64, to: Address) -> Result<u64> {
        self.remote(to, 8)?.set_word(value)?;
        self.writes += 1;
        self.counts.work_requests += 1;
        Ok(self.writes)
    }

    fn read(&mut self, from: Address, into: &Part, work: u64) -> Result<()> {
        let source = self.remote(from, into.size_bytes())?;
        into.place(source.bytes())?;
        self.events.push(Event::Read(work));
        self.counts.work_requests += 1;
        self.counts.moved_bytes += into.size_bytes();
        Ok(())
    }

    fn poll(&mut self, events: &mut Vec<Event>) -> Result<()> {
        events.append(&mut self.events);
        self.say()
    }

    fn sent(&self) -> u64 {
        self.writes
    }

    fn is_idle(&self) -> bool {
        self.saying.is_empty()
    }

    fn check_peer(&mut self) -> Result<()> {
        self.take_frames()
    }

    fn send_control(&mut self, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        loop {
            let (piece, after) = rest.split_at(rest.len().min(frame::PIECE_BYTES));
            self.saying.push_back((after.is_empty(), piece.to_vec()));
            if after.is_empty() {
                return self.say();
            }
            rest = after;
        }
    }

    fn receive_control(&mut self) -> Result<Option<Vec<u8>>> {
        let taken = if self.controls.is_empty() { self.take_frames() } else { Ok(()) };
        let outcome = taken.and(self.say());
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
