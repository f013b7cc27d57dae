//! `cargo xtask packages --check`: each package installed as people do it, used, and removed.

mod alone;
mod debian;
mod machine;
mod scripts;
mod upgrade;

use anyhow::Result;

use super::target::Target;
use crate::process::say;
use crate::tools;

/// Tries the packages of these architectures; what is not this machine's is installed nowhere, but its programs run.
pub(super) fn all(targets: &[Target]) -> Result<()> {
    tools::ensure(&[tools::DEBOOTSTRAP, tools::NSPAWN, tools::RPM])?;
    for target in targets {
        alone::rpm(*target)?;
        alone::image(*target)?;
        if target.is_native() {
            scripts::make_users_and_keep_settings(*target, RELEASES[0])?;
            for release in RELEASES {
                debian::lives_and_goes(*target, release)?;
            }
        }
    }
    say("the packages install, run, and leave nothing but data");
    Ok(())
}

/// Of Debian: the one that most run, and the newest.
const RELEASES: [&str; 2] = ["bookworm", "trixie"];
