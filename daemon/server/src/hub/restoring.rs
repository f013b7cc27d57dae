//! Taking back, in pieces, processes that had ended when the daemon started.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_access::Tenant;
use ringscope_api::clock::Timestamp;
use ringscope_judge::PaceMemory;
use ringscope_model::limits::MAX_PROCESSES;
use ringscope_store::AgentRow;
use ringscope_wire::batch::Process;

use super::Hub;

impl Hub {
    /// Takes in some processes that ended, unless they are known. Returns false when the model has only the room left that
    /// newcomers need.
    pub fn restore_ended(&self, processes: Vec<Process>, now: Timestamp) -> bool {
        let tenant = |process: &Process| Tenant::of_name(&process.identity.as_ref()?.job);
        let mut by_tenant: BTreeMap<Tenant, Vec<Process>> = BTreeMap::new();
        for process in &processes {
            if let Some(tenant) = tenant(process) {
                by_tenant.entry(tenant).or_default().push(process.clone());
            }
        }
        for (tenant, processes) in by_tenant {
            self.of_tenant(&tenant).restore_some(processes, now);
        }
        self.restore_some(processes, now)
    }

    fn restore_some(&self, processes: Vec<Process>, now: Timestamp) -> bool {
        let _long = self.keep_long();
        let mut state = self.lock();
        let mut fresh = processes;
        fresh.retain(|process| state.model.process_facts(&process.key).is_none());
        if state.model.n_processes() + fresh.len() > RESTORED_MAX {
            return false;
        }
        let keys: BTreeSet<String> = fresh.iter().map(|process| process.key.clone()).collect();
        state.shares.forget();
        state.model.restore(fresh, now);
        state.note_collectors(&keys);
        self.versions.changed();
        true
    }
}

/// Where an agent of the store's runs, and when it was heard last.
pub(super) fn heard(row: &AgentRow) -> (String, Timestamp) {
    (row.host.clone(), Timestamp(row.last_seen_ns.cast_unsigned()))
}

/// What was known of the pace of jobs. What cannot be read is learned anew.
pub(super) fn memories(rows: &[(String, String)]) -> Vec<(String, PaceMemory)> {
    let memory = |(job, text): &(String, String)| match serde_json::from_str(text) {
        Ok(memory) => Some((job.clone(), memory)),
        Err(error) => {
            tracing::warn!(%error, job, "what was usual of a job cannot be read; it is learned anew");
            None
        }
    };
    rows.iter().filter_map(memory).collect()
}

/// Processes up to which those that ended are taken back: the rest is for those that come.
const RESTORED_MAX: usize = MAX_PROCESSES / 10 * 9;
