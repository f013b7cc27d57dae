//! A Postgres cluster of a test's own: started in a temporary directory, stopped and deleted with the value.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ringscope_api::clock;

use super::{TempDir, free_port};

/// A running, or stopped, private cluster.
pub struct Postgres {
    dir: TempDir,
    bin: PathBuf,
    port: u16,
    durable: bool,
    server: Option<Child>,
}

/// `nobody`: Postgres refuses to run as root.
const NOBODY: u32 = 65534;

impl Postgres {
    /// A cluster that does not sync to disk: for tests.
    pub fn start() -> Self {
        Self::create(false)
    }

    /// A cluster that syncs as in production: for benchmarks.
    pub fn start_durable() -> Self {
        Self::create(true)
    }

    fn create(durable: bool) -> Self {
        let bin = bin_dir();
        let dir = TempDir::new("postgres");
        if is_root() {
            chown(&dir, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let mut postgres = Self { dir, bin, port: 0, durable, server: None };
        let data = postgres.data_dir();
        let initdb = postgres
            .command("initdb")
            .args([
                "--username=ringscope",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C.UTF-8",
                "--no-sync",
            ])
            .arg("--pgdata")
            .arg(&data)
            .output()
            .unwrap();
        assert!(initdb.status.success(), "initdb: {}", String::from_utf8_lossy(&initdb.stderr));
        postgres.port = free_port();
        postgres.start_again();
        postgres
    }

    /// The cluster's database, by URL.
    pub fn url(&self) -> String {
        self.url_at(self.port)
    }

    /// The same, reached by another port.
    pub fn url_at(&self, port: u16) -> String {
        format!("postgres://ringscope@127.0.0.1:{port}/postgres")
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Process id of the server.
    pub fn pid(&self) -> u32 {
        self.server.as_ref().map_or(0, Child::id)
    }

    /// Starts the server on the same data and port.
    pub fn start_again(&mut self) {
        let fsync = if self.durable { "fsync=on" } else { "fsync=off" };
        let server = self
            .command("postgres")
            .arg("-D")
            .arg(self.data_dir())
            .arg("-k")
            .arg(self.dir.as_os_str())
            .args(["-p", &self.port.to_string(), "-c", fsync, "-c", "listen_addresses=127.0.0.1"])
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(self.dir.join("log")).unwrap())
            .spawn()
            .unwrap();
        self.server = Some(server);
        let clock = clock::monotonic();
        while !self
            .command("pg_isready")
            .args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()])
            .status()
            .unwrap()
            .success()
        {
            let log = std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
            assert!(clock.elapsed() < super::PATIENCE, "postgres does not start: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops the server at once; its data stays.
    pub fn stop(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        let stopped = self
            .command("pg_ctl")
            .args(["stop", "-m", "immediate", "-D"])
            .arg(self.data_dir())
            .stdout(Stdio::null())
            .status();
        if !stopped.is_ok_and(|status| status.success()) {
            let _ = server.kill();
        }
        let _ = server.wait();
    }

    /// Runs SQL through psql and gives what it prints, without headers.
    pub fn query(&self, sql: &str) -> String {
        let output = self
            .command("psql")
            .args(["--no-psqlrc", "-At", "-v", "ON_ERROR_STOP=1", "-c", sql, &self.url()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.current_dir(&self.dir);
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The newest server's programs.
fn bin_dir() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, bin): &(u32, PathBuf)| bin.join("initdb").exists())
        .collect();
    found.sort();
    found.pop().map(|(_, bin)| bin).expect(
        "no Postgres server in /usr/lib/postgresql/*/bin: apt-get install -y --no-install-recommends postgresql",
    )
}

fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(Path::new("/proc/self")).unwrap()) == 0
}
