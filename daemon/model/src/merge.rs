//! How a word about one process is merged into what is known of it. In any order, with repeats, the result is the same.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use ringscope_api::clock::Timestamp;
use ringscope_wire::Primitive;
use ringscope_wire::batch::{self, CollectorState, Level};

use super::agents::Stamp;
use super::exit::Exit;
use super::facts::Facts;
use super::limits::{MAX_IN_FLIGHT, MAX_LOG_LACKS, MAX_PROCESS_COMMUNICATORS, MAX_PROCESS_LINKS};
use super::losses::{self, Losses};
use super::process::{Identity, LastReading, Local, Process, ProcessState};
use super::rate::Window;
use super::scheduled::Scheduled;
use super::word::{Merged, Word};

impl Process {
    /// Merges a word about this process.
    pub(super) fn merge(&mut self, told: &batch::Process, word: &mut Word<'_>) -> Merged {
        let mut merged = Merged::default();
        let replaces = word.stamp.replaces(self.stamp);
        let heard_before = self.heard_before(word);
        merged.facts |= self.merge_identity(told.identity.as_ref(), word);
        merged.facts |= self.merge_state(told, replaces, word);
        merged.collector = self.merge_collector(told, replaces, word);
        merged.facts |= merged.collector;
        for communicator in &told.communicators {
            let (changed, alarming) = self.merge_communicator(communicator, word);
            merged.alarming |= alarming;
            if changed {
                merged.facts = true;
                merged.changed.push(communicator.local_id);
            }
        }
        for counters in &told.counters {
            if self.merge_counters(counters, heard_before, word) {
                merged.count(counters.local_id);
            }
        }
        for link in &told.links {
            if self.merge_link(link, word) {
                merged.count(link.local_id);
            }
        }
        for operation in &told.last_completed {
            if self.merge_completed(operation, word) {
                merged.count(operation.local_id);
            }
        }
        // The store splits a process in two, so there an empty list says nothing.
        if replaces && (word.stamp != Stamp::STORE || !told.in_flight.is_empty()) {
            self.replace_in_flight(&told.in_flight, &mut merged.counted, word);
        }
        self.merge_calls(told, replaces, &mut merged, word);
        self.merge_doing(told, &mut merged, word);
        if self.merge_groups(&told.groups, word) {
            merged.facts = true;
            merged.changed.extend(self.locals.keys());
        }
        self.merge_pace(told.own_time.as_ref(), word.stamp, word.at);
        merged.connections = self.connections.merge(told, self.ended.is_some(), word);
        let lost = losses::hiding(&self.dropped);
        merged.counters = losses::raise(&mut self.dropped, &told.dropped, word.losses);
        if heard_before.is_some() && losses::hiding(&self.dropped) > lost {
            self.lost_calls = Some(word.now);
        }
        merged.counters |= !merged.counted.is_empty() || merged.calls;
        if word.stamp != Stamp::STORE {
            self.unwatched_since = None;
        } else if self.stamp == Stamp::STORE {
            self.unwatched_since = told.unwatched_since_ns.map(Timestamp).or(self.unwatched_since);
        }
        if replaces {
            self.stamp = word.stamp;
        }
        self.heard = self.heard.max(word.now);
        merged
    }

    /// When it was heard of before this reading, of which a word may be but a part. Absent: only the store told of it.
    fn heard_before(&mut self, word: &Word<'_>) -> Option<Timestamp> {
        let before = (self.stamp != Stamp::STORE).then_some(self.heard);
        if word.stamp == Stamp::STORE {
            return before;
        }
        if let Some(reading) = &self.reading
            && reading.read_at == word.read_at
            && word.stamp.is_of_agent_of(self.stamp)
        {
            return reading.heard_before;
        }
        self.reading = Some(LastReading { read_at: word.read_at, heard_before: before });
        if before.is_none() {
            self.restart_rates();
        }
        before
    }

