use std::collections::BTreeSet;

use ringscope_api::{FindingKind, FindingState, Severity};
use ringscope_samples::cluster::{Cluster, at, batch, ended};
use ringscope_wire::batch::{self, CommunicatorState, ProcessState};

use super::*;

fn world(cluster: &Cluster) -> (Model, Diagnosis) {
    let mut model = Model::new();
    model.apply(&cluster.batch(1, 2), at(2));
    (model, Diagnosis::new())
}

/// Every finding as one line, sorted.
fn lines(findings: &[Finding]) -> Vec<String> {
    let mut lines: Vec<String> = findings
        .iter()
        .map(|finding| {
            let rank = finding.rank.map(|rank| format!(" rank {rank}")).unwrap_or_default();
            format!(
                "{} {} {}{rank} [{}]{}: {}",
                finding.severity.label(),
                finding.finding.label(),
                finding.host,
                finding.cause,
                finding.culprits.iter().map(|culprit| format!(" <- {culprit}")).collect::<String>(),
                finding.message
            )
        })
        .collect();
    lines.sort();
    lines
}

#[track_caller]
fn check(cluster: &Cluster, expected: &[&str]) {
    let (model, mut diagnosis) = world(cluster);
    assert_eq!(lines(&diagnosis.update(&model, None, at(3))), expected);
    assert_eq!(diagnosis.update(&model, None, at(4)).len(), 0, "said twice");
}

fn coverage_of(communicator: &Communicator, model: &Model) -> coverage::Coverage {
    coverage::Coverage::of(communicator, model, &ranks::Ranks::of(communicator, model))
}

#[test]
fn healthy_communicators_have_no_findings() {
    check(&Cluster::new(&[("host-0", 2, 2), ("host-1", 2, 2)], 4), &[]);
    check(&Cluster::new(&[("host-0", 8, 12)], 24), &[]);
    check(&Cluster::new(&[("host-0", 1, 1)], 2), &[]);
    check(&Cluster::new(&[("host-0", 1, 40), ("host-1", 1, 40)], 64), &[]);
    let max = Cluster::new(&[("host-0", 2, 4), ("host-1", 2, 4)], 2);
    check(&max.with(|_, rank| rank.settings = vec![("NCCL_MAX_NCHANNELS", 2)]), &[]);
}

#[test]
fn fewer_channels_than_the_rules_give_are_said_to_be_unexplained() {
    let unexplained = "info final_unexplained host-0 [unexplained]: every rank runs on 1 channel, where the library's rules give 2: most likely a setting that nothing tells of; look for NCCL_MAX_NCHANNELS, NCCL_MAX_CTAS and ncclConfig_t.maxCTAs";
    let capped = Cluster::new(&[("host-0", 1, 1), ("host-1", 1, 1)], 1);
    check(&capped, &[unexplained]);
    check(&capped.with(|_, rank| rank.settings = vec![("NCCL_MAX_NCHANNELS", 1)]), &[]);
}

#[test]
fn one_degraded_host_holds_the_others_back() {
    check(
        &Cluster::new(&[("host-0", 2, 2), ("host-1", 2, 2), ("host-2", 2, 1)], 2),
        &[
            "critical channel_shortfall host-2 [fewer_channels]: host-2 found 1 channel, the others 2: every rank runs on 2 channels instead of 4",
            "info capped_by_peer host-0 [peer_limits] <- host-2: host-0 found 2 channels but runs on 2 instead of 4: host-2 found only 1",
            "info capped_by_peer host-1 [peer_limits] <- host-2: host-1 found 2 channels but runs on 2 instead of 4: host-2 found only 1",
        ],
    );
}

#[test]
fn several_degraded_hosts_are_named_together() {
    check(
        &Cluster::new(&[("host-0", 1, 4), ("host-1", 1, 2), ("host-2", 1, 2)], 4),
        &[
            "critical channel_shortfall host-1 [fewer_channels]: host-1 found 2 channels (so did host-2), the other host 4: every rank runs on 4 channels instead of 8",
            "critical channel_shortfall host-2 [fewer_channels]: host-2 found 2 channels (so did host-1), the other host 4: every rank runs on 4 channels instead of 8",
            "info capped_by_peer host-0 [peer_limits] <- host-1 <- host-2: host-0 found 4 channels but runs on 4 instead of 8: host-1 and host-2 found only 2",
        ],
    );
    let hosts: Vec<String> = (0..6).map(|i| format!("host-{i}")).collect();
    let hosts: Vec<(&str, u32, u32)> =
        hosts.iter().enumerate().map(|(i, host)| (host.as_str(), 1, if i == 0 { 2 } else { 1 })).collect();
    let (model, mut diagnosis) = world(&Cluster::new(&hosts, 2));
    let found = lines(&diagnosis.update(&model, None, at(3)));
    assert!(found[5].ends_with(": host-1, host-2, host-3 and 2 more found only 1"), "{}", found[5]);
}

