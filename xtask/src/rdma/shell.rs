//! Commands in a guest: what the agent (`guest/agent.c`) is told, and what it answers.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::machine::{AGENT_PORT, Machine};
use crate::clock::Stopwatch;

/// Of what a command said, in a message.
const TAIL_BYTES: usize = 2000;

/// Of each output; what comes after is dropped, and counted.
const KEPT_BYTES: usize = 64 << 20;

/// What became of a command.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// Exit status; 128 and the signal's number if one ended it.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) stdout: Vec<u8>,
    /// Standard error.
    pub(crate) stderr: Vec<u8>,
    /// Of both outputs, beyond what is kept.
    pub(crate) dropped_bytes: usize,
    /// From its start to its end.
    pub(crate) seconds: f64,
    /// Guest and command, for messages.
    what: String,
}

impl Output {
    /// Standard output.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error.
    pub(crate) fn complaints(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Fails, with what it said, unless it ended with 0.
    pub(crate) fn ok(self) -> Result<Self> {
        ensure!(self.code == 0, "{}: exit status {}; {}", self.what, self.code, self.said());
        Ok(self)
    }

    fn said(&self) -> String {
        said(&self.stdout, &self.stderr)
    }
}

fn said(stdout: &[u8], stderr: &[u8]) -> String {
    let tail = |bytes: &[u8]| {
        let start = bytes.len().saturating_sub(TAIL_BYTES);
        String::from_utf8_lossy(bytes.get(start..).unwrap_or_default()).trim().to_owned()
    };
    let words = [tail(stdout), tail(stderr)].join("\n");
    if words.trim().is_empty() { "it said nothing".to_owned() } else { format!("it said:\n{}", words.trim()) }
}

/// A command that runs; killed with its group when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    machine: Arc<Machine>,
    what: String,
    connection: TcpStream,
    told: Arc<Told>,
    watch: Stopwatch,
}

/// What the agent has told so far.
#[derive(Debug, Default)]
struct Told {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    dropped_bytes: usize,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Code(i32),
    /// The connection was closed first.
    Lost,
}

impl Running {
    /// Starts `sh -c command`.
    pub(super) fn start(machine: Arc<Machine>, command: &str) -> Result<Self> {
        let what = format!("{}: {}", machine.name(), command.trim());
        let watch = Stopwatch::start();
        let connected = TcpStream::connect(("127.0.0.1", machine.port(AGENT_PORT).unwrap_or_default()));
        let sent = connected.and_then(|mut connection| {
            connection.set_nodelay(true)?;
            connection.write_all(format!("{}\n{command}", command.len()).as_bytes())?;
            Ok(connection)
        });
        let Ok(connection) = sent else { bail!("{what}: {}", machine.obituary()) };
        let told = Arc::new(Told::default());
        let (from, to) = (connection.try_clone()?, Arc::clone(&told));
        std::thread::Builder::new().name("guest".to_owned()).spawn(move || to.listen(from))?;
        Ok(Self { machine, what, connection, told, watch })
    }

    /// Waits for its end. Fails if the guest dies before, or if it takes longer than `limit`: then the command is killed.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<Output> {
        let Some(state) = self.told.until(limit, |state| state.end.is_some()) else {
            let words = self.last_words();
            let _ = self.connection.shutdown(Shutdown::Both);
            let limit = limit.as_secs_f64();
            bail!(
                "{}: not ended after {limit:.0} s, and killed; {words}; the guest's console: {}",
                self.what,
                self.machine.tail()
            )
        };
        let Some(End::Code(code)) = state.end else {
            drop(state);
            bail!("{}: {}", self.what, self.machine.obituary())
        };
        let (stdout, stderr, dropped_bytes) =
            (state.stdout.clone(), state.stderr.clone(), state.dropped_bytes);
        let (seconds, what) = (self.watch.seconds(), self.what.clone());
        Ok(Output { code, stdout, stderr, dropped_bytes, seconds, what })
    }

    /// Waits until one of its outputs has `words` in it. Fails if it ends before, or after `limit`. Many programs say nothing into a
    /// pipe before they end; those wait better for what they do.
    pub(crate) fn wait_for(&self, words: &str, limit: Duration) -> Result<()> {
        let has = |state: &State| [&state.stdout, &state.stderr].iter().any(|said| contains(said, words));
        let state = self.told.until(limit, |state| has(state) || state.end.is_some());
        match state {
            Some(state) if has(&state) => Ok(()),
            Some(state) => {
                drop(state);
                bail!("{}: ended without saying {words:?}; {}", self.what, self.last_words())
            }
            None => {
                let limit = limit.as_secs_f64();
                bail!("{}: has not said {words:?} in {limit:.0} s; {}", self.what, self.last_words())
            }
        }
    }

    /// What it has said on its first output so far.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&self.told.lock().stdout).into_owned()
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.told.lock().end.is_some()
    }

    /// Sends a signal to the command and all in its group: 15 is TERM, 9 KILL, 19 STOP, 18 CONT.
    pub(crate) fn signal(&mut self, number: u8) -> Result<()> {
        self.connection.write_all(&[number]).with_context(|| format!("{}: cannot signal", self.what))
    }

    fn last_words(&self) -> String {
        let state = self.told.lock();
        said(&state.stdout, &state.stderr)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.connection.shutdown(Shutdown::Both);
    }
}

