//! What a launch has to do with the daemon: looks whether it is there and whether it knows a job of that name that runs, and hands
//! agents what they need to reach it. Nothing here holds up a job for long, or stops it for a daemon that is away.

use std::ffi::OsString;
use std::time::Duration;

use ringscope_api::clock;
use ringscope_api::terminal::without_passwords;
use ringscope_api::{Job, JobState};
use ringscope_tls::Trust;

use super::args::LaunchArgs;
use crate::client::Client;
use crate::config::token_source;

/// How long the daemon may take to answer before the job starts without its word.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);
/// A job that has just ended is told as ended within this time.
const SETTLES_WITHIN: Duration = Duration::from_secs(4);
/// Of one that runs something is heard within this time: agents send every five seconds at least.
const IS_HEARD_WITHIN: Duration = Duration::from_secs(7);
/// Between two questions.
const AGAIN: Duration = Duration::from_millis(500);

/// What the daemon says.
pub(super) enum Answer {
    /// Nothing is in the way.
    Clear,
    /// It does not answer, or not as a daemon does.
    Away(String),
    /// A job of that name runs.
    Runs(String),
}

/// Asks the daemon for jobs of this name, where `is_named` says that one would be in the way.
pub(super) async fn ask(args: &LaunchArgs, job: &str, is_named: bool) -> Answer {
    let Some(url) = args.daemon.first() else { return Answer::Clear };
    // Warns for all agents, which say nothing of it themselves.
    let token = token_source(args.token_file.as_deref(), &args.daemon);
    let client = match Client::trusting(&args.trust, url, token) {
        Ok(client) => client,
        Err(error) => return Answer::Away(error.to_string()),
    };
    let began = clock::monotonic();
    let mut first_heard = None;
    loop {
        let known = match tokio::time::timeout(ANSWERS_WITHIN, client.jobs()).await {
            Ok(Ok(jobs)) => jobs.into_iter().find(|known| known.id == job),
            Ok(Err(error)) => return Answer::Away(error.to_string()),
            Err(_) => {
                let url = without_passwords(url);
                return Answer::Away(format!("no answer from {url} within {} s", ANSWERS_WITHIN.as_secs()));
            }
        };
        let Some(known) = known.filter(|known| is_named && known.state == JobState::Running) else {
            return Answer::Clear;
        };
        let is_heard = known.last_seen > *first_heard.get_or_insert(known.last_seen);
        let asked_for = began.elapsed();
        if is_heard && asked_for >= SETTLES_WITHIN {
            return Answer::Runs(first(&known));
        }
        // Its hosts have died, which the daemon knows only after a while.
        if asked_for >= IS_HEARD_WITHIN {
            return Answer::Clear;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

fn first(job: &Job) -> String {
    format!(
        "a job of the name {:?} runs already on {}, as the daemon sees it, with {} processes since {}; give this one another name \
         with --job, or wait until that one has ended",
        job.id,
        job.hosts.join(", "),
        job.n_processes,
        ringscope_api::words::clock(job.first_seen),
    )
}

/// The options by which an agent trusts the daemon.
pub(super) fn trust_arguments(trust: &Trust) -> Vec<OsString> {
    let files = [("--ca", &trust.ca), ("--tls-cert", &trust.cert), ("--tls-key", &trust.key)];
    let given = files.into_iter().filter_map(|(option, file)| Some((option, file.as_ref()?)));
    given.flat_map(|(option, file)| [option.into(), file.clone().into_os_string()]).collect()
}

/// The token that agents show, read here: its file need not lie on the other hosts.
///
/// # Errors
/// The file of `--token-file` has none, and what to do. One that only the environment names stops no job.
pub(super) fn token(args: &LaunchArgs) -> Result<Option<String>, String> {
    let source = token_source(args.token_file.as_deref(), &[] as &[&str]);
    match source.map(|source| source.read()).transpose() {
        Err(error) if args.token_file.is_some() => Err(format!(
            "{error}; name another file with --token-file, or none where the daemon wants no token"
        )),
        read => Ok(read.ok().flatten()),
    }
}
