//! Sums of this process's host: they go on to the parts' owners through the same pipeline as the worker's own contributions, and
//! their results come back for the host's workers.
//!
//! In the pipeline the sum of a part has a key of its own, beside that of the part.

use std::sync::Arc;

use super::super::line::{Outcome, Trouble};
use super::super::serving::{Frame, Ready, Serving};
use super::Contributing;
use crate::server::reduction::Reduction;
use crate::server::tier::Partial;
use crate::worker::{self, Send};
use rsccl_collective::error::Error;

/// Set in the pipeline's keys of a host's sums.
pub(super) const HOST_SUM: u32 = 1 << 31;

/// A host's sum under way.
#[derive(Debug)]
pub(super) struct Relayed {
    pub(super) round: u64,
    reduction: Reduction,
    last_arriver: usize,
    /// The sum, then the result: an answer only comes once all contributions to it were taken.
    pub(super) bytes: Arc<Vec<u8>>,
}

/// The part's key, if a key of the pipeline is that of a host's sum.
pub(super) fn relayed_key(key: u32) -> Option<u32> {
    (key & HOST_SUM != 0).then_some(key & !HOST_SUM)
}

impl Contributing {
    /// Takes the sums of its host that are to go on, and hands results back. Whether there were any.
    pub(in crate::run) fn relay(&mut self, serving: &mut Serving, now_ns: u64) -> Outcome<bool> {
        let mut moved = self.take_own_results(serving, now_ns)?;
        for partial in std::mem::take(&mut self.returned) {
            moved = true;
            serving.returned(partial)?;
        }
        while let Some(partial) = serving.next_partial() {
            moved = true;
            self.pass_on(partial, now_ns)?;
        }
        Ok(moved)
    }

    /// Results of parts whose owner is this process's service.
    fn take_own_results(&mut self, serving: &mut Serving, now_ns: u64) -> Outcome<bool> {
        let (mut moved, seat) = (false, serving.host_seat());
        while let Some(Ready { key, round, sum }) = serving.next_own(seat) {
            moved = true;
            let len = sum.bytes().len();
            self.result_room((key, round), 0, len, self.worker)?.copy_from_slice(sum.bytes());
            self.relay_pulled(self.routes.owner(key), (key, round), len, now_ns)?;
            serving.answered(seat, sum)?;
        }
        Ok(moved)
    }

    fn pass_on(&mut self, partial: Partial, now_ns: u64) -> Outcome<()> {
        let Partial { key, round, reduction, last_arriver, bytes } = partial;
        let tensor = self.declarations.part(key).map_or(0, |part| part.tensor);
        let name = self.declarations.tensors().get(tensor).map_or("", |tensor| tensor.name.as_str());
        let urgency = self.urgencies.get(tensor).copied().unwrap_or(u32::MAX);
        let (server, n_bytes) = (self.routes.owner(key), bytes.len() as u64);
        let part = worker::Part { key: key | HOST_SUM, server, bytes: n_bytes, compress: false };
        let submitted = self.pipeline.submit(name, urgency, &[part], now_ns);
        submitted.map_err(|refusal| self.internal(&refusal))?;
        self.moved.iter_mut().for_each(|moved| moved.push_issued(server, key, n_bytes));
        self.relayed.insert(key, Relayed { round, reduction, last_arriver, bytes: Arc::new(bytes) });
        Ok(())
    }

    /// Whether an answer is for a host's sum, and not for this worker's own contribution.
    pub(super) fn is_relayed(&self, key: u32) -> bool {
        self.routes.relays(self.worker, key)
    }

    /// Where a frame goes if it goes to the service of this process.
    pub(super) fn own_seat(&self, serving: &Serving, frame: &Frame) -> usize {
        if frame.last.is_some() { serving.host_seat() } else { self.worker }
    }

    /// The frame that the pipeline wants sent, if it is of a host's sum.
    pub(super) fn relayed_frame(&self, send: &Send) -> Option<Frame> {
        let key = relayed_key(send.key)?;
        let relayed = self.relayed.get(&key)?;
        let to_usize = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        Some(Frame {
            key,
            round: relayed.round,
            offset: to_usize(send.offset),
            len: to_usize(send.len),
            reduction: relayed.reduction,
            last: Some(relayed.last_arriver),
            ends: send.offset + send.len == relayed.bytes.len() as u64,
        })
    }

    /// What such a frame is of.
    pub(super) fn relayed_bytes(&self, frame: &Frame) -> Option<Arc<Vec<u8>>> {
        let relayed = self.relayed.get(&frame.key).filter(|_| frame.last.is_some())?;
        Some(Arc::clone(&relayed.bytes))
    }

    /// Bytes of a host's sum are out: once all are, its result is asked for.
    pub(super) fn relay_sent(&mut self, send: &Send, key: u32, now_ns: u64) -> Outcome<()> {
        let Send { server, offset, len, .. } = *send;
        self.moved.iter_mut().for_each(|moved| moved.pushed((server, server), key, len));
        if offset + len == self.pushed_bytes(send.key) {
            self.summed(server, send.key, now_ns)
        } else {
            Ok(())
        }
    }

    /// Where bytes of a result go that this process's host waits for.
    pub(super) fn result_room(
        &mut self,
        (key, round): (u32, u64),
        offset: usize,
        len: usize,
        peer: usize,
    ) -> Outcome<&mut [u8]> {
        let relayed = self.relayed.get_mut(&key).filter(|relayed| relayed.round == round);
        let bytes = relayed.and_then(|relayed| Arc::get_mut(&mut relayed.bytes));
        let room = bytes.and_then(|bytes| bytes.get_mut(offset..offset.saturating_add(len)));
        room.ok_or_else(|| {
            let text =
                format!("rank {peer} answered round {round} of part {key} unasked, or with too many bytes");
            Trouble::of(peer, Error::Internal(text))
        })
    }

    /// So many bytes more of such a result are there.
    pub(super) fn relay_pulled(
        &mut self,
        service: usize,
        (key, round): (u32, u64),
        len: usize,
        now_ns: u64,
    ) -> Outcome<()> {
        self.moved.iter_mut().for_each(|moved| moved.pulled((service, service), key, len as u64));
        let pulled = self.pipeline.pulled(service, key | HOST_SUM, len as u64, now_ns);
        pulled.map_err(|misreport| self.internal(&misreport))?;
        if self.pipeline.holds(key | HOST_SUM) {
            return Ok(());
        }
        let Some(relayed) = self.relayed.remove(&key) else { return Ok(()) };
        let Relayed { reduction, last_arriver, bytes, .. } = relayed;
        let bytes = Arc::unwrap_or_clone(bytes);
        self.returned.push(Partial { key, round, reduction, last_arriver, bytes });
        Ok(())
    }
}
