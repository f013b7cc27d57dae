//! A Debian of its own under its own systemd, in a container without network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::packages::folder;
use crate::process::{run, say};

/// A machine that runs.
pub(super) struct Machine {
    container: Child,
    /// Its first process, as this machine numbers it.
    init: Option<u32>,
    root: PathBuf,
}

/// What a command in it printed, and whether it was content.
pub(super) struct Said {
    pub(super) text: String,
    pub(super) is_good: bool,
}

impl Machine {
    /// Boots a fresh copy of a release of Debian.
    pub(super) fn boot(release: &str) -> Result<Self> {
        let root = fresh(release, "used")?;
        let mut nspawn = Command::new("systemd-nspawn");
        nspawn.args([
            "--quiet",
            "--boot",
            "--register=no",
            "--keep-unit",
            "--console=pipe",
            "--private-network",
        ]);
        nspawn.args([
            "--machine=ringscope-check",
            "--capability=CAP_SYSLOG",
            "--bind-ro=/dev/kmsg",
            "--directory",
        ]);
        // The systemd of Debian 13 wants cgroup v2 alone, whatever this machine has.
        nspawn.env("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "1");
        let log = fs::File::create(root.with_extension("console"))?;
        nspawn.arg(&root).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let container = nspawn.spawn().context("cannot start systemd-nspawn")?;
        let mut machine = Self { container, init: None, root };
        machine.init = Some(machine.wait_for("the first process", Self::first_process)?);
        machine.wait_for("systemd", |machine| {
            let state = machine.try_run("systemctl is-system-running").ok()?;
            ["running", "degraded"].contains(&state.text.trim()).then_some(())
        })?;
        say(&format!("{release} runs"));
        Ok(machine)
    }

    /// The child that is number 1 in its own namespace: the ones that prepare it are not, and soon end.
    fn first_process(&self) -> Option<u32> {
        let id = self.container.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
        let mut children = children.split_whitespace();
        let first = children.find(|child| {
            let status = fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
            let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
            numbers.is_some_and(|numbers| numbers.split_whitespace().skip(1).last() == Some("1"))
        });
        first?.parse().ok()
    }

    /// Asks until there is an answer; a busy machine may take its time.
    pub(super) fn wait_for<T>(&self, what: &str, ask: impl Fn(&Self) -> Option<T>) -> Result<T> {
        for _ in 0..ASKS {
            if let Some(found) = ask(self) {
                return Ok(found);
            }
            thread::sleep(BETWEEN);
        }
        let journal = self.try_run("journalctl --no-pager -n 60").map(|said| said.text).unwrap_or_default();
        bail!("waited in vain for {what}; the journal ends with\n{journal}")
    }

    /// Runs a command by the shell, as root.
    pub(super) fn try_run(&self, script: &str) -> Result<Said> {
        let init = self.init.context("the new machine has no first process")?.to_string();
        let mut command = Command::new("nsenter");
        command.args(["--all", "--target", &init, "--", "/usr/bin/env", "-i", ENVIRONMENT]);
        let done = command.args(["LC_ALL=C", "sh", "-c"]).arg(format!("exec 2>&1; {script}")).output()?;
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        Ok(Said { text, is_good: done.status.success() })
    }

    /// Runs a command that must be content.
    pub(super) fn run(&self, script: &str) -> Result<String> {
        let said = self.try_run(script)?;
        ensure!(said.is_good, "in the new machine: {script}\n{}", said.text);
        Ok(said.text)
    }

    /// Puts a file into it.
    pub(super) fn put(&self, file: &Path, inside: &str) -> Result<()> {
        let to = self.root.join(inside);
        fs::copy(file, &to).with_context(|| format!("cannot copy {} to {}", file.display(), to.display()))?;
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SIGTERM would be an orderly end, which takes long; nobody needs what is in it.
        let _ = match self.init {
            Some(init) => Command::new("kill").args(["-KILL", &init.to_string()]).status().map(drop),
            None => self.container.kill(),
        };
        let _ = self.container.wait();
    }
}

/// A copy of a release's root, which is made if it is not there: some 300 MB from Debian's archive.
pub(super) fn fresh(release: &str, what_for: &str) -> Result<PathBuf> {
    let folder = folder().join("roots");
    let (pristine, copy) = (folder.join(release), folder.join(format!("{release}-{what_for}")));
    fs::create_dir_all(&folder)?;
    if !pristine.exists() {
        let made = folder.join(format!("{release}.new"));
        let _ = fs::remove_dir_all(&made);
        let mut debootstrap = Command::new("debootstrap");
        debootstrap
            .args(["--variant=minbase", INCLUDE, release])
            .arg(&made)
            .arg("http://deb.debian.org/debian");
        run(&mut debootstrap).context("cannot make a root of Debian: it takes root, and Debian's archive")?;
        fs::rename(&made, &pristine)?;
    }
    let _ = fs::remove_dir_all(&copy);
    run(Command::new("cp").arg("-a").arg(&pristine).arg(&copy))?;
    Ok(copy)
}

const INCLUDE: &str = "--include=systemd,systemd-sysv,dbus,procps,curl,man-db,passwd";
const ENVIRONMENT: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const ASKS: u32 = 3000;
const BETWEEN: Duration = Duration::from_millis(200);
