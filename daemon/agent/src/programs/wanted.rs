//! Which programs an agent needs, and how each is called.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

/// This program itself, also where its file was replaced since it started.
pub(super) const OWN_PROGRAM: &str = "/proc/self/exe";
/// The command of this program that looks at a process.
const LOOK_AT: &str = "look-at";
/// Messages of the journal from before the agent started.
const JOURNAL_LINES: &str = "--lines=1000";
/// So far back.
const JOURNAL_SINCE: &str = "--since=-10min";

/// A program with what it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wanted {
    /// Looks at the process of this number that started then.
    Look { pid: u32, start_ticks: u64, watch: bool },
    /// Shows the newest of the kernel's messages in the journal.
    NewestOfJournal,
    /// Shows those of late and all that come.
    Journal,
}

/// Where they are.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Paths {
    /// Program that looks at processes: this one
    #[arg(long)]
    pub(crate) look: PathBuf,
    /// Where the kernel shows its cgroups
    #[arg(long)]
    pub(crate) cgroups: PathBuf,
    /// Program that shows the journal
    #[arg(long)]
    pub(crate) journalctl: PathBuf,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            look: PathBuf::from(OWN_PROGRAM),
            cgroups: PathBuf::from("/sys/fs/cgroup"),
            journalctl: PathBuf::from("journalctl"),
        }
    }
}

impl Paths {
    /// The program as it is called; its output comes by a pipe.
    pub(super) fn command(&self, wanted: Wanted) -> Command {
        let mut command = match wanted {
            Wanted::Look { pid, start_ticks, watch } => {
                let mut command = Command::new(&self.look);
                command.args([LOOK_AT, "--pid", &pid.to_string()]);
                command.args(["--start-ticks", &start_ticks.to_string(), "--cgroups"]).arg(&self.cgroups);
                command.args(watch.then_some("--watch")).env_clear();
                command
            }
            Wanted::NewestOfJournal => self.journal(&["--lines=1"]),
            Wanted::Journal => self.journal(&["--follow", JOURNAL_SINCE, JOURNAL_LINES]),
        };
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }

    fn journal(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.journalctl);
        command.args(["--dmesg", "--output=json", "--no-pager", "--quiet"]).args(args);
        command
    }

    /// The program's own path, for what is said of it.
    pub(super) fn of(&self, wanted: Wanted) -> &PathBuf {
        match wanted {
            Wanted::Look { .. } => &self.look,
            Wanted::NewestOfJournal | Wanted::Journal => &self.journalctl,
        }
    }
}