#[test]
fn the_others_may_differ_among_themselves() {
    let (model, mut diagnosis) =
        world(&Cluster::new(&[("host-0", 1, 4), ("host-1", 1, 3), ("host-2", 1, 1)], 2));
    let found = lines(&diagnosis.update(&model, None, at(3)));
    assert!(
        found[0].ends_with(
            "host-2 found 1 channel, the others 3 to 4: every rank runs on 2 channels instead of 6"
        ),
        "{}",
        found[0]
    );
}

#[test]
fn ranks_of_one_host_may_disagree() {
    check(
        &Cluster::new(&[("host-0", 2, 2)], 2).with(|rank, spec| spec.init = Some([2, 1][rank])),
        &[
            "critical channel_shortfall host-0 [fewer_channels]: host-0 found 1 channel on some of its ranks, its other ranks 2: every rank runs on 2 channels instead of 4",
        ],
    );
}

#[test]
fn settings_that_cap_anyway_make_a_shortfall_a_warning() {
    let capped = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 1)], 2);
    check(
        &capped.with(|_, rank| rank.settings = vec![("NCCL_MAX_NCHANNELS", 2)]),
        &[
            "warning channel_shortfall host-1 [fewer_channels]: host-1 found 1 channel, the other host 2: no channel is lost, the settings allow only 2",
        ],
    );
}

#[test]
fn a_shortfall_that_costs_nothing_after_a_shrink_is_information() {
    let shrunk = Cluster::new(&[("host-0", 2, 4), ("host-1", 1, 3)], 3);
    check(
        &shrunk.with(|_, rank| rank.settings = vec![("NCCL_MAX_NCHANNELS", 3)]),
        &[
            "info channel_shortfall host-1 [fewer_channels]: host-1 found 3 channels, the other host 4: no channel is lost, the settings allow only 3",
        ],
    );
}

#[test]
fn init_below_half_final_is_explained_by_a_setting_or_not() {
    let raised = Cluster::new(&[("host-0", 1, 1), ("host-1", 1, 1)], 8);
    let explained = raised.clone().with(|_, rank| rank.settings = vec![("RSCCL_MIN_NCHANNELS", 8)]);
    check(
        &explained,
        &[
            "info init_below_half_final host-0 rank 0 [min_nchannels]: rank 0 on host-0 found 1 channel but runs on 8: RSCCL_MIN_NCHANNELS=8 raises it",
            "info init_below_half_final host-1 rank 1 [min_nchannels]: rank 1 on host-1 found 1 channel but runs on 8: RSCCL_MIN_NCHANNELS=8 raises it",
        ],
    );
    let configured = raised.clone().with(|rank, spec| {
        // What the environment says goes before what the program wrote.
        let environment = ("NCCL_MIN_CTAS", 8);
        let configured = ("config.minCTAs", if rank == 0 { 8 } else { 2 });
        spec.settings = if rank == 0 { vec![configured] } else { vec![configured, environment] };
    });
    check(
        &configured,
        &[
            "info init_below_half_final host-0 rank 0 [min_nchannels]: rank 0 on host-0 found 1 channel but runs on 8: config.minCTAs=8 raises it",
            "info init_below_half_final host-1 rank 1 [min_nchannels]: rank 1 on host-1 found 1 channel but runs on 8: NCCL_MIN_CTAS=8 raises it",
        ],
    );
    check(
        &raised,
        &[
            "warning init_below_half_final host-0 rank 0 [unexplained]: rank 0 on host-0 found 1 channel but runs on 8: more than twice as many, and no known rule explains it",
            "warning init_below_half_final host-1 rank 1 [unexplained]: rank 1 on host-1 found 1 channel but runs on 8: more than twice as many, and no known rule explains it",
        ],
    );
}

