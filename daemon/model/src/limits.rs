//! The bounds of the model: nothing that agents send can make it grow beyond them. What exceeds one is left out and
//! counted in [`super::Model::dropped`] under the word named here.

use std::time::Duration;

/// Ranks of a communicator (`rank_out_of_range`). NCCL itself runs on some tens of thousands, the largest jobs have a
/// hundred thousand; more is a corrupt number.
pub const MAX_RANKS: u32 = 131_072;

/// Processes, living and remembered (`process_limit`): a hundred thousand ranks, and as many that have just been
/// restarted. They take some 25 KiB each.
pub const MAX_PROCESSES: usize = 250_000;

/// Communicators, in use and remembered (`communicator_limit`): one for each of as many processes.
pub const MAX_COMMUNICATORS: usize = 250_000;

/// Agents (`agent_limit`): one a host, with room for restarts until the silent ones are forgotten.
pub const MAX_AGENTS: usize = 50_000;

/// Jobs (`share_limit`): a busy cluster starts some thousand an hour, and those that ended are remembered for that long. To
/// look at that many that hang, each with a communicator of its own, takes half a core.
pub const MAX_JOBS: usize = 10_000;

/// Hosts with processes, or of which the hardware is known (`share_limit`).
pub const MAX_HOSTS: usize = MAX_HARDWARE_HOSTS;

/// Reasons for which something was refused that are remembered: some of each of dozens of tenants.
pub const MAX_REFUSALS: usize = 256;

/// How long it is said that something was refused: as long as an alert takes to fire and be looked at.
pub const REFUSALS_KEPT: Duration = Duration::from_secs(600);

/// Communicators of one process (`process_communicator_limit`). A segment holds far fewer at a time.
pub const MAX_PROCESS_COMMUNICATORS: usize = 4_096;

/// Links of one process (`link_limit`): an all-to-all over 1 024 ranks in each of 64 communicators.
pub const MAX_PROCESS_LINKS: usize = 65_536;

/// Operations of one process that are not completed (`operation_limit`); the batch format promises as many.
pub const MAX_IN_FLIGHT: usize = 256;

/// Completed operations of one process in one batch (`operation_history_limit`); the batch format promises as many.
pub const MAX_TOLD_HISTORY: usize = 256;

/// Completed operations of one communicator that are remembered: two minutes of a rank's hundred a second, or two
/// steps of a thousand ranks. The oldest make room.
pub const MAX_COMMUNICATOR_HISTORY: usize = 16_384;

/// But as many of each of its ranks at least: a minute of what is told where not all are.
pub const MAX_RANK_HISTORY: usize = 64;

/// The same of all communicators: some 170 MB at most.
pub const MAX_HISTORY: usize = 1_000_000;

/// Sizes of operations that are told apart on one communicator (`size_limit`), of all primitives together: powers of two, of which
/// a program uses some dozen.
pub const MAX_CURVE_SIZES: usize = 64;

/// The same of all communicators (`size_limit`): a kilobyte each, 100 MB at most.
pub const MAX_SIZES: usize = 100_000;

/// Channel numbers of a ring (`channel_out_of_range`). NCCL's MAXCHANNELS is 64; RCCL goes up to 256.
pub const MAX_CHANNELS: u32 = 256;

/// Settings of one communicator (`setting_limit`). The library has a dozen that bound channels.
pub const MAX_SETTINGS: usize = 64;

/// Claims to one rank of communicators that have the same hash (`claim_limit`). Only splits in a loop come to many.
pub const MAX_CLAIMS: usize = 1_024;

/// Lines of evidence of one communicator (`evidence_limit`); the batch format promises as many.
pub const MAX_EVIDENCE: usize = 64;

/// Bytes of a line of evidence; longer ones are cut. Agents cut before.
pub const MAX_EVIDENCE_BYTES: usize = 240;

/// Sentences on what the log of one process lacks (`log_lacks_limit`). There are a handful of things to lack.
pub const MAX_LOG_LACKS: usize = 16;

/// Reasons of loss of one process or agent (`reason_limit`); the collector has about ten.
pub const MAX_DROP_REASONS: usize = 64;

