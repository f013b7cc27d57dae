//! A job of two ranks, each started through `ringscope run`, and what their segments say.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ringscope_wire::Primitive;
use ringscope_wire::segment::SegmentError;
use ringscope_wire::segment::layout::{SOURCE_CALLS, SOURCE_PLUGIN};
use ringscope_wire::segment::read::{Snapshot, Source, snapshot};

use crate::build::Built;
use crate::common::stage::faithful;
use crate::common::{TempDir, eventually};

/// Two ranks that have trained and wait.
pub(crate) struct Job {
    ranks: Vec<Child>,
    pub(crate) dir: TempDir,
}

/// What is known of both ranks together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Communicators whose calls went through the collector.
    pub(crate) by_calls: usize,
    /// Communicators that the library told the plugin of.
    pub(crate) by_plugin: usize,
    pub(crate) issued_bytes: u64,
    pub(crate) completed_bytes: u64,
}

impl Job {
    /// `ringscope run WAY -- WORDS RANK PIPES REST` for each rank; returns when all have trained; why not, if one did not.
    pub(crate) fn start(
        built: &Built,
        name: &str,
        way: &[&str],
        words: &[String],
        rest: &[String],
        n_pipes: usize,
    ) -> Result<Self, String> {
        let dir = TempDir::new_in(Path::new("/dev/shm"), "loading");
        let pipes = dir.join("pipe");
        let _open: Vec<File> = (0..n_pipes).map(|n| pipe(&format!("{}{n}", pipes.display()))).collect();
        let ranks = (0..2).map(|rank: usize| {
            let mut command = crate::ringscope(&["run", "--job", name, "--level", "steps", "--dir"]);
            command.arg(&dir.0).args(way).arg("--").args(words).arg(rank.to_string()).arg(&pipes).args(rest);
            command
                .env("LD_LIBRARY_PATH", &built.dir.0)
                .env("RSCCL_NICS", "eth0=127.0.0.1")
                .env("RSCCL_FAITHFUL", faithful())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            command.spawn().unwrap()
        });
        let mut job = Self { ranks: ranks.collect(), dir };
        for rank in &mut job.ranks {
            let mut line = String::new();
            BufReader::new(rank.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
            if line != "TRAINED\n" {
                return Err(format!("a rank did not train: {:?}", rank.wait()));
            }
        }
        Ok(job)
    }

    /// What was issued is known once a rank has trained; that it is completed, the library's progress thread may tell later.
    pub(crate) async fn seen(&self) -> Seen {
        let all = async || Some(self.seen_now()).filter(|seen| seen.completed_bytes == seen.issued_bytes);
        eventually("what was issued is told to be completed", all).await
    }

    fn seen_now(&self) -> Seen {
        let mut seen = Seen { by_calls: 0, by_plugin: 0, issued_bytes: 0, completed_bytes: 0 };
        for segment in segments(&self.dir) {
            for communicator in segment.communicators {
                seen.by_calls += usize::from(communicator.sources & SOURCE_CALLS != 0);
                seen.by_plugin += usize::from(communicator.sources & SOURCE_PLUGIN != 0);
                for (_, counters) in
                    communicator.counters.iter().filter(|(of, _)| *of == Primitive::AllReduce)
                {
                    seen.issued_bytes += counters.issued_bytes;
                    seen.completed_bytes += counters.completed_bytes;
                }
            }
        }
        seen
    }

    pub(crate) fn pid(&self) -> u32 {
        self.ranks[0].id()
    }

    /// Lets both ranks end.
    pub(crate) fn end(mut self) {
        for rank in &mut self.ranks {
            drop(rank.stdin.take());
        }
        for rank in &mut self.ranks {
            assert!(rank.wait().unwrap().success());
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for rank in &mut self.ranks {
            let _ = rank.kill();
            let _ = rank.wait();
        }
    }
}

/// Held open at both ends, so that no rank waits for one that has died.
pub(crate) fn pipe(path: &str) -> File {
    let status = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(status.success());
    File::options().read(true).write(true).open(path).unwrap()
}

struct SegmentFile(File);

#[derive(Debug)]
#[expect(dead_code, reason = "shown when a test fails")]
enum ReadError {
    Segment(SegmentError),
    Io(std::io::Error),
}

impl From<SegmentError> for ReadError {
    fn from(error: SegmentError) -> Self {
        Self::Segment(error)
    }
}

impl Source for SegmentFile {
    type Error = ReadError;

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_exact_at(buffer, offset).map_err(ReadError::Io)
    }
}

fn segments(dir: &Path) -> Vec<Snapshot> {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "seg"));
    files.map(|path| snapshot(&mut SegmentFile(File::open(path).unwrap())).unwrap()).collect()
}
