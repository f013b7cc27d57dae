//! The beginning of a launch: what may stop it before anything is started, and the two sides that it may become.

use std::io::{self, Write as _};
use std::time::Duration;

use ringscope_api::signal;
use tokio_util::task::TaskTracker;

use super::args::LaunchArgs;
use super::claim::{Claim, ClaimError};
use super::daemon::{self, Answer};
use super::inherited::Inherited;
use super::job::Job;
use super::node::NodeArgs;
use super::say::Say;
use super::settings::Settings;
use super::signals::Signals;
use super::{dry_run, meet};

const FAILED: u8 = 1;
const USAGE: u8 = 64;
/// How long the last words may take to be written.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Launches a job; the exit status.
pub fn run(args: &LaunchArgs) -> u8 {
    let inherited = Inherited::take_over();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = writeln!(io::stderr(), "ringscope: cannot begin: {error}");
            return FAILED;
        }
    };
    let status = runtime.block_on(begin(args.clone(), inherited));
    // What writes to who does not read may never end.
    runtime.shutdown_timeout(Duration::from_millis(500));
    status
}

async fn begin(args: LaunchArgs, inherited: Inherited) -> u8 {
    let (Ok(say), Some(signals)) = (Say::start(), Signals::heeded()) else { return FAILED };
    let status = launch((args, inherited), &say, signals).await;
    say.finish(LAST_WORDS).await;
    status
}

/// The next signal that is to end the launch.
async fn ended_by(signals: &mut Signals) -> i32 {
    loop {
        let signal = signals.next().await;
        if signal != libc::SIGCHLD {
            return signal;
        }
    }
}

async fn launch((args, inherited): (LaunchArgs, Inherited), say: &Say, mut signals: Signals) -> u8 {
    // Files that it names may lie on a disk that does not answer.
    let reading = TaskTracker::new().spawn(Settings::new(args, inherited));
    let settings = tokio::select! {
        settings = reading => settings.unwrap_or_else(|error| Err(error.to_string())),
        signal = ended_by(&mut signals) => {
            say.note(&format!("ended by {} before anything was started", signal::name(signal)));
            return u8::try_from(128 + signal).unwrap_or(FAILED);
        }
    };
    let settings = match settings {
        Ok(settings) => settings,
        Err(error) => {
            say.note(&error);
            return USAGE;
        }
    };
    if settings.args.dry_run {
        return print(&dry_run::text(&settings));
    }
    if let (Some(node), Some(meeting)) =
        (settings.args.node.filter(|node| node.index > 0), settings.args.meet.as_ref())
    {
        let own = NodeArgs::inside_of(&settings.ways, settings.own());
        return meet::serve(node, meeting, &settings.secret, (&own, &settings.ways), say, &mut signals).await;
    }
    if let Err(error) = settings.fits() {
        say.note(&error);
        say.note("nothing was started");
        return FAILED;
    }
    let launch = uuid::Uuid::new_v4().simple().to_string();
    let claim = match Claim::take(&settings.job, &launch) {
        Ok(claim) => Some(claim),
        Err(error @ ClaimError::Io { .. }) => {
            say.note(&error.to_string());
            None
        }
        Err(error) => {
            say.note(&error.to_string());
            return FAILED;
        }
    };
    match daemon::ask(&settings.args, &settings.job, settings.is_named()).await {
        Answer::Clear => {}
        Answer::Away(why) => say.note(&format!(
            "the daemon does not say whether a job of this name runs ({why}); this one is started all the same"
        )),
        Answer::Runs(first) => {
            say.note(&first);
            return FAILED;
        }
    }
    let status = match Job::new(settings, launch, say.clone(), signals) {
        Ok(job) => job.run().await,
        Err(error) => {
            say.note(&error);
            FAILED
        }
    };
    drop(claim);
    status
}

fn print(text: &str) -> u8 {
    let mut out = ringscope_api::terminal::Clean::new(io::stdout().lock());
    u8::from(out.write_all(text.as_bytes()).is_err())
}