#[test]
fn disagreement_is_told_before_everything_is_known() {
    let cluster = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2), ("host-2", 1, 2)], 4);
    check(
        &cluster.with(|rank, spec| spec.final_channels = [Some(4), Some(8), None][rank]),
        &[
            "critical final_disagrees host-0 [unexplained]: the ranks disagree on the number of channels (host-0: 4, host-1: 8): the communicator will hang",
        ],
    );
}

#[test]
fn nothing_is_judged_while_a_rank_is_silent() {
    let cluster = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 1)], 2);
    check(&cluster.clone().with(|rank, spec| spec.init = spec.init.filter(|_| rank == 1)), &[]);
    check(
        &cluster.clone().with(|rank, spec| spec.final_channels = spec.final_channels.filter(|_| rank == 1)),
        &[],
    );
    let mut model = Model::new();
    model.apply(&batch(1, 2, vec![cluster.process(0)]), at(2));
    let mut diagnosis = Diagnosis::new();
    assert_eq!(diagnosis.update(&model, None, at(2)).len(), 0);
    let changes = model.apply(&batch(2, 3, vec![cluster.process(1)]), at(3));
    assert_eq!(diagnosis.update(&model, Some(&changes.communicators), at(3)).len(), 2);
}

#[test]
fn findings_end_with_their_communicator_and_a_healed_one_has_none() {
    let sick = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 1)], 2);
    let (mut model, mut diagnosis) = world(&sick);
    assert_eq!(diagnosis.update(&model, None, at(3)).len(), 2);

    let killed = (0..2).map(|rank| ended(sick.word(rank), ProcessState::Killed, 10)).collect();
    let changes = model.apply(&batch(2, 10, killed), at(10));
    let news = diagnosis.update(&model, Some(&changes.communicators), at(10));
    assert_eq!(news.len(), 2);
    for finding in &news {
        assert_eq!((finding.state, finding.resolved_at), (FindingState::Resolved, Some(at(10))));
        assert_eq!((finding.first_seen, finding.last_seen), (at(3), at(3)));
    }
    let healed = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2)], 4).again(2, 8, 20);
    let changes = model.apply(&healed.batch(3, 21), at(21));
    assert_eq!(diagnosis.update(&model, Some(&changes.communicators), at(21)).len(), 0);
    assert_eq!(diagnosis.firing().count(), 0);
    assert_eq!(diagnosis.findings().count(), 2);
}

#[test]
fn a_broken_communicator_still_fires() {
    let sick = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 1)], 2);
    let (mut model, mut diagnosis) = world(&sick);
    diagnosis.update(&model, None, at(3));
    let changes = model.apply(&batch(2, 10, vec![ended(sick.word(0), ProcessState::Killed, 10)]), at(10));
    assert_eq!(diagnosis.update(&model, Some(&changes.communicators), at(10)).len(), 0);
    assert_eq!(diagnosis.firing().count(), 2);
}

#[test]
fn a_forming_communicator_does_not_fire() {
    let forming = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 1)], 2);
    check(&forming.with(|_, rank| rank.state = CommunicatorState::Forming), &[]);
}

#[test]
fn regression_compares_with_the_one_before_of_the_same_shape() {
    let first = Cluster::new(&[("host-0", 1, 2), ("host-1", 2, 2)], 4);
    let (mut model, mut diagnosis) = world(&first);
    diagnosis.update(&model, None, at(3));
    let other_shape = Cluster::new(&[("host-0", 2, 1), ("host-1", 1, 1)], 2).again(2, 8, 10);
    let lower = Cluster::new(&[("host-0", 1, 1), ("host-1", 2, 2)], 2).again(3, 9, 20);
    let same = lower.again(4, 10, 30);
    let mut tell = |cluster: &Cluster, seq_number: u64| {
        let s = 100 + seq_number;
        let changes = model.apply(&cluster.batch(seq_number, s), at(s));
        let news = diagnosis.update(&model, Some(&changes.communicators), at(s));
        lines(&news).into_iter().filter(|line| line.contains("regression")).collect::<Vec<_>>()
    };
    assert_eq!(tell(&other_shape, 2), Vec::<String>::new());
    assert_eq!(
        tell(&lower, 3),
        [
            "warning channel_regression host-0 [fewer_channels]: host-0 found 1 channel; in its previous communicator of this shape it found 2"
        ]
    );
    assert_eq!(tell(&same, 4), Vec::<String>::new());
}

