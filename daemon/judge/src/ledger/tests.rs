use ringscope_api::Severity;
use ringscope_samples::cluster::at;

use super::*;
use crate::judgement::Blame;

/// Somebody is waited for in a communicator, or on a host that is known of none.
fn waits(comm: Option<CommunicatorId>, key: &str) -> Judgement {
    Judgement {
        kind: FindingKind::RankMissing,
        severity: Severity::Critical,
        host: "host-0".into(),
        rank: None,
        channel: None,
        nic: None,
        cause: "unknown",
        culprits: Vec::new(),
        message: "somebody does not come".to_owned(),
        evidence: Vec::new(),
        blame: Blame { comm, key: key.to_owned(), ..Blame::default() },
    }
}

fn comm(n: u64) -> CommunicatorId {
    CommunicatorId::new("train", n, 2)
}

/// What `firing_of` says of these communicators must be what fires and names them.
#[track_caller]
fn check(ledger: &Ledger, expected: [usize; 3]) {
    let ids = |found: &mut dyn Iterator<Item = &Finding>| {
        found.map(|finding| finding.id.clone()).collect::<BTreeSet<_>>()
    };
    for (n, expected) in (0..).zip(expected) {
        let asked = ids(&mut ledger.firing_of(comm(n)));
        let searched = ids(&mut ledger.firing().filter(|finding| finding.comm == comm(n).as_str()));
        assert_eq!(asked, searched, "communicator {n}");
        assert_eq!(asked.len(), expected, "communicator {n}");
    }
    let waits = ledger.firing.iter().filter(|(scope, _)| matches!(scope, Scope::Job(_)));
    let of_comms = waits.flat_map(|(_, firing)| firing.keys()).filter_map(|id| ledger.get(id));
    let of_comms = of_comms.filter(|finding| !finding.comm.is_empty()).count();
    assert_eq!(ledger.of_jobs.values().map(BTreeSet::len).sum::<usize>(), of_comms, "nothing is left over");
}

#[test]
fn what_fires_for_a_communicator_is_its_own_and_what_jobs_say_of_it() {
    let mut ledger = Ledger::default();
    let [train, eval] = ["train", "eval"].map(|job| Scope::Job(job.into()));
    let own = Judgement { kind: FindingKind::ChannelShortfall, ..waits(None, "own") };
    ledger.settle(&Scope::Communicator(comm(0)), "train", vec![own], at(1));
    let two = vec![waits(Some(comm(0)), "a"), waits(Some(comm(0)), "b"), waits(Some(comm(1)), "a")];
    ledger.settle(&train, "train", two, at(1));
    ledger.settle(&eval, "eval", vec![waits(Some(comm(1)), "c"), waits(None, "d")], at(1));
    check(&ledger, [3, 2, 0]);
    // One is over, one goes on, one is new, and one is held though nobody found it again.
    let held: Vec<String> = ledger.firing_of(comm(1)).map(|finding| finding.id.clone()).collect();
    let next = vec![waits(Some(comm(0)), "b"), waits(Some(comm(2)), "a")];
    ledger.settle_but(&train, "train", next, &held, at(2));
    check(&ledger, [2, 2, 1]);
    ledger.settle(&train, "train", Vec::new(), at(3));
    check(&ledger, [1, 1, 0]);
    // It comes again, and a restart finds it.
    ledger.settle(&train, "train", vec![waits(Some(comm(0)), "a")], at(4));
    check(&ledger, [2, 1, 0]);
    let mut again = Ledger::default();
    ledger.all().for_each(|finding| again.restore(finding.clone()));
    check(&again, [2, 1, 0]);
}
