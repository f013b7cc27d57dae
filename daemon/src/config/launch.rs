//! What launchers and schedulers say of this process in its environment.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ringscope_wire::launch::Launch;
use serde::Serialize;

use super::environment;

/// Where this process belongs, for who reads it later: the host, and the variables that say the rest.
#[derive(Debug, Serialize)]
pub(crate) struct LaunchNote {
    /// Host that the process counts itself to.
    pub(crate) host: String,
    /// What [`Launch::of`] asked for and found: who asks these again is told the same.
    pub(crate) variables: BTreeMap<String, String>,
}

/// What the environment of this process says.
pub(crate) fn launch() -> Launch {
    Launch::of(&environment)
}

/// The same, for others.
pub(crate) fn launch_note() -> LaunchNote {
    let variables = RefCell::new(BTreeMap::new());
    let note = |name: &str| {
        let value = environment(name)?;
        let kept = value[..value.floor_char_boundary(MAX_VALUE_BYTES)].to_owned();
        variables.borrow_mut().insert(name.to_owned(), kept);
        Some(value)
    };
    let told = Launch::of(&note).host;
    let host = if told.is_empty() { host_name() } else { told };
    LaunchNote { host, variables: variables.into_inner() }
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// No name of a pod, a node or a job is longer.
const MAX_VALUE_BYTES: usize = 256;