    /// Forgets the pace that the store's counters seem to have: what was moved while nobody looked is not a burst.
    fn restart_rates(&mut self) {
        for counted in self.locals.values_mut().flat_map(|local| local.counters.values_mut()) {
            counted.window = Window::default();
        }
    }

    fn merge_identity(&mut self, told: Option<&batch::Identity>, word: &mut Word<'_>) -> bool {
        // A process cannot become another: the first word holds, but for what only a later one knows.
        let Some(told) = told else { return false };
        let identity = match &mut self.identity {
            Some(identity) => identity,
            None => {
                self.identity = Some(identity(&self.key, told, word));
                return true;
            }
        };
        let before = identity.clone();
        identity.global_rank = identity.global_rank.or(told.global_rank);
        identity.world_size = identity.world_size.or(told.world_size);
        identity.local_rank = identity.local_rank.or(told.local_rank);
        identity.user = identity.user.or(told.user);
        if identity.library_version == 0 {
            identity.library_version = told.library_version;
        }
        *identity != before
    }

    fn merge_state(&mut self, told: &batch::Process, replaces: bool, word: &mut Word<'_>) -> bool {
        let before = (self.state, self.ended, self.exit, self.collector_state, self.collector.off_since);
        match batch::ProcessState::try_from(told.state) {
            Ok(batch::ProcessState::Unspecified | batch::ProcessState::Running) => {}
            // Who has ended, or comes from files, does not live again: another process has another key.
            Ok(_) if self.state != ProcessState::Running => {}
            Ok(batch::ProcessState::Exited) => self.state = ProcessState::Exited,
            Ok(batch::ProcessState::Killed) => self.state = ProcessState::Killed,
            Ok(batch::ProcessState::Imported) => self.state = ProcessState::Imported,
            Err(_) => word.losses.add("unknown_process_state"),
        }
        if matches!(self.state, ProcessState::Exited | ProcessState::Killed) {
            let ended = told.ended_at_ns.map(|ended| word.ended(ended));
            self.ended = self.ended.or(ended).or(Some(self.heard));
            self.exit = self.exit.or(Exit::told(told));
        }
        match CollectorState::try_from(told.collector_state) {
            Ok(CollectorState::Unspecified) => {}
            Ok(state) if replaces => {
                self.collector_state = state;
                let off = told.collector_off_since_ns.filter(|_| state != CollectorState::On);
                self.collector.off_since = off.map(Timestamp);
            }
            Ok(_) => {}
            Err(_) => word.losses.add("unknown_collector_state"),
        }
        (self.state, self.ended, self.exit, self.collector_state, self.collector.off_since) != before
    }

    /// What was seen once stays seen; what can be changed is as the newest word says. The store splits a process in two,
    /// and its second part says nothing here.
    fn merge_collector(&mut self, told: &batch::Process, replaces: bool, word: &mut Word<'_>) -> bool {
        let before = self.collector.clone();
        let known = &mut self.collector;
        known.plugin_chained |= told.plugin_chained;
        known.calls_seen |= told.calls_seen;
        known.has_segment |= told.has_segment;
        known.n_libraries = known.n_libraries.max(told.n_libraries);
        known.profiler_version = known.profiler_version.max(told.profiler_version);
        known.launched |= told.launched;
        known.segment_version = known.segment_version.max(told.segment_version);
        let level = Level::try_from(told.level).unwrap_or_default();
        if level != Level::Unspecified && (replaces || known.level == Level::Unspecified) {
            known.level = level;
        }
        if replaces && (word.stamp != Stamp::STORE || !told.log_lacks.is_empty()) {
            word.losses.add_many("log_lacks_limit", told.log_lacks.len().saturating_sub(MAX_LOG_LACKS));
            let lacks = told.log_lacks.iter().take(MAX_LOG_LACKS);
            known.log_lacks = lacks.map(|lack| word.names.intern(lack)).collect();
        }
        *known != before
    }

