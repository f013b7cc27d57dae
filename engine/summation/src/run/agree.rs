//! Whether all processes have declared the same, found out before the first push.
//!
//! Every worker sends its digest to every service of another process, and every service to every worker of another
//! process. Who gets another digest than its own sends its list of declarations, so both can say what differs.
//!
//! A process without a worker declares nothing: worker 0 sends it the list before the digest. If others have declared
//! something else, it says nothing, because the workers will.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::members::Members;
use super::patience::{Wait, What};
use super::wire::Message;
use crate::options;
use crate::tensor::{Declaration, Declarations, Difference, Options};
use rsccl_collective::error::{Error, Result};
use rsccl_collective::types::DataType;

/// What a process has declared, and how many others have not said yet whether they have declared the same.
#[derive(Debug)]
pub(super) struct Agreement {
    known: Known,
    n_workers: u32,
    missing: usize,
    /// Whether the workers of a host sum first; a process that is told the declarations is told that too.
    is_local: bool,
    /// Ranks that have sent their digests.
    heard: BTreeSet<usize>,
}

/// What a process knows of the declarations.
#[derive(Debug)]
enum Known {
    /// They are its own.
    Own(Arc<Declarations>),
    /// Nothing, but digests.
    Nothing { early: Vec<u64> },
    /// What worker 0 has sent.
    Told(Arc<Declarations>),
}

/// The declarations as they are sent.
#[derive(Serialize, Deserialize)]
struct List {
    partition_bytes: u64,
    tensors: Vec<Tensor>,
}

#[derive(Serialize, Deserialize)]
struct Tensor {
    name: String,
    elements: u64,
    /// The type's place in [`DataType::ALL`].
    data_type: u8,
    options: options::Sent,
}

impl Agreement {
    /// With `missing` digests to come; without declarations, these are to come too.
    pub(super) fn new(declarations: Option<&Arc<Declarations>>, members: Members, missing: usize) -> Self {
        let nothing = || Known::Nothing { early: Vec::new() };
        Self {
            known: declarations.map_or_else(nothing, |own| Known::Own(Arc::clone(own))),
            n_workers: u32::try_from(members.n_workers).unwrap_or(u32::MAX),
            missing,
            is_local: false,
            heard: BTreeSet::new(),
        }
    }

    /// Where the workers of a host sum first, or not.
    pub(super) fn with(self, is_local: bool) -> Self {
        Self { is_local, ..self }
    }

    /// Whether they do, once the declarations are known.
    pub(super) fn is_local(&self) -> bool {
        self.is_local
    }

    /// Workers of other processes that nothing has come from, once any worker has started: the others wait for them.
    pub(super) fn late(&self, own: usize) -> Option<Wait> {
        let n_workers = usize::try_from(self.n_workers).unwrap_or(usize::MAX);
        let is_there = |worker: &usize| *worker == own || self.heard.contains(worker);
        let workers: Vec<usize> = (0..n_workers).filter(|worker| !is_there(worker)).collect();
        let is_waiting = !workers.is_empty() && workers.len() < n_workers;
        is_waiting.then_some(Wait { what: What::Start, workers })
    }

    /// What is sent first on every connection, once it is known.
    pub(super) fn digest(&self) -> Option<Message> {
        let digest = self.declarations()?.digest();
        Some(Message::Digest { digest, n_workers: self.n_workers, is_local: self.is_local })
    }

    /// Whether all digests have come, and all are the same.
    pub(super) fn is_reached(&self) -> bool {
        self.missing == 0 && self.declarations().is_some()
    }

    /// What is declared, once it is known.
    pub(super) fn declarations(&self) -> Option<&Arc<Declarations>> {
        match &self.known {
            Known::Own(declarations) | Known::Told(declarations) => Some(declarations),
            Known::Nothing { .. } => None,
        }
    }

    /// A rank's digest. If it differs, the list for that rank: its own one is on its way.
    pub(super) fn compare(
        &mut self,
        digest: u64,
        (n_workers, is_local): (u32, bool),
        rank: usize,
    ) -> Result<Option<Vec<u8>>> {
        if n_workers != self.n_workers {
            let here = self.n_workers;
            let text = format!("rank {rank} counts {n_workers} workers in the group, this rank {here}");
            return Err(Error::InvalidUsage(text));
        }
        if is_local != self.is_local && matches!(self.known, Known::Own(_)) {
            let does = |is_local| {
                if is_local { "sums first what its host's workers contribute" } else { "does not" }
            };
            let text = format!(
                "rank {rank} {}, this rank {}: RSUM_LOCAL is to be the same on all workers",
                does(is_local),
                does(self.is_local)
            );
            return Err(Error::InvalidUsage(text));
        }
        self.heard.insert(rank);
        match &mut self.known {
            Known::Nothing { early } => early.push(digest),
            Known::Own(own) | Known::Told(own) if own.digest() == digest => {
                self.missing = self.missing.saturating_sub(1);
            }
            Known::Own(own) => return list(own).map(Some),
            Known::Told(_) => {}
        }
        Ok(None)
    }

    /// A rank's list: what is declared, or what differs.
    pub(super) fn receive(&mut self, list: &[u8], is_local: bool, rank: usize) -> Result<()> {
        let no_list = || Error::Internal(format!("rank {rank} sent no list of declarations"));
        let there = read(list).ok_or_else(no_list)?;
        match &self.known {
            Known::Own(own) | Known::Told(own) => Err(difference(own, &there, rank)),
            Known::Nothing { early } => {
                let digest = there.digest();
                let n_same = early.iter().filter(|early| **early == digest).count();
                self.missing = self.missing.saturating_sub(n_same);
                self.known = Known::Told(Arc::new(there));
                self.is_local = is_local;
                Ok(())
            }
        }
    }
}