/// Groups of the same hosts that are over other GPUs, have other settings or serve another purpose may well find fewer
/// channels.
#[test]
fn regression_compares_only_what_is_alike() {
    let first = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2)], 4);
    let lower = Cluster::new(&[("host-0", 1, 1), ("host-1", 1, 1)], 2).again(3, 9, 20);
    let regressions = |change: &dyn Fn(&mut batch::Process)| {
        let (mut model, mut diagnosis) = world(&first);
        diagnosis.update(&model, None, at(3));
        let mut told = lower.batch(2, 30);
        told.processes.iter_mut().for_each(change);
        let changes = model.apply(&told, at(30));
        let news = diagnosis.update(&model, Some(&changes.communicators), at(30));
        news.iter().filter(|one| one.finding == FindingKind::ChannelRegression).count()
    };
    assert_eq!(regressions(&|_| {}), 2, "the same GPUs, name and settings");
    let each = |change: &dyn Fn(&mut batch::Communicator)| {
        regressions(&|process| process.communicators.iter_mut().for_each(change))
    };
    assert_eq!(each(&|one| one.gpu = one.gpu.replace(":00.0", ":01.0")), 0, "the next GPU of each host");
    assert_eq!(each(&|one| one.name = "tp".to_owned()), 0, "another purpose");
    assert_eq!(each(&|one| one.name = "dp2".to_owned()), 2, "the same, made anew");
    let set = |one: &mut batch::Communicator| {
        one.channel_settings.insert("config.maxCTAs".to_owned(), 2);
    };
    assert_eq!(each(&set), 0, "another setting");
    let unnamed = |other: u32| {
        let first = first.clone();
        let mut model = Model::new();
        let mut diagnosis = Diagnosis::new();
        let bare = |mut process: batch::Process, shift: u32| {
            process.communicators[0].gpu = String::new();
            process.key += &shift.to_string();
            if let Some(identity) = &mut process.identity {
                identity.global_rank = identity.global_rank.map(|rank| rank + shift);
            }
            process
        };
        let told = first.processes().into_iter().map(|process| bare(process, 0)).collect();
        model.apply(&batch(1, 2, told), at(2));
        diagnosis.update(&model, None, at(3));
        let told = lower.processes().into_iter().map(|process| bare(process, other)).collect();
        model.apply(&batch(2, 30, told), at(30));
        let news = diagnosis.update(&model, None, at(30));
        news.iter().filter(|one| one.finding == FindingKind::ChannelRegression).count()
    };
    assert_eq!((unnamed(0), unnamed(2)), (2, 0), "without GPUs the ranks in the job tell");
}

#[test]
fn regression_does_not_depend_on_who_is_heard_first() {
    let first = Cluster::new(&[("host-0", 2, 2)], 4);
    let second = Cluster::new(&[("host-0", 2, 1)], 2).again(2, 8, 20);
    let (mut model, mut diagnosis) = world(&second);
    assert_eq!(diagnosis.update(&model, None, at(3)).len(), 0);
    let changes = model.apply(&first.batch(2, 4), at(4));
    let news = diagnosis.update(&model, Some(&changes.communicators), at(4));
    assert_eq!(news.len(), 1);
    assert_eq!(news[0].comm, second.id().as_str());
}

#[test]
fn restored_findings_go_on_or_are_resolved() {
    let sick = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 1)], 2);
    let (model, mut diagnosis) = world(&sick);
    let kept = diagnosis.update(&model, None, at(3));
    let mut again = Diagnosis::new();
    again.restore(kept.clone());
    again.restore(kept.clone());
    assert_eq!(again.update(&model, None, at(12)).len(), 0, "nothing is news");
    assert!(again.firing().all(|finding| finding.first_seen == at(3) && finding.last_seen == at(12)));

    let mut alone = Diagnosis::new();
    alone.restore(kept);
    let news = alone.update(&Model::new(), None, at(30));
    assert!(news.iter().all(|finding| finding.resolved_at == Some(at(30))) && news.len() == 2);
}

#[test]
fn what_still_holds_is_told_again_now_and_then() {
    let sick = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 1)], 2);
    let (model, mut diagnosis) = world(&sick);
    diagnosis.update(&model, None, at(3));
    let changed: BTreeSet<_> = [sick.id()].into();
    assert_eq!(diagnosis.update(&model, Some(&changed), at(62)).len(), 0);
    let news = diagnosis.update(&model, Some(&changed), at(63));
    assert!(news.iter().all(|finding| finding.last_seen == at(63)) && news.len() == 2);
    assert_eq!(diagnosis.update(&model, Some(&changed), at(64)).len(), 0);
}

