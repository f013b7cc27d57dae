//! The next release over the one that runs: what ran runs anew, what did not stays off, changed settings and data are kept.

use anyhow::{Result, ensure};

use super::machine::Machine;

/// Installs the same package with a higher version and other settings of its own; daemon and agent run before.
pub(super) fn keeps_what_is_there(machine: &Machine) -> Result<()> {
    machine.run(NEXT_RELEASE)?;
    machine.run(&format!("echo '{CHANGED}' >> {SETTINGS}"))?;
    let before = machine.run(LIST_MODES)?;
    machine.run("systemctl disable --now ringscope-agent")?;
    let old = main_process(machine)?;
    install(machine)?;
    machine.wait_for("the next release of the daemon", |machine| {
        let is_another = main_process(machine).is_ok_and(|process| process != old && process != "0");
        let told = machine.try_run("curl --silent --fail http://127.0.0.1:9440/readyz").ok()?;
        (is_another && told.is_good).then_some(())
    })?;
    let agent =
        machine.try_run("systemctl is-active ringscope-agent; systemctl is-enabled ringscope-agent")?;
    ensure!(
        agent.text == "inactive\ndisabled\n",
        "the upgrade has made the agent {:?}, which was off",
        agent.text
    );
    ensure!(machine.run(&format!("cat {SETTINGS}"))?.contains(CHANGED), "the upgrade took a changed setting");
    for file in [&format!("{SETTINGS}.dpkg-dist"), "/etc/ringscope/agent.env"] {
        machine.run(&format!("grep --with-filename '{NEW}' {file}"))?;
    }
    let after = machine.run(LIST_MODES)?;
    ensure!(before == after, "owners and modes were\n{before}and are\n{after}");
    let jobs = machine.run("curl --silent --fail http://127.0.0.1:9440/api/v1/jobs")?;
    ensure!(jobs.contains("smoke"), "the upgrade has lost the job: {jobs}");

    // Both run again, for what removes them.
    machine.run("systemctl enable --now ringscope-agent && rm -rf /root/next /root/next.deb")?;
    Ok(())
}

fn install(machine: &Machine) -> Result<()> {
    let told = machine.run("dpkg --force-confold -i /root/next.deb")?;
    ensure!(!told.contains("nothing is started"), "an upgrade says what to do first:\n{told}");
    Ok(())
}

fn main_process(machine: &Machine) -> Result<String> {
    Ok(machine.run("systemctl show --value -p MainPID ringscope-serve")?.trim().to_owned())
}

const SETTINGS: &str = "/etc/ringscope/ringscope.toml";
const CHANGED: &str = "# changed by an operator";
const NEW: &str = "# of the next release";
const LIST_MODES: &str =
    "stat -c '%n %a %U %G' /etc/ringscope/*.toml /etc/ringscope/*.env /dev/shm/ringscope /var/lib/ringscope*";
const NEXT_RELEASE: &str = "set -e; dpkg-deb --raw-extract /root/ringscope.deb /root/next; \
    sed -i 's/^Version: .*/&+1/' /root/next/DEBIAN/control; \
    echo '# of the next release' | tee -a /root/next/etc/ringscope/ringscope.toml /root/next/etc/ringscope/agent.env; \
    dpkg-deb -Znone --root-owner-group --build /root/next /root/next.deb";
