//! Summation groups, from batches to what people see.

use ringscope_api::clock;
use ringscope_wire::batch::{SummationComparison, SummationDifference, SummationRound, SummationState};

use crate::common::batches::START_NS;
use crate::common::daemon::{Daemon, problem};
use crate::common::{eventually, summation};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_shown_with_its_services_workers_and_results() {
    let daemon = Daemon::ready("none").await;
    let mut batch = summation::batch(1, 3, START_NS, false);
    batch.processes[2].summations[0].rounds = vec![SummationRound {
        key: 5,
        round: 2,
        fingerprint: 0xabc,
        made: true,
        ..SummationRound::default()
    }];
    batch.processes[0].summations[0].rounds =
        vec![SummationRound { key: 5, round: 2, fingerprint: 0xabc, ..SummationRound::default() }];
    daemon.take(&batch).await;
    let list = daemon.json("/api/v1/summation/groups?job=summing&state=running").await;
    let id = list["items"][0]["id"].as_str().unwrap();
    assert_eq!((&list["items"][0]["n_workers"], &list["items"][0]["n_servers"]), (&2.into(), &1.into()));
    let group = daemon.json(&format!("/api/v1/summation/groups/{id}")).await;
    let hosts: Vec<&str> =
        group["services"].as_array().unwrap().iter().map(|one| one["host"].as_str().unwrap()).collect();
    assert_eq!(hosts, summation::HOSTS);
    assert_eq!(group["waits"][0]["tensor"], "gradient.fc");
    assert_eq!(group["workers"][1]["stages"].as_array().unwrap().len(), 5);
    let rounds = daemon.json(&format!("/api/v1/summation/groups/{id}/rounds?key=5&limit=10")).await;
    assert_eq!((&rounds["items"][0]["agree"], &rounds["items"][0]["made_by"]), (&true.into(), &0.into()));
    let findings = daemon.json("/api/v1/findings?kind=sum_share_imbalance").await;
    assert_eq!(findings["items"][0]["host"], "work-a");
    assert_eq!(findings["items"][0]["group"], *id);
    for (group, n) in [(id, 1), ("0123456789ab", 0)] {
        let of_group = daemon.json(&format!("/api/v1/findings?group={group}")).await;
        assert_eq!(of_group["items"].as_array().unwrap().len(), n);
    }
    for (host, n) in [("sum-a", 1), ("work-b", 1), ("node-a", 0)] {
        let on_host = daemon.json(&format!("/api/v1/summation/groups?host={host}")).await;
        assert_eq!(on_host["items"].as_array().unwrap().len(), n, "{host}");
    }
    assert_eq!(daemon.json("/api/v1/nodes/work-a").await["degraded"], true);
    assert_eq!(list["items"][0]["oldest_wait"]["workers"], serde_json::json!([1]));
    assert!((list["items"][0]["worst_share_ratio"].as_f64().unwrap() - 4.0 / 3.0).abs() < 1e-4);
    for wanted in [id, "sum-a", "gradient", "0000000000000007"] {
        let hits = daemon.json(&format!("/api/v1/search?q={wanted}")).await;
        let hit = hits.as_array().unwrap().iter().find(|hit| hit["kind"] == "summation").unwrap();
        assert_eq!((&hit["group"], &hit["job"]), (&list["items"][0]["id"], &"summing".into()), "{wanted}");
    }
    for path in ["groups/0123456789ab", "groups/0123456789ab/rounds"] {
        problem(daemon.get(&format!("/api/v1/summation/{path}")).await, 404, "/api/v1/summation/groups")
            .await;
    }
    problem(daemon.get("/api/v1/summation/groups?state=odd").await, 400, "suspended").await;
    problem(daemon.get(&format!("/api/v1/summation/groups/{id}/rounds?limit=0")).await, 400, "limit").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_group_does_over_time_is_kept_over_a_restart() {
    let dir = crate::common::TempDir::new("summation-history");
    let store = format!("sqlite://{}", dir.join("ringscope.db").display());
    let mut daemon = Daemon::ready(&store).await;
    let mut batch = summation::batch(1, 3, clock::now().0, false);
    let round =
        |round, spread_ns| SummationRound { round, spread_ns, made: true, ..SummationRound::default() };
    batch.processes[2].summations[0].rounds = vec![round(1, 7_000_000), round(2, 9_000_000), round(3, 1)];
    daemon.take(&batch).await;
    let id = daemon.json("/api/v1/summation/groups").await["items"][0]["id"].as_str().unwrap().to_owned();
    let path = |query: &str| format!("/api/v1/summation/groups/{id}/series?{query}");
    let known =
        |line: &serde_json::Value| line["values"].as_array().unwrap().iter().find_map(|value| value.as_f64());
    for restarts in 0..2 {
        let pushed = eventually("the services have a history", async || {
            let series = daemon.json(&path("metric=pushed_bytes&by_service=true&step=1s")).await;
            (series["lines"].as_array().unwrap().len() == 3).then_some(series)
        })
        .await;
        for (service, host) in summation::HOSTS.iter().enumerate() {
            let line = &pushed["lines"][service];
            assert_eq!((&line["service"], &line["host"]), (&service.into(), &(*host).into()));
        }
        let mib = f64::from(1 << 20);
        // Two workers, three rounds, 48 MiB.
        assert_eq!(known(&pushed["lines"][0]), Some(2.0 * 3.0 * 48.0 * mib), "{restarts}");
        let sum = daemon.json(&path("metric=finished_rounds")).await;
        assert_eq!((sum["lines"].as_array().unwrap().len(), known(&sum["lines"][0])), (1, Some(3.0 * 96.0)));
        let spread = daemon.json(&path("metric=spread_ns&step=10s")).await;
        assert_eq!((&spread["unit"], known(&spread["lines"][0])), (&"nanoseconds".into(), Some(9_000_000.0)));
        let share = daemon.json(&path("metric=share_ppm&by_service=true")).await;
        assert_eq!(known(&share["lines"][1]), Some(333_333.0));
        daemon.stop().await;
        daemon = Daemon::ready(&store).await;
    }
    problem(daemon.get(&path("metric=issued_bytes")).await, 400, "finished_rounds").await;
    problem(daemon.get(&path("metric=spread_ns&rate=true")).await, 400, "spread_ns").await;
    problem(daemon.get("/api/v1/summation/groups/x/series?metric=spread_ns").await, 404, "summation").await;
    let nothing = daemon.json("/api/v1/summation/groups/0123456789ab/series?metric=pushed_bytes").await;
    assert_eq!(nothing["lines"], serde_json::json!([]));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_server_is_told_at_once_and_survives_a_restart() {
    let dir = crate::common::TempDir::new("summation");
    let store = format!("sqlite://{}", dir.join("ringscope.db").display());
    let daemon = Daemon::ready(&store).await;
    daemon.take(&summation::batch(1, 3, START_NS, false)).await;
    let mut batch = summation::batch(2, 4, START_NS, false);
    for process in &mut batch.processes[..2] {
        let told = &mut process.summations[0];
        told.state = SummationState::Failed.into();
        told.lost_rank = Some(2);
        told.failure = "server 0 (sum-a) closed its connection".into();
    }
    daemon.take(&batch).await;
    let lost = "/api/v1/findings?kind=sum_server_lost&state=firing";
    let findings = daemon.json(lost).await;
    assert_eq!(
        (&findings["items"][0]["host"], &findings["items"][0]["job"]),
        (&"sum-a".into(), &"summing".into())
    );
    daemon.stop().await;
    let daemon = Daemon::ready(&store).await;
    eventually("the group is known again", async || {
        let list = daemon.json("/api/v1/summation/groups?state=failed").await;
        (list["items"][0]["n_findings"] == 1).then_some(())
    })
    .await;
    assert_eq!(daemon.json(lost).await["items"][0]["id"], findings["items"][0]["id"]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn different_parameters_are_one_sentence_everywhere_and_nothing_is_said_of_those_nobody_compares() {
    let daemon = Daemon::ready("none").await;
    let mut batch = summation::batch(1, 3, START_NS, false);
    daemon.take(&batch).await;
    let id = daemon.json("/api/v1/summation/groups").await["items"][0]["id"].as_str().unwrap().to_owned();
    let shown = async || daemon.json(&format!("/api/v1/summation/groups/{id}")).await["comparison"].clone();
    assert_eq!(shown().await, serde_json::Value::Null);
    let firing = "/api/v1/findings?kind=sum_parameters_differ&state=firing";
    let compared = |n_different| SummationComparison {
        count: 2,
        every: 2,
        steps: 2,
        at_ns: START_NS,
        n_parameters: 3,
        n_different,
        equal_steps: Some(if n_different == 0 { 2 } else { 0 }),
        difference: (n_different > 0).then(|| SummationDifference {
            steps: 2,
            at_ns: START_NS,
            parameter: "fc.bias".into(),
            hashes: vec![7, 9],
        }),
    };
    for (n, n_different) in [(2, 0), (3, 1)] {
        (batch.seq_number, batch.processes[0].summations[0].comparison) = (n, Some(compared(n_different)));
        daemon.take(&batch).await;
        let found = daemon.json(firing).await;
        assert_eq!(found["items"].as_array().unwrap().len() as u64, n_different, "{found}");
        assert_eq!(shown().await["n_different"], n_different);
    }
    let finding = daemon.json(firing).await["items"][0].clone();
    let sentence = finding["message"].as_str().unwrap();
    assert!(sentence.starts_with("parameter fc.bias of worker 0 (work-a"), "{sentence}");
    assert!(sentence.contains("no more than half have the same"), "{sentence}");
    assert_eq!(shown().await["difference"]["parties"][1]["workers"], serde_json::json!([1]));
    let health = daemon.json("/api/v1/health").await;
    assert!(health["sentence"].as_str().unwrap().contains(sentence), "{health}");
    let metrics = daemon.get("/metrics").await.text().await.unwrap();
    let series = metrics.lines().find(|line| line.contains("finding=\"sum_parameters_differ\""));
    assert!(series.is_some_and(|line| line.contains("cause=\"no_majority\"") && line.ends_with(" 1")));
    daemon.stop().await;
}
