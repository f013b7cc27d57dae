//! `ringscope import`, the command.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ringscope_api::clock;
use ringscope_api::terminal::{clean, cleaned};
use ringscope_api::{Import, Verdict};
use ringscope_tls::Trust;
use ringscope_wire::batch::Batch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::deliver;
use super::error::ImportError;
use super::show::{self, Style};
use crate::client::daemon_url;
use crate::config::token_source;
use ringscope_import::Gathered;
use ringscope_import::source::{Input, inputs};

/// Arguments of `ringscope import`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads logs of NCCL and RCCL (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV), the XML of \
NCCL_GRAPH_DUMP_FILE and NCCL_TOPO_DUMP_FILE, JSON lines of NCCL Inspector, JSON of ncclras, and dumps of PyTorch's \
Flight Recorder. What a file is, its content says; gzip and zstd are unpacked.

Examples:
  ringscope import job-1234.log
  ringscope import logs/ /tmp/nccl_trace_rank_* --serve
  kubectl logs job/train | ringscope import -

Exit status: 0 nothing wrong, 2 a finding of severity warning or above, 1 a file could not be read,
64 no file is one of these, or wrong usage"
)]
pub struct ImportArgs {
    /// Files of one job, in any mixture; a folder stands for the files in it, - for stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print everything as one JSON document instead
    #[arg(long)]
    json: bool,
    /// Show it on the page of a daemon that is started for it
    #[arg(long, conflicts_with = "daemon")]
    serve: bool,
    /// Address to listen on with --serve
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9440", requires = "serve")]
    listen: SocketAddr,
    /// Send it to this daemon, which then shows it beside what it has
    #[arg(long, value_name = "URL", value_parser = daemon_url)]
    daemon: Option<String>,
    #[command(flatten)]
    trust: Trust,
    /// With --daemon: file with a token of the role operate [default: $RINGSCOPE_TOKEN, else $RINGSCOPE_TOKEN_FILE]
    #[arg(long, value_name = "FILE", requires = "daemon")]
    token_file: Option<PathBuf>,
    /// With --serve: let whoever reaches the address of --listen see it
    #[arg(long, requires = "serve")]
    insecure_open: bool,
    /// Job under which it is known [default: name of the first file]
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
}

/// What an import came to.
pub struct Outcome {
    /// All that was found.
    pub import: Import,
    /// The same facts for a daemon.
    batches: Vec<Batch>,
}

/// Reads, judges and prints.
///
/// # Errors
/// [`ImportError::Write`]; what is wrong with files is in the outcome.
pub fn run(args: &ImportArgs, out: &mut impl Write) -> Result<Outcome, ImportError> {
    let now = clock::now();
    let (inputs, left_out) = inputs(&args.files);
    let mut gathered = Gathered::new();
    gathered.left_out = left_out;
    for input in &inputs {
        match input.open(now) {
            Ok((bytes, at, length)) => {
                let name = input.name();
                let mut progress = Progress::new(&name, length);
                gathered.read(&name, at, bytes, &mut |bytes| progress.show(bytes));
                progress.clear();
            }
            Err(error) => gathered.unopened(&input.name(), error),
        }
    }
    let job = args.job.clone().unwrap_or_else(|| job_name(&args.files, inputs.first()));
    let (import, batches) = gathered.judge(&job, &format!("import-{}", Uuid::new_v4()), now);
    // What it shows stood in files of anybody.
    let import = cleaned(&import).map_err(io::Error::from)?;
    match print(&import, args.json, out) {
        // Whoever reads has seen enough, as `head` does; the exit status still says how it went.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        printed => printed?,
    }
    Ok(Outcome { import, batches })
}

fn print(import: &Import, json: bool, out: &mut impl Write) -> io::Result<()> {
    if json {
        serde_json::to_writer_pretty(&mut *out, import)?;
        writeln!(out)?;
    } else {
        show::show(import, out, style())?;
    }
    out.flush()
}

impl ImportArgs {
    /// Whether the outcome goes to a daemon.
    #[must_use]
    pub fn delivers(&self) -> bool {
        self.serve || self.daemon.is_some()
    }
}

