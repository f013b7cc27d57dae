//! Whether all processes have declared the same, found out before the first push.
//!
//! Every worker sends its digest to every service of another process, and every service to every worker of another
//! process. Who gets another digest than its own sends its list of declarations, so both can say what differs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::members::Members;
use super::wire::Message;
use crate::error::{Error, Result};
use crate::summation::tensor::{Declaration, Declarations, Difference};
use crate::types::DataType;

/// What a process has declared, and how many others have not said yet whether they have declared the same.
#[derive(Debug)]
pub(super) struct Agreement {
    declarations: Arc<Declarations>,
    digest: u64,
    n_workers: u32,
    missing: usize,
}

/// The declarations as they are sent.
#[derive(Serialize, Deserialize)]
struct List {
    partition_bytes: u64,
    /// Name, elements, and the type's place in [`DataType::ALL`].
    tensors: Vec<(String, u64, u8)>,
}

impl Agreement {
    /// With `missing` digests to come.
    pub(super) fn new(declarations: &Arc<Declarations>, members: Members, missing: usize) -> Self {
        Self {
            declarations: Arc::clone(declarations),
            digest: declarations.digest(),
            n_workers: u32::try_from(members.n_workers).unwrap_or(u32::MAX),
            missing,
        }
    }

    /// What is sent first on every connection.
    pub(super) fn digest(&self) -> Message {
        Message::Digest { digest: self.digest, n_workers: self.n_workers }
    }

    /// Whether all digests have come, and all are the same.
    pub(super) fn is_reached(&self) -> bool {
        self.missing == 0
    }

    /// A rank's digest. If it differs, the list for that rank: its own one is on its way.
    pub(super) fn compare(&mut self, digest: u64, n_workers: u32, rank: usize) -> Result<Option<Vec<u8>>> {
        if n_workers != self.n_workers {
            let here = self.n_workers;
            let text = format!("rank {rank} counts {n_workers} workers in the group, this rank {here}");
            return Err(Error::InvalidUsage(text));
        }
        if digest == self.digest {
            self.missing = self.missing.saturating_sub(1);
            return Ok(None);
        }
        self.list().map(Some)
    }

    /// What differs from the list of a rank.
    pub(super) fn difference(&self, list: &[u8], rank: usize) -> Error {
        match read(list) {
            Some(there) => {
                let difference = self.declarations.first_difference(&there, rank);
                let text = difference.as_ref().map(Difference::to_string);
                Error::InvalidUsage(text.unwrap_or_else(|| format!("rank {rank} sent another digest")))
            }
            None => Error::Internal(format!("rank {rank} sent no list of declarations")),
        }
    }

    fn list(&self) -> Result<Vec<u8>> {
        let tensor = |Declaration { name, elements, data_type }: &Declaration| {
            (name.clone(), *elements, *data_type as u8)
        };
        let list = List {
            partition_bytes: self.declarations.partition_bytes(),
            tensors: self.declarations.tensors().iter().map(tensor).collect(),
        };
        serde_json::to_vec(&list).map_err(|error| Error::Internal(format!("a list of declarations: {error}")))
    }
}

fn read(list: &[u8]) -> Option<Declarations> {
    let List { partition_bytes, tensors } = serde_json::from_slice(list).ok()?;
    let mut declarations = Declarations::new(partition_bytes).ok()?;
    for (name, elements, data_type) in tensors {
        let data_type = *DataType::ALL.get(usize::from(data_type))?;
        declarations.declare(Declaration { name, elements, data_type }).ok()?;
    }
    Some(declarations)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBERS: Members = Members { n_workers: 2, n_servers: 1 };

    fn agreement(elements: u64) -> Agreement {
        let tensor =
            |name: &str, elements| Declaration { name: name.to_owned(), elements, data_type: DataType::Bf16 };
        let tensors = [tensor("conv", 9), tensor("fc", elements)];
        Agreement::new(&Arc::new(Declarations::of(64, tensors).unwrap()), MEMBERS, 1)
    }

    #[test]
    fn equal_declarations_agree() {
        let (mut here, there) = (agreement(5), agreement(5));
        assert!(!here.is_reached());
        assert_eq!(here.compare(there.digest, 2, 1), Ok(None));
        assert!(here.is_reached());
    }

    #[test]
    fn the_tensor_that_differs_is_named() {
        let (mut here, mut there) = (agreement(5), agreement(6));
        assert!(here.compare(there.digest, 2, 1).unwrap().is_some());
        let list = there.compare(here.digest, 2, 0).unwrap().unwrap();
        let error = here.difference(&list, 1).to_string();
        assert_eq!(error, "tensor 1: \"fc\" of 5 bf16 here, \"fc\" of 6 bf16 on rank 1");
        assert!(!here.is_reached());
        assert!(here.compare(here.digest, 3, 1).is_err());
        assert_eq!(
            here.difference(b"[]", 1),
            Error::Internal("rank 1 sent no list of declarations".to_owned())
        );
    }
}
