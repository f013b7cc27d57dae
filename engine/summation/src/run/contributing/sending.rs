//! What goes out: frames of parts, as they are or in the form of a codec; parts that a service had no memory for once more.

use std::ops::Range;
use std::sync::Arc;

use super::super::line::{Line, Outcome, Trouble};
use super::super::serving::{Frame, Serving};
use super::super::timeline::Kind;
use super::super::wire::Message;
use super::relaying::{HOST_SUM, relayed_key};
use super::{Contributing, Target};
use crate::tensor::Part;
use crate::worker::Send;
use rsccl_collective::comm::links::Links;
use rsccl_collective::error::Error;
use rsccl_collective::transport::Progress;

/// Bytes that go out.
#[derive(Debug)]
enum Payload {
    /// Of the caller's memory.
    Plain(&'static [u8]),
    /// Of what a codec made.
    Encoded(Arc<Vec<u8>>, Range<usize>),
}

impl Payload {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Encoded(encoded, range) => encoded.get(range.clone()).unwrap_or_default(),
        }
    }
}

impl Contributing {
    /// Sends one frame. Whether anything moved.
    pub(in crate::run) fn push(
        &mut self,
        links: &mut Links,
        serving: &mut Serving,
        now_ns: u64,
    ) -> Outcome<bool> {
        self.take_own_again(serving)?;
        let n_services = self.services.len();
        for service in (self.next_service..n_services).chain(0..self.next_service.min(n_services)) {
            if self.go_on(service, links, serving, now_ns)? {
                self.next_service = service + 1;
                return Ok(true);
            }
        }
        // A service whose connection takes nothing keeps its frame, and must not hold up the others'.
        while let Some(send) = self.pipeline.next_send(&self.writable(), now_ns) {
            let begins = send.offset == 0 && relayed_key(send.key).is_none();
            if let Some(timeline) = self.timeline.as_ref().filter(|_| begins) {
                timeline.note(Kind::Began, send.key, self.round_of(send.key), send.server);
            }
            self.services[send.server].current = Some(send);
            if self.go_on(send.server, links, serving, now_ns)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Which services take another frame.
    fn writable(&self) -> Vec<bool> {
        let takes =
            |service: &Target| service.next().is_none() && service.line.as_ref().is_none_or(Line::is_open);
        self.services.iter().map(takes).collect()
    }

    /// Posts a service's present frame, or more of it. Whether anything moved.
    fn go_on(
        &mut self,
        service: usize,
        links: &mut Links,
        serving: &mut Serving,
        now_ns: u64,
    ) -> Outcome<bool> {
        let is_open = self.services[service].line.as_ref().is_none_or(|line| line.is_open());
        let Some((send, is_again)) = self.services[service].next().filter(|_| is_open) else {
            return Ok(false);
        };
        let frame = self.frame(&send)?;
        let payload = self.payload(&frame)?;
        let payload = payload.bytes();
        let Frame { key, round, reduction, last, ends, .. } = frame;
        let own_seat = self.own_seat(serving, &frame);
        let progress = match &mut self.services[service].line {
            Some(line) => {
                let to_u32 = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
                let offset = to_u32(frame.offset);
                let message = Message::Push { key, round, offset, reduction, last, ends };
                line.send_frame(links, self.wire.header(message, to_u32(frame.len)), payload)?
            }
            None => match serving.land(own_seat, &frame)? {
                Some(into) => {
                    into.copy_from_slice(payload);
                    serving.landed(own_seat, &frame)?;
                    Progress::Done
                }
                None => Progress::Idle,
            },
        };
        if progress == Progress::Done {
            if is_again {
                self.sent_again(&send);
            } else {
                self.services[service].current = None;
                self.services[service].is_amid = send.offset + send.len < self.pushed_bytes(send.key);
                self.sent(&send, now_ns)?;
            }
        }
        Ok(progress != Progress::Idle)
    }

    /// The service wants a part once more, that it had no memory for.
    pub(super) fn push_again(&mut self, server: usize, key: u32, round: u64, peer: usize) -> Outcome<()> {
        if self.round_of(key) != round || self.pushed_bytes(key) == 0 {
            let text =
                format!("rank {peer} wants round {round} of part {key} once more, which is not under way");
            return Err(Trouble::of(peer, Error::Internal(text)));
        }
        let len = self.pushed_bytes(key).min(self.pipeline.frame_bytes());
        self.services[server].again.push_back(Send { server, key, offset: 0, len });
        Ok(())
    }

    /// The same of the service of this process.
    fn take_own_again(&mut self, serving: &mut Serving) -> Outcome<()> {
        let (own, host) = (self.worker, serving.host_seat());
        while let Some((key, round)) = serving.next_again(own) {
            self.push_again(self.routes.target(own, key), key, round, own)?;
        }
        while let Some((key, round)) = serving.next_again(host) {
            self.push_again(self.routes.owner(key), key | HOST_SUM, round, own)?;
        }
        Ok(())
    }

    /// Watchers and the pipeline have counted it the first time.
    fn sent_again(&mut self, send: &Send) {
        let (bytes, offset) = (self.pushed_bytes(send.key), send.offset + send.len);
        let again = &mut self.services[send.server].again;
        match again.front_mut() {
            Some(next) if offset < bytes => {
                (next.offset, next.len) = (offset, (bytes - offset).min(self.pipeline.frame_bytes()));
            }
            _ => {
                again.pop_front();
            }
        }
    }

    /// Bytes of a contribution, by its key in the pipeline.
    pub(super) fn pushed_bytes(&self, key: u32) -> u64 {
        if let Some(key) = relayed_key(key) {
            return self.relayed.get(&key).map_or(0, |relayed| relayed.bytes.len() as u64);
        }
        let plain = || self.declarations.part(key).map_or(0, |part| part.size_bytes);
        self.coding.pushed(key).map_or_else(plain, |pushed| pushed.len() as u64)
    }

    fn sent(&mut self, send: &Send, now_ns: u64) -> Outcome<()> {
        let Send { server, key, offset, len } = *send;
        let sent = self.pipeline.sent(server, key, len, now_ns);
        sent.map_err(|misreport| self.internal(&misreport))?;
        if let Some(key) = relayed_key(key) {
            return self.relay_sent(send, key, now_ns);
        }
        let owner = self.routes.owner(key);
        self.moved.iter_mut().for_each(|moved| moved.pushed((owner, server), key, len));
        let is_through = offset + len == self.pushed_bytes(key);
        let Some(part) = self.declarations.part(key).filter(|_| is_through) else { return Ok(()) };
        if let Some(timeline) = &self.timeline {
            timeline.note(Kind::Sent, key, self.round_of(key), server);
        }
        match self.running.get_mut(&part.tensor) {
            Some(running) if running.pull.is_none() => {
                running.pushed.push((server, key));
                Ok(())
            }
            _ => self.summed(server, key, now_ns),
        }
    }

    fn frame(&self, send: &Send) -> Outcome<Frame> {
        if let Some(frame) = self.relayed_frame(send) {
            return Ok(frame);
        }
        let part = self.declarations.part(send.key);
        let running = part.and_then(|part| self.running.get(&part.tensor));
        let to_usize = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        let frame = running.map(|running| Frame {
            key: send.key,
            round: running.round,
            offset: to_usize(send.offset),
            len: to_usize(send.len),
            reduction: running.reduction,
            last: None,
            ends: send.offset + send.len == self.pushed_bytes(send.key),
        });
        frame.ok_or_else(|| self.internal(&format_args!("part {} is not running", send.key)))
    }

    fn payload(&self, frame: &Frame) -> Outcome<Payload> {
        if let Some(pushed) = self.relayed_bytes(frame).or_else(|| self.coding.pushed(frame.key)) {
            return Ok(Payload::Encoded(pushed, frame.offset..frame.offset.saturating_add(frame.len)));
        }
        let part = self.declarations.part(frame.key);
        let running = part.and_then(|part| Some((self.running.get(&part.tensor)?, part)));
        let Some((running, part)) = running else {
            return Err(self.internal(&format_args!("part {} is not running", frame.key)));
        };
        let start = self.first_byte(&part).saturating_add(frame.offset);
        let read = running.send.read(start..start.saturating_add(frame.len));
        read.map(Payload::Plain).map_err(|error| Trouble::of(self.worker, error))
    }

    pub(super) fn size(&self, part: &Part) -> usize {
        usize::try_from(part.size_bytes).unwrap_or(usize::MAX)
    }
}
