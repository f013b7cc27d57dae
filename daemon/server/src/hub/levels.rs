//! What is wished of collectors, by job; what each says that it does stands in the model.
//!
//! Wishes are kept nowhere else: a daemon that starts again has none, and the processes go on as they were told last.

use std::collections::BTreeMap;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::{JobLevel, LevelChoice, ProcessLevel, RankState};
use ringscope_model::{Model, Name, Process, ProcessState};
use ringscope_wire::batch::{self, CollectorState};

use super::agents::Wished;
use super::{Hub, State};

/// The wishes, by job, and since when.
#[derive(Debug, Default)]
pub(super) struct Levels {
    wishes: BTreeMap<String, (LevelChoice, Timestamp)>,
    /// The jobs that diagnosis raises, and when it needed that last.
    raised: BTreeMap<String, Timestamp>,
}

impl Levels {
    /// The wishes for the jobs that `is_its` says are an agent's.
    pub(super) fn wishes(&self, model: &Model, is_its: impl Fn(&str) -> bool) -> Vec<Wished> {
        let its = self.wishes.iter().filter(|(job, _)| is_its(job));
        its.map(|(job, (choice, _))| Wished { job: job.clone(), wish: wish(model.own_name(job), *choice) })
            .collect()
    }

    /// The jobs of them that are raised to the level at which bytes per link are told. Where somebody has said a level,
    /// by a wish or by hand, agents leave it.
    pub(super) fn raised(&self, is_its: impl Fn(&str) -> bool) -> Vec<String> {
        self.raised.keys().filter(|job| is_its(job)).cloned().collect()
    }

    /// Raises these jobs, and lets those fall that need it no more.
    pub(super) fn raise<'a>(&mut self, jobs: impl Iterator<Item = &'a Name>, now: Timestamp) {
        self.raised.retain(|_, needed| now.since(*needed) < FALLS_AFTER);
        for job in jobs {
            if self.raised.len() < RAISED_MAX || self.raised.contains_key(&**job) {
                self.raised.insert(job.to_string(), now);
            }
        }
    }

    fn set(&mut self, job: &str, choice: LevelChoice, now: Timestamp, model: &Model) {
        if self.wishes.len() >= WISHES_MAX {
            self.wishes.retain(|job, _| model.job(job).is_some());
        }
        if self.wishes.len() >= WISHES_MAX && !self.wishes.contains_key(job) {
            let oldest = self.wishes.iter().min_by_key(|(_, (_, at))| *at).map(|(job, _)| job.clone());
            oldest.map(|job| self.wishes.remove(&job));
        }
        self.wishes.insert(job.to_owned(), (choice, now));
    }
}

impl Hub {
    /// Wishes for a level in a job. Its agents hear of it with the answer to their next batch, which is at most five
    /// seconds away. `None`: no such job.
    pub fn wish_level(&self, job: &str, choice: LevelChoice, now: Timestamp) -> Option<JobLevel> {
        let mut state = self.lock();
        let State { levels, model, .. } = &mut *state;
        model.job(job)?;
        levels.set(job, choice, now, model);
        self.versions.changed();
        job_level(&state, job, now)
    }

    /// What is wished for in a job and what its processes do. `None`: no such job.
    #[must_use]
    pub fn level(&self, job: &str, now: Timestamp) -> Option<JobLevel> {
        job_level(&self.lock(), job, now)
    }
}

fn job_level(state: &State, id: &str, now: Timestamp) -> Option<JobLevel> {
    let State { levels, model, .. } = state;
    let (_, job) = model.job(id)?;
    let (wish, wished_at) = levels.wishes.get(id).copied().unzip();
    let is_living =
        |process: &&Process| process.ended().is_none() && process.state() != ProcessState::Imported;
    let living = job.processes(model).filter(is_living);
    let mut processes: Vec<_> =
        living.filter_map(|process| process_level(process, model.rank_state(process, now))).collect();
    processes.sort_by(|a, b| (&a.host, a.global_rank, a.pid).cmp(&(&b.host, b.global_rank, b.pid)));
    Some(JobLevel { job: id.to_owned(), wish, wished_at, processes })
}

fn process_level(process: &Process, state: RankState) -> Option<ProcessLevel> {
    let identity = process.identity()?;
    Some(ProcessLevel {
        host: identity.host.to_string(),
        pid: identity.pid,
        global_rank: identity.global_rank,
        level: match (process.collector_state(), process.collector().level) {
            (CollectorState::Off, _) => Some(LevelChoice::Off),
            (CollectorState::On, batch::Level::Counters) => Some(LevelChoice::Counters),
            (CollectorState::On, batch::Level::Channels) => Some(LevelChoice::Channels),
            (CollectorState::On, batch::Level::Steps) => Some(LevelChoice::Steps),
            (CollectorState::On, batch::Level::Events) => Some(LevelChoice::Events),
            _ => None,
        },
        state,
    })
}

fn wish((job, user): (&str, Option<u32>), choice: LevelChoice) -> batch::Wish {
    let level = match choice {
        LevelChoice::Counters => batch::Level::Counters,
        LevelChoice::Channels => batch::Level::Channels,
        LevelChoice::Steps => batch::Level::Steps,
        LevelChoice::Events => batch::Level::Events,
        LevelChoice::Default | LevelChoice::Off => batch::Level::Unspecified,
    };
    batch::Wish { job: job.to_owned(), level: level.into(), off: choice == LevelChoice::Off, user }
}

/// Jobs for which something is wished at once; the oldest wish goes first. A reply with all of them has some 20 KB.
const WISHES_MAX: usize = 256;
/// Jobs that are raised at once, for as many hangs; there is no time for more.
const RAISED_MAX: usize = 64;
/// A level that was not needed for so long falls: longer than a judgement that flickers.
const FALLS_AFTER: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;
    use ringscope_samples::cluster::at;

    #[test]
    fn a_raised_level_falls_when_it_is_needed_no_more() {
        let (mut levels, job) = (Levels::default(), Name::from("train"));
        levels.raise([&job].into_iter(), at(1));
        assert_eq!(levels.raised(|_| true), ["train"]);
        assert!(levels.raised(|job| job == "other").is_empty(), "another agent's");
        levels.raise([].into_iter(), at(10));
        assert_eq!(levels.raised(|_| true), ["train"], "it may be needed again");
        levels.raise([].into_iter(), at(17));
        assert!(levels.raised(|_| true).is_empty());
        assert!(levels.wishes(&Model::new(), |_| true).is_empty(), "nobody has wished for anything");
    }

    #[test]
    fn raised_levels_are_bounded() {
        let mut levels = Levels::default();
        let jobs: Vec<Name> = (0..200).map(|n| Name::from(format!("job-{n}"))).collect();
        levels.raise(jobs.iter(), at(1));
        assert_eq!(levels.raised(|_| true).len(), RAISED_MAX);
    }
}
