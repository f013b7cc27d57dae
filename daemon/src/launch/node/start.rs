//! Starts one host's processes, and looks before whether that can be done.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::Access;

use crate::launch::OWN_PROGRAM;
use crate::launch::inherited::Inherited;
use crate::launch::protocol::{Process, Role, Share};
use crate::launch::{config, open_files};

/// Why a share cannot be started, and what exit status that is.
pub(super) struct Refusal {
    pub(super) text: String,
    pub(super) status: u8,
}

/// A process that was started.
pub(super) struct Started {
    pub(super) pid: u32,
    pub(super) out: OwnedFd,
    pub(super) err: OwnedFd,
}

/// Looks whether the folder and the programs are there, and whether the output of so many processes can be taken.
pub(super) fn check(share: &Share) -> Result<(), Refusal> {
    let n_processes = share.processes.len();
    open_files::check(&format!("{n_processes} processes on one host"), n_processes.saturating_mul(STREAMS))
        .map_err(|text| Refusal { text, status: 1 })?;
    let dir = share.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    if let Err(error) = std::fs::read_dir(&dir) {
        let text = format!(
            "cannot start in {}: {error}; name a folder that all hosts have with --chdir",
            dir.display()
        );
        return Err(Refusal { text, status: 1 });
    }
    let has = |wanted: fn(&Role) -> bool| share.processes.iter().any(|process| wanted(&process.role));
    if has(|role| matches!(role, Role::Worker(_))) {
        let command = share.command.as_ref().and_then(|command| command.first());
        find(command.map_or(OsStr::new(""), OsString::as_os_str), &dir, share)?;
    }
    if has(|role| matches!(role, Role::Server(_))) {
        let server = server(share);
        find(&server, &dir, share).map_err(|Refusal { text, status }| Refusal {
            text: format!("{text}. It is the summation servers' program: name it with --sumd"),
            status,
        })?;
    }
    Ok(())
}

/// The servers' program: the one that was named, or beside this one, or in PATH.
fn server(share: &Share) -> OsString {
    if let Some(named) = &share.server {
        return named.clone();
    }
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(SUMD)));
    beside.filter(|beside| beside.is_file()).map_or_else(|| SUMD.into(), PathBuf::into_os_string)
}

/// As `execvp` looks.
fn find(program: &OsStr, dir: &Path, share: &Share) -> Result<(), Refusal> {
    let named = Path::new(program);
    let places: Vec<PathBuf> = if named.components().count() > 1 || named.is_absolute() {
        vec![dir.join(named)]
    } else {
        let path = variable(share, "PATH").or_else(config::path).unwrap_or_else(|| DEFAULT_PATH.into());
        std::env::split_paths(&path).map(|folder| dir.join(folder).join(named)).collect()
    };
    if places.iter().any(|place| place.is_file() && rustix::fs::access(place, Access::EXEC_OK).is_ok()) {
        return Ok(());
    }
    let (why, status) = match places.iter().find(|place| place.exists()) {
        Some(place) => (format!("{} cannot be executed: chmod +x it, or name another", place.display()), 126),
        None => ("the command is not found: install it there, or name it by its path".to_owned(), 127),
    };
    Err(Refusal { text: format!("{}: {why}", program.display()), status })
}

fn variable(share: &Share, name: &str) -> Option<OsString> {
    share.environment.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.clone())
}

/// Starts one process of the share, watched as this run.
pub(super) fn start(
    share: &Share,
    process: &Process,
    run: &str,
    inherited: Inherited,
) -> io::Result<Started> {
    let (out, out_end) = io::pipe()?;
    let (err, err_end) = io::pipe()?;
    let mut command = Command::new(OWN_PROGRAM);
    command.arg0("ringscope").args(["launch-rank", "--parent", &std::process::id().to_string()]);
    match &share.watch {
        Some(options) => command.args(options).args(["--reaped-as", run]),
        None => command.arg("--bare"),
    };
    command.arg("--");
    match process.role {
        Role::Server(_) => command.arg(server(share)),
        Role::Worker(_) => command.args(share.command.iter().flatten()),
    };
    if let Some(dir) = &share.dir {
        command.current_dir(dir);
    }
    command.envs(share.environment.iter().map(|(name, value)| (name, value)));
    command.envs(process.variables.iter().map(|(name, value)| (name, value))).env_remove(config::SECRET);
    command.stdin(Stdio::null()).stdout(out_end).stderr(err_end);
    inherited.hand_on(&mut command);
    let pid = command.spawn()?.id();
    Ok(Started { pid, out: out.into(), err: err.into() })
}

/// What a process writes to.
const STREAMS: usize = 2;
const SUMD: &str = "ringscope-sumd";
/// Where the C library looks without PATH. Source: execvp(3), glibc.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
