//! All edges to one peer, over one device: declared first, then set up together, then used again and again.
//!
//! Set-up tells the peer every edge's place once. After it nothing is allocated, registered or told, except what dynamic
//! edges ask of the link's arena.

mod declaration;
mod ends;
mod layout;
mod setup;
mod transfer;

use std::collections::BTreeMap;
use std::fmt;

use crate::clock::Deadline;
use crate::device::{Counts, Device, Event, FlagForm};
use crate::error::{Error, Result};
pub use crate::link::declaration::{Declaration, Direction, Hold, Placement};
use crate::link::ends::{Edge, End};
use crate::memory::arena::Arena;
use crate::memory::{Part, Region};

/// Edges of a link at most: their numbers travel in immediates.
pub const MAX_EDGES: usize = 1 << 16;

/// Bytes of a link's arena unless told otherwise: for the tensors of dynamic edges.
pub const DEFAULT_ARENA_BYTES: u64 = 64 << 20;

/// An edge of a link, by the order of declarations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeId(pub(crate) usize);

/// How far a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Edges may be declared.
    Declared,
    /// The peer is told of them, and tells of its own.
    Told,
    Ready,
    /// Set-up has failed.
    Broken,
}

/// How often receivers were looked at, and how often something was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Polls {
    /// Looks.
    pub polls: u64,
    /// Looks that found a tensor.
    pub hits: u64,
}

/// One end of all edges to a peer.
pub struct Link {
    device: Box<dyn Device>,
    edges: Vec<Edge>,
    names: BTreeMap<String, usize>,
    arena_bytes: u64,
    /// There once the link is set up and has dynamic edges.
    arena: Option<Arena>,
    stage: Stage,
    /// What the peer has told of its edges, until the link is ready.
    heard: Option<Vec<u8>>,
    /// Whether this end has said that it needs the peer no more, or has begun to.
    has_told_end: bool,
    /// Whether the peer has said that it needs this end no more.
    has_heard_end: bool,
    /// Reads under way, with the edge of each.
    reads: BTreeMap<u64, usize>,
    n_reads: u64,
    events: Vec<Event>,
    polls: Polls,
}

impl Link {
    /// A link over a device, without edges yet.
    pub fn new(device: Box<dyn Device>) -> Self {
        Self {
            device,
            edges: Vec::new(),
            names: BTreeMap::new(),
            arena_bytes: DEFAULT_ARENA_BYTES,
            arena: None,
            stage: Stage::Declared,
            heard: None,
            has_told_end: false,
            has_heard_end: false,
            reads: BTreeMap::new(),
            n_reads: 0,
            events: Vec::new(),
            polls: Polls::default(),
        }
    }

    /// Bytes for the tensors of dynamic edges on this end; before [`Link::ready`].
    ///
    /// # Errors
    /// The link is set up already.
    pub fn set_arena_bytes(&mut self, bytes: u64) -> Result<()> {
        self.check_declared()?;
        self.arena_bytes = bytes;
        Ok(())
    }

    fn check_declared(&self) -> Result<()> {
        match self.stage {
            Stage::Declared => Ok(()),
            Stage::Told => Err(Error::Usage(format!("the link to {} is being set up", self.peer()))),
            Stage::Ready => Err(Error::Usage(format!("the link to {} is set up already", self.peer()))),
            Stage::Broken => Err(Error::Usage(format!(
                "the link to {} is broken, for its set-up has failed: make a new link",
                self.peer()
            ))),
        }
    }

    /// Whether tensors may go over it.
    pub(crate) fn check_ready(&self) -> Result<()> {
        match self.stage {
            Stage::Ready => Ok(()),
            Stage::Declared => Err(Error::Usage(format!(
                "the link to {} is not set up: call ready (in C rtensor_ready) first",
                self.peer()
            ))),
            Stage::Told | Stage::Broken => self.check_declared(),
        }
    }

    /// Declares an edge; before [`Link::ready`].
    ///
    /// # Errors
    /// The link is set up already, or has an edge of this name.
    pub fn declare(&mut self, declaration: Declaration) -> Result<EdgeId> {
        self.check_declared()?;
        if self.edges.len() == MAX_EDGES {
            return Err(Error::Usage(format!("a link has {MAX_EDGES} edges at most")));
        }
        let number = self.edges.len();
        if self.names.contains_key(&declaration.name) {
            return Err(Error::Usage(format!("there are two edges {}", declaration.name)));
        }
        self.names.insert(declaration.name.clone(), number);
        self.edges.push(Edge::declared(declaration));
        Ok(EdgeId(number))
    }

    /// Sets all edges up, together with the peer: memory is allocated and registered, and each end learns the other's
    /// addresses. Success does not mean that the peer's call has succeeded, which may have been over by its deadline: the first
    /// wait tells.
    ///
    /// # Errors
    /// The two ends' declarations do not fit, there is no memory, or the peer does not answer in time. The link is broken then:
    /// what the peer knows of it is not known.
    pub fn ready(&mut self, deadline: Deadline) -> Result<()> {
        self.begin_ready()?;
        let outcome = self.until(deadline, Self::is_ready, Self::getting_ready);
        outcome.inspect_err(|_| self.give_up())
    }