#[test]
fn resolved_findings_are_bounded() {
    let (model, mut diagnosis) = world(&Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 1)], 2));
    let one = diagnosis.update(&model, None, at(3)).remove(0);
    let resolved = |i: usize| Finding {
        id: format!("{i:016x}"),
        state: FindingState::Resolved,
        severity: Severity::Info,
        resolved_at: Some(at(i as u64)),
        ..one.clone()
    };
    diagnosis.restore((0..MAX_RESOLVED + 10).map(resolved).collect());
    assert_eq!(diagnosis.findings().count(), MAX_RESOLVED + 2);
    assert!(
        diagnosis.findings().all(|finding| finding.resolved_at.is_none_or(|resolved| resolved >= at(10)))
    );
}

/// The one communicator of the processes, 10 seconds after it was first seen, and what it fires then.
fn settled(processes: Vec<batch::Process>) -> (Model, Vec<String>) {
    let (mut model, mut diagnosis) = (Model::new(), Diagnosis::new());
    model.apply(&batch(1, 2, processes), at(2));
    let early = diagnosis.update(&model, None, at(3));
    assert!(early.iter().all(|finding| finding.finding != FindingKind::PartlySeen), "too early to say");
    assert_eq!(diagnosis.update(&model, Some(&BTreeSet::new()), at(12)).len(), 0);
    let late = diagnosis.update(&model, Some(&BTreeSet::new()), at(13));
    (model, lines(&late))
}

fn healthy_pair() -> Cluster {
    Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2)], 4)
}

#[test]
fn a_communicator_that_all_sources_know_is_seen_in_full() {
    assert_eq!(settled(healthy_pair().processes()).1, [""; 0]);
    // Less detail was asked for: nothing is lacking.
    let mut quiet = healthy_pair().processes();
    quiet.iter_mut().for_each(|process| process.level = batch::Level::Counters.into());
    assert_eq!(settled(quiet).1, [""; 0]);
}

#[test]
fn what_carries_a_summation_group_is_not_held_to_calls_of_nccl() {
    let mut processes = healthy_pair().processes();
    for communicator in processes.iter_mut().flat_map(|process| &mut process.communicators) {
        communicator.sources = Some(batch::Sources { calls: false, plugin: true, log: false });
        communicator.made_by = batch::MADE_BY_RSUM.to_owned();
    }
    assert_eq!(settled(processes).1, [""; 0]);
}

#[test]
fn what_is_lacking_is_said_with_its_remedy() {
    let check = |change: &dyn Fn(&mut batch::Process), expected: &str| {
        let mut processes = healthy_pair().processes();
        change(&mut processes[1]);
        let (model, found) = settled(processes);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(expected), "{} does not start with {expected}", found[0]);
        assert!(found[0].contains("(rank 1)"), "{}", found[0]);
        let coverage = coverage_of(model.communicators().next().unwrap(), &model).to_api();
        assert_eq!((coverage.state, coverage.ranks), (ringscope_api::CoverageState::Partly, 2));
    };
    let sources = |calls, plugin, log| Some(batch::Sources { calls, plugin, log });
    check(
        &|process| {
            process.communicators[0].sources = sources(false, true, true);
            process.profiler_version = 4;
        },
        "warning partly_seen host-0 [calls_bypass]: calls bypass the collector (ctypes, dlopen with RTLD_DEEPBIND, a static copy of the library, or `run --plugin-only`) and are not counted: start with `ringscope run --shim`",
    );
    check(
        &|process| process.communicators[0].sources = sources(false, true, true),
        "info partly_seen host-0 [calls_bypass]: calls bypass the collector (ctypes, dlopen with RTLD_DEEPBIND, a static copy of the library, or `run --plugin-only`), issued counts come from",
    );
    check(
        &|process| {
            process.communicators[0].sources = sources(true, false, true);
            process.communicators[0].completion = batch::Completion::Events.into();
            process.profiler_version = 0;
        },
        "info partly_seen host-0 [plugin_silent]: the library's profiler is silent",
    );
    check(
        &|process| {
            process.communicators[0].sources = sources(true, false, true);
            process.communicators[0].completion = batch::Completion::Events.into();
            process.identity.as_mut().unwrap().library_version = 21_803;
        },
        "info partly_seen host-0 [plugin_silent]: the library is older than NCCL 2.23",
    );
    check(
        &|process| process.communicators[0].completion = batch::Completion::None.into(),
        "info partly_seen host-0 [completion_unknown]: nothing tells when operations complete",
    );
    check(
        &|process| {
            process.communicators[0].sources = sources(true, true, false);
            process.communicators[0].init_channels = None;
        },
        "info partly_seen host-0 [no_log]: the library's log says nothing of it",
    );
    check(
        &|process| process.communicators[0].init_channels = None,
        "info partly_seen host-0 [log_incomplete]: the library's log has no GRAPH lines",
    );
    check(
        &|process| process.log_lacks = vec!["no ENV lines".to_owned()],
        "info partly_seen host-0 [log_incomplete]: the library's log is not complete: no ENV lines (rank 1)",
    );
    check(
        &|process| {
            process.has_segment = false;
            process.communicators[0].sources = sources(false, false, true);
        },
        "info partly_seen host-0 [log_only]: only the library's log is known",
    );
}

