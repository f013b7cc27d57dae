//! Where the ranks of a communicator meet to make another one of it: every rank's process listens on its first NIC, at an address
//! that all know. So a split or a shrink needs no data connection, and works on a communicator that has failed.
//!
//! The secret of a meeting is derived from the parent's, so only its ranks can come.

use std::sync::Arc;

use crate::comm::Comm;
use crate::error::{Error, Result};
use crate::hash;
use crate::lock::lock;
use crate::net::acceptor::Acceptor;
use crate::net::root::{self, Manner};
use crate::net::secret::{SECRET_BYTES, Secret};
use crate::net::unique_id::UniqueId;

impl Comm {
    /// The id of a meeting at `host`'s listener, which `host` opens; all ranks that come give the same `topic`.
    pub(crate) fn meet(&self, host: usize, topic: &str) -> Result<UniqueId> {
        let id = UniqueId { root: self.peers[host].listens(0), secret: derive(&self.secret, topic) };
        if host == self.rank {
            let listening = self.listening.first().map(Arc::clone);
            let listening = listening.ok_or_else(|| Error::Internal("a rank without a NIC".to_owned()))?;
            root::start_on(listening, id.secret, Manner::of(&self.settings))?;
        }
        Ok(id)
    }

    /// This rank could not come to the meeting at `host`. If that is itself, nobody else needs to; with silent faults nobody is
    /// told, but its root ends, or it would wait for ever.
    pub(crate) fn call_off_meeting(&self, host: usize, id: &UniqueId, error: &Error) {
        let Ok(acceptor) = Acceptor::of_process() else { return };
        if !self.is_silent() {
            acceptor.give_up(&id.secret, format!("{}: {error}", self.names[self.rank]));
        } else if host == self.rank {
            acceptor.end_root(&id.secret);
        }
    }

    /// The number of a split, the same on all ranks.
    pub(crate) fn next_split(&self) -> i32 {
        let mut counters = lock(&self.counters);
        counters.splits += 1;
        counters.splits
    }

    /// The number of a shrink to `members`, the same on all of them.
    pub(crate) fn next_shrink(&self, members: &[usize]) -> i32 {
        let mut counters = lock(&self.counters);
        let count = counters.shrinks.entry(members.to_vec()).or_default();
        *count += 1;
        *count
    }
}

fn derive(parent: &Secret, topic: &str) -> Secret {
    let mut secret = [0; SECRET_BYTES];
    for (index, half) in secret.as_chunks_mut().0.iter_mut().enumerate() {
        let index = [u8::try_from(index).unwrap_or(0)];
        let fed = [&parent[..], &index, topic.as_bytes()].concat();
        *half = hash::hash(&fed).to_le_bytes();
    }
    secret
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::init::{Request, init};
    use crate::comm::pending::Pending;
    use crate::comm::split::{Choice, split};
    use crate::comm::{CommConfig, shrink};
    use crate::config::Settings;
    use crate::net::bootstrap::Bootstrap;

    /// Alone, as NCCL 2.28.
    fn faithful() -> (Settings, Arc<Comm>) {
        let value = |name: &str| match name {
            "RSCCL_FAITHFUL" => Some("2.28".to_owned()),
            "RSCCL_NICS" => Some("lo=127.0.0.1".to_owned()),
            "NCCL_PROFILER_PLUGIN" => Some("none".to_owned()),
            _ => None,
        };
        let settings = Settings::parse(value).unwrap();
        let id = root::start("127.0.0.1".parse().unwrap(), Manner::Silent).unwrap().to_bytes();
        let (api, config) = ("ncclCommInitRank", CommConfig::default());
        let request = Request { api, id, rank: 0, n_ranks: 1, config, device: None, split: None, kin: None };
        let comm = init(request, settings.clone()).unwrap();
        (settings, comm)
    }

    #[test]
    fn a_silent_root_ends_where_its_rank_gives_up_before_it_has_joined() {
        let (settings, comm) = faithful();
        comm.health.abort_children();
        let (config, pending) = (CommConfig::default(), Pending::new());
        let choice = Choice::new(0, 0).unwrap();
        let split = split(&comm, choice, config.clone(), settings.clone(), &pending);
        let shrunk = shrink::shrink(&comm, &[0], false, config, settings.clone(), &pending);
        assert!(split.is_err() && shrunk.is_err());
        for topic in ["split 1", "shrink 1 to [0]"] {
            let id = UniqueId { root: comm.peers[0].listens(0), secret: derive(&comm.secret, topic) };
            let joined = Bootstrap::join(id, 0, 1, settings.timeout, &Pending::new());
            let text = joined.err().unwrap().to_string();
            assert!(text.contains("it has ended"), "{topic}: {text}");
        }
        comm.abort();
    }

    #[test]
    fn secrets_differ_by_topic_and_parent() {
        let secrets = [derive(&[1; 16], "split 1"), derive(&[1; 16], "split 2"), derive(&[2; 16], "split 1")];
        assert_ne!(secrets[0], secrets[1]);
        assert_ne!(secrets[0], secrets[2]);
        assert_ne!(secrets[0][..8], secrets[0][8..]);
        assert_eq!(secrets[0], derive(&[1; 16], "split 1"));
    }
}