    /// The first part of [`Link::ready`], for those who wait otherwise: this end has memory, and tells of it.
    pub(crate) fn begin_ready(&mut self) -> Result<()> {
        self.check_declared()?;
        self.stage = Stage::Broken;
        self.lay_out()?;
        let own = setup::encode(self.device.form(), &self.edges)?;
        self.device.send_control(&own)?;
        self.stage = Stage::Told;
        Ok(())
    }

    /// The second part: whether the other has told of its own, and this end's have left. After an error the link is to be given
    /// up.
    pub(crate) fn is_ready(&mut self) -> Result<bool> {
        if self.stage != Stage::Told {
            return Ok(true);
        }
        if self.heard.is_none() {
            let heard = self.device.receive_control();
            self.heard = heard.map_err(|error| error.during(|| self.getting_ready()))?;
        }
        // Edges that do not fit are an error only then, so that the other is told of them too.
        let outcome = self.drive();
        let has_left = self.device.is_idle();
        if !has_left && outcome.is_ok() {
            return Ok(false);
        }
        let Some(heard) = self.heard.take() else { return Ok(false) };
        let what = "edges that make no sense".to_owned();
        let malformed = Error::Malformed { peer: self.peer().to_owned(), what };
        self.bind(&setup::decode(&heard).ok_or(malformed)?)?;
        if !has_left {
            outcome.map_err(|error| error.during(|| self.getting_ready()))?;
        }
        self.stage = Stage::Ready;
        Ok(true)
    }

    /// What [`Link::ready`] waits for, in words.
    pub(crate) fn getting_ready(&self) -> String {
        match self.heard {
            Some(_) => format!("the link waits until {} is told of all edges", self.peer()),
            None => format!("the link waits for the edges of {}", self.peer()),
        }
    }

    /// Its set-up has failed: what the peer knows of it is not known.
    pub(crate) fn give_up(&mut self) {
        self.stage = Stage::Broken;
    }

    /// Registers memory of the caller's with the peer's device, to send from it or to receive into it.
    ///
    /// # Errors
    /// The device registers no more.
    pub fn register(&mut self, region: &Region) -> Result<Region> {
        self.device.register(region)
    }

    /// The device below, for what only it can do.
    pub fn device(&mut self) -> &mut dyn Device {
        self.device.as_mut()
    }

    /// What errors call the peer.
    pub fn peer(&self) -> &str {
        self.device.peer()
    }

    /// The edge of this name.
    pub fn edge(&self, name: &str) -> Option<EdgeId> {
        self.names.get(name).copied().map(EdgeId)
    }

    /// What the device has done.
    pub fn counts(&self) -> Counts {
        self.device.counts()
    }

    /// How often receivers were looked at.
    pub fn polls(&self) -> Polls {
        self.polls
    }

    /// Bytes of this end's arena that are in use: tensors of dynamic edges that were not released.
    pub fn arena_used_bytes(&self) -> u64 {
        self.arena.as_ref().map_or(0, |arena| arena.list().used_bytes())
    }

    /// A static edge's memory on this end: where its sender finds what to send, or its receiver what has come.
    ///
    /// # Errors
    /// It has none.
    pub fn slot(&self, edge: EdgeId) -> Result<Part> {
        let found = self.at(edge)?;
        match (&found.declaration.placement, &found.slot) {
            (Placement::Static(shape), Some(slot)) => slot.part(0, shape.size_bytes()),
            _ => Err(Error::Usage(format!("edge {} has no memory of its own here", found.declaration.name))),
        }
    }

    fn at(&self, edge: EdgeId) -> Result<&Edge> {
        self.edges.get(edge.0).ok_or_else(|| Error::Usage(format!("the link has no edge {}", edge.0)))
    }

    /// The edge, which is set up and goes this way.
    fn going(&self, edge: EdgeId, direction: Direction) -> Result<&Edge> {
        let found = self.at(edge)?;
        self.check_ready().map_err(|error| Error::Usage(format!("edge {}: {error}", found.name())))?;
        match (found.declaration.direction, direction) {
            (Direction::Receive, Direction::Send) => {
                Err(Error::Usage(format!("edge {} is one to receive on, not to send on", found.name())))
            }
            (Direction::Send, Direction::Receive) => {
                Err(Error::Usage(format!("edge {} is one to send on, not to receive on", found.name())))
            }
            _ => Ok(found),
        }
    }

    /// The edge, on which this end may send yet.
    fn sending(&self, edge: EdgeId) -> Result<&Edge> {
        let found = self.going(edge, Direction::Send)?;
        if self.has_told_end { Err(self.finished(edge)) } else { Ok(found) }
    }

    /// Nothing goes over the edge any more.
    fn finished(&self, edge: EdgeId) -> Error {
        let name = self.at(edge).map_or("?", Edge::name);
        Error::Usage(format!(
            "edge {name}: the link to {} is finished: close it, and make a new link",
            self.peer()
        ))
    }

    /// How the peer's transfers end, and ours.
    fn form(&self) -> FlagForm {
        self.device.form()
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edges: Vec<&End> = self.edges.iter().map(|edge| &edge.end).collect();
        f.debug_struct("Link")
            .field("peer", &self.device.peer())
            .field("edges", &edges)
            .finish_non_exhaustive()
    }
}
