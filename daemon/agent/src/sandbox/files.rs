//! What a confined agent may open and where it may connect, by Landlock (Linux 5.13), as far as the kernel's Landlock goes.
//!
//! It reads wherever its user may, for a log lies where a job's `NCCL_DEBUG_FILE` says; whose it is, the agent looks at before it
//! opens it. It writes where it has to, and runs nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, LandlockStatus, NetPort,
    Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
    path_beneath_rules,
};

/// The newest Landlock that this program knows (Linux 6.12): files, devices, TCP, signals and abstract sockets.
const KNOWN: ABI = ABI::V6;
/// Its number.
pub(super) const KNOWN_VERSION: i32 = KNOWN as i32;
/// The first that knows of connections (Linux 6.7).
const WITH_CONNECTIONS: i32 = ABI::V4 as i32;
/// Devices of GPUs, by the beginning of their names.
const GPU: &str = "nvidia";
/// Names of long answers are asked for by TCP.
const DNS_PORT: u16 = 53;

/// What an agent needs.
#[derive(Clone, Debug)]
pub(super) struct Needs {
    /// Segments and logs.
    pub(super) dir: PathBuf,
    /// Batches that wait.
    pub(super) state_dir: PathBuf,
    /// Where the daemon listens.
    pub(super) ports: BTreeSet<u16>,
}

/// What the kernel made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// All of it.
    Wholly,
    /// What this kernel's Landlock knows.
    Partly(i32),
    /// Nothing: the kernel was made without Landlock.
    Absent,
    /// Nothing: it is switched off.
    Off,
    /// Nothing, for another reason.
    Failed(String),
}

impl Held {
    pub(super) const fn is_held(&self) -> bool {
        matches!(self, Self::Wholly | Self::Partly(_))
    }

    pub(super) const fn holds_connections(&self) -> bool {
        match self {
            Self::Wholly => true,
            Self::Partly(version) => *version >= WITH_CONNECTIONS,
            _ => false,
        }
    }
}

/// Confines this thread and all that it makes from now on.
pub(super) fn confine(needs: &Needs) -> Held {
    let status = match restrict(needs) {
        Ok(status) => status,
        Err(error) => return Held::Failed(error.to_string()),
    };
    match (status.ruleset, status.landlock) {
        (RulesetStatus::FullyEnforced, _) => Held::Wholly,
        (RulesetStatus::PartiallyEnforced, LandlockStatus::Available { effective_abi, .. }) => {
            Held::Partly(effective_abi as i32)
        }
        (_, LandlockStatus::NotEnabled) => Held::Off,
        (_, LandlockStatus::NotImplemented) => Held::Absent,
        (status, landlock) => Held::Failed(format!("{status:?}, {landlock:?}")),
    }
}

fn restrict(needs: &Needs) -> Result<landlock::RestrictionStatus, RulesetError> {
    let ports = needs.ports.iter().copied().chain([DNS_PORT]);
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rules(path_beneath_rules(["/"], AccessFs::ReadFile | AccessFs::ReadDir))?
        .add_rules(path_beneath_rules([&needs.dir], segments()))?
        .add_rules(path_beneath_rules([&needs.state_dir], state()))?
        .add_rules(path_beneath_rules(gpus(Path::new("/dev")), AccessFs::WriteFile | AccessFs::IoctlDev))?
        .add_rules(ports.map(|port| Ok::<_, RulesetError>(NetPort::new(port, AccessNet::ConnectTcp))))?
        .restrict_self()
}

/// Words are written into segments, logs are cut, both are removed; the agent's mark is made.
fn segments() -> BitFlags<AccessFs> {
    AccessFs::WriteFile | AccessFs::RemoveFile | AccessFs::MakeReg
}

/// Folders of batches come and go.
fn state() -> BitFlags<AccessFs> {
    segments() | AccessFs::MakeDir | AccessFs::RemoveDir | AccessFs::Truncate
}

/// The driver's files that are there now.
fn gpus(dev: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dev).into_iter().flatten().flatten();
    let is_gpu =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(GPU));
    entries.map(|entry| entry.path()).filter(is_gpu).collect()
}
