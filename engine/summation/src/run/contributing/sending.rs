//! What goes out: frames of parts, as they are or in the form of a codec.

use std::ops::Range;
use std::sync::Arc;

use super::super::line::{Line, Outcome, Trouble};
use super::super::serving::{Frame, Serving};
use super::super::wire::Message;
use super::relaying::relayed_key;
use super::{Contributing, Target};
use crate::tensor::Part;
use crate::worker::Send;
use rsccl_collective::comm::links::Links;
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
        let n_services = self.services.len();
        for service in (self.next_service..n_services).chain(0..self.next_service.min(n_services)) {
            if self.go_on(service, links, serving, now_ns)? {
                self.next_service = service + 1;
                return Ok(true);
            }
        }
        // A service whose connection takes nothing keeps its frame, and must not hold up the others'.
        while let Some(send) = self.pipeline.next_send(&self.writable(), now_ns) {
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
            |service: &Target| service.current.is_none() && service.line.as_ref().is_none_or(Line::is_open);
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
        let Some(send) = self.services[service].current.filter(|_| is_open) else { return Ok(false) };
        let frame = self.frame(&send)?;
        let payload = self.payload(&frame)?;
        let payload = payload.bytes();
        let Frame { key, round, reduction, last, .. } = frame;
        let own_seat = self.own_seat(serving, &frame);
        let progress = match &mut self.services[service].line {
            Some(line) => {
                let to_u32 = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
                let message = Message::Push { key, round, offset: to_u32(frame.offset), reduction, last };
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
            self.services[service].current = None;
            self.sent(&send, now_ns)?;
        }
        Ok(progress != Progress::Idle)
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
        let pushed = self.coding.pushed(key).map(|pushed| pushed.len() as u64);
        let is_through = |part: &Part| offset + len == pushed.unwrap_or(part.size_bytes);
        let Some(part) = self.declarations.part(key).filter(is_through) else { return Ok(()) };
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
