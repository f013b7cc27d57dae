//! Agents of older and newer releases: what they send and what they are answered, by the formats that those releases had.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MessageDescriptor, ReflectMessage as _, Value};
use ringscope_daemon::status::{self, StatusArgs};
use ringscope_wire::batch::{Batch, FORMAT_VERSION, Level};

use crate::common::batches::{Job, SMALL, START_NS, hardware};
use crate::common::daemon::{Daemon, problem};

/// What was played: fixtures/upgrade/README.md says of what.
const RELEASES: [&str; 2] = ["first-release", "release-before"];
/// A job in which nothing is wrong: what is not known comes first in all that is said.
const HEALTHY: Job<'static> = Job { init: &[4, 4], ..SMALL };
/// User of a process, as an agent of this release knows him.
const USER: u32 = 1000;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/upgrade").join(name)
}

/// The messages of a release.
fn format_of(release: &str) -> DescriptorPool {
    compiled(&fixture(&format!("{release}.proto")))
}

fn format_now() -> DescriptorPool {
    compiled(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/proto/ringscope/v1/batch.proto"))
}

fn compiled(path: &Path) -> DescriptorPool {
    let files = protox::compile([path], [path.parent().unwrap()]).unwrap();
    DescriptorPool::from_file_descriptor_set(files).unwrap()
}

fn message(format: &DescriptorPool, name: &str) -> MessageDescriptor {
    format.get_message_by_name(&format!("ringscope.v1.{name}")).unwrap()
}

fn kind(kind: &Kind) -> String {
    match kind {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(values) => values.full_name().to_owned(),
        plain => format!("{plain:?}"),
    }
}

/// All batches of a recording.
fn recorded(release: &str) -> Vec<Batch> {
    let bytes = std::fs::read(fixture(&format!("{release}.batches"))).unwrap();
    let (mut rest, mut batches) = (&*bytes, Vec::new());
    while !rest.is_empty() {
        batches.push(Batch::decode_length_delimited(&mut rest).unwrap());
    }
    batches
}

/// A batch of this release with what older ones do not know.
fn todays() -> Batch {
    let mut batch = SMALL.batch(0, 1, 3, START_NS);
    for process in &mut batch.processes {
        process.identity.as_mut().unwrap().user = Some(USER);
    }
    batch.hardware = vec![hardware("node-a", &["mlx5_0"], START_NS)];
    batch.reads_segment_version = 6;
    batch
}

#[test]
fn no_field_or_value_of_an_older_release_has_another_meaning_now() {
    let now = format_now();
    for release in RELEASES {
        let then = format_of(release);
        for old in then.all_messages() {
            let name = old.full_name();
            let new = now.get_message_by_name(name).unwrap_or_else(|| panic!("{release}: {name} is gone"));
            for field in old.fields() {
                let (name, number) = (field.full_name(), field.number());
                let Some(is) = new.get_field(number) else {
                    // Nobody may give its number to another one.
                    let is_reserved = new.reserved_ranges().any(|range| range.contains(&number));
                    assert!(is_reserved, "{release}: {name} = {number} is gone and not reserved");
                    continue;
                };
                let shape = |field: &prost_reflect::FieldDescriptor| {
                    (
                        field.name().to_owned(),
                        kind(&field.kind()),
                        field.cardinality(),
                        field.supports_presence(),
                    )
                };
                assert_eq!(shape(&is), shape(&field), "{release}: {name} = {number}");
            }
        }
        for old in then.all_enums() {
            let new = now.get_enum_by_name(old.full_name()).unwrap();
            for value in old.values() {
                let is = new.get_value(value.number());
                assert_eq!(
                    is.as_ref().map(|is| is.name()),
                    Some(value.name()),
                    "{release}: {}",
                    old.full_name()
                );
            }
        }
    }
}

#[test]
fn an_older_daemon_reads_in_a_batch_of_today_what_it_says() {
    let bytes = todays().encode_to_vec();
    let now = DynamicMessage::decode(message(&format_now(), "Batch"), &*bytes).unwrap();
    for release in RELEASES {
        let then = DynamicMessage::decode(message(&format_of(release), "Batch"), &*bytes).unwrap();
        assert!(then.unknown_fields().count() > 0, "{release}: it has nothing new, so this shows nothing");
        let mut compared = 0;
        same(&Value::Message(then), &Value::Message(now.clone()), &mut compared);
        assert!(compared > 100, "{release}: {compared}");
    }
}

/// All that the older reading has is in the newer one; `compared` counts scalars.
fn same(then: &Value, now: &Value, compared: &mut usize) {
    match (then, now) {
        (Value::Message(then), Value::Message(now)) => {
            for field in then.descriptor().fields() {
                let number = field.number();
                assert_eq!(then.has_field_by_number(number), now.has_field_by_number(number), "{field:?}");
                if then.has_field_by_number(number) {
                    same(&then.get_field(&field), &now.get_field_by_number(number).unwrap(), compared);
                }
            }
        }
        (Value::List(then), Value::List(now)) => {
            assert_eq!(then.len(), now.len());
            then.iter().zip(now).for_each(|(then, now)| same(then, now, compared));
        }
        (Value::Map(then), Value::Map(now)) => {
            assert_eq!(then.len(), now.len());
            then.iter().for_each(|(key, value)| same(value, &now[key], compared));
        }
        _ => {
            assert_eq!(then, now);
            *compared += 1;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_agents_of_older_releases_sent_is_taken_and_shown() {
    for release in RELEASES {
        let batches = recorded(release);
        let daemon = Daemon::ready("none").await;
        for batch in &batches {
            let reply = daemon.take(batch).await;
            assert_eq!(reply.seq_number, batch.seq_number, "{release}");
        }
        // Once more: an agent that did not hear the answer.
        for batch in &batches {
            daemon.take(batch).await;
        }
        let processes = batches.iter().flat_map(|batch| &batch.processes);
        let identities = processes.clone().filter_map(|process| process.identity.as_ref());
        let jobs: BTreeSet<&str> = identities.clone().map(|identity| identity.job.as_str()).collect();
        let hosts = identities.clone().map(|identity| identity.host.as_str());
        // The agent's own machine, of which it tells the hardware.
        let machines =
            batches.iter().flat_map(|batch| &batch.hardware).map(|hardware| hardware.host.as_str());
        let hosts: BTreeSet<&str> = hosts.chain(machines).collect();
        let communicators: BTreeSet<(&str, u64)> = identities
            .zip(processes.clone().filter(|process| process.identity.is_some()))
            .flat_map(|(identity, process)| {
                process.communicators.iter().map(|one| (identity.job.as_str(), one.comm_hash))
            })
            .collect();
        assert!(
            !jobs.is_empty() && hosts.len() > 1 && !communicators.is_empty(),
            "{release}: an empty recording"
        );
        let names = async |path: &str, name: &str| {
            let items = daemon.json(path).await["items"].as_array().unwrap().clone();
            items.iter().map(|item| item[name].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
        };
        let owned = |names: BTreeSet<&str>| names.into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(names("/api/v1/jobs", "id").await, owned(jobs), "{release}");
        assert_eq!(names("/api/v1/nodes", "host").await, owned(hosts), "{release}");
        let shown = daemon.json("/api/v1/communicators?limit=1000").await;
        let hashes: BTreeSet<String> = shown["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["comm_hash"].as_str().unwrap().to_owned())
            .collect();
        let expected: BTreeSet<String> = communicators.iter().map(|(_, hash)| format!("{hash:#x}")).collect();
        assert_eq!(hashes, expected, "{release}");
        assert_eq!(issued(&daemon).await, last_issued(&batches), "{release}: bytes");
        daemon.stop().await;
    }
}

/// Bytes issued in all jobs, as the API says.
async fn issued(daemon: &Daemon) -> u64 {
    let jobs = daemon.json("/api/v1/jobs").await;
    jobs["items"].as_array().unwrap().iter().map(|job| job["issued_bytes"].as_u64().unwrap()).sum()
}

/// The same as the batches say: counters are states, so the last one of each counts.
fn last_issued(batches: &[Batch]) -> u64 {
    let mut last = std::collections::BTreeMap::new();
    for process in batches.iter().flat_map(|batch| &batch.processes) {
        for counters in &process.counters {
            last.insert((&process.key, counters.local_id, counters.primitive), counters.issued_bytes);
        }
    }
    last.values().sum()
}

/// A command line of `status`.
#[derive(clap::Parser)]
struct StatusLine {
    #[command(flatten)]
    args: StatusArgs,
}

async fn status_of(daemon: &Daemon) -> String {
    let line = StatusLine::parse_from(["status", "--daemon", daemon.url.as_str()]);
    let mut out = Vec::new();
    status::run(&line.args, &mut out).await.unwrap();
    String::from_utf8(out).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_batches_are_of_another_version_is_named_with_both() {
    let daemon = Daemon::ready("none").await;
    daemon.take(&HEALTHY.batch(1, 1, 3, START_NS)).await;
    let mut newer = HEALTHY.batch(0, 1, 3, START_NS);
    newer.format_version = FORMAT_VERSION + 1;
    let (sends, reads) = (newer.format_version, FORMAT_VERSION);
    let refused = problem(daemon.send(&newer).await, 422, &format!("version {sends}")).await;
    assert!(refused.detail.contains(&format!("reads version {reads}")), "{}", refused.detail);

    let words = format!(
        "its agent sends batches of version {sends} and this daemon reads version {reads}: upgrade the daemon"
    );
    let page = daemon.json("/api/v1/nodes/node-a").await;
    assert_eq!(page["standing"]["condition"], "unknown", "{page}");
    assert!(page["standing"].to_string().contains(&words), "{page}");
    let status = status_of(&daemon).await;
    assert!(status.contains("node-a") && status.contains(&words), "{status}");

    // The daemon was upgraded: the same batch as it reads it.
    daemon.take(&HEALTHY.batch(0, 1, 3, START_NS)).await;
    let page = daemon.json("/api/v1/nodes/node-a").await;
    assert!(!page.to_string().contains("sends batches of version"), "{page}");
    assert_eq!(daemon.json("/api/v1/jobs").await["items"][0]["n_processes"], 4, "all of them are known");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_whose_segments_are_of_another_version_is_named_with_its_agent() {
    for (reads, words) in [
        (6, "writes segments of version 7, the older agent of its host reads 6; install on that host"),
        (8, "writes segments of version 7, the agent of its host reads 8; restart the job"),
        // An agent of an older release does not say.
        (0, "writes segments of version 7, which the agent of its host does not read"),
    ] {
        let daemon = Daemon::ready("none").await;
        let mut batch = HEALTHY.batch(0, 1, 3, START_NS);
        batch.reads_segment_version = reads;
        let process = &mut batch.processes[0];
        (process.has_segment, process.segment_version) = (false, 7);
        process.counters.clear();
        daemon.take(&batch).await;
        let page = daemon.json("/api/v1/nodes/node-a").await;
        assert!(page.to_string().contains(words), "{page}");
        let status = status_of(&daemon).await;
        assert!(status.contains(words), "{words}: {status}");
        // What its log tells is shown as ever.
        let all = daemon.json("/api/v1/communicators").await;
        let one =
            daemon.json(&format!("/api/v1/communicators/{}", all["items"][0]["id"].as_str().unwrap())).await;
        assert!(one["ranks"].as_array().unwrap().iter().all(|rank| rank["final_channels"] == 4), "{one}");
        daemon.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_agent_is_told_nothing_that_it_would_misunderstand() {
    let daemon = Daemon::ready("none").await;
    let old = SMALL.batch(1, 1, 3, START_NS);
    daemon.take(&old).await;
    daemon.take(&todays()).await;
    let other = Job { name: "other", hosts: &["node-c", "node-d"], ..SMALL };
    daemon.take(&other.batch(0, 1, 3, START_NS)).await;
    for job in ["train", "other"] {
        let url = format!("{}/api/v1/jobs/{job}/level", daemon.url);
        let put =
            daemon.client.put(url).header("content-type", "application/json").body(r#"{"level":"steps"}"#);
        assert_eq!(put.send().await.unwrap().status(), 200);
    }

    let answer = daemon.send(&SMALL.batch(1, 2, 4, START_NS)).await.bytes().await.unwrap();
    for release in RELEASES {
        let reply = DynamicMessage::decode(message(&format_of(release), "IngestReply"), &*answer).unwrap();
        let wishes = reply.get_field_by_name("wishes").unwrap().as_list().unwrap().to_vec();
        let [wish] = &*wishes else { panic!("{release}: of its own job alone: {wishes:?}") };
        let wish = wish.as_message().unwrap();
        assert_eq!(wish.get_field_by_name("job").unwrap().as_str(), Some("train"));
        assert_eq!(wish.get_field_by_name("level").unwrap().as_enum_number(), Some(Level::Steps.into()));
        assert_eq!((reply.unknown_fields().count(), wish.unknown_fields().count()), (0, 0), "{release}");
    }
    let new = daemon.take(&Batch { seq_number: 2, ..todays() }).await;
    assert_eq!(new.wishes[0].user, Some(USER), "who knows users is told whose job it is");
    daemon.stop().await;
}
