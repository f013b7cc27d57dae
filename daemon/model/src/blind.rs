//! Hosts whose agents cannot watch all processes there.

use std::collections::BTreeSet;

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::Batch;

use super::limits::{BLIND_KEPT, MAX_BLIND_HOSTS};
use super::{Changes, Communicator, Model, Name};

/// What on a host is not watched and why, and when its agent said so last.
#[derive(Debug)]
pub(super) struct Blind {
    why: String,
    /// Who says so: a host may have several agents, each with its own folder.
    agent: String,
    heard: Timestamp,
}

impl Model {
    /// What on a host is not watched and why, as its agent says. `None`: nothing is known of that.
    #[must_use]
    pub fn cannot_watch(&self, host: &str) -> Option<&str> {
        self.blind.get(host).map(|blind| blind.why.as_str())
    }

    /// Every batch says how it is at that moment. What is lacking of communicators there is said in the same words.
    pub(super) fn apply_blind(&mut self, batch: &Batch, now: Timestamp, changes: &mut Changes) {
        let before = self.cannot_watch(&batch.agent_host).map(str::to_owned);
        self.note_blind(batch, now);
        if self.cannot_watch(&batch.agent_host) != before.as_deref() {
            let processes = self.host(&batch.agent_host).into_iter().flat_map(|(_, processes)| processes);
            let jobs: BTreeSet<&Name> = processes.filter_map(|known| Some(&known.identity()?.job)).collect();
            let jobs = jobs.into_iter().filter_map(|job| self.job(job));
            let theirs = jobs.flat_map(|(_, job)| job.communicators(self)).map(Communicator::id);
            for id in theirs.collect::<BTreeSet<_>>() {
                self.revise(id, changes);
            }
        }
    }

    /// An agent sends what nobody here understands, and why: it is all that is known of its host now.
    pub fn note_not_understood(&mut self, agent_id: &str, host: &str, why: &str, now: Timestamp) -> Changes {
        let batch = Batch {
            agent_id: agent_id.to_owned(),
            agent_host: host.to_owned(),
            not_watched: why.to_owned(),
            ..Batch::default()
        };
        let mut changes = Changes::default();
        self.apply_blind(&batch, now, &mut changes);
        changes
    }

    fn note_blind(&mut self, batch: &Batch, now: Timestamp) {
        let Some(why) = why(batch).filter(|_| !batch.ending) else {
            let is_same = |blind: &Blind| blind.agent == batch.agent_id;
            if self.blind.get(batch.agent_host.as_str()).is_some_and(is_same)
                && let Some((host, _)) = self.blind.remove_entry(batch.agent_host.as_str())
            {
                self.forget_idle_host(&host);
            }
            return;
        };
        if batch.agent_host.is_empty() {
            self.losses.add("bad_host_name");
            return;
        }
        let host = self.names.intern(&batch.agent_host);
        if !self.blind.contains_key(&host) && self.blind.len() >= MAX_BLIND_HOSTS {
            self.losses.add("blind_host_limit");
            return;
        }
        // It may be all that is known of the host.
        self.hosts.entry(host.clone()).or_default();
        self.blind.insert(host, Blind { why, agent: batch.agent_id.clone(), heard: now });
    }

    /// Forgets hosts whose agents are not heard of.
    pub(super) fn forget_blind(&mut self, now: Timestamp) {
        let is_old = |_: &Name, blind: &mut Blind| now.since(blind.heard) >= BLIND_KEPT;
        let gone: Vec<Name> = self.blind.extract_if(.., is_old).map(|(host, _)| host).collect();
        gone.iter().for_each(|host| self.forget_idle_host(host));
    }

    /// Forgets a host of which nothing is known any more.
    pub(super) fn forget_idle_host(&mut self, host: &Name) {
        let is_idle = self.hosts.get(host).is_some_and(BTreeSet::is_empty);
        if is_idle && !self.hardware.contains_key(host) && !self.blind.contains_key(host) {
            self.hosts.remove(host);
            self.before.remove(host);
        }
    }
}

/// What starts now weighs more than what runs already.
fn why(batch: &Batch) -> Option<String> {
    match (batch.cannot_watch.as_str(), batch.not_watched.as_str()) {
        ("", "") => None,
        ("", not_watched) => Some(not_watched.to_owned()),
        (lack, _) => Some(format!("what starts now is not watched, because {lack}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringscope_samples::cluster::at;

    fn names(model: &Model) -> Vec<&str> {
        model.hosts().map(|(name, _)| &**name).collect()
    }

    #[test]
    fn a_host_of_which_only_that_is_known_is_one_as_long_as_it_is_said() {
        let not_watched = "2 processes are not watched, because they are another user's".to_owned();
        let batch = |seq_number: u64, why: &str| Batch {
            agent_host: "host-0".to_owned(),
            agent_id: "a".to_owned(),
            seq_number,
            not_watched: why.to_owned(),
            ..Batch::default()
        };
        let mut model = Model::new();
        model.apply(&batch(1, ""), at(1));
        assert_eq!(names(&model), [""; 0]);
        model.apply(&batch(2, &not_watched), at(2));
        assert_eq!((names(&model), model.cannot_watch("host-0")), (vec!["host-0"], Some(&*not_watched)));
        model.apply(&batch(3, ""), at(3));
        assert_eq!(names(&model), [""; 0]);
        // Nor for longer than its agent is heard of.
        model.apply(&batch(4, &not_watched), at(4));
        model.tick(at(4 + BLIND_KEPT.as_secs()));
        assert_eq!((names(&model), model.cannot_watch("host-0")), (Vec::new(), None));
        // One without a name is none.
        model.apply(&Batch { agent_host: String::new(), ..batch(5, &not_watched) }, at(5));
        assert_eq!(names(&model), [""; 0]);
    }
}
