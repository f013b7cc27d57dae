//! What travels between workers and services: each message is one part of a connection, a header and maybe a payload.
//!
//! ```text
//! function    sequence    part        signature                                  payload
//! digest      local       n workers   the declarations' digest                   none
//! list        all bytes   local       first byte                                 of the declarations, as JSON
//! push        ends, last, round key   epochs' digest << 32 | first byte          bytes of a contribution
//! average     ends, last, round key   the same, for rounds that are averaged     bytes of a contribution
//! pull        round       key         epochs' digest << 32                       none
//! answer      ends, round key         epochs' digest << 32 | first byte          bytes of the result
//! again       round       key         epochs' digest << 32                       none
//! leave       0           last        0                                          none
//! ```
//!
//! `local` is 1 where the workers of a host sum first. `last` is 0, or in a host's sum 1 more than the worker whose contribution
//! to it was complete last, above the 44 bits of the round. `ends` is the highest bit: no more bytes follow of the contribution, or
//! of the result.
//!
//! Pushes, pulls and farewells go from a worker to a service on one channel, answers back on another, so that a push which
//! must wait holds up no answer. "Again" asks for a push that was complete once more: there was no memory for it. A refusal has no message: it ends the group, and the communicator tells all ranks why.

use crate::server::reduction::Reduction;
use rsccl_collective::comm::links::P2P_CHANNEL;
use rsccl_collective::error::{Error, Result};
use rsccl_collective::hash::hash;
use rsccl_collective::net::link::Header;

/// From a worker to a service.
pub(super) const PUSH_CHANNEL: u32 = P2P_CHANNEL + 1;
/// From a service to a worker.
pub(super) const ANSWER_CHANNEL: u32 = P2P_CHANNEL + 2;

/// Bytes of a part at most: what the signature has room for, and a header's length.
pub(super) const MAX_PART_BYTES: u64 = u32::MAX as u64;

// Far from the codes of NCCL's functions, so that a collective's message is found out.
const DIGEST: u32 = 0x5301;
const LIST: u32 = 0x5302;
const PUSH: u32 = 0x5303;
const AVERAGE: u32 = 0x5304;
const PULL: u32 = 0x5305;
const ANSWER: u32 = 0x5306;
const LEAVE: u32 = 0x5307;
const AGAIN: u32 = 0x5308;

/// Bits of a round in a push: 200 days of rounds at a million a second; the rest holds a worker's number.
const ROUND_BITS: u32 = 44;
const ROUND_MASK: u64 = (1 << ROUND_BITS) - 1;
/// The bit of what ends.
const ENDS_SHIFT: u32 = 63;
const ENDS: u64 = 1 << ENDS_SHIFT;

/// A message without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// Of the sender's declarations, how many workers it counts, and whether those of a host sum first.
    Digest { digest: u64, n_workers: u32, is_local: bool },
    /// Of the declarations' `bytes` those from `offset` on.
    List { bytes: u64, offset: u64, is_local: bool },
    /// A contribution's bytes from `offset` on; of a host's sum, with the worker that contributed last.
    Push { key: u32, round: u64, offset: u32, reduction: Reduction, last: Option<usize>, ends: bool },
    /// The result is wanted.
    Pull { key: u32, round: u64 },
    /// A result's bytes from `offset` on.
    Answer { key: u32, round: u64, offset: u32, ends: bool },
    /// The contribution is wanted once more.
    Again { key: u32, round: u64 },
    /// The worker needs the service no more: for good, or until it has declared more.
    Leave { is_last: bool },
}

/// What a message is sent under. A process takes only messages of its own epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epochs {
    /// How often the members have changed.
    pub(crate) membership: u32,
    /// The generation: which owner each key has.
    pub(crate) placement: u32,
}

/// What all messages of one membership and placement have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire {
    epochs: u32,
}

impl Wire {
    /// For messages of these epochs.
    pub(super) fn new(epochs: Epochs) -> Self {
        let bytes = [epochs.membership.to_le_bytes(), epochs.placement.to_le_bytes()].concat();
        let [a, b, c, d, ..] = hash(&bytes).to_le_bytes();
        Self { epochs: u32::from_le_bytes([a, b, c, d]) }
    }

