//! Transfers over a link that is set up: write, poll, release.

use crate::clock::{Deadline, Patience};
use crate::device::{Event, FlagForm};
use crate::error::{Error, Result};
use crate::link::ends::{Edge, End, told};
use crate::link::{Direction, EdgeId, Link, Placement};
use crate::memory::Part;
use crate::tensor::Shape;

/// Where a dynamic edge's tensor comes to lie.
type Take<'a> = &'a mut dyn FnMut(&Shape) -> Result<Part>;

/// What each end says when it needs the other no more.
const FAREWELL: &[u8] = b"farewell";

impl Link {
    /// The memory to be sent next: of a static edge its slot, of a dynamic one what [`Link::begin`] allocated.
    ///
    /// # Errors
    /// [`Error::Leaving`] or [`Error::TooEarly`] while the last transfer still needs it; or there is none.
    pub fn tensor_mut(&mut self, edge: EdgeId) -> Result<&mut [u8]> {
        self.going(edge, Direction::Send)?;
        self.drive_for(edge)?;
        self.hear_word(edge)?;
        let (sent, peer) = (self.device.sent(), self.device.peer());
        let found = self.edges.get(edge.0).ok_or_else(|| no_edge(edge))?;
        let refused = |why: &str| Err(Error::Usage(format!("edge {}: {why}", found.declaration.name)));
        if found.number > sent {
            return Err(Error::Leaving { edge: found.name().to_owned(), peer: peer.to_owned() });
        }
        match (&found.end, &found.pending, &found.declaration.placement, &found.slot) {
            (End::StaticSender(_), _, Placement::Static(shape), Some(slot)) => {
                let len = usize::try_from(shape.size_bytes()).unwrap_or(0);
                Ok(slot.bytes_mut().get_mut(..len).unwrap_or_default())
            }
            (End::DynamicSender(sender), Some((_, part)), ..) if sender.may_send() => Ok(part.bytes_mut()),
            (End::DynamicSender(sender), Some(_), ..) => Err(sender.too_early(peer)),
            (End::DynamicSender(_), ..) => refused("begin a tensor first"),
            _ => refused("there is nothing to be sent from here"),
        }
    }

    /// The shape of what [`Link::tensor_mut`] gives.
    ///
    /// # Errors
    /// Nothing is to be sent on the edge.
    pub fn shape_to_send(&self, edge: EdgeId) -> Result<Shape> {
        let found = self.going(edge, Direction::Send)?;
        match (&found.end, &found.pending, &found.declaration.placement) {
            (End::StaticSender(_), _, Placement::Static(shape))
            | (End::DynamicSender(_), Some((shape, _)), _) => Ok(shape.clone()),
            _ => Err(Error::Usage(format!("edge {} has nothing to be sent from here", found.name()))),
        }
    }

    /// Allocates a tensor of a dynamic edge, to be written and sent.
    ///
    /// # Errors
    /// The receiver may still read the last one, the tensor is too large, or the arena is full.
    pub fn begin(&mut self, edge: EdgeId, shape: &Shape) -> Result<()> {
        let may_send = self.may_send(edge)?;
        let peer = self.device.peer().to_owned();
        let found = self.edges.get_mut(edge.0);
        let found = found.ok_or_else(|| no_edge(edge))?;
        let Placement::Dynamic { limit_bytes } = found.declaration.placement else {
            return Err(Error::Usage(format!("edge {} is static: its memory is there", found.name())));
        };
        match &found.end {
            _ if may_send => {}
            End::DynamicSender(sender) if !sender.may_send() => return Err(sender.too_early(&peer)),
            _ => return Err(Error::Leaving { edge: found.name().to_owned(), peer }),
        }
        let bytes = shape.size_bytes();
        if bytes > limit_bytes {
            return Err(Error::TooLarge { edge: found.name().to_owned(), bytes, limit_bytes });
        }
        let arena = self.arena.as_mut().ok_or_else(no_arena)?;
        if let Some((_, part)) = found.pending.take() {
            arena.give_back(&part);
        }
        found.pending = Some((shape.clone(), arena.take(bytes)?));
        Ok(())
    }

