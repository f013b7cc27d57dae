//! What of a process is worth saying, given what has been said.

use std::collections::BTreeMap;

use prost::Message as _;
use ringscope_wire::batch::{
    CallSequence, Connection, Counters, Link, Operation, PairCalls, Process, SummationMember,
};

/// A batch is cut before it grows beyond this, process by process, and a process of very many communicators by these. Far
/// below what daemons take, and what proxies before them let pass.
pub(super) const MAX_BATCH_BYTES: usize = 4 << 20;

/// What changed since `said`, communicators aside; `None` if nothing did. The list of operations in flight is always
/// whole.
pub(super) fn delta(said: &Process, now: &Process) -> Option<Process> {
    if said == now {
        return None;
    }
    Some(Process {
        key: now.key.clone(),
        identity: now.identity.clone().filter(|identity| said.identity.as_ref() != Some(identity)),
        communicators: Vec::new(),
        counters: changed(&said.counters, &now.counters, |c: &Counters| (c.local_id, c.primitive)),
        links: changed(&said.links, &now.links, |l: &Link| (l.local_id, l.primitive, l.peer)),
        in_flight: now.in_flight.clone(),
        last_completed: changed(&said.last_completed, &now.last_completed, |o: &Operation| o.local_id),
        dropped: now.dropped.clone(),
        collector_state: now.collector_state,
        state: now.state,
        ended_at_ns: now.ended_at_ns,
        level: now.level,
        profiler_version: now.profiler_version,
        plugin_chained: now.plugin_chained,
        calls_seen: now.calls_seen,
        n_libraries: now.n_libraries,
        has_segment: now.has_segment,
        log_lacks: now.log_lacks.clone(),
        completed_operations: now.completed_operations.clone(),
        summations: changed(&said.summations, &now.summations, |one: &SummationMember| one.local_id),
        open_calls: now.open_calls.clone(),
        sequences: changed(&said.sequences, &now.sequences, |one: &CallSequence| one.local_id),
        pairs: changed(&said.pairs, &now.pairs, |one: &PairCalls| (one.local_id, one.primitive, one.peer)),
        activity: now.activity.clone(),
        recalled: now.recalled.clone(),
        look: now.look.clone(),
        last_returned_at_ns: now.last_returned_at_ns,
        launched: now.launched,
        segment_version: now.segment_version,
        collector_off_since_ns: now.collector_off_since_ns,
        unwatched_since_ns: None,
        own_time: now.own_time.clone().filter(|time| said.own_time.as_ref() != Some(time)),
        connections: changed(&said.connections, &now.connections, |one: &Connection| {
            (one.place, one.generation)
        }),
        connection_counts: changed(&said.connection_counts, &now.connection_counts, |one| {
            (one.place, one.generation)
        }),
        connections_left_out: now.connections_left_out,
        groups: if said.groups == now.groups { Vec::new() } else { now.groups.clone() },
        exit_status: now.exit_status,
        exit_signal: now.exit_signal,
        launch_end: now.launch_end,
        // Only of files.
        told_until_ns: None,
        told_by_peers: String::new(),
    })
}

/// Those of `now` that `said` has not, or has otherwise.
pub(super) fn changed<T: Clone + PartialEq, K: Ord>(said: &[T], now: &[T], key: impl Fn(&T) -> K) -> Vec<T> {
    // As a rule nothing comes or goes, and both have the same order.
    if said.len() == now.len() && said.iter().zip(now).all(|(said, now)| key(said) == key(now)) {
        return said.iter().zip(now).filter(|(said, now)| said != now).map(|(_, now)| now.clone()).collect();
    }
    let said: BTreeMap<K, &T> = said.iter().map(|item| (key(item), item)).collect();
    now.iter().filter(|item| said.get(&key(item)) != Some(item)).cloned().collect()
}

/// Distributes processes over batches. One that is cut has its parts in batches that follow each other.
pub(super) fn split(processes: Vec<Process>, max_bytes: usize) -> Vec<Vec<Process>> {
    let mut batches: Vec<Vec<Process>> = Vec::new();
    let mut bytes = 0;
    for process in processes.into_iter().flat_map(|process| cut(process, max_bytes)) {
        let size = process.encoded_len();
        match batches.last_mut() {
            Some(batch) if bytes + size <= max_bytes => {
                bytes += size;
                batch.push(process);
            }
            _ => {
                bytes = size;
                batches.push(vec![process]);
            }
        }
    }
    batches
}

/// The process, in parts of some of its communicators where it is too long for one batch. What is always said whole is in each.
fn cut(mut process: Process, max_bytes: usize) -> Vec<Process> {
    if process.encoded_len() <= max_bytes {
        return vec![process];
    }
    let by_communicator = by_communicator(&mut process);
    let once = Process {
        completed_operations: std::mem::take(&mut process.completed_operations),
        recalled: std::mem::take(&mut process.recalled),
        activity: process.activity.take(),
        look: process.look.take(),
        own_time: process.own_time.take(),
        connections: std::mem::take(&mut process.connections),
        connection_counts: std::mem::take(&mut process.connection_counts),
        groups: std::mem::take(&mut process.groups),
        ..Process::default()
    };
    let whole = process;
    let mut parts = vec![whole.clone()];
    let mut bytes = whole.encoded_len();
    for of_one in by_communicator.into_values().chain([once]) {
        let more = of_one.encoded_len();
        if bytes + more > max_bytes && bytes > whole.encoded_len() {
            parts.push(whole.clone());
            bytes = whole.encoded_len();
        }
        bytes += more;
        if let Some(part) = parts.last_mut() {
            add(part, of_one);
        }
    }
    parts
}

