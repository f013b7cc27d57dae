//! Members in words.

use std::time::Duration;

use ringscope_api::SummationRole as Role;
use ringscope_api::words;
use ringscope_model::Process;
use ringscope_model::summation::Place;
use ringscope_wire::batch::Look;

use super::super::seen;
use super::Subject;

impl Subject<'_> {
    /// "worker 2 (train-2, rank 18)", "server 0 (sum-0)".
    pub(super) fn who(self, place: Place) -> String {
        let (role, index) = place;
        let process = self.group.process(place, self.model);
        let rank = process.and_then(|process| process.identity()?.global_rank);
        let host = match self.group.host(place, self.model) {
            "" => "unknown host",
            host => host,
        };
        match rank.filter(|_| role == Role::Worker) {
            Some(rank) => format!("{} {index} ({host}, rank {rank})", role.label()),
            None => format!("{} {index} ({host})", role.label()),
        }
    }

    /// As [`Subject::who`], of several ranks of the group.
    pub(super) fn who_all(self, ranks: impl Iterator<Item = u32>) -> String {
        let names: Vec<String> = ranks.filter_map(|rank| Some(self.who(self.group.place(rank)?))).collect();
        words::list(&names, NAMED)
    }
}

/// What to do about a worker that a round waits for: why, and in which of its stages that is held.
pub(super) fn advice_to_stuck(
    subject: Subject<'_>,
    place: Place,
    (cause, stage): (&str, &str),
    look: Option<&Look>,
) -> String {
    let Subject { group, model, .. } = subject;
    let host = group.host(place, model);
    let process = group.process(place, model);
    let is_inside = process.is_some_and(|process| model.is_in_container(process));
    let there = if is_inside { format!("{host}, inside its container") } else { host.to_owned() };
    let pid = process.and_then(Process::identity).map_or(0, |identity| identity.pid);
    let remedy =
        || look.filter(|_| cause == "not_submitted").and_then(|look| seen::remedy(look, &there, pid));
    match cause {
        STOPPED => format!("On {there}: `kill -CONT {pid}` lets it go on; find out who stopped it."),
        "process_gone" => format!(
            "Look at what it wrote last, and at the kernel's log of {host} (out of memory, Xid). Only a restart of the job \
             frees the others."
        ),
        "not_heard" => format!("See whether {host} answers and its agent runs there."),
        "in_pipeline" if stage != "push" => format!(
            "See what keeps its CPUs busy (`top -H -p {pid}` on {there}): the stage {stage} needs them, and the network is not \
             the cause."
        ),
        "in_pipeline" => format!(
            "Look at the network between {host} and the service that sums the part: the NICs on the host's page, their rates \
             and errors."
        ),
        "not_taken" => format!("On {there}: `ss -tin` shows what waits to be read by pid {pid}."),
        _ => remedy().unwrap_or_else(|| {
            format!(
                "See what it does (`py-spy dump --pid {pid}` on {there}): the others go on as soon as it contributes, and the \
                 network is not the cause."
            )
        }),
    }
}

/// How long something lasts at least, in steps, so that a message does not change with every look.
pub(super) fn at_least(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let step = STEPS_S.into_iter().rev().find(|step| *step <= seconds).unwrap_or(seconds);
    words::duration(Duration::from_secs_f64(step))
}

/// A number with one digit that counts: "17" as "10", for the same reason.
pub(super) fn rounded(number: u64) -> u64 {
    let power = 10_u64.pow(number.checked_ilog10().unwrap_or(0));
    number / power * power
}

/// Cause: a signal or a debugger has stopped its process.
pub(super) const STOPPED: &str = "stopped";

/// More names than this tell an operator nothing that the page does not tell better.
const NAMED: usize = 4;

/// Seconds.
const STEPS_S: [f64; 10] = [1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 300.0, 600.0, 3_600.0, 36_000.0];
