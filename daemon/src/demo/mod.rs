//! `ringscope demo`: a daemon, and two jobs of real processes on pretended hosts, one of which degrades and heals.
//!
//! Nothing here is told to the daemon: what it shows, it has found out from the ranks' segments and logs.

pub mod host;
pub mod job;
pub mod nccl;
pub mod report;
pub mod worker;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs::Permissions;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host::PretendedHost;
use job::{Installation, Job, JobSpec};
use report::{Phase, Report};
use ringscope_api::clock::{self, Timestamp};
use ringscope_api::{Finding, FindingKind};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::client::{Client, ClientError};
use crate::config::{AccessArgs, ConfigError, ServeArgs, ServeConfig, is_local};
use crate::embedded::{self, Library, LibraryError};
use crate::serve::{ServeError, Server};

/// Id of the job that degrades and heals.
pub const TRAINING_JOB: &str = "demo-training";
/// Id of the job whose `RSCCL_MIN_NCHANNELS` asks for more channels than its search finds.
pub const MIN_CHANNELS_JOB: &str = "demo-min-channels";
/// Pretended hosts: four of the first job, two of the second.
const HOSTS: usize = 6;

/// How often the pretended hosts' NICs are read: short, as the phases are.
const HARDWARE_INTERVAL: Duration = Duration::from_secs(1);
/// Healthy, degraded, healed: how long each is when the demo goes on and on. The NIC goes down every six minutes: twice at
/// most within the ten minutes in which three times is a link that flaps.
const PHASES: [Duration; 3] = [Duration::from_secs(60), Duration::from_secs(120), Duration::from_secs(180)];
/// The phase in which host-2 lacks a NIC.
const DEGRADED: &str = "degraded";
/// For how much longer a phase goes on while the daemon does not show it.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);

/// Arguments of `ringscope demo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringscope demo                          until Ctrl-C; the page is at http://127.0.0.1:9440
  ringscope demo --seconds 12 --json      once through all phases, the report on stdout")]
pub struct DemoArgs {
    /// Go once through all phases in this many seconds, then stop. Default: over and over until Ctrl-C
    #[arg(long, value_parser = clap::value_parser!(u64).range(8..))]
    seconds: Option<u64>,
    /// Let host-2 degrade after a few seconds and stay so until Ctrl-C
    #[arg(long, conflicts_with = "seconds")]
    stay_degraded: bool,
    /// Print one JSON report to stdout at the end (needs --seconds)
    #[arg(long, requires = "seconds")]
    json: bool,
    /// No host ever degrades; the training job only re-forms its communicators now and then
    #[arg(long, conflicts_with = "stay_degraded")]
    healthy: bool,
    /// Address of the page, the API and /metrics
    #[arg(long, default_value = "127.0.0.1:9440")]
    listen: SocketAddr,
    /// Let whoever reaches the address of --listen in, who then sees all jobs of the demo and may set levels
    #[arg(long)]
    insecure_open: bool,
    /// The version of NCCL that the ranks' library behaves as: 2.27, 2.28, 2.30, 2.32, or off
    #[arg(long, value_name = "VERSION", default_value = "2.28", env = "RSCCL_FAITHFUL")]
    faithful: String,
    /// Keep the data here instead of in a fresh SQLite file, e.g. postgres://user@host/db
    #[arg(long)]
    database_url: Option<String>,
    /// Work in this folder and leave it behind, instead of a temporary one
    #[arg(long)]
    work_dir: Option<PathBuf>,
}

/// Why the demo stopped.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// A library is missing.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The daemon cannot be configured so.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The daemon did not start or stopped.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Others would be let in.
    #[error(
        "{0} can be reached from other machines, and the demo asks nobody who they are: to let in whoever reaches that \
         address, who then sees all jobs and may set levels, say --insecure-open. On 127.0.0.1 nothing is needed"
    )]
    Open(SocketAddr),
    /// The daemon's API did not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A file or a process of the demo.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A rank failed.
    #[error("{0}")]
    Job(String),
    /// The daemon never showed what the ranks did.
    #[error("after {waited_s} s the daemon still does not show {what}")]
    NotShown {
        /// What was waited for.
        what: &'static str,
        /// How long.
        waited_s: u64,
    },
}

