//! What a service has of one who contributes: a contribution on its way in, pulls that wait, answers on their way out.

use std::collections::{BTreeMap, VecDeque};

use super::super::line::{Line, Outcome};
use super::super::wire::{Message, Wire};
use crate::server::message::{Landing, Sum};
use crate::server::reduction::Reduction;
use rsccl_collective::comm::links::Links;
use rsccl_collective::transport::Progress;

/// What there is of one worker, or of the sums that this process makes for its host.
#[derive(Debug, Default)]
pub(super) struct Seat {
    /// None if it is in this process.
    pub(super) line: Option<Line>,
    pub(super) landing: Option<Filling>,
    /// Whether its next push waits for room.
    pub(super) is_late: bool,
    /// By key: the rounds whose results it waits for.
    pub(super) pulls: BTreeMap<u32, u64>,
    /// Keys and rounds of contributions that are wanted once more, of who is in this process.
    pub(super) again: VecDeque<(u32, u64)>,
    /// Results that are to go out, the most urgent first, behind the one whose bytes go out.
    pub(super) answers: BTreeMap<(u32, u32), Ready>,
    pub(super) answering: Option<Ready>,
    /// Bytes of it that are out.
    pub(super) answered_bytes: usize,
    /// Answers that are out, whose memory may still be read, and the part of the connection that was their last.
    pub(super) kept: VecDeque<(u64, Sum)>,
    pub(super) has_left: bool,
    /// Whether it has left to declare more.
    pub(super) goes_on: bool,
}

/// A contribution on its way in.
#[derive(Debug)]
pub(super) struct Filling {
    pub(super) landing: Landing,
    pub(super) key: u32,
    pub(super) round: u64,
    pub(super) filled: usize,
    /// Of contributions that have not all one length: their bytes at most, the last of which their last frame has.
    pub(super) grows_to: Option<usize>,
}

/// A result on its way out.
#[derive(Debug)]
pub(in crate::run) struct Ready {
    pub(in crate::run) key: u32,
    pub(in crate::run) round: u64,
    pub(in crate::run) sum: Sum,
}

/// Bytes of a contribution.
#[derive(Clone, Copy, Debug)]
pub(in crate::run) struct Frame {
    pub(in crate::run) key: u32,
    pub(in crate::run) round: u64,
    pub(in crate::run) offset: usize,
    pub(in crate::run) len: usize,
    pub(in crate::run) reduction: Reduction,
    /// Of a host's sum: the worker whose contribution to it was complete last.
    pub(in crate::run) last: Option<usize>,
    /// Whether no more bytes of the contribution follow.
    pub(in crate::run) ends: bool,
}

impl Filling {
    /// Where a frame's bytes go, if they are the next ones, and no more than there may be.
    pub(super) fn room(&mut self, frame: &Frame) -> Option<&mut [u8]> {
        if (self.key, self.round, self.filled) != (frame.key, frame.round, frame.offset) {
            return None;
        }
        let end = frame.offset.checked_add(frame.len)?;
        if self.grows_to.is_some_and(|most| end <= most) {
            self.landing.grow(end);
        }
        self.landing.bytes_mut().get_mut(frame.offset..end)
    }

    /// Whether all bytes are there once a frame's are.
    pub(super) fn is_whole(&mut self, frame: &Frame) -> bool {
        if self.grows_to.is_some() { frame.ends } else { self.filled >= self.landing.bytes_mut().len() }
    }
}

impl Seat {
    pub(super) fn new(line: Option<Line>) -> Self {
        Self { line, ..Self::default() }
    }

    /// Answers that are not out, and their bytes.
    pub(super) fn unanswered(&self) -> (u64, u64) {
        let answers = || self.answering.iter().chain(self.answers.values());
        let bytes: usize = answers().map(|ready| ready.sum.bytes().len()).sum();
        (answers().count() as u64, bytes.saturating_sub(self.answered_bytes) as u64)
    }

    /// Sends a frame of an answer. Whether anything moved; of which part and round it was the last one.
    pub(super) fn answer(
        &mut self,
        links: &mut Links,
        wire: Wire,
        frame_bytes: usize,
    ) -> Outcome<(bool, Option<(u32, u64)>)> {
        let nothing = Ok((false, None));
        let Some(line) = self.line.as_mut().filter(|line| line.is_open()) else { return nothing };
        if self.answering.is_none() {
            self.answering = self.answers.pop_first().map(|(_, ready)| ready);
        }
        let Some(Ready { key, round, sum }) = &self.answering else { return nothing };
        let rest = sum.bytes().get(self.answered_bytes..).unwrap_or(&[]);
        let payload = rest.get(..frame_bytes).unwrap_or(rest);
        let to_u32 = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
        let (offset, ends) = (to_u32(self.answered_bytes), payload.len() == rest.len());
        let message = Message::Answer { key: *key, round: *round, offset, ends };
        let header = wire.header(message, to_u32(payload.len()));
        let progress = line.send_frame(links, header, payload)?;
        let mut left = None;
        if progress == Progress::Done {
            self.answered_bytes += payload.len();
            if self.answered_bytes == sum.bytes().len() {
                self.answered_bytes = 0;
                left = Some((*key, *round));
                let last = line.posted();
                self.kept.extend(self.answering.take().map(|ready| (last, ready.sum)));
            }
        }
        Ok((progress != Progress::Idle, left))
    }
}
