//! What an experiment stands on: the built programs, a folder, a network, a daemon.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::confine;
use super::daemon::Daemon;
use super::network::{Network, host_name};
use super::report::Report;
use crate::build::COLLECTOR;
use crate::process::{cargo, root, run, say, target_dir};

/// Which build runs.
#[derive(Clone, Debug)]
pub(crate) enum Build {
    /// What `cargo xtask test` has built.
    Debug,
    /// For figures.
    Release,
    /// What another chore has built.
    Built(PathBuf),
}

/// Builds what the experiments run: daemon, collector and engine, or the engine alone; the folder that they are in.
pub(crate) fn build(build: Build, with: With) -> Result<PathBuf> {
    // One command for all: of two, each would link the engine anew, for they see other features of what it depends on.
    let (folder, cargo) = match build {
        Build::Debug => (target_dir().join("debug"), Some(crate::build::debug())),
        Build::Release => {
            let mut cargo = cargo(["build", "--lib", "--bins", "--release", "-p", "ringscope-engine"]);
            if with.ringscope {
                cargo.args(["-p", "ringscope"]).args(COLLECTOR);
            }
            (target_dir().join("release"), Some(cargo))
        }
        Build::Built(folder) => (folder, None),
    };
    if let Some(mut cargo) = cargo {
        if with.summation {
            cargo.args(["--example", SUMMING, "--example", PLACEMENT]);
        }
        if with.scaling {
            cargo.args(["--example", "simulate", "--example", "simulate_summation"]);
        }
        run(&mut cargo)?;
    }
    compile("xtask/src/rig/rank.c", &folder, RANK)?;
    if with.scaling {
        compile("xtask/src/rig/scaling/step.c", &folder, STEP)?;
    }
    Ok(folder)
}

/// A C program against the engine's library.
fn compile(source: &str, folder: &Path, name: &str) -> Result<()> {
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-O2", "-I"]).arg(root().join("engine/include"));
    cc.arg(root().join(source)).arg("-o").arg(folder.join(name)).arg("-L").arg(folder);
    run(cc.args(["-lrsccl", "-Wl,-rpath,$ORIGIN"]))
}

/// What is built beside the engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct With {
    /// Daemon and collector.
    pub(crate) ringscope: bool,
    /// The processes of a summation group.
    pub(crate) summation: bool,
    /// Ranks of training steps, and simulations.
    pub(crate) scaling: bool,
}

/// A network with ringscope on it.
#[derive(Debug)]
pub(crate) struct Stage {
    /// Folder of the built programs.
    pub(crate) programs: PathBuf,
    /// Where logs are left.
    pub(crate) folder: PathBuf,
    /// The hosts.
    pub(crate) network: Network,
    /// ringscope.
    pub(crate) daemon: Daemon,
    is_kept: bool,
}

impl Stage {
    /// Builds the network, and starts the daemon and the agents.
    pub(crate) fn set(
        programs: &Path,
        name: &str,
        n_hosts: usize,
        rate_mbit: u32,
        keep: bool,
    ) -> Result<Self> {
        Self::set_with(programs, name, (n_hosts, rate_mbit), keep, None)
    }

    /// The same, where agents read what NICs say of themselves in files that `made` makes in a folder: those of each host in one of
    /// its name.
    pub(crate) fn set_with(
        programs: &Path,
        name: &str,
        (n_hosts, rate_mbit): (usize, u32),
        keep: bool,
        made: Option<fn(&Path) -> Result<()>>,
    ) -> Result<Self> {
        let folder = target_dir().join("rig").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let network = Network::build(n_hosts, rate_mbit)?;
        let sysfs = made.map(|_| folder.join("sysfs"));
        if let Some((made, sysfs)) = made.zip(sysfs.as_ref()) {
            made(sysfs)?;
        }
        let daemon = Daemon::start(programs, &folder, &network, n_hosts, sysfs.as_deref())?;
        say(&format!("{name}: {n_hosts} hosts at {rate_mbit} Mbit/s a NIC; logs in {}", folder.display()));
        Ok(Self { programs: programs.to_owned(), folder, network, daemon, is_kept: keep })
    }

    /// Takes it down; if so wished, shows what was found and lets it stand.
    pub(crate) fn clear(self, report: &Report) -> Result<()> {
        if self.is_kept {
            report.print(false)?;
            say(&format!("it stands until Ctrl-C; enter a host with: {}", confine::entrance(&host_name(0))));
            loop {
                std::thread::sleep(Duration::from_secs(3600));
            }
        }
        drop(self.daemon);
        self.network.clear()
    }
}

/// Name of the rank program.
pub(crate) const RANK: &str = "rig-rank";
/// Name of the rank program of training steps.
pub(crate) const STEP: &str = "rig-step";
/// Name of what only sums.
pub(crate) const SUMD: &str = "ringscope-sumd";
/// Name of the example that is one process of a summation group.
pub(crate) const SUMMING: &str = "summing";
/// Name of the example that compares placements.
pub(crate) const PLACEMENT: &str = "placement";