/// Runs the demo until it is over or `shutdown` is cancelled.
///
/// # Errors
/// [`DemoError`], which says what was wrong.
pub async fn run(args: &DemoArgs, shutdown: CancellationToken) -> Result<(), DemoError> {
    if !args.insecure_open && !is_local(args.listen) {
        return Err(DemoError::Open(args.listen));
    }
    let folder = Folder::open(args.work_dir.as_deref())?;
    let installation = folder.installation(&args.faithful)?;
    let hosts = folder.hosts()?;
    let config = ServeConfig {
        agent_hardware_interval: HARDWARE_INTERVAL,
        pretended_hosts: hosts.iter().map(|host| (host.name.clone(), host.sysfs.clone())).collect(),
        ..ServeConfig::from_args(&serve_args(args, &folder))?
    };
    let server = Server::bind(config).await?;
    let url = format!("http://{}", server.local_addr());
    let server_stop = CancellationToken::new();
    let serving = TaskTracker::new().spawn(server.run(server_stop.clone()));
    say(&format!("the page is at {url}"));

    let result = tokio::select! {
        result = play(args, &folder, hosts, &installation, &url) => result,
        () = shutdown.cancelled() => Ok(None),
    };
    server_stop.cancel();
    let served = serving.await.map_err(|error| DemoError::Job(error.to_string()))?;
    if let Some(report) = result? {
        print_report(&report, args.json)?;
    }
    Ok(served?)
}

/// Both jobs, through the phases.
async fn play(
    args: &DemoArgs,
    folder: &Folder,
    hosts: Vec<PretendedHost>,
    installation: &Installation,
    url: &str,
) -> Result<Option<Report>, DemoError> {
    let client = Client::new(url);
    let mut stage = Stage::set(folder, hosts, installation, args.seconds)?;
    say(&format!("{TRAINING_JOB}: 8 ranks on 4 hosts; {MIN_CHANNELS_JOB}: 2 ranks on 2 hosts"));
    let phases = async |stage: &mut Stage, durations| match args.healthy {
        true => stage.healthy_phases(&client, durations).await,
        false => stage.phases(&client, durations).await,
    };
    let Some(seconds) = args.seconds else {
        if args.stay_degraded {
            match stage.stay_degraded(&client).await? {}
        }
        loop {
            phases(&mut stage, PHASES).await?;
        }
    };
    // The rest of the time is for the start, for stopping the jobs and for collecting the report.
    let phases = phases(&mut stage, [Duration::from_millis(seconds * 1000 * 28 / 100); 3]).await?;
    stage.stop().await?;
    settle(&client).await?;
    Ok(Some(report::collect(&client, phases).await?))
}

/// The hosts and jobs of the demo.
struct Stage {
    hosts: Vec<PretendedHost>,
    training: Job,
    min_channels: Job,
    epoch: i32,
}

impl Stage {
    fn set(
        folder: &Folder,
        hosts: Vec<PretendedHost>,
        installation: &Installation,
        seconds: Option<u64>,
    ) -> Result<Self, DemoError> {
        // The page draws rings: let all bytes go along them.
        let ring = ("RSCCL_ALGO", "ring".to_owned());
        let training = JobSpec {
            name: TRAINING_JOB.to_owned(),
            hosts: hosts[..4].to_vec(),
            ranks_per_host: 2,
            environment: vec![ring.clone()],
            step_ms: if seconds.is_some() { 20 } else { 150 },
        };
        let min_channels = JobSpec {
            name: MIN_CHANNELS_JOB.to_owned(),
            hosts: hosts[4..].to_vec(),
            ranks_per_host: 1,
            environment: vec![ring, ("RSCCL_MIN_NCHANNELS", "8".to_owned())],
            step_ms: training.step_ms * 2,
        };
        let start = |spec: &JobSpec| {
            Job::start(spec, installation, &folder.path.join("jobs")).map_err(io_error("starting the ranks"))
        };
        Ok(Self { training: start(&training)?, min_channels: start(&min_channels)?, hosts, epoch: 0 })
    }

    /// Healthy, degraded, healed.
    async fn phases(&mut self, client: &Client, durations: [Duration; 3]) -> Result<Vec<Phase>, DemoError> {
        let mut phases = vec![self.phase(client, "healthy", durations[0]).await?];
        self.degrade()?;
        phases.push(self.phase(client, DEGRADED, durations[1]).await?);
        self.set_nic("host-2: nic1 is up again; the job re-forms its communicators", true)?;
        phases.push(self.phase(client, "healed", durations[2]).await?);
        Ok(phases)
    }

    /// Healthy for long enough that the loss of channels can be told from never having had them, then degraded.
    async fn stay_degraded(&mut self, client: &Client) -> Result<Infallible, DemoError> {
        self.phase(client, "healthy", Duration::from_secs(4)).await?;
        self.degrade()?;
        loop {
            self.phase(client, DEGRADED, Duration::from_secs(60)).await?;
        }
    }

