//! How a word about what a process is in, and does, is merged into what is known of it.

use std::sync::Arc;

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch;

use super::activity::{self, Activity};
use super::agents::Stamp;
use super::calls::OpenCall;
use super::limits::{MAX_IN_FLIGHT, MAX_OPEN_CALLS, MAX_PAIRS, MAX_RANKS, MAX_RECALLED};
use super::merge::{is_known_operation, primitive};
use super::process::Process;
use super::word::{Merged, Word};

impl Process {
    /// Calls: those that are open, their order, pairs of sends and receives, and what was asked for.
    pub(super) fn merge_calls(
        &mut self,
        told: &batch::Process,
        replaces: bool,
        merged: &mut Merged,
        word: &mut Word<'_>,
    ) {
        // The store splits a process in two, so there an empty list says nothing.
        if replaces && (word.stamp != Stamp::STORE || !told.open_calls.is_empty()) {
            word.losses.add_many("open_call_limit", told.open_calls.len().saturating_sub(MAX_OPEN_CALLS));
            let calls = told.open_calls.iter().take(MAX_OPEN_CALLS);
            let calls: Vec<OpenCall> = calls.map(|call| OpenCall::told(call, word)).collect();
            merged.calls |= self.open_calls != calls;
            self.open_calls = calls;
        }
        let returned = self.last_returned.max(told.last_returned_at_ns.map(Timestamp));
        merged.calls |= self.last_returned != returned;
        self.last_returned = returned;
        for sequence in &told.sequences {
            let Some(local) = self.local(sequence.local_id, word) else { continue };
            if local.sequence.get_or_insert_default().raise(sequence, replaces, word) {
                merged.calls = true;
                merged.count(sequence.local_id);
            }
        }
        for pair in &told.pairs {
            if self.merge_pair(pair, replaces, word) {
                merged.calls = true;
                merged.count(pair.local_id);
            }
        }
        word.losses.add_many("recalled_limit", told.recalled.len().saturating_sub(MAX_IN_FLIGHT));
        for operation in told.recalled.iter().take(MAX_IN_FLIGHT) {
            if self.merge_recalled(operation, word) {
                (merged.calls, merged.alarming) = (true, true);
            }
        }
    }

    /// What the operating system says of it, what it was seen to do, and what files and peers tell of it.
    pub(super) fn merge_doing(&mut self, told: &batch::Process, merged: &mut Merged, word: &mut Word<'_>) {
        let until = self.told_until.max(told.told_until_ns.map(Timestamp));
        merged.calls |= self.told_until != until;
        self.told_until = until;
        if !told.told_by_peers.is_empty() {
            let said = word.names.intern(&told.told_by_peers);
            merged.calls |= self.told_by_peers.as_ref() != Some(&said);
            self.told_by_peers = Some(said);
        }
        if let Some(told) = &told.activity
            && let Some(activity) = Activity::told(told, self.activity.as_ref(), word.losses)
        {
            let was_stopped = self.activity.is_some_and(|known| known.is_stopped());
            merged.alarming |= activity.is_stopped() != was_stopped;
            merged.calls |= self.activity.is_none_or(|known| known.state != activity.state);
            self.activity = Some(activity);
        }
        if let Some(told) = &told.look
            && self.look.as_ref().is_none_or(|known| known.at_ns < told.at_ns)
        {
            let mut look = activity::look(told, word.losses);
            // A look for another reason does not watch its state: what was seen then still tells.
            let watched = self.look.as_ref().filter(|known| {
                told.states_read == 0 && told.at_ns.saturating_sub(known.at_ns) < WATCH_HOLDS_NS
            });
            if let (Some(known), Some(look)) = (watched, Arc::get_mut(&mut look)) {
                (look.states_read, look.states_stopped) = (known.states_read, known.states_stopped);
            }
            self.look = Some(look);
            (merged.calls, merged.alarming) = (true, true);
        }
    }

    fn merge_pair(&mut self, told: &batch::PairCalls, replaces: bool, word: &mut Word<'_>) -> bool {
        let Some(primitive) = primitive(told.primitive, word.losses) else { return false };
        if told.peer >= MAX_RANKS {
            word.losses.add("rank_out_of_range");
            return false;
        }
        let n_pairs = self.n_pairs;
        let Some(local) = self.local(told.local_id, word) else { return false };
        let is_new = !local.pairs.contains_key(&(primitive, told.peer));
        if is_new && n_pairs >= MAX_PAIRS {
            word.losses.add("pair_limit");
            return false;
        }
        let changed = local.pairs.entry((primitive, told.peer)).or_default().raise(told, replaces);
        self.n_pairs += usize::from(is_new);
        changed | is_new
    }

    fn merge_recalled(&mut self, told: &batch::Operation, word: &mut Word<'_>) -> bool {
        if !is_known_operation(told, word.losses) {
            return false;
        }
        let now = word.now;
        let Some(local) = self.local(told.local_id, word) else { return false };
        let recalled = &mut local.recalled;
        recalled.heard = recalled.heard.max(now);
        let order = |one: &batch::Operation| (one.call_number, one.primitive, one.seq_number);
        match recalled.operations.binary_search_by_key(&order(told), order) {
            // What has ended once is not open again.
            Ok(place) if recalled.operations[place].state >= told.state => false,
            Ok(place) => {
                recalled.operations[place] = *told;
                true
            }
            Err(place) => {
                recalled.operations.insert(place, *told);
                if recalled.operations.len() > MAX_RECALLED {
                    recalled.operations.remove(0);
                    word.losses.add("recalled_limit");
                }
                true
            }
        }
    }
}

/// How long it holds what a look has seen of a process's state.
const WATCH_HOLDS_NS: u64 = 120_000_000_000;