#[test]
fn ranks_of_which_nothing_is_heard_are_named() {
    let (_, found) = settled(vec![healthy_pair().process(0)]);
    assert_eq!(
        found,
        [
            "info partly_seen host-0 [silent_ranks]: nothing is known of some ranks: run `ringscope agent` on their hosts (rank 1)"
        ]
    );
}

#[test]
fn ranks_that_found_no_room_are_told_with_the_reason() {
    let (mut model, mut diagnosis) = (Model::new(), Diagnosis::new());
    let why = "1 process is not watched, because /scratch lies on a disk: set RINGSCOPE_DIR";
    let told = batch(1, 2, vec![healthy_pair().process(0)]);
    model.apply(&batch::Batch { not_watched: why.to_owned(), ..told }, at(2));
    diagnosis.update(&model, None, at(2));
    let expected = format!(
        "info partly_seen host-0 [silent_ranks]: nothing is known of some ranks; on host-0 {why} (rank 1)"
    );
    assert_eq!(lines(&diagnosis.update(&model, None, at(12))), [expected]);
}

#[test]
fn partly_seen_is_resolved_when_the_missing_source_tells() {
    let (mut model, mut diagnosis) = (Model::new(), Diagnosis::new());
    model.apply(&batch(1, 2, vec![healthy_pair().process(0)]), at(2));
    diagnosis.update(&model, None, at(2));
    assert_eq!(diagnosis.update(&model, None, at(12)).len(), 1);
    let changes = model.apply(&batch(2, 13, vec![healthy_pair().process(1)]), at(13));
    let news = diagnosis.update(&model, Some(&changes.communicators), at(13));
    assert_eq!((news.len(), news[0].state), (1, FindingState::Resolved));
}

#[test]
fn a_slow_ring_is_a_shortfall_of_its_own() {
    let mut processes = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2)], 4).processes();
    for (process, bw) in processes.iter_mut().zip([48.0, 20.0]) {
        let communicator = &mut process.communicators[0];
        communicator.compute_capability = Some(90);
        communicator.ring_bw_intra = Some(bw);
        communicator.n_nodes = Some(2);
        communicator.evidence = vec![batch::Evidence {
            fact: "init".to_owned(),
            file: format!("/log/{bw}"),
            line: 7,
            text: "Pattern 4".to_owned(),
        }];
    }
    let (mut model, mut diagnosis) = (Model::new(), Diagnosis::new());
    model.apply(&batch(1, 2, processes), at(2));
    let found = diagnosis.update(&model, None, at(3));
    assert_eq!(
        lines(&found),
        [
            "critical channel_shortfall host-1 [slow_ring]: host-1: its ring of 20 GB/s inside the node (45 is not enough) keeps the library from doubling channels for Hopper: every rank runs on 4 channels instead of 8"
        ]
    );
    assert_eq!((found[0].evidence[0].file.as_str(), found[0].evidence[0].line), ("/log/20", 7));
}