    /// Sends what is in [`Link::tensor_mut`].
    ///
    /// # Errors
    /// [`Error::TooEarly`] before the data flow allows it; a tensor whose sender this edge tells was not released; or the
    /// device's.
    pub fn send(&mut self, edge: EdgeId) -> Result<()> {
        match self.at(edge)?.pending.clone() {
            Some((shape, part)) => self.transfer(edge, Some((&shape, &part))),
            None => self.transfer(edge, None),
        }
    }

    /// Sends registered memory that lies elsewhere: a part of what [`Link::register`] gave. It stays as it is until
    /// [`Link::has_left`], that of a dynamic edge until [`Link::may_send`].
    ///
    /// # Errors
    /// As of [`Link::send`].
    pub fn send_from(&mut self, edge: EdgeId, shape: &Shape, from: &Part) -> Result<()> {
        self.transfer(edge, Some((shape, from)))
    }

    fn transfer(&mut self, edge: EdgeId, from: Option<(&Shape, &Part)>) -> Result<()> {
        self.sending(edge)?;
        self.hear_word(edge)?;
        let found = self.at(edge)?;
        let kept = found
            .tells_of
            .iter()
            .filter_map(|receiver| self.edges.get(*receiver))
            .find(|edge| edge.is_kept());
        if let Some(kept) = kept {
            return Err(Error::Usage(format!("edge {}: release {} first", found.name(), kept.name())));
        }
        let tells = told(&self.edges, &found.tells_of);
        let Self { edges, device, .. } = self;
        let Some(found) = edges.get_mut(edge.0) else { return Err(no_edge(edge)) };
        let name = &found.declaration.name;
        let outcome = match (&mut found.end, from) {
            (End::StaticSender(sender), None) => sender.send(device.as_mut(), None, tells),
            (End::StaticSender(sender), Some((shape, part))) => {
                if !matches!(&found.declaration.placement, Placement::Static(known) if known == shape) {
                    return Err(Error::Usage(format!("edge {name} does not carry {shape}")));
                }
                sender.send(device.as_mut(), Some(part), tells)
            }
            (End::DynamicSender(sender), Some((shape, part))) => {
                sender.send(device.as_mut(), shape, part, tells)
            }
            _ => return Err(Error::Usage(format!("edge {name}: begin a tensor first"))),
        };
        found.number = outcome.map_err(|error| error.during(|| format!("sending on edge {name}")))?;
        Ok(())
    }

    /// Whether the next transfer is allowed and its memory free.
    ///
    /// # Errors
    /// The device's; or nothing will ever be sent: the edge is not one to send on, or the link is not set up or finished.
    pub fn may_send(&mut self, edge: EdgeId) -> Result<bool> {
        self.sending(edge)?;
        let is_free = |own: &mut Self| -> Result<bool> {
            own.hear_word(edge)?;
            let found = own.at(edge)?;
            Ok(found.may_send() && own.device.sent() >= found.number)
        };
        self.now_or_then(is_free).map_err(|error| error.during(|| self.waiting_for(edge)))
    }

    /// Whether the last transfer has left its memory.
    ///
    /// # Errors
    /// The device's.
    pub fn has_left(&mut self, edge: EdgeId) -> Result<bool> {
        let number = self.at(edge)?.number;
        let has_left = self.now_or_then(|own| Ok(own.device.sent() >= number));
        has_left.map_err(|error| error.during(|| format!("edge {} sends", self.name(edge))))
    }

    /// Looks, moves the device on, and looks again: what a peer wrote before it went is there.
    fn now_or_then(&mut self, mut is_so: impl FnMut(&mut Self) -> Result<bool>) -> Result<bool> {
        if is_so(self)? {
            return Ok(true);
        }
        let outcome = self.drive();
        if is_so(self)? {
            return Ok(true);
        }
        outcome.map(|()| false)
    }

