//! ringscope itself in the guests: a daemon and an agent on each, a job over RDMA that it watches, and what it says of connections, bytes,
//! lost packets, a port that goes down, a killed rank, memory that may not be locked, too few queue pairs, and memory taken back too early.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::programs::{self, LIMIT, Root};
use crate::clock::eventually;
use crate::http;
use crate::process::{cargo, run as run_command, say, target_dir};
use crate::rdma::image::Extras;
use crate::rdma::network::Link;
use crate::rdma::pair::{Guest, Pair};
use crate::rdma::shell::Running;
use crate::rig::report::Report;

const STAGE: &str = "seen";
const PORT: u16 = 9440;
/// For what an emulated processor has to tell, on a machine that may be busy, and a finding that needs several looks.
const PATIENCE: Duration = Duration::from_secs(300);
const N_RANKS: usize = 4;
const UNTIL_ERROR: &str = "until-error";
const KILL: u8 = 9;
/// A part of it is less than a message of the engine, so that each part is one message with one header.
const COUNT: usize = 20_000;
const ROUNDS: usize = 10;
/// Of each part, what it says about itself (`HEADER_BYTES` of the engine).
const HEADER_BYTES: u64 = 32;
const WATCHER: [&str; 4] =
    ["ringscope", "libringscope.so", "libringscope_preload.so", "libringscope_watcher.so"];

/// Everything of ours.
pub(super) fn prepare() -> Result<Extras> {
    programs::build()?;
    let mut build =
        cargo(["build", "-p", "ringscope", "-p", "ringscope-collector", "-p", "ringscope-preload"]);
    run_command(build.args(["-p", "ringscope-summation-watcher", "--locked"]))?;
    Ok(Extras { programs: vec!["/usr/bin/setpriv".into()], folders: Vec::new(), ports: vec![PORT] })
}

/// What watches; it ends with this.
struct Watch {
    address: String,
    _daemon: Running,
    _agents: Vec<Running>,
}

pub(super) fn run(pair: &Pair, report: &mut Report) -> Result<()> {
    let folder = programs::put(pair)?;
    for name in WATCHER {
        pair.guest(1).put(&target_dir().join("debug").join(name))?;
    }
    let watch = Watch::start(pair, folder)?;
    bytes(pair, report, folder, &watch)?;
    // As NCCL does it: a rank whose connection fails stays, and is seen.
    let job = Job::start(pair, folder, "loss", UNTIL_ERROR, ("", ""))?;
    job.wait_for("READY")?;
    let open = watch.connections(1, |one| one["state"] == "open" && one["remote"]["host"] == "g2")?;
    report.add(
        STAGE,
        "open connections of g1 to g2, each with both ends",
        "> 0",
        open.len(),
        !open.is_empty(),
    );
    loss(pair, report, &watch)?;
    port_down(pair, report, &watch)?;
    drop(job);
    killed(pair, report, folder, &watch)?;
    refused_memory(pair, report, folder, &watch)?;
    too_few_queue_pairs(pair, report, folder, &watch)?;
    stale_key(pair, report, folder, &watch)
}

/// Once the job stands still, all have counted the same.
fn bytes(pair: &Pair, report: &mut Report, folder: &str, watch: &Watch) -> Result<()> {
    let job = Job::start(pair, folder, "steps", &format!("idle {COUNT} {ROUNDS}"), ("", ""))?;
    job.wait_for("IDLE")?;
    let completed = |inter: &[Value]| inter.iter().all(|one| one["completed_calls"] == ROUNDS);
    let counted = eventually("the collector's bytes of all ranks", PATIENCE, || {
        let found = watch.items("/api/v1/communicators?limit=10")?;
        let Some(id) =
            found.iter().find_map(|one| (one["n_ranks_seen"] == N_RANKS).then(|| one["id"].clone()))
        else {
            return Ok(None);
        };
        let told =
            watch.json(&format!("/api/v1/communicators/{}/primitives", id.as_str().unwrap_or_default()))?;
        let ranks = told["ranks"].as_array().cloned().unwrap_or_default();
        let of_g1 = ranks.iter().filter(|rank| rank["host"] == "g1");
        let totals: Vec<Value> =
            of_g1.flat_map(|rank| rank["primitives"].as_array().cloned().unwrap_or_default()).collect();
        let inter: Option<u64> = totals.iter().map(|one| one["inter_bytes"].as_u64()).sum();
        Ok(inter.filter(|inter| completed(&totals) && *inter > 0))
    })?;
    let sum = |found: &[Value], what: &str| found.iter().filter_map(|one| one[what].as_u64()).sum::<u64>();
    let mut settled = 0;
    // An agent reads these less often.
    let _ = eventually("the plugin's bytes", PATIENCE, || {
        let sends = watch.connections(1, |one| one["is_send"] == true)?;
        settled = sum(&sends, "bytes") - HEADER_BYTES * sum(&sends, "completed_requests");
        Ok((settled == counted).then_some(()))
    });
    report.equal(STAGE, "bytes by the collector, and by the plugin less headers", counted, settled);
    watch.picture(pair, "connections", 1, 1440)?;
    watch.picture(pair, "connections", 1, 390)?;
    drop(job);
    Ok(())
}

