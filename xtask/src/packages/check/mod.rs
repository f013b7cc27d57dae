//! `cargo xtask packages --check`: each package installed as people do it, used, and removed.

mod alone;
mod debian;
mod foreign;
mod machine;
mod scripts;
mod unpacked;
mod upgrade;

use anyhow::Result;

use super::target::Target;
use crate::process::say;
use crate::tools;

/// Tries the packages of these architectures; what is not this machine's is installed without its C library,
/// and its programs run emulated.
pub(super) fn all(targets: &[Target]) -> Result<()> {
    tools::ensure(&[tools::DEBOOTSTRAP, tools::NSPAWN, tools::RPM])?;
    for target in targets {
        unpacked::deb(*target)?;
        alone::rpm(*target)?;
        alone::image(*target)?;
        if target.is_native() {
            scripts::make_users_and_keep_settings(*target, RELEASES[0])?;
            for release in RELEASES {
                debian::lives_and_goes(*target, release)?;
            }
        } else {
            foreign::installs_and_goes(*target, RELEASES[0])?;
        }
    }
    say("the packages install, run, and leave nothing but data");
    Ok(())
}

/// Of Debian: the one that most run, and the newest.
const RELEASES: [&str; 2] = ["bookworm", "trixie"];
/// What every package puts there.
const INSTALLED: [&str; 15] = [
    "/usr/bin/ringscope",
    "/etc/ringscope/ringscope.toml",
    "/etc/ringscope/agent.env",
    "/usr/lib/systemd/system/ringscope-serve.service",
    "/usr/lib/systemd/system/ringscope-agent.service",
    "/usr/lib/systemd/system/ringscope-drain.service",
    "/usr/lib/systemd/system/ringscope-drain.timer",
    "/usr/share/ringscope/slurm/task_prolog.sh",
    "/usr/share/ringscope/slurm/drain.sh",
    "/usr/share/ringscope/slurm/slurm.env",
    "/usr/lib/sysusers.d/ringscope.conf",
    "/usr/lib/tmpfiles.d/ringscope.conf",
    "/usr/share/man/man1/ringscope-serve.1.gz",
    "/usr/share/bash-completion/completions/ringscope",
    "/usr/share/doc/ringscope/install.md",
];