#[test]
fn hopper_explains_four_times_the_init() {
    let mut processes = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2)], 8).processes();
    for process in &mut processes {
        let communicator = &mut process.communicators[0];
        communicator.compute_capability = Some(90);
        communicator.ring_bw_intra = Some(48.0);
        communicator.n_nodes = Some(2);
    }
    let (mut model, mut diagnosis) = (Model::new(), Diagnosis::new());
    model.apply(&batch(1, 2, processes), at(2));
    let found = lines(&diagnosis.update(&model, None, at(3)));
    assert_eq!(
        found[0],
        "info init_below_half_final host-0 rank 0 [hopper_x2]: rank 0 on host-0 found 2 channels but runs on 8: Hopper (compute capability 9.0), several nodes, rings of 48 GB/s > 45: doubled to 8"
    );
    let prediction = diagnosis.channels(model.communicators().next().unwrap(), &model).prediction();
    assert_eq!((prediction.finals, prediction.explained), (vec![8], Some(true)));
    let steps: Vec<_> = prediction.steps.iter().map(|step| (step.cause.as_str(), step.channels)).collect();
    assert_eq!(steps, [("doubled", 4), ("hopper_x2", 8)]);
}

/// What is found in a job of two ranks of ringscope's engine, whose log tells these numbers.
fn of_engine(init: u32, last: u32, log_version: &str, ring_bw_intra: f64, nvls_channels: u32) -> Vec<String> {
    let mut processes = Cluster::new(&[("host-0", 1, init), ("host-1", 1, init)], last).processes();
    for process in &mut processes {
        let communicator = &mut process.communicators[0];
        log_version.clone_into(&mut communicator.log_version);
        communicator.ring_bw_intra = Some(ring_bw_intra);
        communicator.compute_capability = None;
        communicator.n_nodes = Some(2);
        communicator.nvls_channels = Some(nvls_channels);
        communicator.collnet_channels = Some(if nvls_channels > 0 { last } else { 0 });
    }
    let (mut model, mut diagnosis) = (Model::new(), Diagnosis::new());
    model.apply(&batch(1, 2, processes), at(2));
    lines(&diagnosis.update(&model, None, at(3)))
}

#[test]
fn a_described_machine_has_the_channels_of_nccl() {
    let found = of_engine(6, 24, "2.28.9+rsccl0.1.0", 48.0, 16);
    assert_eq!(
        found[0],
        "info init_below_half_final host-0 rank 0 [hopper_x2]: rank 0 on host-0 found 6 channels but runs on 24: Hopper (compute capability not known), several nodes, rings of 48 GB/s > 45: doubled to 24, as far as can be inferred"
    );
    let found = of_engine(4, 16, "2.27.7+rsccl0.1.0", 24.0, 16);
    assert_eq!(
        found[0],
        "info init_below_half_final host-0 rank 0 [nvls_raise]: rank 0 on host-0 found 4 channels but runs on 16: NVLS needs 16"
    );
    let raised = "warning init_below_half_final";
    assert!(of_engine(4, 16, "2.28.9+rsccl0.1.0", 24.0, 16)[0].starts_with(raised), "no NVLS from 2.28 on");
    assert!(
        of_engine(6, 24, "2.28.9+rsccl0.1.0", 48.0, 0)[0].starts_with(raised),
        "the engine's own machine"
    );
}

#[test]
fn channels_of_rccl_are_not_judged_also_where_the_engine_shows_them() {
    let found = of_engine(7, 28, "RCCL 2.30.7-rsccl:0.1.0", 48.0, 0);
    assert_eq!(found, [""; 0]);
}

#[test]
fn a_host_that_falls_back_is_named_with_the_lines_that_prove_it() {
    let cluster = Cluster::new(&[("host-0", 1, 2), ("host-1", 1, 2), ("host-2", 1, 2)], 4);
    let mut processes = cluster.processes();
    for process in &mut processes {
        process.communicators[0].rings.iter_mut().for_each(|ring| ring.gpu_direct = true);
    }
    let sick = &mut processes[1].communicators[0];
    for ring in &mut sick.rings {
        (ring.transport, ring.gpu_direct) = ("NET/Socket".to_owned(), false);
    }
    sick.evidence = vec![batch::Evidence {
        fact: "send/0".to_owned(),
        file: "/log/1".to_owned(),
        line: 90,
        text: "via NET/Socket/0".to_owned(),
    }];
    let (mut model, mut diagnosis) = (Model::new(), Diagnosis::new());
    model.apply(&batch(1, 2, processes), at(2));
    let found = diagnosis.update(&model, None, at(3));
    assert_eq!(
        lines(&found),
        [
            "warning transport_fallback host-1 rank 1 [socket]: host-1 sends over NET/Socket where others use NET/IB: rank 1, channels 0 to 3"
        ]
    );
    assert_eq!((found[0].evidence[0].line, found[0].channel), (90, None));
}