    /// Looks whether a tensor is there. One of a dynamic edge is fetched into the link's arena, over several polls if need be.
    ///
    /// # Errors
    /// The device's, or the sender broke the rules of the edge.
    pub fn poll(&mut self, edge: EdgeId) -> Result<bool> {
        let mut arena = self.arena.take();
        let mut taken = None;
        let mut take = |shape: &Shape| {
            let block = arena.as_mut().ok_or_else(no_arena)?.take(shape.size_bytes())?;
            taken = Some(block.clone());
            Ok(block)
        };
        let found = self.poll_into(edge, &mut take);
        // A read that the device refused has no use for its memory.
        let is_refused = found.is_err() && self.at(edge).is_ok_and(Edge::wants_memory);
        if let (true, Some(block), Some(arena)) = (is_refused, taken, &mut arena) {
            arena.give_back(&block);
        }
        self.arena = arena;
        found
    }

    /// The same, where tensors of dynamic edges are fetched to where `take` says: parts of what [`Link::register`] gave.
    ///
    /// # Errors
    /// As of [`Link::poll`].
    pub fn poll_into(&mut self, edge: EdgeId, take: Take<'_>) -> Result<bool> {
        self.going(edge, Direction::Receive)?;
        self.polls.polls += 1;
        if self.look(edge, take)? {
            self.polls.hits += 1;
            return Ok(true);
        }
        let outcome = self.drive();
        // What a peer wrote before it went is there.
        if self.look(edge, take)? {
            self.polls.hits += 1;
            return Ok(true);
        }
        if self.has_told_end && self.has_heard_end {
            return Err(self.finished(edge));
        }
        outcome.map(|()| false).map_err(|error| error.during(|| self.waiting_for(edge)))
    }

    /// Waits until a tensor is there.
    ///
    /// # Errors
    /// As of [`Link::poll`]; the peer is gone, or the deadline has passed.
    pub fn wait(&mut self, edge: EdgeId, deadline: Deadline) -> Result<()> {
        self.until(deadline, |own| own.poll(edge), |own| own.waiting_for(edge))
    }

    /// Waits until the next transfer is allowed.
    ///
    /// # Errors
    /// As of [`Link::may_send`]; the peer is gone, or the deadline has passed.
    pub fn wait_to_send(&mut self, edge: EdgeId, deadline: Deadline) -> Result<()> {
        self.until(deadline, |own| own.may_send(edge), |own| own.waiting_for(edge))
    }

    /// Waits until all that was sent has left this process.
    ///
    /// # Errors
    /// The peer is gone, or the deadline has passed.
    pub fn flush(&mut self, deadline: Deadline) -> Result<()> {
        self.until(deadline, Self::is_flushed, Self::flushing)
    }

    /// What [`Link::flush`] waits for, in words.
    pub(crate) fn flushing(&self) -> String {
        let sent = self.device.sent();
        let names: Vec<&str> = self.edges.iter().filter(|edge| edge.number > sent).map(Edge::name).collect();
        match names.as_slice() {
            [] => format!("what was sent to {} leaves", self.device.peer()),
            names => format!("what was sent to {} on edge {} leaves", self.device.peer(), names.join(", ")),
        }
    }

    /// Whether all that was sent has left this process.
    pub(crate) fn is_flushed(&mut self) -> Result<bool> {
        let number = self.edges.iter().map(|edge| edge.number).max().unwrap_or(0);
        let is_flushed = self.now_or_then(|own| Ok(own.device.sent() >= number && own.device.is_idle()));
        is_flushed.map_err(|error| error.during(|| self.flushing()))
    }