/// What differs from the list of a rank.
fn difference(here: &Declarations, there: &Declarations, rank: usize) -> Error {
    let difference = here.first_difference(there, rank);
    let text = difference.as_ref().map(Difference::to_string);
    Error::InvalidUsage(text.unwrap_or_else(|| format!("rank {rank} sent another digest")))
}

/// As it is sent.
pub(super) fn list(declarations: &Declarations) -> Result<Vec<u8>> {
    let tensor = |(index, tensor): (usize, &Declaration)| Tensor {
        name: tensor.name.clone(),
        elements: tensor.elements,
        data_type: tensor.data_type as u8,
        options: declarations.options(index).to_sent(),
    };
    let list = List {
        partition_bytes: declarations.partition_bytes(),
        tensors: declarations.tensors().iter().enumerate().map(tensor).collect(),
    };
    serde_json::to_vec(&list).map_err(|error| Error::Internal(format!("a list of declarations: {error}")))
}

fn read(list: &[u8]) -> Option<Declarations> {
    let List { partition_bytes, tensors } = serde_json::from_slice(list).ok()?;
    let mut declarations = Declarations::new(partition_bytes).ok()?;
    for Tensor { name, elements, data_type, options } in tensors {
        let data_type = *DataType::ALL.get(usize::from(data_type))?;
        let options = Options::from_sent(&options)?;
        declarations.declare_with(Declaration { name, elements, data_type }, options).ok()?;
    }
    Some(declarations)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBERS: Members = Members { n_workers: 2, n_servers: 1 };

    fn declared(elements: u64) -> Arc<Declarations> {
        let tensor =
            |name: &str, elements| Declaration { name: name.to_owned(), elements, data_type: DataType::Bf16 };
        Arc::new(Declarations::of(64, [tensor("conv", 9), tensor("fc", elements)]).unwrap())
    }

    fn agreement(elements: u64) -> Agreement {
        Agreement::new(Some(&declared(elements)), MEMBERS, 1)
    }

    #[test]
    fn equal_declarations_agree() {
        let mut here = agreement(5);
        assert!(!here.is_reached());
        assert_eq!(here.compare(declared(5).digest(), (2, false), 1), Ok(None));
        assert!(here.is_reached());
    }

    #[test]
    fn who_has_not_started_is_late_once_another_worker_has() {
        let late = |agreement: &Agreement, own| agreement.late(own).map(|wait| wait.workers);
        let mut worker = agreement(5);
        assert_eq!(late(&worker, 0), Some(vec![1]));
        let _ = worker.compare(declared(5).digest(), (2, false), 1);
        assert_eq!(late(&worker, 0), None);
        let mut server = Agreement::new(None, MEMBERS, 2);
        assert_eq!(late(&server, 2), None, "nobody sums yet");
        let _ = server.compare(declared(5).digest(), (2, false), 1);
        assert_eq!(late(&server, 2), Some(vec![0]));
    }

    #[test]
    fn the_tensor_that_differs_is_named() {
        let (mut here, mut there) = (agreement(5), agreement(6));
        assert!(here.compare(declared(6).digest(), (2, false), 1).unwrap().is_some());
        let list = there.compare(declared(5).digest(), (2, false), 0).unwrap().unwrap();
        assert_eq!(list, super::list(&declared(6)).unwrap());
        let error = here.receive(&list, false, 1).unwrap_err().to_string();
        assert_eq!(error, "tensor 1: \"fc\" of 5 bf16 here, \"fc\" of 6 bf16 on rank 1");
        assert!(!here.is_reached());
        assert!(here.compare(declared(5).digest(), (3, false), 1).is_err());
        let error = here.receive(b"[]", false, 1).unwrap_err();
        assert_eq!(error, Error::Internal("rank 1 sent no list of declarations".to_owned()));
    }

    #[test]
    fn a_server_is_told_what_is_declared() {
        let mut server = Agreement::new(None, MEMBERS, 2);
        assert_eq!(server.compare(declared(5).digest(), (2, false), 1), Ok(None));
        assert!(server.digest().is_none() && !server.is_reached());
        server.receive(&list(&declared(5)).unwrap(), true, 0).unwrap();
        assert_eq!(server.declarations(), Some(&declared(5)));
        assert!(!server.is_reached() && server.is_local());
        assert_eq!(server.compare(declared(5).digest(), (2, true), 0), Ok(None));
        assert!(server.is_reached());
    }

    #[test]
    fn a_server_leaves_it_to_the_workers_to_say_what_differs() {
        let mut server = Agreement::new(None, MEMBERS, 2);
        assert_eq!(server.compare(declared(6).digest(), (2, false), 1), Ok(None));
        server.receive(&list(&declared(5)).unwrap(), true, 0).unwrap();
        assert_eq!(server.compare(declared(5).digest(), (2, false), 0), Ok(None));
        assert!(!server.is_reached());
    }

    #[test]
    fn who_sums_in_another_way_is_named() {
        let error = agreement(5).compare(declared(5).digest(), (2, true), 1).unwrap_err().to_string();
        let told = "rank 1 sums first what its host's workers contribute, this rank does not: RSUM_LOCAL";
        assert!(error.starts_with(told), "{error}");
    }
}
