//! The command line: which command, and which exit status.
//!
//! Exit status: 0 good, 1 failed, 2 findings of severity warning or above, 3 not known and `--strict`, 64 wrong usage or configuration. `run` gives
//! that of its command, or 127 and 126 as shells and `env` do.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use ringscope_agent as agent;
use ringscope_agent::look_at::{self, LookArgs};
use ringscope_agent::starter::{self, StarterArgs};
use ringscope_api::terminal::{self, Clean, Lines};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing_subscriber::EnvFilter;

use crate::alert::{self, AlertArgs, AlertError};
use crate::collector::{self, CollectorArgs};
use crate::config::{AgentArgs, ServeArgs, ServeConfig, colour_is_wanted};
use crate::demo::worker::{self, WorkerArgs};
use crate::demo::{self, DemoArgs, DemoError};
use crate::doctor::{self, DoctorArgs};
use crate::drain::{self, DrainArgs, DrainError};
use crate::import::{self, ImportArgs};
use crate::incidents::{self, IncidentArgs, IncidentsArgs};
use crate::launch::node::rank::{self, RankArgs};
use crate::launch::node::{self, NodeArgs};
use crate::launch::{self, LaunchArgs};
use crate::level::{self, LevelArgs};
use crate::run::export::{self, EnvArgs};
use crate::run::relay::{self, RelayArgs};
use crate::run::{self, RunArgs, RunError};
use crate::serve;
use crate::status::{self, Outcome, StatusArgs};
use crate::sweep::{self, SweepArgs};
use crate::tokens::{self, AuditArgs, TokenArgs};
use crate::top::{self, TopArgs};

const FAILED: u8 = 1;
const FINDINGS: u8 = 2;
const UNKNOWN: u8 = 3;
const USAGE: u8 = 64;

/// See the rings, channels and bytes of collective communication, and the node that holds the others back.
#[derive(Debug, Parser)]
#[command(version, after_help = "Example: ringscope demo, then open http://127.0.0.1:9440")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon: page, API, /metrics, and the agent of this host
    Serve(Box<ServeArgs>),
    /// Run only the agent of this host, which sends to a daemon elsewhere
    Agent(AgentArgs),
    /// Start a command (a rank) so that ringscope sees it
    Run(RunArgs),
    /// Print the variables that `run` would set, for who starts commands himself
    Env(EnvArgs),
    /// Start all workers and summation servers of a job: on this machine, over ssh, in a Slurm allocation
    Launch(Box<LaunchArgs>),
    /// Say what ringscope will see of a command, or sees of a running process, and what to set
    Doctor(DoctorArgs),
    /// Show in the terminal what the daemon sees
    Status(StatusArgs),
    /// Watch in the terminal what the daemon sees
    Top(TopArgs),
    /// List what somebody has to look after
    Incidents(IncidentsArgs),
    /// Show an incident, look after it, silence it or write a note
    Incident(IncidentArgs),
    /// Try whether those who are to be told of incidents can be
    Alert(AlertArgs),
    /// Show or set how much is asked of the library in a running job
    Level(LevelArgs),
    /// Have hosts taken out of service that findings accuse, by a script of yours; by default only say which
    Drain(DrainArgs),
    /// Make, list and revoke the tokens with which people and agents come to a daemon
    Token(TokenArgs),
    /// Show who did what
    Audit(AuditArgs),
    /// Put the collector into a folder, for jobs that are not started through `run`
    Collector(CollectorArgs),
    /// Remove what ended processes have left on this host, where no agent does
    Sweep(SweepArgs),
    /// Judge the logs and dumps of a job that ran without ringscope
    Import(ImportArgs),
    /// Show ringscope at work on this machine alone
    Demo(DemoArgs),
    /// Copies the log lines that a user of `run` asked for
    #[command(hide = true)]
    LogRelay(RelayArgs),
    /// Looks once at what a process does
    #[command(hide = true)]
    LookAt(LookArgs),
    /// Starts programs for a confined agent
    #[command(hide = true)]
    AgentStarter(StarterArgs),
    /// One host's side of a launch
    #[command(hide = true)]
    LaunchNode(NodeArgs),
    /// One process of a launch, before it is the user's command
    #[command(hide = true)]
    LaunchRank(Box<RankArgs>),
    /// One rank of the demo's jobs
    #[command(hide = true)]
    DemoWorker(WorkerArgs),
}