impl Outcome {
    /// Exit status that says it.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        let unread = self.import.files.iter().any(|file| file.problem.is_some());
        match self.import.verdict {
            Verdict::Findings => 2,
            _ if unread => 1,
            Verdict::NotOfThese => 64,
            Verdict::Healthy | Verdict::Unknown => 0,
        }
    }

    /// Takes it to the daemon that the arguments name; one of its own runs until `stop`.
    ///
    /// # Errors
    /// [`ImportError`].
    pub async fn deliver(&self, args: &ImportArgs, stop: CancellationToken) -> Result<(), ImportError> {
        match &args.daemon {
            Some(url) => {
                let token = token_source(args.token_file.as_deref(), &[url]);
                deliver::post(url, &args.trust, token, &self.batches).await
            }
            None => deliver::serve(args.listen, args.insecure_open, self.batches.clone(), stop).await,
        }
    }
}

/// As the terminal is; where there is none, as for a terminal of the usual width.
fn style() -> Style {
    let stdout = io::stdout();
    let columns = rustix::termios::tcgetwinsize(&stdout).map_or(COLUMNS, |size| usize::from(size.ws_col));
    Style { colours: stdout.is_terminal(), columns: columns.clamp(COLUMNS_MIN, COLUMNS_MAX) }
}

/// `job-1234` of `logs/job-1234.log.gz`.
fn job_name(paths: &[PathBuf], first: Option<&Input>) -> String {
    let named = match (paths, first) {
        // A folder is a job rather than the first of its files.
        ([folder], _) if folder.is_dir() => folder.canonicalize().ok(),
        (_, Some(Input::File(path))) => Some(path.clone()),
        _ => None,
    };
    let name =
        named.as_deref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
    let name = name.map(|name| {
        // What follows a dot in a folder's name is part of it, as in `2.27`.
        if paths.iter().any(|path| path.is_dir()) && paths.len() == 1 {
            return name;
        }
        let bare = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
        bare.rsplit_once('.').map_or(bare, |(stem, _)| stem).to_owned()
    });
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "stdin".to_owned())
}

/// One line on a terminal's stderr while a long file is read.
struct Progress<'n> {
    name: Cow<'n, str>,
    length: Option<u64>,
    next: std::time::Instant,
    shown: bool,
}

impl<'n> Progress<'n> {
    fn new(name: &'n str, length: Option<u64>) -> Self {
        Self { name: clean(name), length, next: clock::monotonic() + PROGRESS_AFTER, shown: false }
    }

    fn show(&mut self, bytes: u64) {
        let now = clock::monotonic();
        if now < self.next || !io::stderr().is_terminal() {
            return;
        }
        (self.next, self.shown) = (now + PROGRESS_EVERY, true);
        let of = self.length.map(|length| format!(" of {} MiB", length >> 20)).unwrap_or_default();
        // Nowhere is left to say that the terminal is gone.
        let _ = write!(io::stderr(), "\r\x1b[K{}: {} MiB{of}", self.name, bytes >> 20);
    }

    fn clear(&self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// Columns of a terminal that nobody has made wider.
const COLUMNS: usize = 80;
/// A terminal that gives its width as 0 does not know it.
const COLUMNS_MIN: usize = 60;
/// Longer lines are hard to read.
const COLUMNS_MAX: usize = 120;
/// What is read sooner needs no progress.
const PROGRESS_AFTER: Duration = Duration::from_millis(700);
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_named_after_its_folder_or_its_first_file() {
        let dir = std::env::temp_dir().join(format!("ringscope-o-dgx-h100-{}.27", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let folder = job_name(std::slice::from_ref(&dir), None);
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(folder, format!("ringscope-o-dgx-h100-{}.27", std::process::id()));
        let file = PathBuf::from("logs/job-1234.log.gz");
        assert_eq!(job_name(std::slice::from_ref(&file), Some(&Input::File(file.clone()))), "job-1234");
        assert_eq!(job_name(&[PathBuf::from("-")], None), "stdin");
    }
}