    /// Waits until neither end needs the other any more, before the end of a program. Both ends call it. Nothing can be sent
    /// once it has begun; where its deadline has passed it may be called again.
    ///
    /// # Errors
    /// The link is not set up, the peer is gone without having called it, or the deadline has passed.
    pub fn finish(&mut self, deadline: Deadline) -> Result<()> {
        self.check_ready()?;
        self.flush(deadline)?;
        self.begin_finish()?;
        self.until(deadline, Self::has_finished, Self::finishing)
    }

    /// The first half of [`Link::finish`] of a link that is flushed, for those who have several links: this end needs the
    /// other no more.
    pub(crate) fn begin_finish(&mut self) -> Result<()> {
        // Before that the peer takes it for this end's edges.
        self.check_ready()?;
        self.has_told_end = true;
        match self.device.send_control(FAREWELL) {
            // It may have gone after its own farewell.
            Ok(()) | Err(Error::PeerLost { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The second half: whether the other does not need this one either, and has been told.
    pub(crate) fn has_finished(&mut self) -> Result<bool> {
        if !self.has_heard_end {
            let heard = self.device.receive_control().map_err(|error| error.during(|| self.finishing()))?;
            let Some(said) = heard else { return Ok(false) };
            if said != FAREWELL {
                let what = "something else than its end".to_owned();
                return Err(Error::Malformed { peer: self.peer().to_owned(), what });
            }
            self.has_heard_end = true;
        }
        // Who is gone by now needs not be told.
        match self.drive() {
            Err(Error::PeerLost { .. }) => Ok(true),
            outcome => outcome.map(|()| self.device.is_idle()),
        }
    }

    /// What [`Link::finish`] waits for then, in words.
    pub(crate) fn finishing(&self) -> String {
        format!("the link waits for the end of {}", self.device.peer())
    }

    /// Moves the device on for the peer's sake, which may want to read here. A peer that is gone is not noticed.
    ///
    /// # Errors
    /// A write or read of this end's was refused.
    pub fn serve(&mut self) -> Result<()> {
        match self.drive() {
            Err(Error::PeerLost { .. }) => Ok(()),
            outcome => outcome,
        }
    }

    pub(super) fn until(
        &mut self,
        deadline: Deadline,
        mut is_over: impl FnMut(&mut Self) -> Result<bool>,
        waiting_for: impl Fn(&Self) -> String,
    ) -> Result<()> {
        let (mut patience, mut looks_around) = (Patience::default(), deadline.is_now());
        while !self.is_over(deadline, looks_around, &mut is_over, &waiting_for)? {
            if self.is_moving() {
                patience.moved();
            }
            looks_around = patience.wait();
        }
        Ok(())
    }

    /// Whether bytes moved at the last look, of a device that moves them only then.
    pub(crate) fn is_moving(&self) -> bool {
        self.device.is_moving()
    }

    /// One look of those who wait; with one around, whether the peer is gone or the deadline has passed.
    ///
    /// # Errors
    /// As of `is_over`; the peer is gone, or the deadline has passed.
    pub(crate) fn is_over(
        &mut self,
        deadline: Deadline,
        looks_around: bool,
        mut is_over: impl FnMut(&mut Self) -> Result<bool>,
        waiting_for: impl Fn(&Self) -> String,
    ) -> Result<bool> {
        if is_over(self)? {
            return Ok(true);
        }
        if !looks_around {
            return Ok(false);
        }
        if let Err(error) = self.device.check_peer() {
            return match is_over(self)? {
                true => Ok(true),
                false => Err(error.during(|| waiting_for(self))),
            };
        }
        if deadline.passed() {
            return Err(Error::NoProgress { seconds: deadline.seconds(), waiting_for: waiting_for(self) });
        }
        Ok(false)
    }

    /// The tensor that is there, and its shape.
    ///
    /// # Errors
    /// None is there.
    pub fn tensor(&self, edge: EdgeId) -> Result<(&Shape, &[u8])> {
        let found = self.going(edge, Direction::Receive)?;
        match (&found.end, &found.declaration.placement, &found.slot) {
            (End::StaticReceiver(receiver), Placement::Static(shape), Some(slot)) => {
                let payload = receiver.payload()?;
                let len = usize::try_from(payload.size_bytes()).unwrap_or(0);
                Ok((shape, slot.bytes().get(..len).unwrap_or_default()))
            }
            (End::DynamicReceiver(receiver), ..) => match receiver.payload()? {
                (_, part) if part.region().gpu().is_some() => Err(Error::Usage(format!(
                    "edge {}: the tensor lies on a GPU, and is not read from here",
                    found.name()
                ))),
                (shape, part) => Ok((shape, part.bytes())),
            },
            _ => Err(Error::Usage(format!("edge {} has no memory of its own here", found.name()))),
        }
    }

    /// Where the tensor that is there lies, and its shape.
    ///
    /// # Errors
    /// None is there.
    pub fn received(&self, edge: EdgeId) -> Result<(Shape, Part)> {
        let found = self.going(edge, Direction::Receive)?;
        match (&found.end, &found.declaration.placement) {
            (End::StaticReceiver(receiver), Placement::Static(shape)) => {
                Ok((shape.clone(), receiver.payload()?))
            }
            (End::DynamicReceiver(receiver), _) => {
                receiver.payload().map(|(shape, part)| (shape.clone(), part.clone()))
            }
            _ => Err(Error::Usage(format!("edge {} has no memory of its own here", found.name()))),
        }
    }

    /// Gives the tensor that is there up. The sender of a static edge hears of it by a word, or by what this end sends next on
    /// the edge that holds it; that of a dynamic one has heard when the tensor was read.
    ///
    /// # Errors
    /// None is there, or the device's.
    pub fn release(&mut self, edge: EdgeId) -> Result<()> {
        self.going(edge, Direction::Receive)?;
        let Self { edges, device, .. } = self;
        let found = edges.get_mut(edge.0).ok_or_else(|| no_edge(edge))?;
        let memory = match &mut found.end {
            End::StaticReceiver(receiver) => receiver.release(device.peer()).map(|_| None)?,
            End::DynamicReceiver(receiver) => Some(receiver.release()?),
            _ => None,
        };
        // What was fetched to elsewhere is the business of who said where.
        if let Some((memory, arena)) =
            memory.zip(self.arena.as_mut()).filter(|(memory, arena)| arena.holds(memory))
        {
            arena.give_back(&memory);
        }
        self.tell(edge)
    }

    /// Writes the word that tells a sender of releases, where there is one and something to be told.
    fn tell(&mut self, edge: EdgeId) -> Result<()> {
        let found = self.at_mut(edge)?;
        let released = found.released();
        let Some(word) = found.tell_at.filter(|_| found.told != released) else { return Ok(()) };
        found.told = released;
        match self.device.write_flag(u64::from(released), word) {
            // Who is gone needs no word; whoever waits for it next is told.
            Ok(_) | Err(Error::PeerLost { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What an edge waits for, in words.
    pub fn waiting_for(&self, edge: EdgeId) -> String {
        let (name, peer) = (self.name(edge), self.device.peer());
        match self.at(edge).map(|found| &found.end) {
            Ok(End::StaticReceiver(receiver)) => {
                format!("edge {name} waits for the flag of transfer {} from {peer}", receiver.sequence())
            }
            Ok(End::DynamicReceiver(receiver)) if receiver.wants().is_none() && receiver.is_told() => {
                let why = self.device.waits_for().map_or_else(String::new, |why| format!(": {why}"));
                format!("edge {name} waits for the bytes of transfer {} of {peer}{why}", receiver.sequence())
            }
            Ok(End::DynamicReceiver(receiver)) => {
                format!("edge {name} waits for the metadata of transfer {} from {peer}", receiver.sequence())
            }
            Ok(End::StaticSender(_) | End::DynamicSender(_)) => {
                format!("edge {name} waits until {peer} has released the last transfer")
            }
            _ => format!("edge {name} of {peer}"),
        }
    }

    fn name(&self, edge: EdgeId) -> &str {
        self.at(edge).map_or("?", Edge::name)
    }

    fn at_mut(&mut self, edge: EdgeId) -> Result<&mut Edge> {
        self.edges.get_mut(edge.0).ok_or_else(|| no_edge(edge))
    }

    /// What the receiver has written back, of an edge that is held by that.
    fn hear_word(&mut self, edge: EdgeId) -> Result<()> {
        let found = self.at_mut(edge)?;
        if let Some(word) = &found.word {
            let released = u32::try_from(word.word()?).unwrap_or(0);
            found.hear(released);
        }
        Ok(())
    }

    /// Looks at an edge's flag.
    fn look(&mut self, edge: EdgeId, take: Take<'_>) -> Result<bool> {
        let by_immediates = self.form() == FlagForm::Immediate;
        let Self { edges, device, reads, n_reads, .. } = self;
        let Some(found) = edges.get_mut(edge.0) else { return Err(no_edge(edge)) };
        let may_look = !by_immediates || found.arrived > 0;
        let (heard, is_here) = match &mut found.end {
            End::StaticReceiver(receiver) => {
                let heard = if may_look { receiver.poll(device.peer())? } else { None };
                (heard, receiver.is_here())
            }
            End::DynamicReceiver(receiver) => {
                let heard = if may_look { receiver.poll(device.peer())? } else { None };
                if let Some(shape) = receiver.wants() {
                    let into = take(&shape.clone())?;
                    *n_reads += 1;
                    let fetched = receiver.fetch(device.as_mut(), into, *n_reads);
                    fetched.map_err(|error| {
                        error.during(|| format!("reading a tensor of edge {}", found.declaration.name))
                    })?;
                    // One without bytes is there already.
                    if !receiver.is_here() {
                        reads.insert(*n_reads, edge.0);
                    }
                }
                (heard, receiver.is_here())
            }
            _ => (None, false),
        };
        let has_read = is_here && matches!(found.end, End::DynamicReceiver(_));
        if let Some(released) = heard {
            found.arrived = found.arrived.saturating_sub(1);
            // Out of the edge for as long as the others are told.
            let frees = std::mem::take(&mut found.frees);
            for sender in &frees {
                if let Some(sender) = edges.get_mut(*sender) {
                    sender.hear(released);
                }
            }
            if let Some(found) = edges.get_mut(edge.0) {
                found.frees = frees;
            }
        }
        if has_read {
            self.tell(edge)?;
        }
        Ok(is_here)
    }

    /// The same, for the sake of a sender.
    fn drive_for(&mut self, edge: EdgeId) -> Result<()> {
        self.drive().map_err(|error| error.during(|| format!("edge {} sends", self.name(edge))))
    }

    /// Moves the device on, and hands what it tells to the edges.
    pub(super) fn drive(&mut self) -> Result<()> {
        let mut events = std::mem::take(&mut self.events);
        let outcome = self.device.poll(&mut events);
        for event in events.drain(..) {
            match event {
                Event::Read(work) => {
                    let edge = self.reads.remove(&work).and_then(|edge| self.edges.get_mut(edge));
                    if let Some(Edge { end: End::DynamicReceiver(receiver), .. }) = edge {
                        receiver.hear_read(work);
                    }
                }
                Event::Immediate(number) => {
                    let edge = usize::try_from(number).ok().and_then(|number| self.edges.get_mut(number));
                    if let Some(edge) = edge {
                        edge.arrived += 1;
                    }
                }
            }
        }
        self.events = events;
        outcome
    }
}

fn no_arena() -> Error {
    Error::Usage("the link's arena has no bytes: give it some before set-up".to_owned())
}

fn no_edge(edge: EdgeId) -> Error {
    Error::Usage(format!("the link has no edge {}", edge.0))
}
