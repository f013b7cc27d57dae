//! Summation groups of real processes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

use super::{Rank, compile, folder, library_folder};

/// The worker's program.
pub(crate) fn sum_program(name: &str) -> PathBuf {
    let program = folder(name).join("sum");
    compile("sum.c", &program, &["-lrsccl"]);
    program
}

/// A group that is to meet at a port of its own.
pub(crate) struct Group<'a> {
    pub(crate) program: &'a Path,
    pub(crate) n_workers: usize,
    pub(crate) n_servers: usize,
    pub(crate) port: u16,
}

impl<'a> Group<'a> {
    pub(crate) fn new(program: &'a Path, n_workers: usize, n_servers: usize) -> Self {
        static TRIED: AtomicU16 = AtomicU16::new(0);
        // Below those that the kernel gives to whoever connects, so that nobody has it who did not ask for it.
        let first = std::process::id().wrapping_mul(97);
        let next = || TRIED.fetch_add(1, Ordering::Relaxed);
        let port = std::iter::repeat_with(next)
            .map(|tried| 20_000 + u16::try_from((first + u32::from(tried)) % 12_000).unwrap())
            .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
        Self { program, n_workers, n_servers, port: port.unwrap() }
    }

    /// All workers, which do the same.
    pub(crate) fn workers(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Vec<Rank> {
        (0..self.n_workers).map(|worker| self.worker(worker, arguments, environment)).collect()
    }

    /// One worker.
    pub(crate) fn worker(&self, worker: usize, arguments: &[&str], environment: &[(&str, &str)]) -> Rank {
        Rank::start(&mut self.worker_command(worker, arguments, environment))
    }

    /// Worker 0, once the others can be held against it.
    pub(crate) fn worker_at_rendezvous(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Rank {
        let mut worker = self.worker(0, arguments, &[environment, &[("NCCL_DEBUG", "INFO")]].concat());
        let mut lines = std::iter::repeat_with(|| worker.line());
        assert!(
            lines.any(|line| line.contains("worker 0 (") && line.ends_with("has come to the rendezvous"))
        );
        worker
    }

    /// All servers.
    pub(crate) fn servers(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Vec<Rank> {
        (0..self.n_servers).map(|_| self.server(arguments, environment)).collect()
    }

    /// One server.
    pub(crate) fn server(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Rank {
        Rank::start(&mut self.server_command(arguments, environment))
    }

    pub(crate) fn worker_command(
        &self,
        worker: usize,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Command {
        let mut command = Command::new(self.program);
        command.args(arguments).env("RSUM_WORKERS", self.n_workers.to_string());
        command.env("RSUM_SERVERS", self.n_servers.to_string()).env("RSUM_RANK", worker.to_string());
        self.set(command, environment)
    }

    /// What a server says goes where a worker's words go.
    pub(crate) fn server_command(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "exec \"$0\" \"$@\" 2>&1"])
            .arg(library_folder().join("ringscope-sumd"))
            .args(arguments);
        self.set(command, environment)
    }

    fn set(&self, mut command: Command, environment: &[(&str, &str)]) -> Command {
        command
            .env("RSUM_ROOT", format!("127.0.0.1:{}", self.port))
            .env("RSUM_SECRET", "a secret of this test")
            // Worker 0 waits for all others while they start one after another, on a busy machine slowly.
            .env("RSCCL_TIMEOUT_S", "60")
            .envs(environment.iter().copied());
        command
    }
}

/// A server's answer: the status line's code, and the body.
pub(crate) fn ask(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().to_owned(), body.to_owned())
}