    /// Healthy throughout: three phases, each with communicators of its own.
    async fn healthy_phases(
        &mut self,
        client: &Client,
        durations: [Duration; 3],
    ) -> Result<Vec<Phase>, DemoError> {
        let mut phases = vec![self.phase(client, "healthy", durations[0]).await?];
        for duration in &durations[1..] {
            self.re_form()?;
            phases.push(self.phase(client, "healthy", *duration).await?);
        }
        Ok(phases)
    }

    /// Lasts for `duration`, and on a busy machine for longer, until the daemon shows what the phase is about. A busy
    /// daemon may leave a request unanswered: the last one counts.
    async fn phase(&mut self, client: &Client, name: &str, duration: Duration) -> Result<Phase, DemoError> {
        let (started, clock) = (clock::now(), clock::monotonic());
        say(&format!("phase {name}, {} s", duration.as_secs_f64()));
        let mut firing = Vec::new();
        let mut said = String::new();
        let mut is_shown = false;
        let mut failure = None;
        while clock.elapsed() < duration || !is_shown && clock.elapsed() < duration + SHOWN_WITHIN {
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.training.check().and(self.min_channels.check()).map_err(DemoError::Job)?;
            let (is_at_work, now_firing) = match look(client, started).await {
                Ok(seen) => seen,
                Err(error) => {
                    failure = Some(error);
                    continue;
                }
            };
            firing = now_firing;
            is_shown = is_at_work && shows(name, &firing);
            failure = None;
            // Several communicators of the job say the same of one host.
            let words: BTreeSet<&str> = firing.iter().map(|finding| finding.message.as_str()).collect();
            let words = words.into_iter().collect::<Vec<_>>().join("; ");
            if words != said {
                say(if words.is_empty() { "all hosts healthy" } else { &words });
                said = words;
            }
        }
        match failure {
            Some(error) => Err(error.into()),
            None => Ok(Phase { phase: name.to_owned(), started, ended: clock::now(), firing }),
        }
    }

    fn degrade(&mut self) -> Result<(), DemoError> {
        self.set_nic("host-2: nic1 goes down; the job re-forms its communicators", false)
    }

    fn set_nic(&mut self, words: &str, up: bool) -> Result<(), DemoError> {
        self.hosts[2].set_nic(1, up).map_err(io_error("setting the NIC of host-2"))?;
        self.re_form()?;
        say(words);
        Ok(())
    }

    fn re_form(&mut self) -> Result<(), DemoError> {
        self.epoch += 1;
        self.training.enter_epoch(self.epoch).map_err(io_error("telling the job to re-form"))
    }

    async fn stop(&mut self) -> Result<(), DemoError> {
        say("the jobs finish");
        for job in [&mut self.training, &mut self.min_channels] {
            job.stop(Duration::from_secs(30)).await.map_err(DemoError::Job)?;
        }
        Ok(())
    }
}

/// Whether the training job's newest communicators have moved data since then, and what fires.
async fn look(client: &Client, since: Timestamp) -> Result<(bool, Vec<Finding>), ClientError> {
    let communicators = client.communicators().await?;
    let mut of_job = communicators.iter().filter(|one| one.job == TRAINING_JOB && one.created >= since);
    Ok((of_job.any(|one| one.completed_bytes > 0), report::firing(client).await?))
}

/// Whether what fires is what a phase is about.
fn shows(phase: &str, firing: &[Finding]) -> bool {
    let fires = |kind| firing.iter().any(|finding| finding.finding == kind);
    match phase {
        DEGRADED => fires(FindingKind::NicDegraded) && fires(FindingKind::ChannelShortfall),
        _ => firing.is_empty(),
    }
}

