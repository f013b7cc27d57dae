//! One operation over flat rounds: what is shown, and what is done with what has come.

use std::ops::Range;

use crate::collective::operation::Operation;
use crate::collective::primitive::Primitive;
use crate::error::Result;
use crate::kernels::Kernel;
use crate::kernels::copy::STREAM_FROM_BYTES;
use crate::memory::{MAX_SOURCES, Reducing, Region};
use crate::net::link::Header;
use crate::profiler::emit::OperationEvents;
use crate::run::flat::cut::Cut;
use crate::run::flat::placed::{self, Offer, Placed};
use crate::run::flat::trace::Trace;
use crate::transport::shm::flat::Flat;
use crate::transport::{Fault, Progress};

/// An operation that is being run.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Which primitive.
    pub(crate) primitive: Primitive,
    /// Which operation of its kind.
    pub(crate) sequence: u64,
    /// The collective before it.
    pub(crate) before: Option<(Primitive, u64)>,
    /// Its rounds.
    pub(crate) cut: Cut,
    header: Header,
    send: Region,
    recv: Region,
    kernel: Kernel,
    element_bytes: usize,
    streamed: bool,
    own: usize,
    stage: Stage,
    /// Whether the own part of this round is.
    shown: bool,
    events: OperationEvents,
    trace: Option<Box<Trace>>,
}

/// What the next round is for.
#[derive(Debug)]
enum Stage {
    /// Each shows where its buffers lie or, where others cannot read them, its first chunk.
    Meeting,
    /// Each shows a chunk, and what it has reduced of the one before.
    Copied { round: usize },
    /// Each says that it has reduced its share, in memory that the others read.
    Reduced(Placed),
    /// Each says that it has read all.
    Read,
    /// Nothing: it is done.
    Over,
}

impl Exchange {
    /// Of this `rank`; ranks are the members of the exchange.
    pub(crate) fn new(operation: &Operation, cut: Cut, signature: u64, kernel: Kernel, rank: usize) -> Self {
        let header = Header {
            function: operation.primitive.code(),
            sequence: operation.sequence,
            signature,
            part: 0,
            len: 0,
        };
        Self {
            primitive: operation.primitive,
            sequence: operation.sequence,
            before: None,
            cut,
            header,
            send: operation.send,
            recv: operation.recv,
            kernel,
            element_bytes: operation.reducer.data_type.size_bytes(),
            streamed: operation.bytes() >= STREAM_FROM_BYTES,
            own: rank,
            stage: match operation.bytes() {
                0 => Stage::Over,
                bytes if bytes < placed::from_bytes(operation.reducer.n_ranks) => Stage::Copied { round: 0 },
                _ => Stage::Meeting,
            },
            shown: false,
            events: operation.events.clone(),
            trace: Trace::new(&operation.events, cut, rank, operation.reducer.n_ranks),
        }
    }

    /// What it says about itself, in all rounds but for their number and length.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Whether all is done.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Goes on as far as the others have come; whether anything moved.
    pub(crate) fn step(&mut self, flat: &mut Flat) -> std::result::Result<bool, Fault> {
        let mut moved = false;
        while !self.is_over() {
            if !self.shown {
                self.show(flat).map_err(Fault::Broken)?;
                self.shown = true;
                moved = true;
            }
            match flat.poll(&self.header)? {
                Progress::Done => {}
                progress => return Ok(moved | (progress == Progress::Moved)),
            }
            self.shown = false;
            // Rounds are counted in 32 bits: 2^32 of them exceed any memory.
            self.header.part = self.header.part.wrapping_add(1);
            self.stage = self.take(flat)?;
            moved = true;
        }
        Ok(moved)
    }

    fn show(&mut self, flat: &mut Flat) -> Result<()> {
        match self.stage {
            Stage::Meeting => match Offer::new(flat, self.send, self.recv, self.cut.bytes()) {
                Some(offer) => flat.show_note(&self.header, &offer.to_note()),
                None => self.show_chunk(flat, 0),
            },
            Stage::Copied { round } => self.show_chunk(flat, round),
            Stage::Reduced(_) | Stage::Read | Stage::Over => {
                flat.prepare(0)?;
                flat.show(&self.header);
                Ok(())
            }
        }
    }

