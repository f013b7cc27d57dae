//! From a NIC that goes down to a message, and back: real ranks, a real daemon, a real Prometheus and a real
//! Alertmanager with the committed rules and examples at their own intervals.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use common::monitoring::{Labels, Receiver, Told, alertmanager, prometheus};
use common::stage::Stage;
use common::{PATIENCE, eventually, eventually_within};
use ringscope_daemon::demo::host::PretendedHost;
use ringscope_daemon::demo::job::{Job, JobSpec};

/// From Prometheus' start to the message. At the example's intervals it takes less than 30 s, on a busy machine more.
const LIMIT: Duration = Duration::from_secs(180);
/// Until the last message that something is over: the ranks form anew, a scrape, an evaluation, the 190 s for which the
/// alert of an incident outlives its series, Alertmanager's interval of 10 s, and as much again on a busy machine.
const RESOLVED: Duration = Duration::from_secs(480);

/// Findings about how fast ranks are.
const PACE: [&str; 2] = ["compute_straggler", "slowdown"];

/// A job that must run on four channels however few its hosts find, so that a host with one has less than half.
fn floor(stage: &Stage, hosts: &[PretendedHost]) -> Job {
    let spec = JobSpec {
        name: "floor".to_owned(),
        hosts: hosts.to_vec(),
        ranks_per_host: 1,
        environment: vec![("RSCCL_MIN_NCHANNELS", "4".to_owned())],
        step_ms: 50,
    };
    Job::start(&spec, &stage.installation(), &stage.dir.0.join("jobs")).unwrap()
}

/// What was told of anything but the pace: on a machine that is busy with something else a rank is slow at times, which
/// is true, and may be so to the end.
fn of_hardware(receiver: &Receiver) -> Vec<(String, Told)> {
    let mut told = receiver.told();
    told.retain(|(_, told)| {
        told.labels.get("finding").is_none_or(|finding| !PACE.contains(&finding.as_str()))
    });
    told
}

/// The alerts that were last told to be firing.
fn still_firing(receiver: &Receiver) -> Vec<Labels> {
    let latest: BTreeMap<Labels, String> =
        of_hardware(receiver).into_iter().map(|(_, told)| (told.labels, told.status)).collect();
    latest.into_iter().filter(|(_, status)| status != "resolved").map(|(labels, _)| labels).collect()
}

/// What was told of one alert about a job.
fn of(receiver: &Receiver, alert: &str, job: &str) -> Vec<(String, Told)> {
    let mut told = receiver.told();
    told.retain(|(_, told)| told.labels["alertname"] == alert && told.labels["job"] == job);
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nic_goes_down_and_somebody_is_told_and_told_again_when_it_is_up() {
    let stage = Stage::new("alerts");
    let _serve = stage.serve(true);
    let hosts = stage.hosts(4);
    hosts[2].set_nic(1, false).unwrap();
    let mut training = stage.job("training", &hosts, 1);
    let mut floor = floor(&stage, &hosts[1..3]);
    eventually(&format!("the daemon knows; {}", stage.words()), async || {
        let url = format!("{}/metrics", stage.url());
        let text = reqwest::get(url).await.ok()?.text().await.ok()?;
        let knows = |job: &str, finding: &str| {
            text.lines().any(|line| {
                line.contains(&format!("finding=\"{finding}\"")) && line.contains(&format!("job=\"{job}\""))
            })
        };
        (knows("training", "channel_shortfall") && knows("floor", "init_below_half_final")).then_some(())
    })
    .await;

    let (receiver, webhook_port) = Receiver::start().await;
    let (_alertmanager, alertmanager_port) = alertmanager(&stage, webhook_port);
    let _prometheus = prometheus(&stage, alertmanager_port);
    eventually_within(LIMIT, "both are told", async || {
        let both = [("RingscopeIncident", "training"), ("RingscopeInitBelowHalfFinal", "floor")];
        both.iter().all(|(alert, job)| !of(&receiver, alert, job).is_empty()).then_some(())
    })
    .await;
    as_a_person_would_want_it(&receiver);

    hosts[2].set_nic(1, true).unwrap();
    for job in [&training, &floor] {
        job.enter_epoch(1).unwrap();
    }
    let over = tokio::time::timeout(RESOLVED, async {
        while !still_firing(&receiver).is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(over.await.is_ok(), "after {RESOLVED:?} still firing: {:#?}", still_firing(&receiver));

    only_what_is_true(&receiver);
    for job in [&mut training, &mut floor] {
        job.stop(PATIENCE).await.unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Who is told, of which host, in which words, with which links.
fn as_a_person_would_want_it(receiver: &Receiver) {
    for (to, told) in of(receiver, "RingscopeIncident", "training") {
        assert_eq!((to.as_str(), told.status.as_str()), ("pager", "firing"));
        assert_eq!(told.labels["host"], "host-2");
        assert_eq!(told.annotations["summary"], "channel_shortfall on host-2, in job training");
        assert!(told.annotations["runbook_url"].ends_with("runbook.md#channel_shortfall"));
        let place = format!("/#/incidents/{}", told.labels["incident"]);
        assert!(told.annotations["page"].ends_with(&place), "{}", told.annotations["page"]);
    }
    for (to, told) in of(receiver, "RingscopeInitBelowHalfFinal", "floor") {
        assert_eq!((to.as_str(), told.status.as_str()), ("quiet", "firing"), "the floor explains it");
        assert_eq!(told.labels["host"], "host-2");
        let description = &told.annotations["description"];
        assert!(description.starts_with("host-2 found 1 and runs on 4 in communicator"), "{description}");
    }
}

/// The pager is for critical alerts, what follows from the incident is inhibited, and nothing else is wrong.
fn only_what_is_true(receiver: &Receiver) {
    let told = of_hardware(receiver);
    let names: BTreeSet<&str> = told.iter().map(|(_, told)| told.labels["alertname"].as_str()).collect();
    assert_eq!(names, BTreeSet::from(["RingscopeIncident", "RingscopeInitBelowHalfFinal"]));
    for (to, told) in &told {
        assert_eq!(to == "pager", told.labels["severity"] == "critical", "{told:?}");
        assert_eq!(told.labels["host"], "host-2", "{told:?}");
    }
}