/// Waits until the daemon has heard the end of every process.
async fn settle(client: &Client) -> Result<(), DemoError> {
    let clock = clock::monotonic();
    let patience = SHOWN_WITHIN;
    loop {
        let over = |job: &ringscope_api::Job| {
            job.state == ringscope_api::JobState::Ended && job.issued_bytes == job.completed_bytes
        };
        let jobs = client.jobs().await;
        if jobs.as_ref().is_ok_and(|jobs| !jobs.is_empty() && jobs.iter().all(over)) {
            return Ok(());
        }
        if clock.elapsed() > patience {
            jobs?;
            return Err(DemoError::NotShown { what: "the end of every job", waited_s: patience.as_secs() });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Where the demo keeps its files; removed with it unless the user named it. Segments lie in memory alone, and the library's
/// logs beside them: of a folder that the user named they are kept in `logs`.
struct Folder {
    path: PathBuf,
    segments: TempDir,
    /// The folder itself, if the user named none.
    temporary: Option<TempDir>,
}

impl Folder {
    fn open(work_dir: Option<&Path>) -> Result<Self, DemoError> {
        // Of names that nobody can have taken before.
        let prefix = format!("ringscope-demo-{}-", std::process::id());
        let make = |parent: &Path| {
            let mut folder = tempfile::Builder::new();
            let made = folder.prefix(&prefix).permissions(Permissions::from_mode(0o700)).tempdir_in(parent);
            made.map_err(io_error(&format!("making a folder in {}", parent.display())))
        };
        let temporary = if work_dir.is_none() { Some(make(&std::env::temp_dir())?) } else { None };
        let path = temporary.as_ref().map(TempDir::path).or(work_dir).unwrap_or(Path::new("."));
        std::fs::create_dir_all(path).map_err(io_error(&format!("making {}", path.display())))?;
        let path = path.canonicalize().map_err(io_error("finding the work folder"))?;
        Ok(Self { path, segments: make(Path::new("/dev/shm"))?, temporary })
    }

    fn hosts(&self) -> Result<Vec<PretendedHost>, DemoError> {
        (0..HOSTS)
            .map(|index| PretendedHost::create(&self.path.join("hosts"), index))
            .collect::<io::Result<_>>()
            .map_err(io_error("making the pretended hosts"))
    }

    fn installation(&self, faithful: &str) -> Result<Installation, DemoError> {
        let cache_dir = self.path.join("libraries");
        Ok(Installation {
            faithful: faithful.to_owned(),
            ringscope: std::env::current_exe().map_err(io_error("finding the ringscope executable"))?,
            engine: embedded::path_of(Library::Engine, &cache_dir)?,
            segment_dir: self.segments.path().to_owned(),
            cache_dir,
        })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Best effort: what is left is in the system's temporary folders.
        if self.temporary.is_none() {
            let _ = keep_logs(self.segments.path(), &self.path.join("logs"));
        }
    }
}

fn keep_logs(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let path = entry.path();
        // A link leads elsewhere, and a pipe never ends.
        if path.extension().is_some_and(|end| end == "log") && entry.file_type()?.is_file() {
            std::fs::copy(&path, to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

fn serve_args(args: &DemoArgs, folder: &Folder) -> ServeArgs {
    ServeArgs {
        listen: Some(args.listen.to_string()),
        // What it shows is made up.
        access: AccessArgs { insecure_open: Some("true".to_owned()), ..AccessArgs::default() },
        database_url: args.database_url.clone(),
        data_dir: Some(folder.path.join("data").display().to_string()),
        agent_dir: Some(folder.segments.path().display().to_string()),
        ..ServeArgs::default()
    }
}

fn print_report(report: &Report, json: bool) -> Result<(), DemoError> {
    if json {
        let mut stdout = io::stdout().lock();
        serde_json::to_writer(&mut stdout, report)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(stdout))
            .map_err(io_error("writing the report"))?;
    }
    let findings = report.findings.len();
    say(&format!("{} communicators seen, {findings} findings, all phases done", report.communicators.len()));
    Ok(())
}

/// One line of progress, on stderr: stdout belongs to the report.
fn say(words: &str) {
    // A closed stderr must not end the demo.
    let _ = writeln!(io::stderr(), "demo: {words}");
}

fn io_error(what: &str) -> impl Fn(io::Error) -> DemoError {
    move |source| DemoError::Io { what: what.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_kept_as_logs() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(from.path().join("rank.log"), "x").unwrap();
        std::fs::write(from.path().join("rank.seg"), "x").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", from.path().join("link.log")).unwrap();
        let (pipe, mode) = (from.path().join("pipe.log"), rustix::fs::Mode::RUSR);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        keep_logs(from.path(), to.path()).unwrap();
        let kept: Vec<_> =
            std::fs::read_dir(to.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(kept, ["rank.log"]);
    }

    #[test]
    fn its_folders_are_its_own() {
        let work = tempfile::tempdir().unwrap();
        let folder = Folder::open(Some(work.path())).unwrap();
        let segments = folder.segments.path().to_owned();
        let mode = segments.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let predictable = format!("/dev/shm/ringscope-demo-{}", std::process::id());
        assert_ne!(segments, Path::new(&predictable));
        drop(folder);
        assert!(!segments.exists() && work.path().join("logs").is_dir());
    }
}
