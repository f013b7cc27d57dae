//! What this agent may do beyond its own files, and what is not seen for want of it. No root is needed: a user of its own with
//! some capabilities does, and each of them can be left out.

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, configure_capability_in_ambient_set, set_capabilities,
};

/// A right that may lack, and what is not seen without it.
const NEEDED: [(CapabilitySet, &str, &str); 5] = [
    (
        CapabilitySet::DAC_READ_SEARCH,
        "CAP_DAC_READ_SEARCH",
        "jobs of other users are not watched, for their segments and logs are theirs alone",
    ),
    (
        CapabilitySet::SYS_PTRACE,
        "CAP_SYS_PTRACE",
        "what their processes do while a job hangs (stacks, system calls) is not seen",
    ),
    (
        CapabilitySet::SYSLOG,
        "CAP_SYSLOG",
        "the kernel's messages (Xid, links, out of memory) may not be readable",
    ),
    (
        CapabilitySet::DAC_OVERRIDE,
        "CAP_DAC_OVERRIDE",
        "levels of their processes cannot be set from here, their private logs are not cut short and stay until they \
         start a job again, and places of their communicators that ended are used again only when there is no other",
    ),
    (
        CapabilitySet::FOWNER,
        "CAP_FOWNER",
        "segments of their processes that ended are left in the folder until they start a job again (`ringscope run`)",
    ),
];

/// What became of a right that was to be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Returned {
    /// There was none. Root has all by being root.
    HadNone,
    GaveBack,
    /// The system does not let it go.
    Kept,
}

/// What this process may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rights(CapabilitySet);

impl Rights {
    /// Those that are in effect. Where that cannot be said, none is thought to lack.
    pub(super) fn own() -> Self {
        Self(capabilities(None).map_or(CapabilitySet::all(), |sets| sets.effective))
    }

    /// Gives no program that is started from now on a right to change what is others'. Root's have it by being root's.
    pub(super) fn for_looking_alone() {
        for right in [CapabilitySet::DAC_OVERRIDE, CapabilitySet::FOWNER] {
            // Where there is none to give, none is given.
            let _ = configure_capability_in_ambient_set(right, false);
        }
    }

    /// Gives the right to write any file back, for good.
    pub(super) fn give_back_override(self) -> Returned {
        if rustix::process::geteuid().is_root() || !self.0.contains(CapabilitySet::DAC_OVERRIDE) {
            return Returned::HadNone;
        }
        let without = |sets: CapabilitySets| CapabilitySets {
            effective: sets.effective - CapabilitySet::DAC_OVERRIDE,
            permitted: sets.permitted - CapabilitySet::DAC_OVERRIDE,
            inheritable: sets.inheritable - CapabilitySet::DAC_OVERRIDE,
        };
        match capabilities(None).and_then(|sets| set_capabilities(None, without(sets))) {
            Ok(()) => Returned::GaveBack,
            Err(_) => Returned::Kept,
        }
    }

    /// What lacks, and what is not seen for it. Empty: nothing.
    fn lacks(self) -> Vec<String> {
        let lacking = NEEDED.iter().filter(|(right, ..)| !self.0.contains(*right));
        lacking.map(|(_, name, what)| format!("{name}: {what}")).collect()
    }

    /// Says in one line what lacks.
    pub(super) fn say(self) {
        let lacks = self.lacks();
        if !lacks.is_empty() {
            let user = rustix::process::geteuid().as_raw();
            tracing::warn!(user, "the agent works without {}", lacks.join("; without "));
        }
    }

    /// What to give an agent that may not read other users' files.
    pub(super) const fn remedy() -> &'static str {
        "give it the capability CAP_DAC_READ_SEARCH (AmbientCapabilities= of its unit), or run it as the user of the job"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_right_that_lacks_is_said_with_what_is_not_seen() {
        assert!(Rights(CapabilitySet::all()).lacks().is_empty());
        let lacks = Rights(CapabilitySet::all() - CapabilitySet::SYSLOG).lacks();
        assert_eq!(
            lacks,
            ["CAP_SYSLOG: the kernel's messages (Xid, links, out of memory) may not be readable"]
        );
        assert_eq!(Rights(CapabilitySet::empty()).lacks().len(), NEEDED.len());
    }
}
