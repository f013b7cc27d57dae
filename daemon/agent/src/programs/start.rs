//! Has programs started: by this process itself, or by the starter where this process is confined.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::line::{self, Answer, ProcessFile, Request, What};
use super::starter;
use super::wanted::{OWN_PROGRAM, Paths, Wanted};
use crate::procfs::Eyes;

/// Longest wait for the starter, which does nothing that takes long.
const PATIENCE: Duration = Duration::from_secs(5);

/// How the programs of one agent are started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    pub(crate) paths: Paths,
    /// `None`: this process starts them itself.
    pub(crate) starter: Option<Starter>,
}

/// A program that runs.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) output: File,
    /// `None`: the starter's.
    child: Option<Child>,
}

impl Programs {
    /// Starts a program.
    ///
    /// # Errors
    /// It cannot be: which, and why.
    pub(crate) fn start(&self, wanted: Wanted) -> Result<Started, String> {
        let started = match &self.starter {
            None => self.start_here(wanted),
            Some(starter) => starter.start(wanted),
        };
        started.map_err(|error| format!("{} cannot be run: {error}", self.paths.of(wanted).display()))
    }

    fn start_here(&self, wanted: Wanted) -> io::Result<Started> {
        let mut child = self.paths.command(wanted).spawn()?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("it has no output"))?;
        Ok(Started { output: OwnedFd::from(output).into(), child: Some(child) })
    }

    /// Whether nothing can be started any more.
    pub(crate) fn have_ended(&self) -> bool {
        self.starter.as_ref().is_some_and(Starter::has_ended)
    }

    /// Which namespace of host names a process is in. `None`: it cannot be seen.
    pub(crate) fn host_names(&self, pid: u32) -> Option<PathBuf> {
        match &self.starter {
            None => starter::host_names(pid).ok(),
            Some(starter) => starter.ask(What::HostNames(pid)).ok()?.0.host_names.map(PathBuf::from),
        }
    }
}

impl Started {
    /// Ends the program where it is this process's own. The starter ends its own in time.
    pub(crate) fn give_up(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended by itself.
            let _ = child.kill();
        }
    }

    /// Ends it and waits for its end, where it is this process's own.
    pub(crate) fn end(&mut self) {
        self.give_up();
        if self.child.is_some() {
            self.wait();
        }
    }

    /// Waits for the program's end, however long that takes.
    pub(crate) fn wait(&mut self) {
        // What it says is nobody's business any more.
        let _ = match &mut self.child {
            Some(child) => child.wait().map(drop),
            None => io::copy(&mut self.output, &mut io::sink()).map(drop),
        };
    }
}

/// The process that starts programs for a confined agent. It ends with the agent.
#[derive(Clone, Debug)]
pub struct Starter(Arc<Mutex<Line>>);

#[derive(Debug)]
struct Line {
    socket: OwnedFd,
    n_asked: u64,
    /// Held, not waited for: it ends where the socket is closed.
    _process: Child,
}

impl Starter {
    /// Starts it.
    pub(crate) fn spawn(paths: &Paths) -> io::Result<Self> {
        let (socket, its) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        let option = |name: &'static str, path: &Path| [name.into(), path.as_os_str().to_owned()];
        let process = Command::new(OWN_PROGRAM)
            .arg(starter::NAME)
            .args(option("--look", &paths.look))
            .args(option("--cgroups", &paths.cgroups))
            .args(option("--journalctl", &paths.journalctl))
            .stdin(Stdio::from(its))
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self(Arc::new(Mutex::new(Line { socket, n_asked: 0, _process: process }))))
    }

    /// Whether it is there no more. While it is asked, it is.
    fn has_ended(&self) -> bool {
        let Ok(line) = self.0.try_lock() else { return false };
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut waits = [PollFd::new(&line.socket, PollFlags::empty())];
        poll(&mut waits, Some(&at_once)).is_ok() && waits[0].revents().contains(PollFlags::HUP)
    }

    fn start(&self, wanted: Wanted) -> io::Result<Started> {
        Ok(Started { output: self.ask_for_file(What::Start(wanted))?, child: None })
    }

    fn ask_for_file(&self, what: What) -> io::Result<File> {
        let (_, file) = self.ask(what)?;
        file.map(File::from).ok_or_else(|| io::Error::other("the starter has given nothing"))
    }

    fn ask(&self, what: What) -> io::Result<(Answer, Option<OwnedFd>)> {
        let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        line.n_asked += 1;
        let number = line.n_asked;
        let ended = || {
            io::Error::other(
                "the process that starts programs for this agent has ended: restart the agent, which sees no stacks \
                 without it",
            )
        };
        line::send(line.socket.as_fd(), &Request { number, what }, None)
            .map_err(|error| if error.kind() == io::ErrorKind::BrokenPipe { ended() } else { error })?;
        loop {
            let received = line::receive::<Answer>(line.socket.as_fd())?;
            let (answer, output) = received.ok_or_else(ended)?;
            match answer.error {
                // To a question that was given up.
                _ if answer.number != number => {}
                Some(error) => return Err(io::Error::other(error)),
                None => return Ok((answer, output)),
            }
        }
    }
}

impl Eyes for Starter {
    fn open(&self, pid: u32, file: &str) -> io::Result<File> {
        let file = ProcessFile::of(file).ok_or(io::ErrorKind::PermissionDenied)?;
        self.ask_for_file(What::File(pid, file))
    }

    fn all(&self, max: usize) -> io::Result<Vec<u32>> {
        let mut bytes = Vec::new();
        self.ask_for_file(What::Processes(max))?.read_to_end(&mut bytes)?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|number| u32::from_ne_bytes(*number)).collect())
    }
}