/// Bytes of a name of any kind; longer ones are cut. Kubernetes allows 253 for the longest of its names.
pub const MAX_NAME_BYTES: usize = 256;

/// How long ended processes and communicators are remembered: time to look at what just failed.
pub const ENDED_KEPT: Duration = Duration::from_secs(3_600);

/// Ended communicators of one job that are remembered; the oldest are forgotten first.
pub const MAX_ENDED_PER_JOB: usize = 1_000;

/// How long a process is remembered of which nothing is heard, and which nobody has seen end: its host is gone.
pub const SILENT_KEPT: Duration = Duration::from_secs(24 * 3_600);

/// How long an imported process is remembered: as long as the store keeps what is not told anew, by default.
pub const IMPORTED_KEPT: Duration = Duration::from_secs(7 * 24 * 3_600);

/// After this long without a word of a process or its agent it is stale: sixty intervals of the agent.
pub const STALE_AFTER: Duration = Duration::from_secs(15);

/// Hosts of which the hardware is known (`hardware_host_limit`).
pub const MAX_HARDWARE_HOSTS: usize = 20_000;

/// Ports of network devices of one host (`nic_limit`): a host of cloud instances has some hundred virtual ones.
pub const MAX_NICS: usize = 256;

/// GPUs of one host (`gpu_limit`). The largest have 16.
pub const MAX_GPUS: usize = 64;

/// Counters of errors of one port (`nic_error_limit`); the batch format promises as many.
pub const MAX_NIC_ERRORS: usize = 64;

/// Entries of one port's table of GIDs; the batch format promises as many.
pub const MAX_GIDS: usize = 64;

/// Queue pairs of one port in an error state; the batch format promises as many.
pub const MAX_FAILED_QUEUE_PAIRS: usize = 64;

/// RDMA connections of one process (`connection_limit`); the batch format promises as many.
pub const MAX_CONNECTIONS: usize = 1_024;

/// Queue pairs of one connection that are shown; the batch format promises as many.
pub const MAX_CONNECTION_QUEUE_PAIRS: usize = 8;

/// Over how long pause frames are looked at: a storm goes on.
pub const PAUSE_WINDOW: Duration = Duration::from_secs(30);

/// Bridges above a PCI device; deeper ones are left out. Two levels of switches make five.
pub const MAX_PCI_PATH: usize = 16;

/// Changes of one port's link that are remembered: enough to tell what flaps, and how it was when a communicator was
/// made some restarts ago.
pub const MAX_NIC_PHASES: usize = 32;

/// The window over which trouble with NICs is looked at: errors that rise, links that go down.
pub const TROUBLE_WINDOW: Duration = Duration::from_secs(600);

/// How long a failed queue pair is remembered while its device's are not known: as long as a driver is waited for that hangs, and
/// whose queue pairs may be gone by then.
pub const FAILED_QUEUE_PAIRS_KEPT: Duration = Duration::from_secs(600);

/// How long hardware is remembered of which nothing is heard: longer than a restart of its agent, or of its host.
pub const HARDWARE_KEPT: Duration = Duration::from_secs(600);

/// Summation groups, at work and remembered (`summation_group_limit`): some of each of hundreds of jobs.
pub const MAX_GROUPS: usize = 2_000;

/// Ended summation groups of one session that are remembered; the oldest are forgotten first. A session makes one with
/// every change of its members.
pub const MAX_ENDED_PER_SESSION: usize = 32;

/// Summation groups of one process in one batch (`summation_process_limit`): it is in one at a time.
pub const MAX_PROCESS_GROUPS: usize = 64;

/// Workers, and servers, of a summation group (`summation_member_limit`): the largest published clusters have some 64.
pub const MAX_GROUP_MEMBERS: u32 = 256;

/// Pairs of a worker and a service whose pace is followed, in all groups (`summation_flow_limit`): half a kilobyte each.
pub const MAX_FLOWS: usize = 262_144;

/// Stages of one worker (`summation_stage_limit`). There are five.
pub const MAX_STAGES: usize = 16;

/// Rounds of one service that wait (`summation_wait_limit`), and workers that one waits for; the batch format promises
/// as many.
pub const MAX_WAITS: usize = 64;