/// The whole command line as data, for man pages, completions and tables of settings.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command that the arguments name.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let error = explained(error);
            let wrong = error.use_stderr();
            print(&error, wrong);
            return if wrong { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    tracing_subscriber::fmt()
        .with_env_filter(
            EnvFilter::builder().with_default_directive(tracing::Level::INFO.into()).from_env_lossy(),
        )
        // Who reads it may have gone away, which is no reason to stop.
        .log_internal_errors(false)
        .with_writer(|| Lines(io::stderr()))
        .with_ansi(io::stderr().is_terminal())
        .init();
    ExitCode::from(dispatch(cli.command))
}

fn dispatch(command: Command) -> u8 {
    match command {
        Command::Run(args) => not_started(&run::run(&args)),
        Command::Env(args) => exit_status(export::print(&args, &mut io::stdout().lock()), |_| FAILED),
        Command::Sweep(args) => exit_status(sweep::run(&args, &mut stdout()), |_| FAILED),
        Command::Launch(args) => launch::run(&args),
        Command::LaunchNode(args) => node::run(&args),
        Command::LaunchRank(args) => rank::run(&args).map_or(FAILED, |error| not_started(&error)),
        Command::LookAt(args) => exit_status(look_at::run(&args), |_| FAILED),
        Command::AgentStarter(args) => exit_status(starter::run(&args), |_| FAILED),
        Command::LogRelay(args) => exit_status(relay::run(&args), |_| FAILED),
        Command::Doctor(args) => match doctor::run(&args, &mut stdout()) {
            Ok(verdict) => verdict.exit_status(),
            Err(error) => fail(&error, FAILED),
        },
        Command::DemoWorker(args) => exit_status(worker::run(&args), |_| FAILED),
        Command::Serve(args) => match ServeConfig::from_args(&args) {
            Ok(config) => with_runtime(|stop| async move {
                let served = serve::serve(config, stop).await;
                exit_status(served, |_| FAILED)
            }),
            Err(error) => fail(&error, USAGE),
        },
        Command::Agent(args) => run_agent(args),
        Command::Status(args) => ask(async move {
            match status::run(&args, &mut stdout()).await {
                Ok(Outcome::Well) => 0,
                Ok(Outcome::Bad) => FINDINGS,
                Ok(Outcome::Unknown) => UNKNOWN,
                Err(error) => fail(&error, FAILED),
            }
        }),
        Command::Incidents(args) => {
            ask(async move { exit_status(incidents::list(&args, &mut stdout()).await, |_| FAILED) })
        }
        Command::Incident(args) => {
            ask(async move { exit_status(incidents::one(&args, &mut stdout()).await, |_| FAILED) })
        }
        Command::Top(args) => {
            with_runtime(|stop| async move { exit_status(top::run(&args, stop).await, |_| FAILED) })
        }
        Command::Alert(args) => ask(async move {
            exit_status(alert::run(args, &mut stdout()).await, |error| match error {
                AlertError::Config(_) | AlertError::NoTarget => USAGE,
                AlertError::Failed { .. } | AlertError::Tls(_) | AlertError::Io(_) => FAILED,
            })
        }),
        Command::Level(args) => {
            ask(async move { exit_status(level::run(&args, &mut stdout()).await, |_| FAILED) })
        }
        Command::Drain(args) => ask(async move {
            exit_status(drain::run(&args, &mut stdout()).await, |error| match error {
                DrainError::NoScript(_) => USAGE,
                _ => FAILED,
            })
        }),
        Command::Token(args) => {
            ask(async move { exit_status(tokens::token(&args, &mut stdout()).await, |_| FAILED) })
        }
        Command::Audit(args) => {
            ask(async move { exit_status(tokens::audit(&args, &mut stdout()).await, |_| FAILED) })
        }
        Command::Collector(args) => exit_status(collector::run(&args, &mut stdout()), |_| FAILED),
        Command::Import(args) => import(&args),
        Command::Demo(args) => with_runtime(|stop| async move {
            exit_status(demo::run(&args, stop).await, |error| match error {
                DemoError::Config(_) => USAGE,
                _ => FAILED,
            })
        }),
    }
}

