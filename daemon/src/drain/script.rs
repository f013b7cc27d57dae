//! The operator's script, for one host. It gets so much time and no more, and a process group of its own, so that what it has
//! started ends with it.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use super::plan::Step;

/// What to run.
#[derive(Debug)]
pub(super) struct Script<'a> {
    path: &'a Path,
    limit: Duration,
}

impl<'a> Script<'a> {
    /// Looks whether it is there before anybody needs it. A mere name is found in `PATH` when it is run.
    ///
    /// # Errors
    /// It cannot be run, and what to do.
    pub(super) fn new(path: &'a Path, limit: Duration) -> Result<Self, String> {
        let shown = path.display();
        if path.components().count() > 1 || path.is_absolute() {
            let found = path.metadata();
            let found =
                found.map_err(|error| format!("{shown}: {error}; name the script that drains a host"))?;
            if !found.is_file() {
                return Err(format!("{shown} is no file; name the script that drains a host"));
            }
            access(path, Access::EXEC_OK).map_err(|_| {
                format!("{shown} cannot be executed by this user: chmod +x {shown}, or name another script")
            })?;
        }
        Ok(Self { path, limit })
    }

    /// Drains the host of this step. An error says why it did not.
    pub(super) async fn run(&self, step: &Step) -> Result<(), String> {
        let path = self.path.display();
        let mut child = self.start(step).map_err(|error| {
            format!("cannot start {path}: {error}; is it there, executable, and does its first line name a program?")
        })?;
        match tokio::time::timeout(self.limit, child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(format!("{path} ended with {status}")),
            Ok(Err(error)) => Err(format!("{path}: {error}")),
            Err(_) => {
                end(&mut child).await;
                let limit = ringscope_api::words::duration(self.limit);
                Err(format!("{path} did not end within {limit} (--limit), and was killed"))
            }
        }
    }

    fn start(&self, step: &Step) -> std::io::Result<Child> {
        let mut command = Command::new(self.path);
        command
            .env("RINGSCOPE_DRAIN_HOST", &step.host)
            .env("RINGSCOPE_DRAIN_FINDING", step.kind.label())
            .env("RINGSCOPE_DRAIN_SENTENCE", &step.sentence)
            .env("RINGSCOPE_DRAIN_SINCE", step.since.to_string())
            .stdin(Stdio::null())
            .process_group(0)
            .kill_on_drop(true);
        command.spawn()
    }
}

async fn end(child: &mut Child) {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    // One that waits for a file system that does not answer ends when that does.
    let _ = tokio::time::timeout(AFTER_KILL, child.wait()).await;
}

/// What was killed has ended by then.
const AFTER_KILL: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use ringscope_api::FindingKind;
    use ringscope_api::clock::{Timestamp, monotonic};

    use super::super::plan::Verdict;
    use super::*;

    async fn run(script: &str, limit: Duration) -> (Result<(), String>, String) {
        run_text(&format!("#!/bin/sh\ncd \"${{0%/*}}\"\n{script}"), limit).await
    }

    async fn run_text(text: &str, limit: Duration) -> (Result<(), String>, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("drain.sh");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let step = Step {
            host: "n1".into(),
            kind: FindingKind::NicDegraded,
            sentence: "n1: \"$(touch evil)\" is down".into(),
            since: Timestamp(0),
            verdict: Verdict::Drain,
        };
        let ended = Script::new(&path, limit).unwrap().run(&step).await;
        assert!(!dir.path().join("evil").exists());
        (ended, std::fs::read_to_string(dir.path().join("said")).unwrap_or_default())
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn it_is_told_whom_it_drains_and_why() {
        let all = "echo \"$RINGSCOPE_DRAIN_HOST/$RINGSCOPE_DRAIN_FINDING/$RINGSCOPE_DRAIN_SINCE/$RINGSCOPE_DRAIN_SENTENCE\" >said";
        let (ended, said) = run(all, LONG).await;
        assert_eq!(ended, Ok(()));
        assert_eq!(said, "n1/nic_degraded/1970-01-01T00:00:00.000Z/n1: \"$(touch evil)\" is down\n");
    }

    #[tokio::test]
    async fn one_that_fails_or_hangs_has_not_drained() {
        assert!(run("exit 3", LONG).await.0.unwrap_err().contains("exit status: 3"));
        let clock = monotonic();
        let (ended, _) = run("sleep 1000 & wait", Duration::from_millis(200)).await;
        assert!(ended.unwrap_err().contains("--limit"), "it is killed");
        assert!(clock.elapsed() < LONG);
    }

    #[tokio::test]
    async fn one_that_cannot_be_started_is_named() {
        // As where it is removed after the look, or its first line names nothing that is there.
        let (ended, _) = run_text("#!/no/interpreter\n", LONG).await;
        assert!(ended.unwrap_err().contains("does its first line name a program?"));
    }
}