    /// This process's part of a communicator, made if there is room. Also without any facts: these may come later.
    pub(super) fn local(&mut self, local_id: u64, word: &mut Word<'_>) -> Option<&mut Local> {
        let is_full = self.locals.len() >= MAX_PROCESS_COMMUNICATORS;
        let local = match self.locals.entry(local_id) {
            Entry::Vacant(_) if is_full => {
                word.losses.add("process_communicator_limit");
                return None;
            }
            entry => entry.or_default(),
        };
        local.heard = local.heard.max(word.now);
        Some(local)
    }

    /// Returns whether anything changed, and whether something went wrong with it.
    fn merge_communicator(&mut self, told: &batch::Communicator, word: &mut Word<'_>) -> (bool, bool) {
        let Some(facts) = Facts::told(told, word) else { return (false, false) };
        let stamp = word.stamp;
        let Some(local) = self.local(told.local_id, word) else { return (false, false) };
        let newer = stamp.replaces(local.stamp);
        let before = local.facts.take();
        let merged = match before.clone() {
            None => facts,
            Some(known) if newer => facts.over(known),
            Some(known) => known.over(facts),
        };
        if newer {
            local.stamp = stamp;
        }
        let changed = before.as_ref() != Some(&merged);
        let went_wrong = merged.went_wrong() && !before.as_ref().is_some_and(Facts::went_wrong);
        local.facts = Some(merged);
        (changed, went_wrong)
    }

    fn merge_counters(
        &mut self,
        told: &batch::Counters,
        heard_before: Option<Timestamp>,
        word: &mut Word<'_>,
    ) -> bool {
        let Some(primitive) = primitive(told.primitive, word.losses) else { return false };
        let at = word.at;
        let Some(local) = self.local(told.local_id, word) else { return false };
        let counted = local.counters.entry(primitive);
        // What is new in a process that was known before has grown from nothing since; in one that was not, when
        // these bytes moved is not known.
        if counted.window.is_empty()
            && let Some(before) = heard_before
        {
            counted.window.push(before.min(at), counted.totals.completed_bytes);
        }
        let changed = counted.totals.raise(told);
        if changed || counted.window.is_empty() {
            counted.window.push(at, counted.totals.completed_bytes);
        }
        changed
    }

    fn merge_pace(&mut self, told: Option<&batch::OwnTime>, stamp: Stamp, at: Timestamp) {
        let Some(told) = told.filter(|_| stamp != Stamp::STORE) else { return };
        let counters = self.locals.values().flat_map(|local| local.counters.values());
        let issued_bytes = counters.fold(0_u64, |sum, one| sum.saturating_add(one.totals().issued_bytes));
        self.pace.get_or_insert_default().hear(told, stamp, at, issued_bytes);
    }

    fn merge_link(&mut self, told: &batch::Link, word: &mut Word<'_>) -> bool {
        let Some(primitive) = primitive(told.primitive, word.losses) else { return false };
        if told.peer >= super::limits::MAX_RANKS {
            word.losses.add("rank_out_of_range");
            return false;
        }
        let n_links = self.n_links;
        let Some(local) = self.local(told.local_id, word) else { return false };
        let is_new = !local.links.contains_key(&(primitive, told.peer));
        if is_new && n_links >= MAX_PROCESS_LINKS {
            word.losses.add("link_limit");
            return false;
        }
        let sent = local.links.entry((primitive, told.peer)).or_default();
        let before = *sent;
        sent.bytes = told.sent_bytes.max(sent.bytes);
        sent.steps = told.sent_steps.max(sent.steps);
        sent.sending_ns = told.sending_ns.max(sent.sending_ns);
        let changed = is_new || *sent != before;
        self.n_links += usize::from(is_new);
        changed
    }

    fn merge_completed(&mut self, told: &batch::Operation, word: &mut Word<'_>) -> bool {
        if !is_known_operation(told, word.losses) {
            return false;
        }
        let Some(local) = self.local(told.local_id, word) else { return false };
        let age = |operation: &batch::Operation| {
            (operation.completed_at_ns, operation.issued_at_ns, operation.seq_number, operation.primitive)
        };
        let newer = local.last_completed.as_ref().is_none_or(|known| age(told) > age(known));
        if newer {
            local.last_completed = Some(*told);
        }
        newer
    }

