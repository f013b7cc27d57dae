//! Confines the agent, and says in one line what became of it.

use std::collections::BTreeSet;

use reqwest::Url;

use super::calls::{Role, deny_calls};
use super::files::{self, Held, KNOWN_VERSION, Needs};
use super::hidden::hides_processes;
use crate::config::AgentConfig;
use crate::error::AgentError;
use crate::folders;
use crate::procfs;
use crate::programs::Starter;
use crate::rights::{Returned, Rights};

/// Confines this process, unless its configuration says otherwise; what it gives is the configuration of the agent. To be called
/// while there is no second thread, which would stay free.
///
/// # Errors
/// A folder that the agent needs cannot be had, or the daemon's address is none.
pub fn enter(config: AgentConfig) -> Result<AgentConfig, AgentError> {
    if !config.sandbox {
        tracing::info!("the agent is not confined, as it was told (--no-sandbox, RINGSCOPE_SANDBOX=off)");
        return Ok(config);
    }
    let needs = needs(&config)?;
    folders::prepare(&needs.dir, &needs.state_dir)?;
    Rights::for_looking_alone();
    // Before all else: it must be able to do what this process gives up.
    let starter = Starter::spawn(&config.programs().paths).map_err(AgentError::Starter)?;
    if hides_processes_here() {
        procfs::see_by(Box::new(starter.clone()));
    }
    let files = files::confine(&needs);
    // A right to write any file is for who is held to his folders.
    let returned = if files.is_held() { Returned::HadNone } else { Rights::own().give_back_override() };
    let calls = deny_calls(Role::Agent);
    let words = words(&files, &calls, returned, &needs);
    if files == Held::Wholly && calls.is_ok() {
        tracing::info!("{words}");
    } else {
        tracing::warn!("{words}");
    }
    Ok(AgentConfig { starter: Some(starter), is_held: files.is_held(), ..config })
}

fn needs(config: &AgentConfig) -> Result<Needs, AgentError> {
    let urls = config.ingest_urls()?;
    let ports: BTreeSet<u16> = urls.iter().filter_map(Url::port_or_known_default).collect();
    Ok(Needs { dir: config.dir.clone(), state_dir: config.state_dir.clone(), ports })
}

fn hides_processes_here() -> bool {
    let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let others = rustix::process::getgroups().unwrap_or_default();
    let groups = others.into_iter().chain([rustix::process::getegid()]);
    hides_processes(&mountinfo, &groups.map(rustix::process::Gid::as_raw).collect::<Vec<_>>())
}

/// What became of it, for an operator.
fn words(files: &Held, calls: &Result<(), String>, returned: Returned, needs: &Needs) -> String {
    let mut words = match files {
        Held::Wholly => "the agent is confined by Landlock".to_owned(),
        Held::Partly(version) => format!(
            "the agent is confined as far as this kernel's Landlock goes (version {version} of {KNOWN_VERSION})"
        ),
        Held::Absent => {
            "the agent is not held to its folders: this kernel has no Landlock, as Linux 5.13 and later have \
                         it where it is built in"
                .to_owned()
        }
        Held::Off => {
            "the agent is not held to its folders: Landlock is switched off on this machine; add landlock to \
                      lsm= on the kernel's command line"
                .to_owned()
        }
        Held::Failed(why) => format!("the agent is not held to its folders, because Landlock fails: {why}"),
    };
    if files.is_held() {
        let (dir, state_dir) = (needs.dir.display(), needs.state_dir.display());
        words += &format!(": it writes in {dir} and {state_dir} alone");
    }
    if files.holds_connections() {
        let ports = needs.ports.iter().map(ToString::to_string).collect::<Vec<_>>();
        let noun = if ports.len() == 1 { "port" } else { "ports" };
        words += &format!(", connects by TCP to {noun} {} alone", ports.join(", "));
    }
    words += match returned {
        Returned::HadNone => "",
        Returned::GaveBack => "; so it has given CAP_DAC_OVERRIDE back",
        Returned::Kept => {
            "; and it cannot give CAP_DAC_OVERRIDE back, by which it may write any file: take it from its unit"
        }
    };
    match calls {
        Ok(()) => words += "; system calls that it never needs, exec among them, are denied (seccomp)",
        Err(error) => words += &format!("; no system call is denied, for seccomp fails: {error}"),
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(files: &Held, calls: &Result<(), String>, returned: Returned) -> String {
        let needs = Needs {
            dir: "/dev/shm/ringscope".into(),
            state_dir: "/var/lib/ringscope-agent".into(),
            ports: BTreeSet::from([9440]),
        };
        words(files, calls, returned, &needs)
    }

    #[test]
    fn one_line_says_what_holds() {
        let words = said(&Held::Wholly, &Ok(()), Returned::HadNone);
        assert_eq!(
            words,
            "the agent is confined by Landlock: it writes in /dev/shm/ringscope and /var/lib/ringscope-agent alone, \
             connects by TCP to port 9440 alone; system calls that it never needs, exec among them, are denied (seccomp)"
        );
        let old = said(&Held::Partly(3), &Ok(()), Returned::HadNone);
        assert!(old.contains("(version 3 of 6)") && old.contains("alone") && !old.contains("TCP"), "{old}");
        assert!(said(&Held::Partly(4), &Ok(()), Returned::HadNone).contains("TCP to port 9440"));
    }

    #[test]
    fn a_kernel_without_either_is_said_with_why() {
        let seccomp = Err("Invalid argument".to_owned());
        let none = said(&Held::Absent, &seccomp, Returned::GaveBack);
        for part in [
            "is not held to its folders: this kernel has no Landlock",
            "it has given CAP_DAC_OVERRIDE back",
            "no system call is denied, for seccomp fails: Invalid argument",
        ] {
            assert!(none.contains(part), "{part}: {none}");
        }
        assert!(!none.contains("writes in") && !none.contains('\n'), "{none}");
        let off = said(&Held::Off, &Ok(()), Returned::Kept);
        assert!(off.contains("add landlock to lsm=") && off.contains("take it from its unit"), "{off}");
        assert!(
            said(&Held::Failed("EIO".to_owned()), &Ok(()), Returned::HadNone).contains("Landlock fails: EIO")
        );
    }
}
