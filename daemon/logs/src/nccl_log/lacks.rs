//! What a log does not say, in words that tell the operator what to do about it.

use super::facts::CommunicatorFacts;
use super::log::NcclLog;

/// Whether it is older than the first version whose wording is known, 2.5. RCCL and ringscope's engine never are.
fn is_too_old(version: &str) -> bool {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < (2, 5),
        _ => false,
    }
}

impl NcclLog {
    /// What the log lacks for a full picture, in words for an operator.
    #[must_use]
    pub fn lacks(&self) -> Vec<String> {
        lacks(self)
    }
}

fn lacks(log: &NcclLog) -> Vec<String> {
    let counts = log.counts();
    let mut lacks = Vec::new();
    if let Some(version) = log.version().filter(|version| is_too_old(version)) {
        lacks.push(format!(
            "NCCL {version} is not supported: ringscope reads the logs of NCCL 2.5 and newer, so what it tells of this \
             job may be incomplete"
        ));
    }
    if counts.info + counts.warn == 0 {
        let version = log.version().map(|version| format!(" but the version, {version}"));
        lacks.push(format!(
            "no NCCL record{}: run with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV",
            version.unwrap_or_default()
        ));
        return lacks;
    }
    let said = log.content.said;
    if !said.inits {
        lacks.push("no INIT lines, which name communicators, ranks and counts: run with NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV".to_owned());
    } else if !said.searches {
        lacks.push(
            "no GRAPH lines, which tell the initial channels: run with NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV"
                .to_owned(),
        );
    } else if !said.rings {
        lacks.push("no \"Ring\" lines, printed since NCCL 2.10: only rank 0 tells rings".to_owned());
    }
    let unfinished = log.unfinished();
    let of_log = log.communicators().filter(|facts| !facts.complete);
    let (failed, cut): (Vec<_>, Vec<_>) = unfinished.iter().chain(of_log).partition(|facts| facts.failed);
    if !failed.is_empty() {
        lacks.push(format!("{} inits failed: the lines before their errors are all there is", failed.len()));
    }
    if !cut.is_empty() {
        lacks.push(format!("the log ends in the middle of {} inits, or they hang", cut.len()));
    }
    if said.without_hash && !said.hashes {
        lacks
            .push("no communicator ids, printed since NCCL 2.16: ranks are joined by their order".to_owned());
    }
    // Of the others' own files nothing else is to be expected.
    let of_first = |facts: &CommunicatorFacts| facts.rank == 0;
    if log.version().is_none() && (log.communicators().any(of_first) || unfinished.iter().any(of_first)) {
        lacks.push("no version line: rank 0 prints it".to_owned());
    }
    if !log.unattributed().is_empty() {
        let lines: u64 = log.unattributed().values().sum();
        lacks.push(format!("{lines} connection lines name no communicator and fit none or several"));
    }
    if counts.torn > 0 {
        lacks.push(format!(
            "{} torn lines, {} records of them not read: give each process a file of its own, NCCL_DEBUG_FILE=name.%h.%p",
            counts.torn, counts.cut
        ));
    }
    if counts.left_out_by_ray > 0 {
        lacks.push(format!(
            "Ray left out {} lines that looked to it like others: start the job with RAY_DEDUP_LOGS=0",
            counts.left_out_by_ray
        ));
    }
    if log.too_long() > 0 {
        lacks.push(format!("{} lines were too long to be NCCL's and were skipped", log.too_long()));
    }
    if counts.communicators_forgotten + counts.processes_forgotten > 0 {
        lacks.push(format!(
            "{} communicators and {} processes were forgotten: there were more than memory is set aside for",
            counts.communicators_forgotten, counts.processes_forgotten
        ));
    }
    lacks
}
