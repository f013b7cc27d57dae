//! Members of summation groups killed under ringscope: what the engine's own test asks of the others, and that the daemon names
//! the dead one. It needs what `cargo build -p ringscope-engine -p ringscope-collector -p ringscope-summation-watcher` builds.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod common;
#[path = "../../engine/tests/common/mod.rs"]
mod engine;

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use common::stage::{Process, RINGSCOPE, Stage};
use engine::deaths::{Death, Onlooker, kill_members};
use engine::process::now;
use engine::sum::sum_program;
use serde_json::Value;

/// The daemon names the dead one so soon after the death, on a machine that does other work besides; how often it takes more
/// than a second is printed.
const NAME_WAIT: Duration = Duration::from_secs(60);
/// Between two questions, which are computed anew whenever the daemon has heard something.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A daemon and an agent, as processes, and what REST says.
struct Ringscope {
    stage: Stage,
    client: reqwest::Client,
    runtime: tokio::runtime::Runtime,
    _processes: [Process; 2],
}

impl Ringscope {
    fn start() -> Self {
        let stage = Stage::new("summation-chaos");
        let (daemon, client) = (stage.serve(false), reqwest::Client::new());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ready = format!("{}/readyz", stage.url());
        runtime.block_on(common::until("the daemon ready", async || {
            client.get(&ready).send().await.is_ok_and(|answer| answer.status().is_success())
        }));
        let agent = stage.agent();
        Self { stage, client, runtime, _processes: [daemon, agent] }
    }

    fn get(&self, path: &str) -> Value {
        let url = format!("{}/api/v1/{path}", self.stage.url());
        let text = self.runtime.block_on(async { self.client.get(&url).send().await?.text().await });
        serde_json::from_str(&text.unwrap()).unwrap()
    }

    /// The `items` of a route that lists.
    fn items(&self, path: &str) -> Vec<Value> {
        let answer = self.get(path);
        answer["items"].as_array().unwrap_or_else(|| panic!("{path}: {answer}")).clone()
    }

    /// All that the daemon knows of the groups of a job.
    fn known(&self, group: u64) -> Vec<Value> {
        let groups = self.items(&format!("summation/groups?job={}", job(group)));
        let ids = groups.iter().filter_map(|group| group["id"].as_str());
        ids.map(|id| self.get(&format!("summation/groups/{id}"))).collect()
    }

    /// What is said of members that were lost, in all jobs or in one: `of` begins with `&`.
    fn losses(&self, of: &str) -> Vec<Value> {
        let kinds =
            ["sum_server_lost", "rank_dead"].map(|kind| format!("findings?kind={kind}&limit=1000{of}"));
        let all = kinds.iter().flat_map(|path| self.items(path));
        all.filter(|finding| !finding["group"].is_null()).collect()
    }
}

impl Onlooker for Ringscope {
    fn dress(&self, group: u64, command: Command) -> Command {
        let mut dressed = Command::new(RINGSCOPE);
        dressed.args(["run", "--job", &job(group), "--dir"]).arg(&*self.stage.segment_dir);
        dressed.arg("--cache-dir").arg(self.stage.dir.join("libraries"));
        dressed.arg("--").arg(command.get_program()).args(command.get_args());
        dressed.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        dressed
    }

    fn names(&self, death: Death, case: &str) -> Instant {
        let cause = if death.is_server { "server_lost" } else { "worker_lost" };
        loop {
            let losses = self.losses(&format!("&job={}", job(death.group)));
            let when = now();
            for loss in &losses {
                let named = (&loss["rank"], &loss["cause"]);
                assert_eq!(named, (&death.rank.into(), &cause.into()), "{case}: {loss:#}");
            }
            if !losses.is_empty() {
                return when;
            }
            let waited = when.saturating_duration_since(death.at);
            let known = || self.known(death.group);
            assert!(waited < NAME_WAIT, "{case}: not named; {:#?}\n{}", known(), self.stage.words());
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

fn job(group: u64) -> String {
    format!("chaos-{group}")
}

#[test]
fn who_is_killed_is_named_by_survivors_and_by_the_daemon() {
    let ringscope = Ringscope::start();
    kill_members(&sum_program("sum-chaos-watched"), Some(&ringscope));
    // What each group's death made known is asserted there; nobody else is named in any.
    let losses = ringscope.losses("");
    let jobs: BTreeSet<&str> = losses.iter().map(|loss| loss["job"].as_str().unwrap()).collect();
    assert_eq!(jobs.len(), losses.len(), "{losses:#?}");
}
