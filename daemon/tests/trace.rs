//! Traces: those of a job of real ranks have every operation once, and hold the rules of Chrome's trace event format.

#![allow(missing_docs, reason = "a test")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;

use common::batches::{SMALL, START_NS};
use common::daemon::{Daemon, problem};
use common::stage::Stage;
use common::totals::has_ended;
use common::{PATIENCE, eventually};
use ringscope_api::{ClockBasis, Timeline, Trace, TraceEvent};
use ringscope_wire::batch::{Operation, OperationState, Primitive, Process};
use serde_json::Value;

/// Holds the rules of the format ("Trace Event Format", JSON object form), as far as viewers rely on them.
fn check_format(trace: &Trace) {
    assert_eq!(trace.display_time_unit, "ms");
    let text = serde_json::to_value(trace).unwrap();
    assert!(text["traceEvents"].is_array() && text["otherData"].is_object());
    let (mut last_ts, mut ends) = (0.0, BTreeMap::new());
    let mut named = Vec::new();
    for event in &trace.trace_events {
        assert!(!event.name.is_empty() && event.ts >= 0.0 && event.pid > 0, "{event:?}");
        assert!(event.ts >= last_ts, "by time: {event:?}");
        last_ts = event.ts;
        let thread = (event.pid, event.tid);
        match event.ph.as_str() {
            "M" => {
                assert!(["process_name", "thread_name"].contains(&&*event.name), "{event:?}");
                assert!(event.args["name"].is_string(), "{event:?}");
                named.push((event.name.as_str(), thread));
            }
            "X" => {
                let end = ends.entry(thread).or_insert(0.0);
                // Half a nanosecond for what microseconds in floating point lose.
                assert!(
                    event.ts >= *end - 0.0005,
                    "begins before {end}, the end of the one before: {event:?}"
                );
                assert!(event.dur.unwrap() >= 0.0, "{event:?}");
                *end = event.ts + event.dur.unwrap();
                assert!(named.contains(&("thread_name", thread)), "{event:?}");
            }
            "B" => {
                assert!(
                    event.dur.is_none() && event.ts >= ends.get(&thread).copied().unwrap_or(0.0) - 0.0005
                );
            }
            "s" | "f" => {
                assert!(event.id.is_some() && named.contains(&("thread_name", thread)), "{event:?}");
                assert_eq!(event.bp.is_some(), event.ph == "f");
            }
            "C" => assert!(event.args["bytes"].is_u64(), "{event:?}"),
            other => panic!("{other}: {event:?}"),
        }
    }
}

fn of<'t>(trace: &'t Trace, ph: &str) -> Vec<&'t TraceEvent> {
    trace.trace_events.iter().filter(|event| event.ph == ph).collect()
}

fn seq_number(event: &TraceEvent) -> u64 {
    event.args["seq_number"].as_u64().unwrap()
}

/// Of each operation that all ranks completed arrows lead from the rank that came last to all others.
fn check_arrows(trace: &Trace) {
    let ends: BTreeMap<u64, &TraceEvent> =
        of(trace, "f").into_iter().map(|event| (event.id.unwrap(), event)).collect();
    let begins = of(trace, "s");
    assert!(begins.len() == ends.len() && begins.len() > 100, "{} arrows", begins.len());
    for begin in begins {
        let end = ends[&begin.id.unwrap()];
        assert!(begin.ts <= end.ts && begin.tid != end.tid && begin.name == end.name, "{begin:?} {end:?}");
        assert_eq!(begin.name, format!("waits for rank {}", begin.tid));
    }
}

