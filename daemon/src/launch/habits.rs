//! What is wrong with a command line, for who is used to another launcher: its options, in this one's.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// What options of mpirun, torchrun and horovodrun are here.
const HABITS: [(&[&str], &str); 13] = [
    (&["-np", "--np"], "-n N says how many workers there are in all"),
    (
        &["--nproc_per_node", "--nproc-per-node"],
        "-n N starts N workers on this machine; on several, -H a:N,b:N says how many each takes",
    ),
    (
        &["--nnodes"],
        "-H a:4,b:4 names the hosts and how many workers each takes; where each node is started by itself: --node I/N --meet HOST:PORT",
    ),
    (
        &["--node_rank", "--node-rank"],
        "--node I/N says which node this is of how many, with --meet HOST:PORT",
    ),
    (
        &["--rdzv_endpoint", "--rdzv-endpoint", "--master_port", "--master-port"],
        "--meet HOST:PORT says where nodes meet that are started by themselves, with --node I/N; with -H nothing is needed",
    ),
    (&["--rdzv_id", "--rdzv-id"], "--job NAME says the job's name"),
    (
        &["--rdzv_backend", "--rdzv-backend", "--standalone", "--tag-output"],
        "leave it out: nothing is needed here",
    ),
    (&["--max_restarts", "--max-restarts"], "--restarts N says how often the job is started again"),
    (&["--log_dir", "--log-dir", "--output-filename"], "--output DIR writes a file for each process"),
    (&["-hostfile", "-machinefile", "--machinefile"], "--hostfile FILE names a file with the hosts"),
    (&["-host", "--host"], "-H a:4,b:4 names the hosts and how many workers each takes"),
    (&["-wdir", "--wdir"], "--chdir DIR says in which folder processes start"),
    (&["--start-timeout"], "--connect-timeout 30s says how long a host may take to answer"),
];

/// Says which option of `launch` was meant, or that a command which stands where options do belongs behind `--`. `words` are all
/// that were given behind `launch`.
pub(crate) fn explain(error: clap::Error, launch: Option<&clap::Command>, words: &[OsString]) -> clap::Error {
    let command = misplaced(&error);
    let is_option = |word: &&str| *word != "--" && Some(*word) != command.as_deref();
    // -hostfile begins as -h does.
    let is_wrong = |word: &&str| error.kind() != ErrorKind::DisplayHelp || word.starts_with("-h");
    let options = words.iter().map(|word| word.to_str().unwrap_or_default()).take_while(is_option);
    let habit = options.filter(is_wrong).find_map(|word| {
        let option = word.split('=').next()?;
        let (_, tip) = HABITS.iter().find(|(known, _)| known.contains(&option))?;
        Some((option, (*tip).to_owned()))
    });
    let tip = command.as_ref().map(|word| {
        (word.as_str(), format!("the command stands behind --: ringscope launch [OPTIONS] -- {word} ..."))
    });
    let Some((word, tip)) = habit.or(tip) else { return error };
    let mut explained = clap::Error::new(ErrorKind::UnknownArgument);
    if let Some(launch) = launch {
        explained = explained.with_cmd(launch);
    }
    explained.insert(ContextKind::InvalidArg, ContextValue::String(word.to_owned()));
    explained.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    explained.insert(ContextKind::Usage, ContextValue::StyledStr(format!("Usage: {USAGE}").into()));
    explained
}

/// How it is called.
pub(super) const USAGE: &str = "ringscope launch [OPTIONS] -- <CMD>...";

/// A word that stands where options do and is none.
fn misplaced(error: &clap::Error) -> Option<String> {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word))
            if error.kind() == ErrorKind::UnknownArgument && !word.starts_with('-') =>
        {
            Some(word.clone())
        }
        _ => None,
    }
}
