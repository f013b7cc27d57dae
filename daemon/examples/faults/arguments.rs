//! The suite's arguments, and the names of its faults. `cargo xtask faults` reads them before it builds anything, so nothing of
//! ringscope is used here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Faults of jobs, and whether ringscope names who is at fault
#[derive(Debug, Parser)]
#[command(name = "cargo xtask faults --", after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) suite: Suite,
    /// The binary under test; the libraries lie beside it. `cargo xtask faults` gives it
    #[arg(long, global = true, default_value = "target/debug/ringscope")]
    pub(crate) ringscope: PathBuf,
    /// Random moments of each fault
    #[arg(long, global = true, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: u64,
    /// The first of them
    #[arg(long, global = true, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Only ranks and hosts that are slow, and healthy jobs that look like it: who is named, how soon, and whether what it is said
    /// to cost is right
    #[arg(long, global = true)]
    pub(crate) slow: bool,
    /// Only faults whose name contains this; the names are below the help of `engine` and of `fleet`
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) only: Option<String>,
    /// Write every trial to this file too, as JSON
    #[arg(long, global = true)]
    pub(crate) json: Option<PathBuf>,
}

/// Which jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum Suite {
    /// Real processes on the engine
    #[command(after_help = help(&ENGINE, &ENGINE_SLOW))]
    Engine(Engine),
    /// Ranks that are not there
    #[command(after_help = help(&FLEET, &FLEET_SLOW))]
    Fleet(Fleet),
}

/// What is asked of real jobs.
#[derive(Debug, Args)]
pub(crate) struct Engine {
    /// The job program, `engine/examples/fault_job`. `cargo xtask faults` gives it
    #[arg(long, default_value = "target/fault_job")]
    pub(crate) program: PathBuf,
    /// Ranks of every job: a multiple of 8. Default: 4, 8 and 12 by the seed
    #[arg(long, value_parser = whole_hosts::<8>)]
    pub(crate) ranks: Option<u32>,
    /// Trials at a time
    #[arg(long, default_value_t = 2)]
    pub(crate) parallel: usize,
    /// The version of NCCL that the engine behaves as
    #[arg(long, value_name = "VERSION", default_value = "2.28", value_parser = VERSIONS)]
    pub(crate) faithful: String,
    /// Only healthy jobs, one after another for so many minutes
    #[arg(long, value_name = "MINUTES")]
    pub(crate) healthy: Option<u64>,
    /// Only what it costs a healthy job that the daemon asks for each of its network steps: so many jobs, each with and without
    #[arg(long, value_name = "ROUNDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) detail: Option<u32>,
}

/// What is asked of simulated jobs.
#[derive(Debug, Args)]
pub(crate) struct Fleet {
    /// Ranks of the job: a multiple of 8
    #[arg(long, default_value_t = 1000, value_parser = whole_hosts::<16>)]
    pub(crate) ranks: u32,
    /// Milliseconds between two readings of an agent
    #[arg(long, default_value_t = 1000)]
    pub(crate) interval_ms: u64,
}

impl Arguments {
    /// Whether a fault of this name is to be tried.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|part| name.contains(part.as_str()))
    }

    /// The names that may be asked for.
    fn names(&self) -> Vec<&'static str> {
        let (hangs, slow): (&[&str], &[&str]) = match self.suite {
            Suite::Engine(_) => (&ENGINE, &ENGINE_SLOW),
            Suite::Fleet(_) => (&FLEET, &FLEET_SLOW),
        };
        if self.slow { slow.to_vec() } else { [hangs, slow].concat() }
    }

    /// # Errors
    /// In words: no fault is called so.
    pub(crate) fn check(&self) -> Result<(), String> {
        let names = self.names();
        if names.iter().any(|name| self.wants(name)) {
            return Ok(());
        }
        let only = self.only.as_deref().unwrap_or_default();
        Err(format!("--only {only}: no fault has this in its name. {}", in_words(&names)))
    }
}

/// Ranks of hosts that are full, at least so many.
fn whole_hosts<const LEAST: u32>(text: &str) -> Result<u32, String> {
    let ranks: u32 = text.parse().map_err(|_| "not a number".to_owned())?;
    if !ranks.is_multiple_of(8) || !(LEAST..=20_000).contains(&ranks) {
        return Err(format!("ranks come in hosts of 8: a multiple of 8, from {LEAST} to 20000"));
    }
    Ok(ranks)
}

