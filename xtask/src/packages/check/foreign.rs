//! The .deb of another architecture, installed by dpkg in a root of this machine's: its scripts and files, and its end.

use std::process::Command;

use anyhow::{Result, ensure};

use super::debian::MODES;
use super::{machine, scripts};
use crate::packages::target::Target;
use crate::packages::{distribution, output};
use crate::process::{run, say};

/// Installs and purges it. Its C library is not there, and its programs are not started.
pub(super) fn installs_and_goes(target: Target, release: &str) -> Result<()> {
    let file = distribution::deb(target);
    let root = machine::fresh(release, "foreign")?;
    let before = scripts::inside(&root, ALL)?;
    scripts::inside(&root, &format!("dpkg --add-architecture {}", target.debian()))?;
    let mut install = Command::new("unshare");
    install.args(["--mount", "sh", "-c", r#"mount -t proc proc "$0/proc" && exec dpkg --root="$0" "$@""#]);
    install.arg(&root).args(["--force-depends", "-i"]).arg(&file);
    run(&mut install)?;
    let modes = scripts::inside(&root, scripts::STAT)?;
    ensure!(modes == MODES, "dpkg -i: owners and modes are\n{modes}and not\n{MODES}");
    let known = output(Command::new("dpkg-query").arg("--admindir").arg(root.join("var/lib/dpkg")).args([
        "--show",
        "--showformat=${Architecture} ${db:Status-Status}",
        "ringscope",
    ]))?;
    ensure!(known == format!("{} installed", target.debian()), "dpkg has it as {known}");
    scripts::inside(&root, "dpkg -P ringscope")?;
    let after = scripts::inside(&root, ALL)?;
    ensure!(before == after, "before\n{before}and after\n{after}");
    say(&format!("{}: installs in {release} by dpkg, and goes", file.display()));
    Ok(())
}

/// What of it there could be. Its data stay.
const ALL: &str = "find / -xdev -path '*ringscope*' -not -path '/var/lib/ringscope*' | sort";
