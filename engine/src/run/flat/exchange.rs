//! One operation over flat rounds: what is shown, and what is done with what has come.

use std::ops::Range;

use crate::collective::operation::{Operation, Primitive};
use crate::error::Result;
use crate::kernels::Kernel;
use crate::kernels::copy::STREAM_FROM_BYTES;
use crate::memory::{Folding, MAX_SOURCES, Region};
use crate::net::link::Header;
use crate::run::flat::cut::Cut;
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
    round: usize,
    shown: bool,
    trace: Option<Box<Trace>>,
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
            element_bytes: operation.fold.data_type.size_bytes(),
            streamed: operation.bytes() >= STREAM_FROM_BYTES,
            own: rank,
            round: 0,
            shown: false,
            trace: Trace::new(&operation.events, cut, rank, operation.fold.n_ranks),
        }
    }

    /// What it says about itself, in all rounds but for their number.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Whether all is done.
    pub(crate) fn is_over(&self) -> bool {
        self.round == self.cut.n_rounds()
    }

    /// Goes on as far as the others have come; whether anything moved.
    pub(crate) fn step(&mut self, flat: &mut Flat) -> std::result::Result<bool, Fault> {
        let mut moved = false;
        while !self.is_over() {
            // Rounds are counted in 32 bits: 2^32 of them exceed any memory.
            let part = u32::try_from(self.round).unwrap_or(u32::MAX);
            let header = Header { part, ..self.header };
            if !self.shown {
                self.show(flat, &header).map_err(Fault::Broken)?;
                moved = true;
            }
            match flat.poll(&header)? {
                Progress::Done => {}
                progress => return Ok(moved | (progress == Progress::Moved)),
            }
            self.take(flat).map_err(Fault::Broken)?;
            moved = true;
        }
        Ok(moved)
    }

    fn show(&mut self, flat: &mut Flat, header: &Header) -> Result<()> {
        if let Some(trace) = &mut self.trace {
            trace.start(self.round);
        }
        flat.prepare(self.cut.block_bytes(self.round))?;
        let chunk = self.cut.chunk(self.round);
        if self.cut.is_shared {
            let own = self.cut.share(self.round, self.own);
            flat.write(0, self.send.read(chunk.start..own.start)?);
            flat.write(own.end - chunk.start, self.send.read(own.end..chunk.end)?);
            if self.round > 0 {
                let result = self.cut.share(self.round - 1, self.own);
                flat.write(chunk.len(), self.recv.read(result)?);
            }
        } else {
            flat.write(0, self.send.read(chunk)?);
        }
        flat.show(header);
        self.shown = true;
        Ok(())
    }

    fn take(&mut self, flat: &Flat) -> Result<()> {
        let chunk = self.cut.chunk(self.round);
        if self.cut.is_shared {
            self.fold(flat, chunk.start, self.cut.share(self.round, self.own), false)?;
            self.store_results(flat, chunk.len())?;
        } else {
            self.fold(flat, chunk.start, chunk, self.streamed)?;
        }
        if let Some(trace) = &mut self.trace {
            trace.stop(self.round);
        }
        self.round += 1;
        self.shown = false;
        Ok(())
    }

    /// Folds `range` of all contributions to the chunk that starts at `start`.
    fn fold(&self, flat: &Flat, start: usize, range: Range<usize>, streamed: bool) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let mut others: [&[u8]; MAX_SOURCES] = [&[]; MAX_SOURCES];
        let n = flat.n_members();
        for (member, other) in others.iter_mut().take(n).enumerate() {
            *other = flat.piece(member, range.start - start, range.len());
        }
        let folding = Folding {
            kernel: &self.kernel,
            element_bytes: self.element_bytes,
            others: &others[..n],
            own: self.own,
            streamed,
        };
        self.send.fold_into(self.recv, range, &folding)
    }

    /// Copies out what the others have folded of the chunk before; it lies at `offset` of their blocks.
    fn store_results(&self, flat: &Flat, offset: usize) -> Result<()> {
        let Some(round) = self.round.checked_sub(1) else { return Ok(()) };
        for member in (0..flat.n_members()).filter(|member| *member != self.own) {
            let share = self.cut.share(round, member);
            self.recv.write(share.start, flat.piece(member, offset, share.len()), self.streamed)?;
        }
        Ok(())
    }
}