/// Takes out of a process what it says of its communicators one by one.
fn by_communicator(process: &mut Process) -> BTreeMap<u64, Process> {
    let mut parts: BTreeMap<u64, Process> = BTreeMap::new();
    macro_rules! take {
        ($($list:ident),*) => {$(
            for one in std::mem::take(&mut process.$list) {
                parts.entry(one.local_id).or_default().$list.push(one);
            }
        )*};
    }
    take!(communicators, counters, links, last_completed, summations, sequences, pairs);
    parts
}

fn add(part: &mut Process, of_one: Process) {
    part.communicators.extend(of_one.communicators);
    part.counters.extend(of_one.counters);
    part.links.extend(of_one.links);
    part.last_completed.extend(of_one.last_completed);
    part.summations.extend(of_one.summations);
    part.sequences.extend(of_one.sequences);
    part.pairs.extend(of_one.pairs);
    part.completed_operations.extend(of_one.completed_operations);
    part.recalled.extend(of_one.recalled);
    part.connections.extend(of_one.connections);
    part.connection_counts.extend(of_one.connection_counts);
    part.activity = part.activity.take().or(of_one.activity);
    part.look = part.look.take().or(of_one.look);
    part.own_time = part.own_time.take().or(of_one.own_time);
}

#[cfg(test)]
mod tests {
    use ringscope_wire::batch::{Activity, Communicator};

    use super::*;

    fn process() -> Process {
        Process {
            key: "h/1/2".into(),
            counters: vec![
                Counters { local_id: 1, primitive: 1, issued_calls: 5, ..Counters::default() },
                Counters { local_id: 1, primitive: 2, issued_calls: 6, ..Counters::default() },
            ],
            in_flight: vec![Operation { seq_number: 3, ..Operation::default() }],
            ..Process::default()
        }
    }

    #[test]
    fn only_what_changed_is_said() {
        let said = process();
        assert_eq!(delta(&said, &said), None);
        let mut now = process();
        now.counters[1].issued_calls = 7;
        let found = delta(&said, &now).expect("it changed");
        assert_eq!(found.counters, &now.counters[1..]);
        assert_eq!(found.in_flight, now.in_flight);
    }

    #[test]
    fn what_comes_or_goes_is_told_from_what_changed() {
        let check = |said: &[(u8, u8)], now: &[(u8, u8)], expected: &[(u8, u8)]| {
            assert_eq!(changed(said, now, |one| one.0), expected, "{said:?} {now:?}");
        };
        check(&[(1, 1), (2, 2)], &[(1, 1), (2, 3)], &[(2, 3)]);
        check(&[(1, 1), (2, 2)], &[(2, 2), (3, 3)], &[(3, 3)]);
        check(&[(1, 1)], &[(0, 0), (1, 1)], &[(0, 0)]);
        check(&[(1, 1), (2, 2)], &[(2, 2)], &[]);
    }

    #[test]
    fn batches_are_cut_by_process() {
        let size = process().encoded_len();
        let cut = |max| split(vec![process(); 5], max).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(cut(size * 2), [2, 2, 1]);
        assert_eq!(cut(size), [1; 5]);
        assert_eq!(split(Vec::new(), 1).len(), 0);
    }

    #[test]
    fn a_process_of_very_many_communicators_is_cut_by_them() {
        let ids = 0..4096;
        let communicator =
            |local_id| Communicator { local_id, name: "x".repeat(3000), ..Communicator::default() };
        let counters = |local_id| Counters { local_id, primitive: 1, issued_calls: 5, ..Counters::default() };
        let process = Process {
            communicators: ids.clone().map(communicator).collect(),
            counters: ids.clone().map(counters).collect(),
            activity: Some(Activity::default()),
            ..process()
        };
        let batches = split(vec![process.clone(), process.clone()], MAX_BATCH_BYTES);
        assert!(
            batches
                .iter()
                .flatten()
                .all(|part| part.key == process.key && part.in_flight == process.in_flight)
        );
        let sizes = batches.iter().map(|batch| batch.iter().map(|part| part.encoded_len()).sum::<usize>());
        assert!(sizes.max() <= Some(MAX_BATCH_BYTES + 1024));
        let told = batches.iter().flatten().flat_map(|part| &part.communicators).map(|one| one.local_id);
        assert!(told.eq(ids.clone().chain(ids)));
        for part in batches.iter().flatten() {
            let of = |local_id| part.communicators.iter().any(|one| one.local_id == local_id);
            assert!(part.counters.iter().all(|one| of(one.local_id)), "all of a communicator together");
        }
        assert_eq!(batches.iter().flatten().filter(|part| part.activity.is_some()).count(), 2, "once each");
    }
}