#[test]
fn nodes_that_are_not_hosts_are_named() {
    let mut processes = Cluster::new(&[("host-0", 2, 2), ("host-1", 1, 2), ("host-2", 1, 1)], 2).processes();
    for (rank, process) in (0_u32..).zip(&mut processes) {
        let communicator = &mut process.communicators[0];
        (communicator.local_ranks, communicator.local_rank) =
            if rank < 2 { (Some(1), Some(0)) } else { (Some(2), Some(rank - 2)) };
        communicator.mnnvl = Some(rank >= 2);
    }
    let (mut model, mut diagnosis) = (Model::new(), Diagnosis::new());
    model.apply(&batch(1, 2, processes), at(2));
    let found = lines(&diagnosis.update(&model, None, at(3)));
    assert!(found[0].ends_with("; NCCL node 2 is host-1 and host-2"), "{}", found[0]);
    assert!(
        found[1].ends_with("; to the library this host is 2 nodes: 0 (rank 0) and 1 (rank 1)"),
        "{}",
        found[1]
    );
}

#[test]
fn of_what_was_imported_only_the_files_lack_something() {
    let cluster = Cluster::new(&[("host-0", 2, 2), ("host-1", 2, 2)], 4);
    let lacks_of = |ranks: std::ops::Range<u32>, lacks: &[&str]| {
        let imported = ranks.map(|rank| {
            let mut process = cluster.process(rank);
            process.state = ProcessState::Imported.into();
            (process.has_segment, process.calls_seen) = (false, false);
            process.log_lacks = lacks.iter().map(ToString::to_string).collect();
            process.communicators[0].sources = Some(batch::Sources { log: true, ..Default::default() });
            process.communicators[0].completion = batch::Completion::Unspecified.into();
            process
        });
        let mut model = Model::new();
        model.apply(&batch(1, 2, imported.collect()), at(2));
        let known = model.communicator(cluster.id()).unwrap();
        coverage_of(known, &model).to_api().lacks
    };
    assert_eq!(lacks_of(0..4, &[]), [""; 0]);
    assert_eq!(
        lacks_of(0..3, &[]),
        ["no file tells of some ranks: import the files of their hosts too (rank 3)"]
    );
    assert_eq!(
        lacks_of(0..4, &["no ENV lines"]),
        ["the library's log is not complete: no ENV lines (ranks 0 to 3)"]
    );
}

#[test]
fn a_large_communicator_is_judged_by_its_turn_and_not_for_each_host() {
    let hosts: Vec<String> = (0..40).map(|host| format!("host-{host:02}")).collect();
    let specs: Vec<(&str, u32, u32)> = hosts.iter().map(|host| (host.as_str(), 8, 2)).collect();
    let cluster = Cluster::new(&specs, 4);
    let (mut model, mut diagnosis) = (Model::new(), Diagnosis::new());
    let mut n_looks = 0;
    for (number, ranks) in (1..).zip(cluster.processes().chunks(8)) {
        let changes = model.apply(&batch(number, 1, ranks.to_vec()), at(1));
        let looked = |diagnosis: &Diagnosis| diagnosis.known[&cluster.id()].revision;
        let before = diagnosis.known.contains_key(&cluster.id()).then(|| looked(&diagnosis));
        diagnosis.update(&model, Some(&changes.communicators), at(1));
        n_looks += u32::from(before != Some(looked(&diagnosis)));
    }
    // At once while it is small, and then no more in this instant.
    assert_eq!(n_looks, 8);
    let known = model.communicator(cluster.id()).unwrap();
    assert_eq!(diagnosis.judged_channels(known, &model).ranks.len(), 64);
    assert_eq!(diagnosis.behind(at(2)), Duration::from_secs(1));

    diagnosis.update(&model, Some(&BTreeSet::new()), at(2));
    assert_eq!(diagnosis.judged_channels(known, &model).ranks.len(), 320);
    assert_eq!(diagnosis.judged_channels(known, &model).final_channels, Some(4));
    assert_eq!(diagnosis.behind(at(2)), Duration::ZERO);
}
