//! Scenes for tests: a job of so many processes, eight to a host, in which all goes well until told otherwise.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::{FindingKind, Severity};
use ringscope_wire::{Primitive, batch};

use super::super::scene::{
    Activity, Calls, Communicator, Host, Life, Mark, Member, MemberState, OpenCall, Operation,
    OperationState, Process, Queued, Scene, Signature,
};
use super::super::{Judge, Judgement, Settings, Verdict};

/// A job whose time goes on.
pub(super) struct World {
    pub(super) scene: Scene<'static>,
    pub(super) judge: Judge,
    pub(super) settings: Settings,
    /// Processes whose agents say nothing more.
    pub(super) silent: Vec<u32>,
    /// Hosts whose clocks are ahead of ours, and by how many seconds.
    pub(super) ahead: HashMap<u32, u64>,
}

/// 14:00:00 UTC of some day.
pub(super) const START: u64 = 1_763_820_000_000_000_000;

pub(super) fn at(seconds: f64) -> Timestamp {
    let apart = Duration::from_secs_f64(seconds.abs()).as_nanos();
    let apart = u64::try_from(apart).unwrap();
    Timestamp(if seconds < 0.0 { START - apart } else { START + apart })
}

pub(super) fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// So many processes that run and sleep in no call.
pub(super) fn job(n: u32) -> World {
    let hosts = (0..n.div_ceil(8)).map(|index| Host {
        name: leak(format!("host-{index}")),
        heard_at: Some(at(0.0)),
        ..Host::default()
    });
    let processes = (0..n).map(|rank| Process {
        key: leak(format!("host-{}/{}/1", rank / 8, 4000 + rank)),
        host: rank / 8,
        pid: 4000 + rank,
        global_rank: Some(rank),
        world_size: Some(n),
        started_at: at(-600.0),
        read_at: at(0.0),
        heard_at: at(0.0),
        segment_version: 5,
        calls_seen: true,
        level: batch::Level::Counters,
        activity: Some(Activity { state: 'S', since: None, cores: Some(0.0) }),
        last_returned_at: Some(at(-1.0)),
        ..Process::default()
    });
    let scene = Scene {
        now: at(0.1),
        job: "train",
        any_heard_at: None,
        hosts: hosts.collect(),
        processes: processes.collect(),
        communicators: Vec::new(),
    };
    World {
        scene,
        judge: Judge::default(),
        settings: Settings::default(),
        silent: Vec::new(),
        ahead: HashMap::new(),
    }
}

/// An all_reduce of 1024 float32.
pub(super) fn all_reduce(number: u64, issued_at: Timestamp) -> Operation {
    Operation {
        signature: Signature {
            primitive: Primitive::AllReduce,
            count: 1024,
            datatype: 7,
            op: Some(0),
            peer: None,
        },
        bytes: 4096,
        number: Some(number),
        of_primitive: number,
        state: OperationState::Issued,
        issued_at,
        started_at: None,
        start_known: false,
        completed_at: None,
        stream: 1,
        group: 0,
        ends_by_order: false,
    }
}

pub(super) fn transfer(primitive: Primitive, peer: u32, issued_at: Timestamp) -> Operation {
    let signature = Signature { primitive, count: 64, datatype: 7, op: None, peer: Some(peer) };
    Operation { signature, bytes: 256, number: None, of_primitive: 3, ..all_reduce(0, issued_at) }
}

impl World {
    /// A communicator of these processes, in which 60 calls have ended.
    pub(super) fn comm(&mut self, id: &'static str, purpose: &'static str, processes: &[u32]) -> u32 {
        let members = (0_u32..).zip(processes).map(|(rank, process)| {
            let mut last = all_reduce(59, at(-1.0));
            last.state = OperationState::Completed;
            last.completed_at = Some(at(-0.99));
            Member {
                rank,
                process: *process,
                created_at: at(-500.0),
                completion_known: true,
                calls: Some(Calls { made: 60, hash: 60 }),
                last_completed: Some(last),
                next_in_ring: Some((rank + 1) % u32::try_from(processes.len()).unwrap()),
                ..Member::default()
            }
        });
        self.scene.communicators.push(Communicator {
            id,
            purpose,
            hash: START + self.scene.communicators.len() as u64,
            n_ranks: u32::try_from(processes.len()).unwrap(),
            members: members.collect(),
            ..Communicator::default()
        });
        u32::try_from(self.scene.communicators.len() - 1).unwrap()
    }