/// Two pretended hosts of one machine have one clock, and that is found.
async fn check_timeline(stage: &Stage, job: &str) {
    let url = format!("{}/api/v1/jobs/{job}/timeline?limit=200000", stage.url());
    let timeline: Timeline = reqwest::get(url).await.unwrap().json().await.unwrap();
    assert_eq!(timeline.clocks.len(), 2);
    for clock in &timeline.clocks {
        let apart = (clock.offset_s - timeline.clocks[0].offset_s).abs();
        assert!(
            apart <= timeline.clocks.iter().map(|one| one.error_s).fold(0.0, f64::max),
            "{:?}",
            timeline.clocks
        );
        assert!(clock.error_s < 0.1 && clock.basis != ClockBasis::Agent, "{:?}", timeline.clocks);
    }
    let columns = &timeline.operations;
    assert_eq!(timeline.ranks.iter().map(|one| one.rank).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(columns.rank.len() > 200, "{}", columns.rank.len());
    let lengths = [columns.called_us.len(), columns.completed_us.len(), columns.last_called_us.len()];
    assert_eq!(lengths, [columns.rank.len(); 3]);
    assert!(columns.called_us.is_sorted());
    let known = columns.last_called_us.iter().zip(&columns.called_us);
    let known: Vec<(i64, i64)> = known.filter_map(|(last, called)| Some(((*last)?, *called))).collect();
    assert!(known.len() > 200 && known.iter().all(|(last, called)| called <= last), "{}", known.len());
}

async fn trace_of(url: &str, comm: &str) -> Trace {
    let url = format!("{url}/api/v1/communicators/{comm}/trace?format=chrome");
    reqwest::get(url).await.unwrap().json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_operation_of_a_real_job_is_there_once() {
    let stage = Stage::new("trace");
    let _daemon = stage.serve(true);
    let mut job = stage.job("traced", &stage.hosts(2), 2);
    let client = stage.client();
    let world = eventually("the communicator of all ranks", async || {
        let all = client.communicators().await.ok()?;
        all.into_iter().find(|one| one.n_ranks == 4 && one.n_ranks_seen == 4).map(|one| one.id)
    })
    .await;
    eventually("some operations", async || {
        let n_kept = of(&trace_of(&stage.url(), &world).await, "X").len();
        (n_kept > 200).then_some(())
    })
    .await;
    job.stop(PATIENCE).await.unwrap_or_else(|error| panic!("{error}\n{}", stage.words()));
    eventually("the end of the job", async || has_ended(&client, "traced").await.then_some(())).await;
    let trace = trace_of(&stage.url(), &world).await;
    check_format(&trace);
    let mut kept: BTreeMap<(u32, String), Vec<u64>> = BTreeMap::new();
    for event in of(&trace, "X") {
        kept.entry((event.tid, event.cat.clone().unwrap())).or_default().push(seq_number(event));
    }
    for rank in client.primitives(&world).await.unwrap().ranks {
        for totals in rank.primitives {
            let Some(seq_numbers) = kept.remove(&(rank.rank, totals.primitive.clone())) else { continue };
            // From the first that the agent saw to the last of all, none twice and none missing.
            let first = seq_numbers[0];
            let all: Vec<u64> = (first..totals.completed_calls).collect();
            assert_eq!(seq_numbers, all, "rank {} {}", rank.rank, totals.primitive);
        }
    }
    assert!(kept.is_empty(), "{kept:?}");
    assert_eq!(of(&trace, "C").len(), of(&trace, "X").len());
    check_arrows(&trace);
    check_timeline(&stage, "traced").await;
    let names = of(&trace, "M").iter().filter(|event| event.name == "process_name").count();
    assert_eq!((names, of(&trace, "M").len()), (2, 6));
}

/// All-reduces of 1 MiB that took 2 ms each, called 1 ms apart.
fn completed(seq_number: u64) -> Operation {
    let issued_at_ns = START_NS + seq_number * 1_000_000;
    Operation {
        local_id: 1,
        primitive: Primitive::AllReduce.into(),
        seq_number,
        bytes: 1 << 20,
        count: 1 << 18,
        datatype: 7,
        state: OperationState::Completed.into(),
        issued_at_ns,
        completed_at_ns: Some(START_NS + (seq_number + 1) * 2_000_000),
        channels_expected: 4,
        ..Operation::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_told_is_drawn_and_what_is_in_flight_stays_open() {
    let daemon = Daemon::ready("none").await;
    for (seq_number, operations) in [(1, 0..3), (2, 2..5)] {
        let mut batch = SMALL.batch(0, seq_number, 6, START_NS + 20_000_000);
        let told = |process: &mut Process| {
            process.completed_operations = operations.clone().map(completed).collect()
        };
        batch.processes.iter_mut().for_each(told);
        daemon.take(&batch).await;
        daemon.take(&batch).await;
    }
    let comm = daemon.json("/api/v1/communicators").await["items"][0]["id"].as_str().unwrap().to_owned();
    let trace = trace_of(&daemon.url, &comm).await;
    check_format(&trace);
    let of_first: Vec<_> = of(&trace, "X").into_iter().filter(|event| event.tid == 0).collect();
    let drawn: Vec<_> = of_first.iter().map(|event| (&*event.name, event.ts, event.dur.unwrap())).collect();
    // Called ahead, they run one after the other.
    assert_eq!(drawn[0], ("AllReduce #0", 0.0, 2000.0));
    assert_eq!(drawn[4], ("AllReduce #4", 8000.0, 2000.0));
    assert_eq!(drawn.len(), 5);
    assert_eq!(of_first[4].args["waited_us"], 4000.0);
    // 1 MiB in 2 ms, times 2(n-1)/n of four ranks.
    assert_eq!(of_first[4].args["bus_bytes_per_s"], f64::from(1 << 20) / 0.002 * 1.5);
    let open = of(&trace, "B");
    assert_eq!(
        open.iter().map(|event| (event.tid, &*event.name)).collect::<Vec<_>>(),
        [(0, "AllReduce #5"), (1, "AllReduce #5")]
    );
    assert_eq!(of(&trace, "C").last().unwrap().args["bytes"], 10 << 20);
    assert_eq!(trace.other_data["completed_operations"], 10);
    assert_eq!(trace.other_data["time_0"], "2026-01-31T12:00:00.000Z");
    let part = format!(
        "/api/v1/communicators/{comm}/trace?from=2026-01-31T12:00:00.005Z&to=2026-01-31T12:00:00.007Z"
    );
    let part: Trace = serde_json::from_value(daemon.json(&part).await).unwrap();
    check_format(&part);
    assert_eq!(of(&part, "X").iter().map(|event| seq_number(event)).collect::<Vec<_>>(), [2, 2, 3, 3]);
    assert!(of(&part, "B").is_empty(), "called after that time");
    let empty: Value = daemon.json(&format!("/api/v1/communicators/{comm}/trace?from=0&to=1")).await;
    assert_eq!(empty["otherData"]["completed_operations"], 0);
    for (query, status, part) in [
        ("?format=pprof", 400, "chrome"),
        ("?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", 400, "before"),
        ("?to=never", 400, "RFC 3339"),
    ] {
        problem(daemon.get(&format!("/api/v1/communicators/{comm}/trace{query}")).await, status, part).await;
    }
    problem(daemon.get("/api/v1/communicators/x/trace").await, 404, "communicator").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeline_says_what_is_wrong_with_its_parameters() {
    let daemon = Daemon::ready("none").await;
    daemon.take(&SMALL.batch(0, 1, 6, START_NS)).await;
    let path = "/api/v1/jobs/train/timeline";
    let shown = daemon.json(&format!("{path}?from=2026-01-31T12:00:00Z&to=2026-01-31T12:01:00Z")).await;
    assert_eq!(shown["operations"]["rank"], serde_json::json!([]));
    assert!(shown["lacks"][0].as_str().unwrap().contains("No operation"), "{shown}");
    for (query, status, part) in [
        ("?limit=0", 400, "1 to 200000"),
        ("?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", 400, "before"),
        ("?until=now", 400, "from, to, limit"),
    ] {
        problem(daemon.get(&format!("{path}{query}")).await, status, part).await;
    }
    problem(daemon.get("/api/v1/jobs/other/timeline").await, 404, "job").await;
    daemon.stop().await;
}
