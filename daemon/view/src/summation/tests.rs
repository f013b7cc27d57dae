//! What is shown of a group.

use proptest::prelude::*;
use ringscope_api::{FindingKind, SummationGroupState as State, SummationRole as Role};
use ringscope_judge::Diagnosis;
use ringscope_model::Model;
use ringscope_samples::any::any_member;
use ringscope_samples::cluster::{at, batch};
use ringscope_samples::summing::{PART_BYTES, Summing, round, wait};
use ringscope_wire::batch::{SummationComparison, SummationDifference, SummationState};

use super::{SummationFilter, summation_group, summation_groups, summation_rounds};
use crate as view;

fn shown(summing: &Summing, s: u64) -> (Model, Diagnosis) {
    let mut model = Model::new();
    for second in 1..=s {
        let told = summing.batch(second, second, |place, member| match place {
            (Role::Server, 0) => {
                member.rounds = vec![round(3, second, second, true)];
                member.waits = vec![wait(second, &[2], 300)];
            }
            (Role::Worker, 1) => member.rounds = vec![round(3, second, second, false)],
            _ => {}
        });
        model.apply(&told, at(second));
    }
    let mut diagnosis = Diagnosis::new();
    diagnosis.update(&model, None, at(s));
    (model, diagnosis)
}

#[test]
fn a_group_is_shown_with_all_that_hangs_on_it() {
    let summing = Summing::new();
    let (model, diagnosis) = shown(&summing, 12);
    let detail = summation_group(&model, &diagnosis, at(12), summing.id().as_str()).unwrap();
    assert_eq!((detail.group.n_workers, detail.group.n_servers, detail.n_parts), (4, 2, 100));
    assert_eq!((detail.services.len(), detail.workers.len(), detail.flows.len()), (6, 4, 24));
    let service = &detail.services[1];
    assert_eq!((service.role, service.rank, &*service.host), (Role::Server, 5, "sum-1"));
    assert_eq!(service.process.as_deref(), Some("sum-1/101/1"));
    assert!((service.pushed_bytes_per_s - 120.0 * 1_048_576.0).abs() < 1.0, "{service:?}");
    let worker = &detail.workers[2];
    assert_eq!((worker.global_rank, worker.stages.len(), worker.credit_bytes), (Some(12), 5, 4 * PART_BYTES));
    assert!((worker.last_share - 0.2).abs() < 0.01, "{worker:?}");
    assert_eq!(detail.flows[0].push_backlog_bytes, PART_BYTES);
    assert_eq!((detail.waits[0].service, &*detail.waits[0].workers), (0, [2].as_slice()));
    assert_eq!(detail.key_classes[0].push_completed_bytes, 4 * 12 * 100 * PART_BYTES);
    assert_eq!((detail.lost, detail.comparison, detail.findings), (None, None, Vec::new()));
    assert!(summation_group(&model, &diagnosis, at(12), "0123456789ab").is_none());
    assert!(summation_group(&model, &diagnosis, at(12), "other").is_none());
}

#[test]
fn who_has_which_parameter_is_shown() {
    let summing = Summing::new();
    let mut model = Model::new();
    let difference = SummationDifference {
        steps: 4,
        at_ns: at(2).0,
        parameter: "fc.bias".to_owned(),
        hashes: vec![7, 7, 0xab, 7],
    };
    let comparison = SummationComparison {
        count: 3,
        every: 2,
        steps: 4,
        n_different: 1,
        difference: Some(difference),
        ..SummationComparison::default()
    };
    model.apply(&summing.batch(2, 2, |_, member| member.comparison = Some(comparison.clone())), at(2));
    let detail = summation_group(&model, &Diagnosis::new(), at(2), summing.id().as_str()).unwrap();
    let shown = detail.comparison.unwrap();
    assert_eq!((shown.every, shown.steps, shown.equal_steps), (2, 4, None));
    let parties = shown.difference.unwrap().parties;
    let parties: Vec<_> = parties.iter().map(|party| (&*party.hash, &*party.workers)).collect();
    assert_eq!(
        parties,
        [("0x0000000000000007", [0, 1, 3].as_slice()), ("0x00000000000000ab", [2].as_slice())]
    );
}

#[test]
fn results_are_shown_the_newest_first_and_by_part() {
    let summing = Summing::new();
    let (model, diagnosis) = shown(&summing, 5);
    let id = summing.id();
    let rounds =
        |key, limit| summation_rounds(&model, &diagnosis, at(5), id.as_str(), key, limit).unwrap().items;
    let newest = rounds(None, 2);
    assert_eq!(newest.iter().map(|one| one.round).collect::<Vec<_>>(), [5, 4]);
    assert_eq!((newest[0].made_by, newest[0].agree), (Some(0), Some(true)));
    assert_eq!(newest[0].fingerprint, "0x0000000000000005");
    assert_eq!((rounds(Some(3), 100).len(), rounds(Some(4), 100).len()), (5, 0));
}

#[test]
fn lists_are_filtered_and_hosts_of_findings_degraded() {
    let summing = Summing { owned: vec![36, 24, 10, 10, 10, 10], ..Summing::new() };
    let (mut model, _) = shown(&summing, 3);
    let left = Summing { session: 8, state: SummationState::Left, ..Summing::new() };
    model.apply(&left.batch(4, 1, |_, member| member.ended_at_ns = Some(at(4).0)), at(4));
    let mut diagnosis = Diagnosis::new();
    diagnosis.update(&model, None, at(4));
    let list = |filter: &SummationFilter| summation_groups(&model, &diagnosis, at(4), filter);
    assert_eq!(list(&SummationFilter::default()).len(), 2);
    let running = list(&SummationFilter { state: Some(State::Running), ..SummationFilter::default() });
    assert_eq!((running.len(), running[0].n_findings), (1, 1));
    assert!(
        list(&SummationFilter { job: Some("other".to_owned()), ..SummationFilter::default() }).is_empty()
    );
    let on =
        |host: &str| list(&SummationFilter { host: Some(host.to_owned()), ..SummationFilter::default() });
    assert_eq!((on("sum-1").len(), on("train-3").len(), on("sum").len()), (2, 2, 0));
    let host = view::host(&model, &diagnosis, at(4), "sum-0").unwrap();
    assert!(host.summary.degraded && host.firing[0].finding == FindingKind::SumShareImbalance);
    assert!(!view::host(&model, &diagnosis, at(4), "sum-1").unwrap().summary.degraded);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_members_say_can_be_shown(words in prop::collection::vec(any_member(), 1..24)) {
        let mut model = Model::new();
        let mut diagnosis = Diagnosis::new();
        for (seq_number, (process, told)) in (1..).zip(words) {
            let summing = Summing::new();
            let place = (Role::Worker, u32::from(process));
            model.apply(&batch(seq_number, seq_number, vec![summing.process(place, told)]), at(seq_number));
            diagnosis.update(&model, None, at(seq_number));
            for group in summation_groups(&model, &diagnosis, at(seq_number), &SummationFilter::default()) {
                prop_assert!(summation_group(&model, &diagnosis, at(seq_number), &group.id).is_some());
                prop_assert!(summation_rounds(&model, &diagnosis, at(seq_number), &group.id, None, 10).is_some());
            }
        }
    }
}
