/**
 * The objects of the REST API as the page reads them: those of `api.gen.ts`, which is made from the API's document, and
 * beside them what the document cannot say, namely which absent values are left out. `test/unit/api.test.ts` compares both.
 *
 * Bytes are counted in bytes, bandwidth in bytes per second, durations in seconds, times as RFC 3339 UTC.
 * `?` marks what the daemon leaves out when absent, `| null` what it sends as null.
 */

/** RFC 3339, UTC. */
export type Timestamp = string;

export interface Page<T> {
  items: T[];
  next_cursor?: string;
}

/** RFC 9457, `application/problem+json`. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
}

/** The data of a `changed` event. */
export interface Changed {
  version: number;
  /** Communicators that changed, by id; at most 256. */
  communicators: string[];
  findings: boolean;
}

export type JobState = "running" | "stale" | "imported" | "ended";
export type RankState = "running" | "stale" | "exited" | "killed" | "imported";
export type CommunicatorState = "forming" | "active" | "broken" | "ended";
export type OperationState = "queued" | "issued" | "in_flight" | "completed" | "failed" | "captured";
export type Severity = "info" | "warning" | "critical";
export type FindingState = "firing" | "resolved";
export type FindingKind =
  | "init_below_half_final"
  | "channel_shortfall"
  | "capped_by_peer"
  | "final_disagrees"
  | "channel_regression"
  | "transport_fallback"
  | "rail_mismatch"
  | "final_unexplained"
  | "partly_seen"
  | "nic_degraded"
  | "gpu_missing";

/** How the end of operations is known. */
export type Completion = "unknown" | "none" | "profiler" | "events" | "mixed";

/** How much is seen, and why not more. */
export interface Coverage {
  state: "full" | "partly";
  ranks: number;
  calls: number;
  plugin: number;
  log: number;
  /** Sentences for an operator. */
  lacks: string[];
}

export interface FindingCounts {
  critical: number;
  warning: number;
  info: number;
}

export interface Job {
  id: string;
  state: JobState;
  first_seen: Timestamp;
  last_seen: Timestamp;
  world_size: number | null;
  n_processes: number;
  n_killed: number;
  hosts: string[];
  active_communicators: number;
  n_communicators: number;
  findings: FindingCounts;
  coverage: Coverage;
  issued_bytes: number;
  completed_bytes: number;
  completed_bytes_per_s: number;
  /** What the collectors dropped, by reason. */
  dropped: Record<string, number>;
}

export interface CommunicatorSummary {
  id: string;
  comm_hash: string;
  job: string;
  name?: string;
  purpose?: Purpose | null;
  state: CommunicatorState;
  created: Timestamp;
  ended?: Timestamp;
  n_ranks: number;
  n_ranks_seen: number;
  n_nodes: number;
  hosts: string[];
  base: number | null;
  final_channels: number | null;
  culprits: string[];
  degraded: boolean;
  findings: FindingCounts;
  coverage: Coverage;
  completion: Completion;
  issued_bytes: number;
  completed_bytes: number;
  completed_bytes_per_s: number;
}

/** How many channels the library's rules give. */
export interface ChannelPrediction {
  /** Ascending; more than one where an input is not known; empty: nothing can be said. */
  finals: number[];
  explained: boolean | null;
  steps: ChannelStep[];
  unknown: string[];
}

export interface ChannelStep {
  cause: string;
  channels: number;
  text: string;
  /** An input of the rule is not known, the result fits. */
  inferred: boolean;
}

export interface CommunicatorDetail extends CommunicatorSummary {
  prediction: ChannelPrediction;
  ranks: Rank[];
}

export interface Rank {
  rank: number;
  global_rank?: number;
  host: string;
  pid: number;
  gpu?: string;
  state: RankState;
  init_channels: number | null;
  final_channels: number | null;
  cause: string;
  /** Why final is what it is, the strongest first. */
  causes: string[];
  /** NCCL node, which is not always a host. */
  node: number | null;
  /** Who has spoken of it: `calls`, `plugin`, `log`. */
  sources: string[];
  completion: Completion;
  /** The operation that it is in; if in none, the last one it completed. */
  operation?: Operation;
}

export interface Operation {
  rank: number;
  host: string;
  primitive: string;
  /** Counts the rank's calls of this primitive on this communicator from 0. */
  seq_number: number;
  bytes: number;
  count: number;
  datatype: string;
  peer?: number;
  state: OperationState;
  issued_at: Timestamp;
  duration_s: number;
  channels_done: number;
  channels_expected: number;
}

export interface Rings {
  id: string;
  rings: Ring[];
}

export interface Ring {
  channel: number;
  complete: boolean;
  missing_ranks: number[];
  problem?: string;
  order: Hop[];
}

