//! The daemon that is measured, in a process of its own.

use std::io::BufRead as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tokio_util::sync::CancellationToken;

use crate::common;

/// One that runs; killed with this.
pub(crate) struct Spawned(Child);

impl Spawned {
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What `--daemon` does.
pub(crate) async fn run(url: &str, tls: Option<&Path>) {
    let mut config = common::daemon::config(url);
    config.tls = tls.map(|dir| ringscope_tls::ServerFiles {
        cert: dir.join("host.pem"),
        key: dir.join("host.key"),
        client_ca: None,
    });
    let server = ringscope_daemon::serve::Server::bind(config).await.unwrap();
    println!("listening {}", server.local_url());
    server.run(CancellationToken::new()).await.unwrap();
}

/// Starts the daemon that is in `program`. Returns it with its URL.
pub(crate) fn spawn(program: &Path, url: &str, tls: Option<&Path>) -> (Spawned, String) {
    let mut command = Command::new(program);
    command.args(["--daemon", url]);
    if let Some(dir) = tls {
        command.arg("--tls-files").arg(dir);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let base_url = line.trim().strip_prefix("listening ").expect("the daemon's address").to_owned();
    (Spawned(child), base_url)
}
