//! The faults and twins that the job program has (`engine/examples/fault_job`, `--list`), and what must be said of each.

use ringscope_api::FindingKind;
use ringscope_api::FindingKind::{
    CallMismatch, DeviceStalled, HostLost, InitStuck, OrderDeadlock, P2pUnmatched, RankDead, RankMissing,
    TeardownStuck, TransferStalled,
};

use super::slow::Slow;

/// Who is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guilt {
    Victim,
    /// The victim, or the rank after it: the program alone knows who of the two was to do otherwise.
    Pair,
    /// Every rank of the victim's host.
    Host,
    /// Two ranks.
    Two,
    /// Nobody in particular: where progress ends is a link.
    Nobody,
}

pub(crate) struct Case {
    /// Name of the fault to the job program.
    pub(crate) fault: &'static str,
    pub(crate) name: &'static str,
    /// Kinds of which one must be said. Empty: a healthy twin.
    pub(crate) expected: &'static [FindingKind],
    pub(crate) guilt: Guilt,
    /// The watchdogs of the others end them after so many seconds of waiting.
    pub(crate) gives_up_s: Option<u64>,
    /// Seconds within which it must be named. A rank that is merely elsewhere is named after half a minute at least.
    pub(crate) within_s: u64,
    /// How it is slow, or seems to be. Absent: it stands still, or seems to.
    pub(crate) slow: Option<Slow>,
}

pub(crate) const fn fault(fault: &'static str, expected: &'static [FindingKind]) -> Case {
    Case { fault, name: fault, expected, guilt: Guilt::Victim, gives_up_s: None, within_s: 12, slow: None }
}

const fn slow(case: Case) -> Case {
    Case { within_s: 50, ..case }
}

const fn gives_up(after_s: u64, case: Case) -> Case {
    Case { gives_up_s: Some(after_s), within_s: after_s + 15, ..case }
}

pub(crate) const fn by(guilt: Guilt, case: Case) -> Case {
    Case { guilt, ..case }
}

pub(crate) const fn named(name: &'static str, case: Case) -> Case {
    Case { name, ..case }
}

pub(crate) const fn twin(fault: &'static str) -> Case {
    Case {
        fault,
        name: fault,
        expected: &[],
        guilt: Guilt::Nobody,
        gives_up_s: None,
        within_s: 14,
        slow: None,
    }
}

pub(crate) const CASES: [Case; 47] = [
    fault("stop", &[RankMissing, TransferStalled]),
    named("stop_two", by(Guilt::Two, fault("stop", &[RankMissing, TransferStalled]))),
    fault("kill", &[RankDead]),
    named("kill_host", by(Guilt::Host, fault("kill", &[RankDead, HostLost]))),
    fault("crash", &[RankDead]),
    fault("exit", &[RankDead]),
    fault("exit_destroy", &[RankMissing, RankDead, OrderDeadlock]),
    fault("skip_one", &[CallMismatch, RankMissing, OrderDeadlock]),
    slow(fault("busy_loop", &[RankMissing])),
    slow(fault("sleep", &[RankMissing])),
    named("watchdog", gives_up(45, fault("sleep", &[RankMissing]))),
    named("watchdog_after_stop", gives_up(14, fault("stop", &[RankMissing, TransferStalled]))),
    slow(fault("blocked_read", &[RankMissing])),
    slow(fault("blocked_lock", &[RankMissing])),
    fault("other_primitive", &[CallMismatch]),
    fault("other_count", &[CallMismatch]),
    fault("other_type", &[CallMismatch]),
    fault("other_op", &[CallMismatch]),
    fault("other_root", &[CallMismatch]),
    fault("swapped_order", &[OrderDeadlock, CallMismatch]),
    by(Guilt::Pair, slow(fault("send_alone", &[P2pUnmatched]))),
    by(Guilt::Pair, slow(fault("recv_alone", &[P2pUnmatched]))),
    by(Guilt::Pair, fault("send_size", &[P2pUnmatched])),
    slow(fault("init_missing", &[InitStuck])),
    fault("init_other_count", &[InitStuck]),
    slow(fault("split_missing", &[InitStuck])),
    by(Guilt::Pair, slow(fault("pair_init", &[OrderDeadlock, InitStuck]))),
    slow(fault("destroy_stuck", &[TeardownStuck, RankMissing, P2pUnmatched])),
    slow(fault("abort", &[RankMissing, TeardownStuck, P2pUnmatched])),
    slow(fault("raise", &[TeardownStuck, RankMissing, RankDead, OrderDeadlock])),
    slow(fault("stream_busy", &[DeviceStalled, RankMissing, TransferStalled])),
    slow(fault("group_open", &[RankMissing])),
    by(Guilt::Nobody, slow(fault("link_dead", &[TransferStalled]))),
    twin("none"),
    twin("late"),
    twin("slow_start"),
    twin("pauses"),
    twin("checkpoint"),
    twin("evaluation"),
    twin("uneven"),
    twin("early_end"),
    twin("staggered_end"),
    twin("elastic"),
    twin("unused_comm"),
    twin("many_comms"),
    named("checkpoint_long", Case { within_s: 28, ..twin("checkpoint") }),
    named("busy_machine", twin("none")),
];

/// Their names.
pub(crate) const fn names<const N: usize>(cases: &[Case; N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut at = 0;
    while at < N {
        names[at] = cases[at].name;
        at += 1;
    }
    names
}
