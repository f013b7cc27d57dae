//! The addition of a round whose contributions are all there, or of the first of them: handed out by the service, for any
//! thread to do, and taken back with the result.

use super::coded::Coded;
use super::fingerprint::fingerprint;
use super::part::Part;
use super::reduction::Reduction;
use crate::codec::{CodecError, Feedback};

/// One addition. One that is dropped takes its round with it: nobody is ever answered.
#[derive(Debug, PartialEq, Eq)]
pub struct Addition {
    pub(super) key: u32,
    pub(super) round: u64,
    /// Whose contribution was complete last.
    pub(super) last_arriver: usize,
    pub(super) part: Part,
    pub(super) reduction: Reduction,
    /// Of an average.
    pub(super) divisor: usize,
    /// Whether the result is a host's sum, which is not divided.
    pub(super) is_host: bool,
    /// What those before come to, where they were added before: partial results.
    pub(super) prefix: Option<Vec<u8>>,
    /// In the order in which they are added: of the ranks, or of the hosts.
    pub(super) contributions: Vec<Vec<u8>>,
    /// Who contributes to the round, in the same order.
    pub(super) contributors: Vec<usize>,
    /// Where the result goes of contributions that are encoded, of a prefix and the rest, or a new prefix; else it takes the
    /// place of the first contribution.
    pub(super) result: Vec<u8>,
    /// Whether it makes the round's result; else others are still to come, and it makes the prefix of theirs.
    pub(super) is_whole: bool,
    /// What the answers before have left out, where the codec loses much.
    pub(super) feedback: Option<Box<Feedback>>,
    /// Whose contribution was none, once that was found out.
    pub(super) malformed: Option<Box<(usize, CodecError)>>,
    /// Of the result, once it is there.
    pub(super) fingerprint: Option<u64>,
}

impl Addition {
    /// Of which part.
    #[must_use]
    pub fn key(&self) -> u32 {
        self.key
    }

    /// Whether it makes a host's sum, and no result.
    #[must_use]
    pub fn is_host(&self) -> bool {
        self.is_host
    }

    /// Bytes of all contributions, decoded.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.part.size_bytes().saturating_mul(self.contributions.len())
    }

    /// Adds the contributions up.
    pub fn run(&mut self) {
        match self.part.codec {
            _ if self.fingerprint.is_some() => {}
            Some(coded) => self.run_coded(coded),
            None if self.is_whole && self.prefix.is_none() => self.run_plain(),
            None => self.run_behind_prefix(),
        }
    }

    fn run_coded(&mut self, coded: Coded) {
        let Self { part, reduction, contributions, feedback, result, .. } = self;
        let feedback = feedback.get_or_insert_default();
        match coded.reduce(part.count, *reduction, contributions, feedback, result) {
            Ok(()) => self.fingerprint = Some(fingerprint(&self.result)),
            Err((index, error)) => {
                let worker = self.contributors.get(index).copied().unwrap_or(self.last_arriver);
                self.malformed = Some(Box::new((worker, error)));
            }
        }
    }

    fn run_behind_prefix(&mut self) {
        let how = self.how();
        let contributions: Vec<&[u8]> = self.contributions.iter().map(Vec::as_slice).collect();
        match &mut self.prefix {
            Some(prefix) if self.is_whole => {
                self.part.reduce_rest(how, prefix, &contributions, &mut self.result);
                self.fingerprint = Some(fingerprint(&self.result));
            }
            Some(prefix) => self.part.reduce_prefix(false, prefix, &contributions),
            None => {
                let mut prefix = std::mem::take(&mut self.result);
                self.part.reduce_prefix(true, &mut prefix, &contributions);
                self.prefix = Some(prefix);
            }
        }
    }

    /// What the contributions become, and over how many an average is.
    fn how(&self) -> (Reduction, usize) {
        (if self.is_host { Reduction::Sum } else { self.reduction }, self.divisor)
    }

    fn run_plain(&mut self) {
        let how = self.how();
        let Some((first, others)) = self.contributions.split_first_mut() else { return };
        let others: Vec<&[u8]> = others.iter().map(Vec::as_slice).collect();
        self.fingerprint = Some(self.part.reduce_left(how, first, &others));
    }
}
