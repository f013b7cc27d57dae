//! Whose a job is. Jobs are called as their processes say, and any user may say any name: what one user says of a job is never
//! said of another's.

use std::borrow::Cow;

use ringscope_wire::batch::{self, job_of};

use super::process::Process;
use super::{Job, Model};

/// Names that are tried: others may have taken also those that are made here.
const MAX_TRIES: usize = 4;

impl Model {
    /// What the job of a process is called here: as its user calls it, unless another user has a job of that name.
    pub(super) fn job_name(&self, told: &batch::Identity) -> String {
        let mut name = Cow::Borrowed(told.job.as_str());
        let Some(user) = told.user.filter(|_| !told.job.is_empty()) else { return name.into_owned() };
        // One that has had another name goes on under it.
        let other = job_of(&name, user);
        if self.jobs.get(other.as_str()).is_some_and(|job| job.user == Some(user)) {
            return other;
        }
        for _ in 0..MAX_TRIES {
            let is_anothers = |job: &Job| job.user.is_some_and(|of| of != user);
            if !self.jobs.get(&*name).is_some_and(is_anothers) {
                break;
            }
            name = job_of(&name, user).into();
        }
        name.into_owned()
    }

    /// How the user of a job calls it, and who that is.
    #[must_use]
    pub fn own_name<'n>(&self, name: &'n str) -> (&'n str, Option<u32>) {
        let user = self.jobs.get(name).and_then(|job| job.user);
        let suffix = user.map(|user| job_of("", user));
        (suffix.and_then(|suffix| name.strip_suffix(&suffix)).unwrap_or(name), user)
    }
}

impl Process {
    /// Whether what is told of it can be told by its user.
    pub(super) fn is_of(&self, told: Option<&batch::Identity>) -> bool {
        let known = self.identity.as_ref().and_then(|identity| identity.user);
        let told = told.and_then(|identity| identity.user);
        known.zip(told).is_none_or(|(known, told)| known == told)
    }
}

#[cfg(test)]
mod tests {
    use ringscope_wire::batch::{Batch, Identity, ProcessState};

    use super::*;
    use ringscope_samples::cluster::at;

    fn process(key: &str, job: &str, user: u32) -> batch::Process {
        let identity =
            Identity { host: "node1".into(), job: job.into(), user: Some(user), ..Identity::default() };
        batch::Process {
            key: key.into(),
            identity: Some(identity),
            state: ProcessState::Running.into(),
            ..batch::Process::default()
        }
    }

    fn told(model: &mut Model, processes: Vec<batch::Process>) {
        let batch = Batch { agent_id: "a".into(), seq_number: 1, processes, ..Batch::default() };
        model.apply(&batch, at(1));
    }

    fn jobs(model: &Model) -> Vec<(String, usize)> {
        model.jobs().map(|(name, job)| (name.to_string(), job.processes.len())).collect()
    }

    #[test]
    fn what_another_user_calls_his_job_leaves_mine_alone() {
        let mut model = Model::new();
        told(&mut model, vec![process("1", "llama", 1000), process("2", "llama", 65_534)]);
        told(&mut model, vec![process("3", "llama", 1000), process("4", "llama@user1000", 65_534)]);
        let expected = [("llama", 2), ("llama@user1000", 1), ("llama@user65534", 1)];
        assert_eq!(jobs(&model), expected.map(|(job, n)| (job.to_owned(), n)));
        assert_eq!(model.own_name("llama@user65534"), ("llama", Some(65_534)));
        assert_eq!(model.own_name("llama@user1000"), ("llama@user1000", Some(65_534)));
        assert_eq!(model.own_name("llama"), ("llama", Some(1000)));
    }

    #[test]
    fn who_has_lost_the_race_for_a_name_and_for_its_other_still_has_a_job_of_his_own() {
        let mut model = Model::new();
        told(&mut model, vec![process("1", "llama", 7), process("2", "llama@user1000", 7)]);
        told(&mut model, vec![process("3", "llama", 1000), process("4", "llama", 1000)]);
        let own = jobs(&model).into_iter().find(|(job, _)| job == "llama@user1000@user1000").unwrap();
        assert_eq!(own.1, 2);
    }

    #[test]
    fn nobody_tells_of_another_users_process() {
        let mut model = Model::new();
        told(&mut model, vec![process("1", "llama", 1000)]);
        let end = batch::Process {
            state: ProcessState::Killed.into(),
            ended_at_ns: Some(at(2).0),
            ..process("1", "llama", 65_534)
        };
        told(&mut model, vec![end]);
        assert!(model.process("1").unwrap().ended().is_none());
    }
}
