//! What a worker moves: bytes by service and class of key, results, and rounds of whole tensors.

use std::sync::Arc;

use rsum_observer::{Finished, N_CLASSES, Round, Traffic};

use super::voice::Voice;
use crate::server::fingerprint::fingerprint;
use crate::tensor::{Class, Declarations};
use rsccl_collective::clock;
use rsccl_collective::hash::hash;

/// Counted since the group was joined.
#[derive(Debug)]
pub(in crate::run) struct Moved {
    voice: Arc<Voice>,
    /// By service, then by class.
    traffic: Vec<[Traffic; N_CLASSES]>,
    /// By service: whether its bytes cross no NIC.
    is_local: Vec<bool>,
    /// By key.
    classes: Vec<u8>,
    /// Of so many results one is fingerprinted; 0: none.
    one_of: u64,
}

/// A round of a tensor, as its caller sees it.
#[derive(Clone, Copy, Debug)]
pub(in crate::run) struct Ended {
    pub(in crate::run) tensor: usize,
    pub(in crate::run) round: u64,
    pub(in crate::run) bytes: u64,
    /// Of [`rsccl_collective::error::Error`], 0 if it is none.
    pub(in crate::run) result: i32,
    pub(in crate::run) submitted_ns: u64,
}

impl Moved {
    /// With services that are local or not.
    pub(super) fn new(voice: Arc<Voice>, is_local: Vec<bool>, one_of: u64) -> Self {
        let traffic = vec![[Traffic::default(); N_CLASSES]; is_local.len()];
        Self { voice, traffic, is_local, classes: Vec::new(), one_of }
    }

    /// These are the keys from now on.
    pub(super) fn begin(&mut self, declarations: &Declarations) {
        let of_tensor: Vec<u8> =
            declarations.tensors().iter().map(|tensor| Class::of(&tensor.name) as u8).collect();
        self.classes = declarations.parts().map(|part| of_tensor[part.tensor]).collect();
    }

    /// A part was submitted.
    pub(in crate::run) fn push_issued(&mut self, service: usize, key: u32, bytes: u64) {
        if let Some((traffic, _)) = self.traffic_to(service, service, key) {
            traffic.push_issued_bytes += bytes;
        }
    }

    /// Bytes of a part are out, for the service that owns it, to that of the next process.
    pub(in crate::run) fn pushed(&mut self, (service, next): (usize, usize), key: u32, bytes: u64) {
        if let Some((traffic, is_local)) = self.traffic_to(service, next, key) {
            traffic.push_completed_bytes += bytes;
            traffic.local_bytes += if is_local { bytes } else { 0 };
        }
    }

    /// A sum was asked for.
    pub(in crate::run) fn pull_issued(&mut self, service: usize, key: u32, bytes: u64) {
        if let Some((traffic, _)) = self.traffic_to(service, service, key) {
            traffic.pull_issued_bytes += bytes;
        }
    }

    /// Bytes of a sum have come, of the service that owns it, from that of the next process.
    pub(in crate::run) fn pulled(&mut self, (service, next): (usize, usize), key: u32, bytes: u64) {
        if let Some((traffic, is_local)) = self.traffic_to(service, next, key) {
            traffic.pull_completed_bytes += bytes;
            traffic.local_bytes += if is_local { bytes } else { 0 };
        }
    }

    /// Whether the bytes of a result are to be looked at. The same results on all workers; of each key other rounds.
    pub(in crate::run) fn wants_result(&self, key: u32, round: u64) -> bool {
        match self.one_of {
            0 => false,
            1 => true,
            n => hash([u64::from(key), round].map(u64::to_le_bytes).as_flattened()).is_multiple_of(n),
        }
    }

    /// A result is here, whole.
    pub(in crate::run) fn result(&self, key: u32, round: u64, bytes: &[u8], begun_ns: u64) {
        let fingerprint = fingerprint(bytes);
        let now_ns = clock::monotonic_ns();
        let took_ns = now_ns.saturating_sub(begun_ns);
        let size = size_of::<Round>();
        self.voice.round(&Round { size, key, round, fingerprint, took_ns, now_ns, ..Round::default() });
    }

    /// A round of a tensor is over.
    pub(in crate::run) fn finished(&self, ended: Ended) {
        let Ended { tensor, round, bytes, result, submitted_ns } = ended;
        self.voice.finished(&Finished {
            size: size_of::<Finished>(),
            tensor: u32::try_from(tensor).unwrap_or(u32::MAX),
            result,
            round,
            bytes,
            submitted_ns,
            now_ns: clock::monotonic_ns(),
        });
    }

    /// By service, then by class.
    pub(super) fn traffic(&self) -> &[Traffic] {
        self.traffic.as_flattened()
    }

    /// Of a service, and whether the process of the next one is reached without a NIC.
    fn traffic_to(&mut self, service: usize, next: usize, key: u32) -> Option<(&mut Traffic, bool)> {
        let class = usize::from(*self.classes.get(key as usize)?);
        let is_local = *self.is_local.get(next)?;
        Some((self.traffic.get_mut(service)?.get_mut(class)?, is_local))
    }
}