/// Whether two lists have the same names in the same order.
pub(crate) const fn are_same(one: &[&str], other: &[&str]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        let (name, also) = (one[at].as_bytes(), other[at].as_bytes());
        if name.len() != also.len() {
            return false;
        }
        let mut byte = 0;
        while byte < name.len() {
            if name[byte] != also[byte] {
                return false;
            }
            byte += 1;
        }
        at += 1;
    }
    true
}

fn in_words(names: &[&str]) -> String {
    format!("Names for --only: {}", names.join(", "))
}

fn help(hangs: &[&str], slow: &[&str]) -> String {
    format!("{}\n\nWith --slow: {}", in_words(&[hangs, slow].concat()), slow.join(", "))
}

/// Shown below the help.
const EXAMPLES: &str = "Examples:
  cargo xtask faults                                        all faults of real jobs, hangs and slowness, three times each
  cargo xtask faults -- engine --slow                       slow ranks and hosts only
  cargo xtask faults -- engine --slow --only nested --seeds 1
  cargo xtask faults -- fleet --slow --ranks 10000          the same among so many simulated ranks

Exit status 1: something was missed or named late, somebody innocent was accused, or a cost was wrong.";

/// As `RSCCL_FAITHFUL` takes them.
const VERSIONS: [&str; 4] = ["2.27", "2.28", "2.30", "2.32"];

/// The faults of real jobs, and their healthy twins.
pub(crate) const ENGINE: [&str; 47] = [
    "stop",
    "stop_two",
    "kill",
    "kill_host",
    "crash",
    "exit",
    "exit_destroy",
    "skip_one",
    "busy_loop",
    "sleep",
    "watchdog",
    "watchdog_after_stop",
    "blocked_read",
    "blocked_lock",
    "other_primitive",
    "other_count",
    "other_type",
    "other_op",
    "other_root",
    "swapped_order",
    "send_alone",
    "recv_alone",
    "send_size",
    "init_missing",
    "init_other_count",
    "split_missing",
    "pair_init",
    "destroy_stuck",
    "abort",
    "raise",
    "stream_busy",
    "group_open",
    "link_dead",
    "none",
    "late",
    "slow_start",
    "pauses",
    "checkpoint",
    "evaluation",
    "uneven",
    "early_end",
    "staggered_end",
    "elastic",
    "unused_comm",
    "many_comms",
    "checkpoint_long",
    "busy_machine",
];

/// Slow real jobs, and healthy ones that look like it.
pub(crate) const ENGINE_SLOW: [&str; 32] = [
    "slow_tenth",
    "slow_third",
    "slow_double",
    "slow_from_start",
    "slow_busy",
    "slow_growing",
    "slow_intermittent",
    "slow_periodic",
    "slow_periodic_rare",
    "stopped_duty",
    "cpu_quota",
    "slow_two",
    "nested_2d",
    "nested_3d",
    "slow_host",
    "uneven_work",
    "other_role",
    "too_small",
    "large_enough",
    "steady",
    "uneven_batches",
    "warm_up",
    "first_steps",
    "evaluation_phase",
    "checkpoint_once",
    "unequal_stages",
    "pauses_alike",
    "noisy_neighbour",
    "overlapped",
    "remade",
    "elastic_change",
    "short_spell",
];

/// Those of simulated ones.
pub(crate) const FLEET: [&str; 25] = [
    "stopped",
    "two_stopped",
    "killed",
    "exited_without_destroy",
    "host_killed",
    "host_unheard",
    "busy_elsewhere",
    "asleep_in_read",
    "other_primitive",
    "other_count",
    "other_datatype",
    "other_op",
    "other_count_unnoticed",
    "skipped_call",
    "nothing_moves",
    "never_started",
    "init_without_one",
    "init_of_another_size",
    "stuck_in_destroy",
    "asynchronous_error",
    "late_by_five_seconds",
    "all_pause",
    "agent_silent",
    "clock_off",
    "orderly_end",
];

/// Slow ones among them, and healthy ones that look like it.
pub(crate) const FLEET_SLOW: [&str; 18] = [
    "slow_tenth",
    "slow_double",
    "slow_intermittent",
    "slow_periodic",
    "slow_two",
    "slow_clock_off",
    "slow_host",
    "uneven_work",
    "slow_device",
    "hot_alike",
    "steady",
    "uneven_batches",
    "unequal_stages",
    "pauses_alike",
    "checkpoint_once",
    "warm_up",
    "short_spell",
    "clock_off_slowly",
];