impl Told {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn until(&self, limit: Duration, is_so: impl Fn(&State) -> bool) -> Option<MutexGuard<'_, State>> {
        let waited = self.changed.wait_timeout_while(self.lock(), limit, |state| !is_so(state));
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        (!timeout.timed_out() || is_so(&state)).then_some(state)
    }

    fn listen(&self, connection: TcpStream) {
        let mut connection = BufReader::new(connection);
        while let Some((kind, number)) = head(&mut connection) {
            let mut bytes = Vec::new();
            if kind != 'x' {
                let length = u64::try_from(number).unwrap_or_default();
                if connection.by_ref().take(length).read_to_end(&mut bytes).is_err() {
                    break;
                }
            }
            let mut locked = self.lock();
            let state = &mut *locked;
            match kind {
                'o' => state.dropped_bytes += keep(&mut state.stdout, &bytes),
                'e' => state.dropped_bytes += keep(&mut state.stderr, &bytes),
                _ => state.end = Some(End::Code(number)),
            }
            self.changed.notify_all();
        }
        self.lock().end.get_or_insert(End::Lost);
        self.changed.notify_all();
    }
}

/// Adds what fits, and says how many bytes do not.
fn keep(to: &mut Vec<u8>, bytes: &[u8]) -> usize {
    let (kept, dropped) = bytes.split_at(bytes.len().min(KEPT_BYTES.saturating_sub(to.len())));
    to.extend(kept);
    dropped.len()
}

/// A kind and a number.
fn head(connection: &mut BufReader<TcpStream>) -> Option<(char, i32)> {
    let mut line = String::new();
    connection.read_line(&mut line).ok()?;
    let kind = line.chars().next()?;
    Some((kind, line.trim_end().get(1..)?.parse().ok()?))
}

fn contains(said: &[u8], words: &str) -> bool {
    said.windows(words.len().max(1)).any(|part| part == words.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// What is told of an agent that answers so, and closes.
    fn told(answer: &[u8]) -> Told {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut agent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        agent.write_all(answer).unwrap();
        drop(agent);
        let told = Told::default();
        told.listen(listener.accept().unwrap().0);
        told
    }

    #[test]
    fn outputs_and_status_are_told_apart() {
        let told = told(b"o3\na\nbe2\nxyo1\ncx143\n");
        let state = told.lock();
        assert_eq!(
            (state.stdout.as_slice(), state.stderr.as_slice()),
            (b"a\nbc".as_slice(), b"xy".as_slice())
        );
        assert!(matches!(state.end, Some(End::Code(143))), "{:?}", state.end);
    }

    #[test]
    fn an_agent_that_dies_is_no_exit_status() {
        for answer in [b"".as_slice(), b"o3\nab", b"o", b"rubbish\n"] {
            let told = told(answer);
            assert!(matches!(told.lock().end, Some(End::Lost)), "{answer:?}");
        }
    }

    #[test]
    fn more_than_is_kept_is_counted() {
        let mut kept = vec![0; KEPT_BYTES - 1];
        assert_eq!(keep(&mut kept, b"abc"), 2);
        assert_eq!(kept.len(), KEPT_BYTES);
    }
}