    pub(super) fn member(&mut self, comm: u32, rank: u32) -> &mut Member<'static> {
        let members = &mut self.scene.communicators[comm as usize].members;
        members.iter_mut().find(|member| member.rank == rank).unwrap()
    }

    pub(super) fn process(&mut self, index: u32) -> &mut Process<'static> {
        &mut self.scene.processes[index as usize]
    }

    /// Lets a rank make a call that does not end.
    pub(super) fn call(&mut self, comm: u32, rank: u32, operation: Operation) {
        let member = self.member(comm, rank);
        if let (Some(number), Some(calls)) = (operation.number, member.calls) {
            let made = calls.made.max(number + 1);
            member.calls = Some(Calls { made, hash: made });
        }
        if operation.state == OperationState::Queued {
            let known = member.queued.unwrap_or(Queued { calls: 0, first: None, since: operation.issued_at });
            let first = known.first.or(operation.number);
            member.queued = Some(Queued { calls: known.calls + 1, first, ..known });
        }
        member.open.to_mut().push(operation);
    }

    /// Lets ranks enter call #60 at the start.
    pub(super) fn enter(&mut self, comm: u32, ranks: impl IntoIterator<Item = u32>) {
        for rank in ranks {
            self.call(comm, rank, all_reduce(60, at(0.0)));
        }
    }

    /// Lets a process enter a function that does not return.
    pub(super) fn open(&mut self, process: u32, function: &'static str, comm: u32) {
        let call =
            OpenCall { function: Cow::Borrowed(function), communicator: Some(comm), entered_at: at(0.0) };
        self.process(process).open_calls.to_mut().push(call);
    }

    pub(super) fn stop(&mut self, process: u32) {
        self.process(process).activity = Some(Activity { state: 'T', since: None, cores: Some(0.0) });
    }

    pub(super) fn kill(&mut self, process: u32, seconds: f64) {
        let process = self.process(process);
        process.life = Life::Killed;
        process.ended_at = Some(at(seconds));
    }

    /// Ends a rank's part of a communicator.
    pub(super) fn end(&mut self, comm: u32, rank: u32, state: MemberState) {
        let member = self.member(comm, rank);
        member.state = state;
        member.ended_at = Some(at(0.0));
    }

    pub(super) fn mark(&mut self, comm: u32, rank: u32, calls: u64, hash: u64) {
        let member = self.member(comm, rank);
        member.calls = Some(Calls { made: calls, hash });
        member.marks.to_mut().push(Mark { calls, hash });
    }

    /// Looks so many seconds after the start.
    pub(super) fn look(&mut self, seconds: f64) -> Verdict {
        self.scene.now = at(seconds + 0.1);
        self.scene.any_heard_at = Some(self.scene.now);
        for (index, process) in (0_u32..).zip(&mut self.scene.processes) {
            if !self.silent.contains(&index) && process.read_at.0 > 0 {
                let ahead = self.ahead.get(&process.host).copied().unwrap_or_default();
                process.read_at = Timestamp(at(seconds).0 + ahead * 1_000_000_000);
                process.heard_at = at(seconds);
            }
        }
        for (index, host) in (0_u32..).zip(&mut self.scene.hosts) {
            let mut of =
                self.scene.processes.iter().zip(0_u32..).filter(|(process, _)| process.host == index);
            if of.any(|(_, process)| !self.silent.contains(&process)) {
                host.heard_at = Some(at(seconds));
            }
        }
        let verdict = self.judge.look(&self.scene, &self.settings);
        check(&verdict);
        verdict
    }

    /// Looks every second from 1 to that one.
    pub(super) fn until(&mut self, seconds: u32) -> Verdict {
        let mut last = Verdict::default();
        for second in 1..=seconds {
            last = self.look(f64::from(second));
        }
        last
    }
}

/// What holds of every verdict.
fn check(verdict: &Verdict) {
    let mut keys: HashMap<_, u32> = HashMap::new();
    for judgement in &verdict.judgements {
        assert!(!judgement.message.is_empty() && !judgement.cause.is_empty(), "{judgement:#?}");
        assert!(!judgement.advice.is_empty(), "{judgement:#?}");
        let says = |words: &[&str]| words.iter().any(|word| judgement.message.contains(word));
        let knows_when = judgement.began_at.is_some_and(|at| at.0 > 0);
        assert!(says(&[" UTC"]) || !knows_when, "since when: {judgement:#?}");
        let all_are_named = says(&[" wait", "all ", " said so", " completed it"]);
        assert!(all_are_named || judgement.victims.is_empty(), "who waits: {judgement:#?}");
        assert!(judgement.victims.is_sorted() && judgement.culprits.is_sorted(), "{judgement:#?}");
        assert!(
            !judgement.victims.iter().any(|victim| judgement.culprits.contains(victim)),
            "{judgement:#?}"
        );
        *keys.entry((judgement.kind, judgement.communicator, judgement.key.clone())).or_default() += 1;
    }
    assert!(keys.values().all(|count| *count == 1), "a key stands for one judgement: {keys:?}");
}

/// What was found, in short: kind, severity, cause and the processes to blame.
pub(super) fn found(verdict: &Verdict) -> Vec<(FindingKind, Severity, &'static str, Vec<u32>)> {
    let short = |judgement: &Judgement| {
        (judgement.kind, judgement.severity, judgement.cause, judgement.culprits.clone())
    };
    verdict.judgements.iter().map(short).collect()
}

/// The only judgement.
#[track_caller]
pub(super) fn only(verdict: &Verdict) -> &Judgement {
    match verdict.judgements.as_slice() {
        [only] => only,
        others => panic!("one judgement was expected: {others:#?}"),
    }
}

#[track_caller]
pub(super) fn nothing(verdict: &Verdict) {
    assert!(verdict.judgements.is_empty(), "{:#?}", verdict.judgements);
}

pub(super) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
