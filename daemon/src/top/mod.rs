//! `ringscope top`: the overview in a terminal, live.
//!
//! Asks the REST API every [`REFRESH`] and judges nothing itself. Whatever ends it, the terminal is as it was.

mod detail;
mod draw;
mod groups;
mod headline;
mod map;
mod parts;
mod state;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ringscope_api::clock;
use state::{Action, Open, Snapshot, State};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::client::{Client, ClientError, DaemonArgs};
use crate::config;

/// Arguments of `ringscope top`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ringscope top --daemon http://ringscope.cluster:9440

Keys: q quits, ? shows all keys. How hosts and jobs stand is said in the words of `ringscope status`.

Exit status: 0 ended by q or a signal, 1 no answer or no terminal, 64 wrong usage")]
pub struct TopArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// Why it does not run.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// The daemon, at the start. Later that is only shown.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// There is nothing to draw on.
    #[error("`ringscope top` needs a terminal; `ringscope status` prints the same once")]
    NoTerminal,
    /// The terminal.
    #[error("the terminal: {0}")]
    Io(#[from] io::Error),
}

/// Runs until `q` or `stop`.
///
/// # Errors
/// [`TopError`].
pub async fn run(args: &TopArgs, stop: CancellationToken) -> Result<(), TopError> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(TopError::NoTerminal);
    }
    let client = args.daemon.client()?;
    let Some(first) = stop.run_until_cancelled(fetch(&client, None)).await else { return Ok(()) };
    let state = State::new(args.daemon.daemon.clone(), first?);
    let end = CancellationToken::new();
    let tasks = TaskTracker::new();
    // Restores the terminal on a panic too.
    let mut terminal = ratatui::try_init()?;
    let shown = show(&mut terminal, state, client, &tasks, &stop, &end).await;
    end.cancel();
    let restored = ratatui::try_restore();
    tasks.close();
    // The reader of keys looks up within 100 ms.
    tasks.wait().await;
    Ok(shown.and(restored)?)
}

async fn show(
    terminal: &mut DefaultTerminal,
    mut state: State,
    client: Client,
    tasks: &TaskTracker,
    stop: &CancellationToken,
    end: &CancellationToken,
) -> io::Result<()> {
    let (said_tx, mut said) = mpsc::channel(1);
    let (keys_tx, mut keys) = mpsc::channel(KEYS_MAX);
    let (wanted, wanted_rx) = watch::channel(None);
    let again = std::sync::Arc::new(Notify::new());
    let asking = ask(client, said_tx, wanted_rx, std::sync::Arc::clone(&again), end.clone());
    tasks.spawn(asking);
    tasks.spawn_blocking(move || read_keys(&keys_tx));
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    let colour = config::colour_is_wanted();
    loop {
        terminal.draw(|frame| draw::draw(frame, &mut state, clock::now(), colour))?;
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            _ = seconds.tick() => {}
            Some(answer) = said.recv() => state.take(answer),
            event = keys.recv() => {
                let Some(event) = event else { return Ok(()) };
                if let Event::Key(key) = event
                    && key.kind == KeyEventKind::Press
                {
                    match state.key(key) {
                        Action::Quit => return Ok(()),
                        Action::Refresh => again.notify_one(),
                        Action::None => {}
                    }
                    wanted.send_replace(state.open.clone());
                }
            }
        }
    }
}

/// Asks the daemon again and again.
async fn ask(
    client: Client,
    said: mpsc::Sender<Result<Snapshot, String>>,
    wanted: watch::Receiver<Option<Open>>,
    again: std::sync::Arc<Notify>,
    end: CancellationToken,
) {
    let asking = async {
        loop {
            let _ = tokio::time::timeout(REFRESH, again.notified()).await;
            let open = wanted.borrow().clone();
            let answer = fetch(&client, open.as_ref()).await.map_err(|error| error.to_string());
            if said.send(answer).await.is_err() {
                return;
            }
        }
    };
    end.run_until_cancelled(asking).await;
}

async fn fetch(client: &Client, open: Option<&Open>) -> Result<Snapshot, ClientError> {
    let asking = async {
        let (mut open_host, mut open_group) = (None, None);
        let had = match open {
            Some(Open::Host(host)) => client.host(host).await.map(|host| open_host = Some(host)),
            Some(Open::Group(id)) => client.summation_group(id).await.map(|group| open_group = Some(group)),
            Some(Open::Job(_)) | None => Ok(()),
        };
        // It may have been forgotten; all else is shown nevertheless.
        let open_error = had.err().and_then(|error| Some((open?.clone(), error.to_string())));
        Ok(Snapshot {
            jobs: client.jobs().await?,
            hosts: client.hosts().await?,
            groups: client.summation_groups().await?,
            findings: client.firing().await?,
            health: client.health(None, None).await?,
            at: clock::now(),
            open_host,
            open_group,
            open_error,
        })
    };
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(answer) => answer,
        Err(_) => Err(client.silent(PATIENCE)),
    }
}

/// Reads keys, and changes of the terminal's size, until nobody wants them. Blocks: for a thread of its own.
fn read_keys(keys: &mpsc::Sender<Event>) {
    while !keys.is_closed() {
        let read = match event::poll(KEYS_WAIT) {
            Ok(true) => event::read(),
            Ok(false) => continue,
            Err(error) => Err(error),
        };
        // Without a terminal there is nobody to show anything to: the end of `keys` says so.
        let Ok(event) = read else { return };
        if keys.blocking_send(event).is_err() {
            return;
        }
    }
}

/// How often the daemon is asked.
const REFRESH: Duration = Duration::from_secs(2);
/// How long an answer may take; then the daemon is away.
const PATIENCE: Duration = Duration::from_secs(10);
/// Keys that wait to be read.
const KEYS_MAX: usize = 64;
/// How long the reader of keys waits at once, and so how long it takes to end.
const KEYS_WAIT: Duration = Duration::from_millis(100);