    /// As it is sent, with a payload of `len` bytes.
    pub(super) fn header(self, message: Message, len: u32) -> Header {
        let signed = |offset: u32| u64::from(self.epochs) << 32 | u64::from(offset);
        let (function, sequence, part, signature) = match message {
            Message::Digest { digest, n_workers, is_local } => (DIGEST, is_local.into(), n_workers, digest),
            Message::List { bytes, offset, is_local } => (LIST, bytes, is_local.into(), offset),
            Message::Push { key, round, offset, reduction, last, ends } => {
                let function = if reduction == Reduction::Sum { PUSH } else { AVERAGE };
                let last = last.map_or(0, |worker| worker as u64 + 1);
                let sequence = u64::from(ends) << ENDS_SHIFT | last << ROUND_BITS | round & ROUND_MASK;
                (function, sequence, key, signed(offset))
            }
            Message::Pull { key, round } => (PULL, round, key, signed(0)),
            Message::Again { key, round } => (AGAIN, round, key, signed(0)),
            Message::Answer { key, round, offset, ends } => {
                (ANSWER, u64::from(ends) << ENDS_SHIFT | round & ROUND_MASK, key, signed(offset))
            }
            Message::Leave { is_last } => (LEAVE, 0, u32::from(is_last), 0),
        };
        Header { function, sequence, signature, part, len }
    }

    /// Back from what came from a rank.
    pub(super) fn message(self, header: &Header, from: usize) -> Result<Message> {
        let Header { function, sequence: round, signature, part: key, .. } = *header;
        let [a, b, c, d, ..] = signature.to_le_bytes();
        let offset = u32::from_le_bytes([a, b, c, d]);
        let message = match function {
            DIGEST => {
                return Ok(Message::Digest { digest: signature, n_workers: key, is_local: round != 0 });
            }
            LIST => return Ok(Message::List { bytes: round, offset: signature, is_local: key != 0 }),
            LEAVE => return Ok(Message::Leave { is_last: key != 0 }),
            PUSH | AVERAGE => {
                let reduction = if function == PUSH { Reduction::Sum } else { Reduction::Average };
                let last = (round & !ENDS) >> ROUND_BITS;
                let last = last.checked_sub(1).and_then(|worker| usize::try_from(worker).ok());
                Message::Push {
                    key,
                    round: round & ROUND_MASK,
                    offset,
                    reduction,
                    last,
                    ends: round & ENDS != 0,
                }
            }
            PULL => Message::Pull { key, round },
            ANSWER => Message::Answer { key, round: round & ROUND_MASK, offset, ends: round & ENDS != 0 },
            AGAIN => Message::Again { key, round },
            _ => return Err(strange(header, from)),
        };
        if signature >> 32 != u64::from(self.epochs) {
            let text =
                format!("rank {from} sent a message of part {key} under another membership or placement");
            return Err(Error::InvalidUsage(text));
        }
        Ok(message)
    }
}

/// A message that has no place here.
pub(super) fn strange(header: &Header, from: usize) -> Error {
    Error::Internal(format!("rank {from} sent a message that does not belong here: {header:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_their_headers() {
        let wire = Wire::new(Epochs { membership: 1, placement: 2 });
        let (key, round, offset) = (u32::MAX, 1 << 40, u32::MAX - 1);
        let messages = [
            Message::Digest { digest: u64::MAX, n_workers: 7, is_local: true },
            Message::List { bytes: 1 << 33, offset: 1 << 32, is_local: true },
            Message::Push { key, round, offset, reduction: Reduction::Sum, last: None, ends: true },
            Message::Push {
                key,
                round,
                offset,
                reduction: Reduction::Average,
                last: Some(65_535),
                ends: true,
            },
            Message::Push { key, round, offset, reduction: Reduction::Average, last: Some(0), ends: false },
            Message::Pull { key, round },
            Message::Again { key, round },
            Message::Answer { key, round, offset, ends: false },
            Message::Answer { key, round, offset, ends: true },
            Message::Leave { is_last: false },
            Message::Leave { is_last: true },
        ];
        for message in messages {
            assert_eq!(wire.message(&wire.header(message, 9), 0), Ok(message));
        }
        assert!(
            wire.message(&Header { function: 4, ..wire.header(Message::Leave { is_last: true }, 0) }, 3)
                .is_err()
        );
    }

    #[test]
    fn other_epochs_are_found_out() {
        let (ours, theirs) = (Epochs::default(), Epochs { membership: 1, placement: 0 });
        let header = Wire::new(theirs).header(Message::Pull { key: 0, round: 0 }, 0);
        let error = Wire::new(ours).message(&header, 3).unwrap_err().to_string();
        assert!(error.starts_with("rank 3 sent a message of part 0 under another"), "{error}");
    }
}