/// Packets are lost on the way out of g2: that one is named.
fn loss(pair: &Pair, report: &mut Report, watch: &Watch) -> Result<()> {
    pair.guest(2).set_netem(Link::Rdma, "loss 3%")?;
    let told = watch.expect(report, "lost packets", "rdma_retransmits", "rxe0 of g2 sends again");
    pair.guest(2).clear_netem(Link::Rdma)?;
    told
}

/// The port of g2 goes down while data flow.
fn port_down(pair: &Pair, report: &mut Report, watch: &Watch) -> Result<()> {
    pair.guest(2).set_link(Link::Rdma, false)?;
    let told = watch.expect(report, "port down", "queue_pair_error", "rxe0 of g2 is down");
    watch.picture(pair, "port-down", 2, 1440)?;
    pair.guest(2).set_link(Link::Rdma, true)?;
    pair.guest(2).wait_for_port("ACTIVE")?;
    told
}

/// A rank in g2 ends while data flow.
fn killed(pair: &Pair, report: &mut Report, folder: &str, watch: &Watch) -> Result<()> {
    let mut job = Job::start(pair, folder, "killed", UNTIL_ERROR, ("", ""))?;
    job.wait_for("READY")?;
    job.ranks[N_RANKS - 1].signal(KILL)?;
    watch.expect(report, "killed rank", "rank_dead", "Rank 3 (g2")
}

/// The ranks in g2 may lock no memory, so that their connections cannot begin.
fn refused_memory(pair: &Pair, report: &mut Report, folder: &str, watch: &Watch) -> Result<()> {
    let _job = Job::start(pair, folder, "memory", UNTIL_ERROR, (programs::LITTLE_MEMORY, ""))?;
    watch.expect(report, "refused memory", "queue_pair_error", "ulimit -l")
}

/// The ranks in g2 get fewer queue pairs than they need.
fn too_few_queue_pairs(pair: &Pair, report: &mut Report, folder: &str, watch: &Watch) -> Result<()> {
    let _job = Job::start(pair, folder, "pairs", UNTIL_ERROR, (programs::FEW_QUEUE_PAIRS, ""))?;
    watch.expect(report, "too few queue pairs", "queue_pair_error", "queue pairs of a connection")
}

/// A rank in g2 takes memory back that it has let the other end write to.
fn stale_key(pair: &Pair, report: &mut Report, folder: &str, watch: &Watch) -> Result<()> {
    let _job = Job::start(pair, folder, "stale", UNTIL_ERROR, ("", &programs::stale(folder)))?;
    let names_it = |one: &Value| {
        let mut accused = one["accused"].as_array().into_iter().flatten();
        accused.any(|culprit| culprit["host"] == "g2") && one["message"].to_string().contains("rxe0 of g2")
    };
    watch.expect_that(report, "stale key", "queue_pair_error", "remote access error", names_it)
}

/// A job that is watched, two ranks in each guest; they end with it.
struct Job {
    ranks: Vec<Running>,
    _root: Root,
}

impl Job {
    /// Each rank runs `command` of the program `rank`; those in g2 behind `before`, words of a shell that take something away, and
    /// `within`, which changes their settings.
    fn start(
        pair: &Pair,
        folder: &str,
        name: &str,
        command: &str,
        (before, within): (&str, &str),
    ) -> Result<Self> {
        let (level, more) = match name {
            "steps" => ("steps", ""),
            // As NCCL does it: a rank whose connection fails stays, and is seen.
            _ => ("counters", "RSCCL_FAITHFUL=2.28"),
        };
        let settings = format!("RSCCL_NET=verbs RSCCL_TIMEOUT_S=30 {more}");
        let root = Root::start(pair, folder, &settings)?;
        let start = |rank: usize| {
            let guest = &pair.guests()[rank / 2];
            let is_odd = guest.number() == 2;
            let before = if is_odd && !before.is_empty() { before } else { "exec env" };
            let within = if is_odd { within } else { "" };
            let known = programs::over(guest, &format!("{settings} RANK={rank} WORLD_SIZE={N_RANKS}"));
            let watched = format!("{folder}/ringscope run --job {name} --level {level}");
            let id = &root.id;
            guest.spawn(&format!(
                "{before} {known} {within} {watched} -- {folder}/rank {rank} {N_RANKS} {id} {command}"
            ))
        };
        Ok(Self { ranks: (0..N_RANKS).map(start).collect::<Result<_>>()?, _root: root })
    }