    fn show_chunk(&mut self, flat: &mut Flat, round: usize) -> Result<()> {
        self.start_trace(round);
        flat.prepare(self.cut.block_bytes(round))?;
        let chunk = self.cut.chunk(round);
        if self.cut.is_shared {
            let own = self.cut.share(round, self.own);
            flat.write(0, self.send.read(chunk.start..own.start)?);
            flat.write(own.end - chunk.start, self.send.read(own.end..chunk.end)?);
            if round > 0 {
                let result = self.cut.share(round - 1, self.own);
                flat.write(chunk.len(), self.recv.read(result)?);
            }
        } else {
            flat.write(0, self.send.read(chunk)?);
        }
        flat.show(&self.header);
        Ok(())
    }

    /// Does what all have shown allows; what comes next.
    fn take(&mut self, flat: &mut Flat) -> std::result::Result<Stage, Fault> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Meeting => self.meet(flat),
            Stage::Copied { round } => self.take_chunk(flat, round).map_err(Fault::Broken),
            Stage::Reduced(placed) => {
                let others = (0..flat.n_members()).filter(|member| *member != self.own);
                for (member, share) in others.map(|member| (member, self.cut.share(0, member))) {
                    let result = placed.result(member, &share);
                    self.recv.write(share.start, result, self.streamed).map_err(Fault::Broken)?;
                }
                self.stop_trace(1);
                Ok(Stage::Read)
            }
            Stage::Read | Stage::Over => Ok(Stage::Over),
        }
    }

    fn meet(&mut self, flat: &mut Flat) -> std::result::Result<Stage, Fault> {
        let bytes = self.cut.bytes();
        if let Some(placed) = Placed::meet(flat, bytes)? {
            self.cut = placed.cut(bytes);
            self.trace = Trace::new(&self.events, self.cut, self.own, flat.n_members());
            self.start_trace(0);
            let share = if placed.is_whole { 0..bytes } else { self.cut.share(0, self.own) };
            let piece = |member| placed.contribution(member, &share);
            self.reduce(flat.n_members(), piece, share.clone(), self.streamed).map_err(Fault::Broken)?;
            self.stop_trace(0);
            if placed.is_whole {
                return Ok(Stage::Read);
            }
            self.start_trace(1);
            return Ok(Stage::Reduced(placed));
        }
        let is_mixed = (0..flat.n_members()).any(|member| flat.note(member).is_some());
        if is_mixed {
            Ok(Stage::Copied { round: 0 })
        } else {
            self.take_chunk(flat, 0).map_err(Fault::Broken)
        }
    }

    fn take_chunk(&mut self, flat: &mut Flat, round: usize) -> Result<Stage> {
        let chunk = self.cut.chunk(round);
        let next = round + 1;
        let is_last = next == self.cut.n_rounds();
        let (share, streamed) = if self.cut.is_shared {
            (self.cut.share(round, self.own), false)
        } else {
            // Others need not wait until this rank has read theirs.
            if !is_last {
                self.show_chunk(flat, next)?;
                self.shown = true;
            }
            (chunk.clone(), self.streamed)
        };
        let piece = |member| flat.piece(member, share.start - chunk.start, share.len());
        self.reduce(flat.n_members(), piece, share.clone(), streamed)?;
        if self.cut.is_shared && round > 0 {
            self.store_results(flat, round - 1, chunk.len())?;
        }
        self.stop_trace(round);
        Ok(if is_last { Stage::Over } else { Stage::Copied { round: next } })
    }

    /// Reduces `range` of all contributions; `piece` is that of another member.
    fn reduce<'a>(
        &self,
        n_members: usize,
        piece: impl Fn(usize) -> &'a [u8],
        range: Range<usize>,
        streamed: bool,
    ) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let mut others: [&[u8]; MAX_SOURCES] = [&[]; MAX_SOURCES];
        for (member, other) in others.iter_mut().take(n_members).enumerate() {
            if member != self.own {
                *other = piece(member);
            }
        }
        let reducing = Reducing {
            kernel: &self.kernel,
            element_bytes: self.element_bytes,
            others: &others[..n_members],
            own: self.own,
            streamed,
        };
        self.send.reduce_into(self.recv, range, &reducing)
    }

    /// Copies out what the others have reduced in `round`; it lies at `offset` of their blocks.
    fn store_results(&self, flat: &Flat, round: usize, offset: usize) -> Result<()> {
        for member in (0..flat.n_members()).filter(|member| *member != self.own) {
            let share = self.cut.share(round, member);
            self.recv.write(share.start, flat.piece(member, offset, share.len()), self.streamed)?;
        }
        Ok(())
    }

    fn start_trace(&mut self, round: usize) {
        if let Some(trace) = &mut self.trace {
            trace.start(round);
        }
    }

    fn stop_trace(&mut self, round: usize) {
        if let Some(trace) = &mut self.trace {
            trace.stop(round);
        }
    }
}
