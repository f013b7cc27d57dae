//! The scripts of the .rpm, run by rpm itself in a root of Debian, which has their programs: no system of rpm's kin is at hand.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use super::debian::MODES;
use super::machine;
use crate::packages::target::Target;
use crate::packages::{distribution, output};
use crate::process::{run, say};

/// Installs the .rpm with its scripts and removes it; changed settings stay.
pub(super) fn make_users_and_keep_settings(target: Target, release: &str) -> Result<()> {
    let file = distribution::rpm(target);
    let root = machine::fresh(release, "rpm")?;
    let mut install = rpm(&root);
    run(install.args(["-i", "--nodeps", "--nosignature"]).arg(&file))?;
    let modes = inside(&root, STAT)?;
    ensure!(modes == MODES, "rpm -i: owners and modes are\n{modes}and not\n{MODES}");
    inside(&root, "echo '# changed' >> /etc/ringscope/ringscope.toml")?;
    run(rpm(&root).args(["-e", "ringscope"]))?;
    inside(&root, "test ! -e /usr/bin/ringscope -a ! -e /dev/shm/ringscope -a -d /var/lib/ringscope")?;
    inside(&root, "grep -q '# changed' /etc/ringscope/ringscope.toml.rpmsave")?;
    let left = inside(&root, "find / -xdev -path '*ringscope*' -not -path '/var/lib/ringscope*' | sort")?;
    ensure!(left == LEFT, "rpm -e has left\n{left}and not\n{LEFT}");
    say(&format!("{}: installs with its scripts, and goes", file.display()));
    Ok(())
}

/// rpm, whose scripts find `/proc` there, as systemd-tmpfiles wants it.
fn rpm(root: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", r#"mount -t proc proc "$0/proc" && exec rpm --root "$0" "$@""#]);
    command.arg(root);
    command
}

pub(super) fn inside(root: &Path, script: &str) -> Result<String> {
    output(Command::new("chroot").arg(root).args(["env", "LC_ALL=C", "sh", "-c", script]))
}

/// Shows what [`MODES`] has.
pub(super) const STAT: &str = "stat -c '%a %U %G' /etc/ringscope/* /dev/shm/ringscope /var/lib/ringscope*";
/// What somebody has changed.
const LEFT: &str = "/etc/ringscope\n/etc/ringscope/ringscope.toml.rpmsave\n";