/// Steps of a histogram of staleness (`summation_staleness_limit`).
pub const MAX_STALENESS: usize = 64;

/// Results in one batch of one member (`summation_round_limit`); the batch format promises as many.
pub const MAX_TOLD_ROUNDS: usize = 1_024;

/// Results of one summation group that are remembered, to be compared over its members: what one large model of 4 000 parts
/// makes in a second, longer than agents take to tell of it. The oldest make room.
pub const MAX_GROUP_ROUNDS: usize = 4_096;

/// Results of one summation group in which members differ that are remembered: the first ones tell where it began.
pub const MAX_MISMATCHES: usize = 16;

/// Different fingerprints of one result that are told apart: two are enough to be wrong.
pub const MAX_PRINTS: usize = 8;

/// A round that waits for longer deserves a look at once: training itself pauses for less.
pub const LONG_WAIT: Duration = Duration::from_secs(1);

/// The window over which arrivals of workers are compared.
pub const ARRIVALS_WINDOW: Duration = Duration::from_secs(60);

/// Time between two looks at arrivals.
pub const ARRIVALS_STEP: Duration = Duration::from_secs(5);

/// The window of "over the last seconds".
pub const RATE_WINDOW: Duration = Duration::from_secs(10);

/// Samples in a rate window: one a second, the one before the window, the newest, and one to spare.
pub const MAX_RATE_SAMPLES: usize = 13;

/// Time between two searches for what can be forgotten.
pub const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// Calls of one process that have not returned (`open_call_limit`); the batch format promises as many.
pub const MAX_OPEN_CALLS: usize = 64;

/// Marks of the order of calls in one batch (`sequence_mark_limit`); the batch format promises as many.
pub const MAX_TOLD_MARKS: usize = 16;

/// Marks of the order of calls of one rank that are remembered: 2 048 calls back, further than ranks part from each
/// other before it is seen. The oldest make room.
pub const MAX_MARKS: usize = 32;

/// Pairs of send or recv and a peer of one process (`pair_limit`): an all-to-all by hand over 1 024 ranks, both ways.
pub const MAX_PAIRS: usize = 2_048;

/// Operations of one rank of one communicator that were asked for (`recalled_limit`); the oldest make room. An inquiry
/// asks for half as many at most.
pub const MAX_RECALLED: usize = 128;

/// How long they are remembered: as long as somebody compares them.
pub const RECALLED_KEPT: Duration = Duration::from_secs(600);

/// Warnings of the library about one communicator (`warning_limit`); the batch format promises as many.
pub const MAX_WARNINGS: usize = 8;

/// Threads of a look (`look_limit`); the batch format promises as many.
pub const MAX_THREADS: usize = 32;

/// Frames of one thread, of Python and of native code each (`look_limit`); the batch format promises as many.
pub const MAX_FRAMES: usize = 64;

/// Sentences on what a look could not see (`look_limit`).
pub const MAX_LOOK_LACKS: usize = 16;

/// Bytes of all frames of a look (`look_limit`): 32 threads of 30 frames.
pub const MAX_LOOK_BYTES: usize = 64 * 1024;

/// Processes of which a look is remembered (`look_forgotten`); the oldest make room. 64 MB at most.
pub const MAX_LOOKS: usize = 1_000;

/// Hosts of which it is remembered that no process that starts there can be watched (`blind_host_limit`).
pub const MAX_BLIND_HOSTS: usize = 20_000;

/// How long that is remembered of a host whose agent is not heard of.
pub const BLIND_KEPT: Duration = Duration::from_secs(60);

/// Hosts of whose kernels something is remembered (`kernel_host_limit`).
pub const MAX_KERNEL_HOSTS: usize = 20_000;

/// Messages of a kernel in one batch (`kernel_message_limit`); the batch format promises as many.
pub const MAX_TOLD_KERNEL: usize = 64;

/// Messages of one kernel that are remembered (`kernel_message_limit`); the oldest make room. One fault makes some
/// dozen lines.
pub const MAX_KERNEL_MESSAGES: usize = 128;

/// How long messages of kernels are remembered: what happened over night is looked at in the morning.
pub const KERNEL_KEPT: Duration = Duration::from_secs(24 * 3_600);