/// This process did not become the user's command.
fn not_started(error: &RunError) -> u8 {
    fail(error, error.exit_status())
}

/// Confined while there is one thread: what is given up is given up by all that come.
fn run_agent(args: AgentArgs) -> u8 {
    let config = match args.into_config() {
        Ok(config) => config,
        Err(error) => return fail(&error, USAGE),
    };
    match agent::confine(config) {
        Ok(config) => {
            with_runtime(|stop| async move { exit_status(agent::run(config, stop).await, |_| FAILED) })
        }
        Err(error) => fail(&error, FAILED),
    }
}

/// Without a runtime while files are read, so that signals end it as they end any command.
fn import(args: &ImportArgs) -> u8 {
    let outcome = match import::run(args, &mut stdout()) {
        Ok(outcome) => outcome,
        Err(error) => return fail(&error, FAILED),
    };
    if !args.delivers() {
        return outcome.exit_status();
    }
    with_runtime(|stop| async move {
        match outcome.deliver(args, stop).await {
            Ok(()) => outcome.exit_status(),
            Err(error) => fail(&error, FAILED),
        }
    })
}

fn exit_status<E: std::fmt::Display>(result: Result<(), E>, status: impl Fn(&E) -> u8) -> u8 {
    match result {
        Ok(()) => 0,
        Err(error) => {
            let status = status(&error);
            fail(&error, status)
        }
    }
}

fn fail(error: &impl std::fmt::Display, status: u8) -> u8 {
    let error = format!("ringscope: {error}");
    // Nowhere is left to say that stderr is gone.
    let _ = writeln!(io::stderr(), "{}", terminal::clean(&terminal::without_passwords(&error)));
    status
}

/// Where a command prints what others wrote.
fn stdout() -> Clean<io::StdoutLock<'static>> {
    Clean::new(io::stdout().lock())
}

/// What is wrong with the arguments, in the words of the command that they are for.
fn explained(error: clap::Error) -> clap::Error {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    match words.split_first() {
        Some((first, words)) if first == "launch" => {
            let mut cli = command();
            cli.build();
            launch::explain(error, cli.find_subcommand("launch"), words)
        }
        _ => error,
    }
}

/// Prints help, or what is wrong with the arguments, which may hold an address with a password.
fn print(error: &clap::Error, wrong: bool) {
    let text = error.render();
    let has_colours = if wrong { io::stderr().is_terminal() } else { io::stdout().is_terminal() };
    let text = if has_colours && colour_is_wanted() { text.ansi().to_string() } else { text.to_string() };
    let text = terminal::without_passwords(&text);
    // Nowhere is left to say that the terminal is gone.
    let _ = if wrong {
        Clean::new(io::stderr()).write_all(text.as_bytes())
    } else {
        stdout().write_all(text.as_bytes())
    };
}

/// Runs a command that is asynchronous; it is told to stop by SIGTERM or SIGINT.
fn with_runtime<F: Future<Output = u8>>(command: impl FnOnce(CancellationToken) -> F) -> u8 {
    ask(async {
        let stop = CancellationToken::new();
        // Before anything else: until it is so, a signal ends the program as it stands.
        let signals = TaskTracker::new().spawn(cancel_on_signal(stop.clone(), signals()));
        let status = command(stop).await;
        signals.abort();
        status
    })
}

/// Runs a command that only asks and prints: signals end it as they end any program.
fn ask(command: impl Future<Output = u8>) -> u8 {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error, FAILED),
    };
    let status = runtime.block_on(command);
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    status
}

/// SIGTERM and SIGINT, from now on; `None` where the system does not let us have them.
fn signals() -> Option<(Signal, Signal)> {
    Some((signal(SignalKind::terminate()).ok()?, signal(SignalKind::interrupt()).ok()?))
}

async fn cancel_on_signal(stop: CancellationToken, signals: Option<(Signal, Signal)>) {
    let Some((mut terminate, mut interrupt)) = signals else { return };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    stop.cancel();
}