    fn replace_in_flight(&mut self, told: &[batch::Operation], counted: &mut Vec<u64>, word: &mut Word<'_>) {
        let mut by_local: BTreeMap<u64, Vec<batch::Operation>> = BTreeMap::new();
        word.losses.add_many("operation_limit", told.len().saturating_sub(MAX_IN_FLIGHT));
        for operation in told.iter().take(MAX_IN_FLIGHT) {
            if is_known_operation(operation, word.losses) && self.local(operation.local_id, word).is_some() {
                by_local.entry(operation.local_id).or_default().push(*operation);
            }
        }
        for (local_id, local) in &mut self.locals {
            let operations = by_local.remove(local_id).unwrap_or_default();
            if local.in_flight != operations {
                local.in_flight = operations;
                counted.push(*local_id);
            }
        }
    }
}

/// The host of a process: as it says, else that of its agent, else that of its key.
pub(super) fn host_of<'a>(key: &'a str, told: &'a batch::Identity, agent_host: &'a str) -> &'a str {
    let hosts = [told.host.as_str(), agent_host, key.split('/').next().unwrap_or_default()];
    hosts.into_iter().find(|host| !host.is_empty()).unwrap_or("unknown")
}

fn identity(key: &str, told: &batch::Identity, word: &mut Word<'_>) -> Identity {
    let host = host_of(key, told, word.agent_host);
    let job = if word.job.is_empty() {
        word.names.intern(&format!("pid-{}@{host}", told.pid))
    } else {
        word.names.intern(word.job)
    };
    Identity {
        host: word.names.intern(host),
        pid: told.pid,
        started: Timestamp(told.start_time_ns),
        job,
        global_rank: told.global_rank,
        world_size: told.world_size,
        local_rank: told.local_rank,
        scheduled: Scheduled::of(told, host, word.names),
        executable: word.names.intern(&told.executable),
        library_version: told.library_version,
        user: told.user,
    }
}

pub(super) fn primitive(told: i32, losses: &mut Losses) -> Option<Primitive> {
    let known = batch::Primitive::try_from(told).ok().and_then(batch::Primitive::known);
    if known.is_none() {
        losses.add("unknown_primitive");
    }
    known
}

pub(super) fn is_known_operation(told: &batch::Operation, losses: &mut Losses) -> bool {
    match batch::OperationState::try_from(told.state) {
        Ok(batch::OperationState::Unspecified) | Err(_) => {
            losses.add("unknown_operation_state");
            false
        }
        Ok(_) => primitive(told.primitive, losses).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use ringscope_wire::Primitive;

    use crate::Model;
    use ringscope_samples::cluster::{Cluster, at, batch};

    /// A process that has moved a terabyte before its agent began, told in two parts.
    #[test]
    fn what_comes_in_the_second_part_of_a_reading_is_no_burst() {
        let cluster = Cluster::new(&[("host-0", 1, 2)], 2);
        let mut model = Model::new();
        let first = cluster.word(0);
        let second = ringscope_wire::batch::Process {
            counters: vec![cluster.counters(Primitive::AllReduce, 1000, 1000, 1 << 30)],
            ..cluster.word(0)
        };
        let parts = [(1, true, first), (2, false, second)];
        for (seq_number, more_follows, process) in parts {
            let batch = ringscope_wire::batch::Batch { more_follows, ..batch(seq_number, 10, vec![process]) };
            model.apply(&batch, at(10));
        }
        let process = model.process(&cluster.key(0)).unwrap();
        let rate = |now| {
            let counted = process.ranks().flat_map(|rank| rank.local.counters().values());
            counted.map(|one| one.completed_bytes_per_s(at(now))).sum::<f64>()
        };
        assert!(rate(11).abs() < 1.0, "{}", rate(11));
    }
}
