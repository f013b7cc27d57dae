//! One contender's processes: started once, given orders through sockets, asleep in between.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::contender::{Contender, Library};
use super::programs::Programs;

/// How long a rank may take to start, or to answer: a library that needs longer has hung.
const PATIENCE: Duration = Duration::from_secs(120);
/// Polls of the listening socket while ranks start, one every 10 ms.
const START_POLLS: u32 = 6000;

/// What is asked of all ranks at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    /// Size of each buffer.
    pub(crate) bytes: usize,
    /// How many times are measured.
    pub(crate) batches: usize,
    /// How many operations each of them covers.
    pub(crate) per_batch: usize,
    /// Operations before.
    pub(crate) warm_up: usize,
    /// How late the last rank is to each.
    pub(crate) late_us: u64,
}

/// What all ranks say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    /// Per batch, nanoseconds per operation of the slowest rank.
    pub(crate) batches_ns: Vec<f64>,
    /// Processor time per operation, of all ranks.
    pub(crate) cpu_ns: f64,
    /// Processor time that they took since the last order.
    pub(crate) idle_cpu_ns: f64,
}

/// A contender's processes.
#[derive(Debug)]
pub(crate) struct Team {
    /// Whose.
    pub(crate) contender: Contender,
    launcher: Child,
    ranks: Vec<BufReader<UnixStream>>,
    is_broken: bool,
}

impl Team {
    /// Starts all ranks and waits until their library is ready.
    pub(crate) fn start(
        contender: Contender,
        programs: &Programs,
        n_ranks: usize,
        congestion: Option<&str>,
    ) -> Result<Self> {
        let name = contender.name().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let prefix = programs.folder.join(format!("{name}-{:?}-{n_ranks}", contender.transport));
        let socket = prefix.with_extension("socket");
        let _ = fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).with_context(|| format!("{}", socket.display()))?;
        listener.set_nonblocking(true)?;
        let log = prefix.with_extension("log");
        let output = fs::File::create(&log).with_context(|| format!("{}", log.display()))?;
        let mut command = contender.command(programs, n_ranks, congestion);
        command.env("BENCH_SOCKET", &socket).env("BENCH_MEETING", meeting(&contender, &prefix));
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0);
        let launcher = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let mut team = Self { contender, launcher, ranks: Vec::new(), is_broken: false };
        let gathered = team.gather(&listener, n_ranks);
        let _ = fs::remove_file(&socket);
        gathered.with_context(|| format!("{}: {}", log.display(), last_words(&log)))?;
        Ok(team)
    }

    fn gather(&mut self, listener: &UnixListener, n_ranks: usize) -> Result<()> {
        for _ in 0..START_POLLS {
            if let Ok((stream, _)) = listener.accept() {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                let mut stream = BufReader::new(stream);
                stream.read_line(&mut String::new()).context("a rank said nothing")?;
                self.ranks.push(stream);
                if self.ranks.len() == n_ranks {
                    return Ok(());
                }
                continue;
            }
            if let Some(status) = self.launcher.try_wait()? {
                bail!("the ranks ended with {status}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("the ranks did not start")
    }

    /// Has all ranks measure at once. After an error the team is of no use.
    pub(crate) fn measure(&mut self, order: &Order) -> Result<Answer> {
        if self.is_broken {
            bail!("it failed before");
        }
        let answer = self.ask(order);
        self.is_broken = answer.is_err();
        answer
    }

    fn ask(&mut self, order: &Order) -> Result<Answer> {
        let Order { bytes, batches, per_batch, warm_up, late_us } = order;
        let line = format!("run {bytes} {batches} {per_batch} {warm_up} {late_us}\n");
        for rank in &mut self.ranks {
            rank.get_mut().write_all(line.as_bytes()).context("a rank is gone")?;
        }
        let mut all = Answer::default();
        for rank in &mut self.ranks {
            let mut line = String::new();
            rank.read_line(&mut line).context("a rank does not answer")?;
            all.add(&line)?;
        }
        Ok(all)
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        for rank in &mut self.ranks {
            let _ = rank.get_mut().write_all(b"quit\n");
        }
        for _ in 0..500 {
            if let Ok(Some(_)) = self.launcher.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let group = format!("-{}", self.launcher.id());
        let _ = std::process::Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.launcher.wait();
    }
}

impl Answer {
    /// Adds what one rank said.
    fn add(&mut self, line: &str) -> Result<()> {
        let mut words = line.split_whitespace();
        let mut next = || words.next().with_context(|| format!("an answer breaks off: {line:?}"));
        if next()? != "done" {
            bail!("not an answer: {line:?}");
        }
        self.cpu_ns += next()?.parse::<f64>()?;
        self.idle_cpu_ns += next()?.parse::<f64>()?;
        if next()? != "1" {
            bail!("a wrong sum");
        }
        for (index, word) in words.enumerate() {
            let ns = word.parse::<f64>()?;
            match self.batches_ns.get_mut(index) {
                Some(slowest) => *slowest = slowest.max(ns),
                None => self.batches_ns.push(ns),
            }
        }
        Ok(())
    }
}

/// Where ranks meet that no launcher introduces: the limit's buffers are there too, so it must lie in memory.
fn meeting(contender: &Contender, prefix: &Path) -> PathBuf {
    let meeting = match contender.library {
        Library::Limit => Path::new("/dev/shm/rsccl-bench").with_extension(name_of(prefix)),
        _ => prefix.with_extension("meeting"),
    };
    let _ = fs::remove_file(&meeting);
    let _ = fs::remove_dir_all(meeting.with_extension("meeting.gloo"));
    meeting
}

fn name_of(prefix: &Path) -> String {
    let team = prefix.file_name().unwrap_or_default().to_string_lossy();
    format!("{team}-{}", std::process::id())
}

fn last_words(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let last: Vec<&str> = text.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
    last.into_iter().rev().collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_rank_counts_in_each_batch() {
        let mut all = Answer::default();
        all.add("done 10.0 1 1 5.0 7.0\n").unwrap();
        all.add("done 20.0 2 1 6.0 4.0\n").unwrap();
        assert_eq!(all.batches_ns, [6.0, 7.0]);
        assert_eq!((all.cpu_ns, all.idle_cpu_ns), (30.0, 3.0));
    }

    #[test]
    fn a_wrong_sum_is_an_error() {
        assert!(Answer::default().add("done 10.0 1 0 5.0\n").is_err());
        assert!(Answer::default().add("done 10.0\n").is_err());
    }
}
