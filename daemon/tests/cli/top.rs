//! `ringscope top` in a real terminal: a pseudo-terminal of the test's own.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::common::batches::{SMALL, START_NS};
use crate::common::daemon::Daemon;
use crate::common::{free_port, until};
use crate::{check, ringscope};

/// The terminal as its user has it, and what the program wrote.
struct Terminal {
    user: File,
    /// The program's side, kept open to ask for its modes.
    program: File,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn open() -> Self {
        let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&user).unwrap();
        unlockpt(&user).unwrap();
        let name = ptsname(&user, Vec::new()).unwrap();
        let program = rustix::fs::open(&*name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let size = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&program, size).unwrap();
        let user = File::from(user);
        let (written, mut reader) = (Arc::new(Mutex::new(Vec::new())), user.try_clone().unwrap());
        let all = Arc::clone(&written);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = reader.read(&mut buffer) {
                all.lock().unwrap().extend_from_slice(&buffer[..n]);
            }
        });
        Self { user, program: File::from(program), written }
    }

    fn top(&self, daemon: &str) -> Child {
        let side = || Stdio::from(self.program.try_clone().unwrap());
        let mut command = ringscope(&["top", "--daemon", daemon]);
        command.env("TERM", "xterm-256color").stdin(side()).stdout(side()).stderr(side()).spawn().unwrap()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.program).unwrap().local_modes.contains(LocalModes::ICANON)
    }

    async fn until(&self, part: &str) {
        until(&format!("{part:?} on the screen"), async || self.text().contains(part)).await;
    }

    /// The other screen is left, and the cursor is back. What was written last may still be on its way.
    async fn check_restored(&self) {
        assert!(!self.is_raw());
        self.until("\u{1b}[?1049l").await;
        until("the cursor is back", async || {
            let text = self.text();
            text.rfind("\u{1b}[?25h") > text.rfind("\u{1b}[?25l")
        })
        .await;
    }
}

async fn status(child: &mut Child) -> Option<i32> {
    let mut ended = None;
    crate::common::eventually("top ends", async || {
        ended = child.try_wait().unwrap();
        ended
    })
    .await
    .code()
}

async fn degraded() -> Daemon {
    let daemon = Daemon::ready("none").await;
    for host in 0..2 {
        daemon.take(&SMALL.batch(host, 1, 3, START_NS)).await;
    }
    daemon
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_shows_the_degraded_host_opens_it_and_quits_with_the_terminal_restored() {
    let daemon = degraded().await;
    let mut terminal = Terminal::open();
    let mut top = terminal.top(&daemon.url);
    terminal.until("degraded").await;
    terminal.until("! node-b").await;
    assert!(terminal.is_raw());
    terminal.user.write_all(b"s\r").unwrap();
    terminal.until("Host node-b").await;
    terminal.until("2 ranks").await;
    terminal.user.write_all(b"q").unwrap();
    assert_eq!(status(&mut top).await, Some(0));
    terminal.check_restored().await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_says_that_the_daemon_is_away_and_a_signal_restores_the_terminal() {
    let daemon = degraded().await;
    let terminal = Terminal::open();
    let mut top = terminal.top(&daemon.url);
    terminal.until("! node-b").await;
    daemon.stop().await;
    terminal.until("No answer").await;
    kill_process(Pid::from_child(&top), Signal::TERM).unwrap();
    assert_eq!(status(&mut top).await, Some(0));
    terminal.check_restored().await;
}

#[test]
fn without_a_terminal_or_a_daemon_it_says_so() {
    check(&["top"], 1, &["needs a terminal", "`ringscope status`"]);
    let terminal = Terminal::open();
    let url = format!("http://127.0.0.1:{}", free_port());
    let status = terminal.top(&url).wait().unwrap();
    assert_eq!(status.code(), Some(1));
    let clock = ringscope_api::clock::monotonic();
    while !terminal.text().contains("Connection refused") && clock.elapsed() < Duration::from_secs(10) {
        std::thread::yield_now();
    }
    let text = terminal.text();
    assert!(text.contains("Connection refused") && text.contains(&url), "{text}");
    assert!(!text.contains("\u{1b}[?1049h"), "{text}");
}
