//! The process that starts programs for a confined agent: `ringscope agent-starter`. It reads nothing but the agent's requests
//! and has no rights but to look; it ends with the agent, and so do its programs.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

use super::line::{self, Answer, Request, What};
use super::wanted::{Paths, Wanted};
use crate::procfs;
use crate::sandbox::{Role, deny_calls};

/// Name of the command.
pub(super) const NAME: &str = "agent-starter";
/// Programs at once: an agent needs one look, those that hang, and the journal.
const MAX_PROGRAMS: usize = 8;
/// Longest life of a look. The agent has given it up earlier.
const LIMIT: Duration = Duration::from_secs(6);
/// How often it is looked whether a program has ended.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// Arguments of `ringscope agent-starter`.
#[derive(Debug, clap::Args)]
pub struct StarterArgs {
    #[command(flatten)]
    paths: Paths,
}

/// Serves the agent at the other end of standard input until that is closed.
///
/// # Errors
/// The agent cannot be heard or answered.
pub fn run(args: &StarterArgs) -> io::Result<()> {
    // That it cannot be, the agent says of itself.
    let _ = deny_calls(Role::Starter);
    let stdin = io::stdin();
    let agent = stdin.as_fd();
    let mut programs = Running::default();
    let served = serve(agent, &args.paths, &mut programs);
    programs.end(|_| true);
    match served {
        // The agent was killed while it was answered.
        Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
            Ok(())
        }
        served => served,
    }
}

fn serve(agent: BorrowedFd<'_>, paths: &Paths, programs: &mut Running) -> io::Result<()> {
    loop {
        let mut ready = [PollFd::from_borrowed_fd(agent, PollFlags::IN)];
        let timeout = Some(&PATIENCE).filter(|_| !programs.0.is_empty());
        match poll(&mut ready, timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let now = ringscope_api::clock::monotonic();
        programs.reap();
        programs.end(|program| {
            let is_look = matches!(program.wanted, Wanted::Look { .. });
            is_look && now.saturating_duration_since(program.started) >= LIMIT
        });
        if ready[0].revents().is_empty() {
            continue;
        }
        let Some((request, _)) = line::receive::<Request>(agent)? else { return Ok(()) };
        let (answer, output) = programs.answer(request, paths, now);
        line::send(agent, &answer, output.as_ref().map(|output| output.as_fd()))?;
    }
}

struct Program {
    wanted: Wanted,
    child: Child,
    started: Instant,
}

#[derive(Default)]
struct Running(Vec<Program>);

impl Running {
    fn answer(&mut self, request: Request, paths: &Paths, now: Instant) -> (Answer, Option<OwnedFd>) {
        let mut answer = Answer { number: request.number, ..Answer::default() };
        let mut output = None;
        let done = match request.what {
            What::Start(wanted) => self.start(wanted, paths, now).map(|started| output = started),
            What::File(pid, file) => {
                File::open(procfs::path(pid, file.name())).map(|file| output = Some(file.into()))
            }
            What::Processes(max) => processes(max).map(|list| output = Some(list.into())),
            What::HostNames(pid) => {
                let name = host_names(pid).map(|name| name.to_string_lossy().into_owned());
                name.map(|name| answer.host_names = Some(name))
            }
        };
        answer.error = done.err().map(|error| error.to_string());
        (answer, output)
    }

    fn start(&mut self, wanted: Wanted, paths: &Paths, started: Instant) -> io::Result<Option<OwnedFd>> {
        if wanted == Wanted::Journal {
            // The agent reads the one before no more.
            self.end(|program| program.wanted == wanted);
        }
        if self.0.len() >= MAX_PROGRAMS {
            return Err(io::Error::other(
                "those that were started before have not ended: they wait for a driver or a file system",
            ));
        }
        let mut child = paths.command(wanted).spawn()?;
        let output = child.stdout.take().map(OwnedFd::from);
        self.0.push(Program { wanted, child, started });
        Ok(output)
    }

    fn reap(&mut self) {
        self.0.retain_mut(|program| matches!(program.child.try_wait(), Ok(None)));
    }

    fn end(&mut self, is_over: impl Fn(&Program) -> bool) {
        for program in self.0.iter_mut().filter(|program| is_over(program)) {
            // It may have ended by itself. What waits for a driver is not waited for.
            let _ = program.child.kill();
        }
        self.reap();
    }
}

/// Numbers of all processes, in a file that is in memory alone.
fn processes(max: usize) -> io::Result<File> {
    let mut list = File::from(memfd_create("processes", MemfdFlags::CLOEXEC)?);
    let bytes: Vec<u8> = procfs::all(max).into_iter().flat_map(u32::to_ne_bytes).collect();
    list.write_all(&bytes)?;
    list.rewind()?;
    Ok(list)
}

/// Which namespace of host names a process is in.
pub(super) fn host_names(pid: u32) -> io::Result<PathBuf> {
    std::fs::read_link(procfs::path(pid, "ns/uts"))
}