    fn wait_for(&self, words: &str) -> Result<()> {
        self.ranks.iter().try_for_each(|rank| rank.wait_for(words, LIMIT))
    }
}

impl Watch {
    fn start(pair: &Pair, folder: &str) -> Result<Self> {
        let one = pair.guest(1);
        let daemon = one.spawn(&format!(
            "exec {folder}/ringscope serve --with-agent false --listen 0.0.0.0:{PORT} --insecure-open --data-dir /tmp/data"
        ))?;
        one.wait_for_listener(PORT)?;
        let at = format!("http://{}:{PORT}", Link::Tcp.address(1));
        let often = "--interval 250ms --hardware-interval 1s --state-dir /tmp/state";
        let agent =
            |guest: &Guest| guest.spawn(&format!("exec {folder}/ringscope agent --daemon {at} {often}"));
        let agents = pair.guests().iter().map(agent).collect::<Result<_>>()?;
        let watch = Self { address: one.address(PORT)?, _daemon: daemon, _agents: agents };
        eventually("both hosts are told of", PATIENCE, || {
            Ok(watch.items("/api/v1/nodes").ok().filter(|nodes| nodes.len() == 2))
        })?;
        Ok(watch)
    }

    fn json(&self, path: &str) -> Result<Value> {
        let body = http::get(&self.address, path, PATIENCE)?;
        serde_json::from_str(&body).with_context(|| format!("{path}: {body}"))
    }

    fn items(&self, path: &str) -> Result<Vec<Value>> {
        let told = self.json(path)?;
        told["items"].as_array().cloned().with_context(|| format!("{path}: no items: {told}"))
    }

    /// Connections of a guest, once there is one like that.
    fn connections(&self, guest: u8, wanted: impl Fn(&Value) -> bool) -> Result<Vec<Value>> {
        eventually(&format!("connections of g{guest}"), PATIENCE, || {
            let all = self.items(&format!("/api/v1/nodes/g{guest}/connections?limit=1000"))?;
            let found: Vec<Value> = all.into_iter().filter(|one| wanted(one)).collect();
            Ok((!found.is_empty()).then_some(found))
        })
    }

    /// Waits for a firing finding of this kind about g2 that says these words and accuses nobody elsewhere, and reports whether there
    /// is one: in all of these g2 is where the fault lies.
    fn expect(&self, report: &mut Report, what: &str, kind: &str, words: &str) -> Result<()> {
        let is_about_g2 = |one: &Value| {
            let mut accused = one["accused"].as_array().into_iter().flatten();
            one["host"] == "g2" && accused.all(|culprit| culprit["host"] == "g2")
        };
        self.expect_that(report, what, kind, words, is_about_g2)
    }

    /// The same of one for which `holds`.
    fn expect_that(
        &self,
        report: &mut Report,
        what: &str,
        kind: &str,
        words: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        let mut firing = Vec::new();
        let found = eventually(what, PATIENCE, || {
            firing = self.items("/api/v1/findings?state=firing&limit=100")?;
            let says = |one: &&Value| one["message"].as_str().is_some_and(|message| message.contains(words));
            let is_wanted = |one: &&Value| one["finding"] == kind && says(one) && holds(one);
            Ok(firing.iter().find(is_wanted).map(|one| one["message"].to_string()))
        });
        match &found {
            Ok(message) => say(&format!("{what}: {message}")),
            Err(error) => say(&format!("{what}: {error:#}; firing instead: {firing:#?}")),
        }
        report.equal(STAGE, format!("{what}: {kind} says \"{words}\""), true, found.is_ok());
        Ok(())
    }

    /// The page of a guest as a browser shows it, where there is one: into `target/rdma/pictures`.
    fn picture(&self, pair: &Pair, name: &str, guest: u8, width: u32) -> Result<()> {
        let folder = target_dir().join("rdma").join("pictures");
        std::fs::create_dir_all(&folder)?;
        http::get(&self.address, "/", PATIENCE).context("the page")?;
        let host = pair.guest(guest).name();
        let file = folder.join(format!("{name}-{host}-{width}.png"));
        let mut browser = Command::new("chromium");
        browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
        browser.args(["--virtual-time-budget=4000", &format!("--window-size={width},2400")]);
        browser.arg(format!("--screenshot={}", file.display()));
        browser.arg(format!("http://{}/#/hosts/{host}", self.address));
        let shown = browser.stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !shown.is_ok_and(|status| status.success()) {
            say("no picture: chromium is not there, or fails");
        }
        Ok(())
    }
}
