//! The live path of a cell: an agent reads its folder into a daemon, which says what it does not see.

use ringscope_agent::{self as agent, AgentConfig, AgentError};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::common::daemon::Daemon;
use crate::common::{TempDir, eventually};
use crate::job::Job;

/// A cell that trains on, and its agent.
pub(crate) struct Live {
    job: Job,
    name: String,
    token: CancellationToken,
    agent: JoinSet<Result<(), AgentError>>,
    _state: TempDir,
}

impl Live {
    /// `name`: the job's, which no other cell has.
    pub(crate) fn new(daemon: &Daemon, job: Job, name: String) -> Self {
        let (state, token) = (TempDir::new("loading-agent"), CancellationToken::new());
        let mut config = AgentConfig::new(daemon.url.clone(), &state.0);
        config.dir.clone_from(&job.dir.0);
        let mut agent = JoinSet::new();
        agent.spawn(agent::run(config, token.clone()));
        Self { job, name, token, agent, _state: state }
    }

    /// What is lacking of each communicator, by the daemon's word, once plugin and log have told of all; empty where
    /// all is seen.
    pub(crate) async fn lacks(&self, daemon: &Daemon, n_communicators: usize, calls: bool) -> Vec<String> {
        let path = format!("/api/v1/communicators?job={}", self.name);
        let coverages = eventually("plugin and log tell of all ranks", async || {
            let found = daemon.json(&path).await;
            let all: Vec<Value> =
                found["items"].as_array()?.iter().map(|one| one["coverage"].clone()).collect();
            let is_told = |one: &Value| one["ranks"] == 2 && one["plugin"] == 2;
            // Two copies of the library in one process open one log file, and the second one cuts it.
            let is_logged = all.iter().any(|one| one["log"] == 2);
            (all.len() == n_communicators && all.iter().all(is_told) && is_logged).then_some(all)
        });
        let mut lacks = Vec::new();
        for coverage in coverages.await {
            let words: Vec<String> = serde_json::from_value(coverage["lacks"].clone()).unwrap();
            assert_eq!(coverage["calls"], if calls { 2 } else { 0 }, "{}: {coverage:#}", self.name);
            assert_eq!(coverage["state"] == "full", words.is_empty(), "{}: {coverage:#}", self.name);
            lacks.extend(words);
        }
        lacks
    }

    /// Lets the ranks end, and then the agent.
    pub(crate) async fn end(mut self) {
        self.job.end();
        self.token.cancel();
        self.agent.join_next().await.unwrap().unwrap().unwrap();
    }
}
