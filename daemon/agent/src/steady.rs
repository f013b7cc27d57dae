//! Which changes may wait. A rank that trains counts on at every reading, and to tell each of these costs the daemon four
//! requests a second for every host. A daemon of many hosts therefore says for how long counts may wait: as long as nothing
//! else happens, and nobody waits in a call, they then travel with a later reading. What they say is absolute, so of counts
//! nothing is lost by that but a moment; of single operations and marks a burst that finds half of the room taken loses more, which is counted.

use std::time::Duration;

use ringscope_wire::batch::Process;

/// The longest that counts wait, whatever a daemon says: rates are of ten seconds, and whoever looks sees them move.
const LONGEST: Duration = Duration::from_secs(2);
/// Of what is told once and piles up until it is: the most that may wait. A batch has room for twice as much.
const MAX_HISTORY_WAITS: usize = 128;
/// The same of the marks of one communicator's calls.
const MAX_MARKS_WAIT: usize = 8;

/// How long after a batch the next one comes that has nothing but counts, where the daemon says that they may wait for
/// `told`: half a reading less, for readings do not come to the microsecond.
pub(super) fn wait(told: Duration, interval: Duration) -> Duration {
    told.min(LONGEST).saturating_sub(interval / 2)
}

/// Whether a process goes on as it was said to: with new calls and what they moved, and nothing that somebody looks for at
/// once.
pub(super) fn goes_on(said: &Process, now: &Process) -> bool {
    // All fields are named, so that each new one is thought of.
    let Process {
        key: _,
        // What goes on.
        counters: _,
        links: _,
        in_flight: _,
        last_completed: _,
        open_calls: _,
        last_returned_at_ns: _,
        own_time: _,
        connection_counts: _,
        completed_operations,
        sequences,
        // What is news.
        identity,
        communicators: _,
        dropped,
        collector_state,
        state,
        ended_at_ns,
        level,
        profiler_version,
        plugin_chained,
        calls_seen,
        n_libraries,
        has_segment,
        log_lacks,
        summations,
        pairs,
        activity,
        recalled,
        look,
        launched,
        segment_version,
        collector_off_since_ns,
        unwatched_since_ns,
        connections,
        connections_left_out,
        groups,
        told_until_ns,
        told_by_peers,
        exit_status,
        exit_signal,
        launch_end,
    } = now;
    let has_ended_so = (*state, *ended_at_ns, *exit_status, *exit_signal, *launch_end)
        == (said.state, said.ended_at_ns, said.exit_status, said.exit_signal, said.launch_end);
    let collects_so = (*collector_state, *collector_off_since_ns, *segment_version, *has_segment)
        == (said.collector_state, said.collector_off_since_ns, said.segment_version, said.has_segment);
    has_ended_so
        && collects_so
        && *level == said.level
        && *profiler_version == said.profiler_version
        && *plugin_chained == said.plugin_chained
        && *calls_seen == said.calls_seen
        && *n_libraries == said.n_libraries
        && *launched == said.launched
        && *unwatched_since_ns == said.unwatched_since_ns
        && (told_until_ns, told_by_peers) == (&said.told_until_ns, &said.told_by_peers)
        && *identity == said.identity
        && *dropped == said.dropped
        && *log_lacks == said.log_lacks
        && *summations == said.summations
        && *connections == said.connections
        && *connections_left_out == said.connections_left_out
        && *groups == said.groups
        // Answers.
        && pairs.is_empty()
        && activity.is_none()
        && recalled.is_empty()
        && look.is_none()
        && completed_operations.len() <= MAX_HISTORY_WAITS
        && sequences.iter().all(|one| one.marks.len() <= MAX_MARKS_WAIT)
}

#[cfg(test)]
mod tests {
    use ringscope_wire::batch::{
        Activity, CallSequence, Connection, ConnectionCounts, Counters, Dropped, OpenCall, Operation,
        PairCalls, ProcessState, SequenceMark,
    };

    use super::*;

    fn check(expected: bool, why: &str, change: impl FnOnce(&mut Process)) {
        let said = Process { key: "h/1/2".into(), ..Process::default() };
        let mut now = said.clone();
        change(&mut now);
        assert_eq!(goes_on(&said, &now), expected, "{why}");
    }

    fn counted(calls: u64) -> Counters {
        Counters { local_id: 1, primitive: 1, issued_calls: calls, ..Counters::default() }
    }

    #[test]
    fn counts_may_wait_and_news_may_not() {
        check(true, "nothing", |_| {});
        check(true, "calls", |now| now.counters.push(counted(1)));
        check(true, "in flight", |now| now.in_flight.push(Operation::default()));
        check(true, "completed", |now| now.last_completed.push(Operation::default()));
        check(true, "in a call", |now| now.open_calls.push(OpenCall::default()));
        check(false, "ended", |now| now.set_state(ProcessState::Killed));
        check(false, "lost", |now| now.dropped.push(Dropped { reason: "torn".into(), events: 1 }));
        check(false, "stopped", |now| now.activity = Some(Activity::default()));
        check(false, "an answer", |now| now.pairs.push(PairCalls::default()));
        check(false, "another one", |now| now.recalled.push(Operation::default()));
        check(true, "bytes of a connection", |now| now.connection_counts.push(ConnectionCounts::default()));
        check(false, "a connection", |now| now.connections.push(Connection::default()));
        check(false, "a third one", |now| now.look = Some(ringscope_wire::batch::Look::default()));
    }

    #[test]
    fn what_piles_up_does_not_wait_until_there_is_no_room() {
        let history = |n| move |now: &mut Process| now.completed_operations = vec![Operation::default(); n];
        check(true, "128 operations", history(MAX_HISTORY_WAITS));
        check(false, "129 operations", history(MAX_HISTORY_WAITS + 1));
        let marks = |n| {
            move |now: &mut Process| {
                let marks = vec![SequenceMark::default(); n];
                now.sequences = vec![CallSequence { marks, ..CallSequence::default() }];
            }
        };
        check(true, "8 marks", marks(MAX_MARKS_WAIT));
        check(false, "9 marks", marks(MAX_MARKS_WAIT + 1));
    }

    #[test]
    fn counts_wait_as_long_as_they_may_and_no_longer() {
        let interval = Duration::from_millis(250);
        let readings =
            |told_ms| wait(Duration::from_millis(told_ms), interval).div_duration_f64(interval).ceil();
        assert_eq!([0, 250, 1_000].map(readings), [0.0, 1.0, 4.0]);
        assert_eq!(readings(60_000), 8.0, "two seconds");
    }
}
