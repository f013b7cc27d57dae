//! Trouble with hardware in words, and the files that prove it.

use ringscope_api::Evidence;
use ringscope_api::clock::Timestamp;
use ringscope_api::words::clock;
use ringscope_model::{ErrorCount, Name, Nic, Port};

use super::errors::Bad;

/// What a port is compared with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// So many other hosts.
    Others(usize),
    /// So many NICs of the same host.
    Siblings(usize),
    /// The port itself, earlier.
    Before,
}

/// "is down (DOWN, Polling), while it is up on 7 other hosts". Ethernet says no more than that it is down.
pub(super) fn down(nic: &Nic, why: &Why) -> String {
    let state = match (&*nic.state, &*nic.physical_state) {
        (state, "") if state.eq_ignore_ascii_case("down") => String::new(),
        (state, "") => format!(" ({state})"),
        (state, physical) => format!(" ({state}, {physical})"),
    };
    let why = match why {
        Why::Others(1) => "while it is up on the other host".to_owned(),
        Why::Others(n) => format!("while it is up on {n} other hosts"),
        Why::Siblings(1) => "while the other one of the host is up".to_owned(),
        Why::Siblings(n) => format!("while {n} others of the host are up"),
        Why::Before => "and was up before".to_owned(),
    };
    format!("is down{state}, {why}")
}

/// "is missing: the host showed it before, at 0000:3b:00.0".
pub(super) fn missing(nic: &Nic) -> String {
    let place = if nic.pci.is_empty() { String::new() } else { format!(", at {}", nic.pci) };
    format!("is missing: the host showed it before{place}")
}

/// "runs at 100 instead of 200 Gb/s, which it has on most other hosts".
pub(super) fn slow(is: u64, usual: u64, why: &Why) -> String {
    let why = match why {
        Why::Others(1) => "which it has on the other host",
        Why::Others(_) => "which it has on most other hosts",
        Why::Siblings(_) => "which most others of the host have",
        Why::Before => "which it had before",
    };
    format!("runs at {}, {why}", rates(is, usual))
}

/// "its rate fell from 200 to 100 Gb/s at 2026-11-22 14:03:07 UTC".
pub(super) fn fell(from: u64, to: u64, at: Timestamp) -> String {
    format!("its rate fell from {} to {} Gb/s at {}", gigabits(from), gigabits(to), clock(at))
}

/// "100 instead of 200 Gb/s".
pub(super) fn rates(is: u64, usual: u64) -> String {
    format!("{} instead of {} Gb/s", gigabits(is), gigabits(usual))
}

/// "flaps: its link went down 5 times in ten minutes".
pub(super) fn flapping(downs: u64) -> String {
    format!("flaps: its link went down {downs} times in ten minutes")
}

/// "counts errors: symbol_error rose by 120 (by 0 on most of its like) in ten minutes".
pub(super) fn errors(errors: &[Bad]) -> String {
    let mut worst: Vec<&Bad> = errors.iter().collect();
    worst.sort_by_key(|bad| std::cmp::Reverse(bad.error.risen));
    let one = |Bad { error, usual }: &&Bad| {
        let usual = usual.map(|usual| format!(" (by {usual} on most of its like)")).unwrap_or_default();
        format!("{} rose by {}{usual}", error.name, error.risen)
    };
    let named: Vec<String> = worst.iter().take(NAMED).map(one).collect();
    let more = match worst.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("counts errors: {}{more} in ten minutes", named.join(", "))
}

/// "host-3 shows 7 GPUs; it showed 8 before".
pub(super) fn fewer_gpus_than_before(host: &Name, n: usize, before: usize) -> String {
    format!("{}; it showed {before} before", shows(host, n))
}

/// "host-3 shows 7 GPUs; most hosts of job train show 8".
pub(super) fn fewer_gpus_than_peers(host: &Name, n: usize, usual: usize, job: &Name) -> String {
    format!("{}; most hosts of job {job} show {usual}", shows(host, n))
}

/// "host-3 shows 7 GPUs".
pub(super) fn shows(host: &str, n: usize) -> String {
    format!("{host} shows {}", gpus(n))
}

fn gpus(n: usize) -> String {
    if n == 1 { "1 GPU".to_owned() } else { format!("{n} GPUs") }
}

/// The file that says the state, as it reads.
pub(super) fn state_line(port: &Port, nic: &Nic) -> Evidence {
    let number = STATES.iter().find(|(_, word)| *word == &*nic.state).filter(|_| !port.is_interface);
    let text = number.map_or_else(|| nic.state.to_string(), |(number, word)| format!("{number}: {word}"));
    Evidence { file: nic.state_file.to_string(), line: 1, text }
}

/// The file that said the state.
pub(super) fn missing_line(nic: &Nic) -> Evidence {
    Evidence { file: nic.state_file.to_string(), line: 1, text: "no such file".to_owned() }
}

/// The file that says the rate.
pub(super) fn rate_line(port: &Port, nic: &Nic, is: u64) -> Evidence {
    let (file, text) = match port.is_interface {
        true => ("speed", (is / 1_000_000).to_string()),
        false => ("rate", format!("{} Gb/sec", gigabits(is))),
    };
    Evidence { file: beside(nic, file), line: 1, text }
}

/// The counter of links that went down, if it is counted.
pub(super) fn downs_line(port: &Port, nic: &Nic) -> Option<Evidence> {
    let file = if port.is_interface { "carrier_down_count" } else { "counters/link_downed" };
    Some(Evidence { file: beside(nic, file), line: 1, text: nic.link_downs()?.to_string() })
}

/// A counter of errors, and by how much it rose.
pub(in super::super) fn error_line(port: &Port, nic: &Nic, error: &ErrorCount) -> Evidence {
    let folder = match port.is_interface {
        true => "statistics",
        false if STANDARD.contains(&&*error.name) => "counters",
        false => "hw_counters",
    };
    let text = format!("{} ({} in the last ten minutes)", error.value, error.risen);
    Evidence { file: beside(nic, &format!("{folder}/{}", error.name)), line: 1, text }
}

/// A file in the folder of the one that says the state.
pub(in super::super) fn beside(nic: &Nic, file: &str) -> String {
    let folder = nic.state_file.rsplit_once('/').map_or("", |(folder, _)| folder);
    format!("{folder}/{file}")
}

/// "200", "2.5".
fn gigabits(bits_per_s: u64) -> String {
    let (whole, rest) = (bits_per_s / 1_000_000_000, bits_per_s % 1_000_000_000 / 10_000_000);
    match rest {
        0 => whole.to_string(),
        rest => format!("{whole}.{rest:02}").trim_end_matches('0').to_owned(),
    }
}

/// More names than this tell an operator nothing that the page does not tell better.
const NAMED: usize = 3;

/// Linux, drivers/infiniband/core/sysfs.c, `state_show`.
const STATES: [(u32, &str); 6] =
    [(0, "NOP"), (1, "DOWN"), (2, "INIT"), (3, "ARMED"), (4, "ACTIVE"), (5, "ACTIVE_DEFER")];

/// The counters of the InfiniBand standard that are errors (there, `PORT_PMA_ATTR`); all others are the driver's own.
const STANDARD: [&str; 11] = [
    "symbol_error",
    "link_error_recovery",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_discards",
    "port_xmit_constraint_errors",
    "port_rcv_constraint_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "VL15_dropped",
];