export interface Hop {
  rank: number;
  host: string;
  gpu?: string;
  transport: string | null;
  nic: string | null;
  /** NIC on which the next rank receives it. */
  recv_nic?: string;
  gpu_direct?: boolean;
  proxy_rank?: number;
  odd?: OddHop[];
  next: number;
  /** Null: nobody counts network steps. */
  sent_bytes: number | null;
}

export type OddHop = "cross_rail" | "fallback" | "no_gpu_direct";

export interface Primitives {
  id: string;
  primitives: PrimitiveTotals[];
  ranks: RankPrimitives[];
}

export interface RankPrimitives {
  rank: number;
  host: string;
  primitives: PrimitiveTotals[];
}

export interface PrimitiveTotals {
  primitive: string;
  issued_calls: number;
  issued_bytes: number;
  completed_calls: number;
  completed_bytes: number;
  failed_calls: number;
  /** Captured into CUDA graphs: templates, not among the issued. */
  captured_calls: number;
  captured_bytes: number;
  /** Runs of captured calls that the library reported. */
  replayed_calls: number;
  replayed_bytes: number;
  /** Null: not measured. */
  intra_bytes: number | null;
  inter_bytes: number | null;
  backlog_bytes: number;
  completed_bytes_per_s: number;
  bus_bytes_per_s: number;
}

export interface HostSummary {
  host: string;
  degraded: boolean;
  reasons: string[];
  findings: FindingCounts;
  jobs: string[];
  n_processes: number;
  init_channels: number | null;
  final_channels: number | null;
  completed_bytes_per_s: number;
  n_nics?: number | null;
  n_nics_down?: number | null;
  n_gpus?: number | null;
  last_seen: Timestamp;
}

export interface HostRank {
  job: string;
  comm: string;
  rank: number;
  pid: number;
  state: RankState;
  init_channels: number | null;
  final_channels: number | null;
}

export interface HostDetail extends HostSummary {
  hardware?: Hardware | null;
  ranks: HostRank[];
  firing: Finding[];
}

export interface Finding {
  id: string;
  finding: FindingKind;
  severity: Severity;
  state: FindingState;
  job: string;
  host: string;
  rank?: number;
  comm: string;
  cause: string;
  culprits?: string[];
  nic?: string | null;
  channel?: number;
  message: string;
  /** Log lines that prove it. */
  evidence?: Evidence[];
  first_seen: Timestamp;
  last_seen: Timestamp;
  resolved_at?: Timestamp;
}

export interface Evidence {
  file: string;
  line: number;
  text: string;
}

export interface SearchHit {
  kind: "job" | "host" | "communicator" | "rank" | "nic";
  title: string;
  detail: string;
  job?: string | null;
  comm?: string | null;
  rank?: number | null;
  host?: string | null;
  nic?: string | null;
}

export interface Series {
  metric: string;
  unit: string;
  step_s: number;
  /** Milliseconds since the Unix epoch. */
  times_ms: number[];
  lines: SeriesLine[];
}

export interface SeriesLine {
  primitive: string;
  host?: string;
  comm?: string;
  values: (number | null)[];
}

/** What to do about one kind of finding; commands in backquotes. */
export interface RunbookEntry {
  finding: FindingKind;
  title: string;
  meaning: string;
  checks: string[];
  actions: string[];
}

export type Dimension = "world" | "data" | "tensor" | "pipeline" | "expert" | "context";
export interface Purpose { dimension: Dimension; named: boolean }
export interface Hardware { read_at: Timestamp; nics: Nic[]; gpus?: Gpu[] | null }
export interface NicError { name: string; value: number; risen: number }
export interface NicChannels { comm: string; channels: number[] }
export interface Nic {
  name: string; rdma: boolean; port: number; up: boolean; state: string; physical_state?: string | null; rate_bytes_per_s?: number | null;
  link_layer: string; interface?: string | null; pci?: string | null; numa_node?: number | null; model?: string | null; sent_bytes?: number | null;
  received_bytes?: number | null; sent_bytes_per_s?: number | null; received_bytes_per_s?: number | null; payload_bytes_per_s?: number | null;
  payload_estimated: boolean; link_downs?: number | null; errors: NicError[]; severity?: Severity; reasons: string[]; channels: NicChannels[];
}
export interface GpuNic { nic: string; distance: string }
export interface Gpu { index: number; name?: string | null; uuid?: string | null; pci: string; numa_node?: number | null; memory_bytes?: number | null; nics: GpuNic[] }
export interface HostChannels {
  comm: string; name?: string | null; job: string; created: Timestamp; ended?: Timestamp | null; n_ranks: number; n_ranks_here: number;
  init_channels?: number | null; base?: number | null; final_channels?: number | null; cause: string;
}
