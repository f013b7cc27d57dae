//! What the collectors in the processes are doing.

use std::collections::{BTreeMap, HashMap};

use ringscope_wire::batch::{CollectorState, Process, ProcessState};

/// Collectors of live processes by what they do.
#[derive(Debug, Default)]
pub(super) struct Collectors {
    by_process: HashMap<String, Place>,
}

type Place = (String, String, &'static str);

/// Number of live processes of a job on a host whose collector is in a state.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CollectorCount {
    /// Job.
    pub job: String,
    /// Host.
    pub host: String,
    /// `on`, `off`, `fault`, `removed` or `unknown`.
    pub state: &'static str,
    /// Processes.
    pub processes: u64,
}

impl Collectors {
    /// Notes what is known of a process; `None`: it was forgotten.
    pub(super) fn note(&mut self, key: &str, process: Option<&Process>) {
        let lives =
            |process: &&Process| process.ended_at_ns.is_none() && process.state() != ProcessState::Imported;
        let place = process.filter(lives).and_then(|process| {
            let identity = process.identity.as_ref()?;
            Some((identity.job.clone(), identity.host.clone(), label(process.collector_state())))
        });
        match place {
            Some(place) => self.by_process.insert(key.to_owned(), place),
            None => self.by_process.remove(key),
        };
    }

    /// By job, host and state.
    pub(super) fn counts(&self) -> Vec<CollectorCount> {
        let mut counts: BTreeMap<&Place, u64> = BTreeMap::new();
        for place in self.by_process.values() {
            *counts.entry(place).or_default() += 1;
        }
        counts
            .into_iter()
            .map(|((job, host, state), processes)| CollectorCount {
                job: job.clone(),
                host: host.clone(),
                state,
                processes,
            })
            .collect()
    }
}

const fn label(state: CollectorState) -> &'static str {
    match state {
        CollectorState::Unspecified => "unknown",
        CollectorState::On => "on",
        CollectorState::Off => "off",
        CollectorState::Fault => "fault",
        CollectorState::Removed => "removed",
    }
}
