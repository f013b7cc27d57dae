/** The objects of `/api/v1/summation/`. Shares are fractions of 1; durations are nanoseconds where the name ends so. */

export type SummationGroupState = "starting" | "running" | "suspended" | "ended" | "failed";
export type SummationRole = "server" | "worker";

export interface SummationGroup {
  id: string;
  /** Groups of one session follow each other, by `membership_epoch`. */
  session: string;
  job: string;
  membership_epoch: number;
  placement_epoch: number;
  state: SummationGroupState;
  n_workers: number;
  n_servers: number;
  asynchronous: boolean;
  model_bytes: number;
  started_at: string;
  push_bytes_per_s: number;
  pull_bytes_per_s: number;
  /** Results of parts, over all services. */
  rounds_per_s: number;
  n_findings: number;
}

export interface SummationGroupDetail extends SummationGroup {
  n_tensors: number;
  n_parts: number;
  partition_bytes: number;
  /** Rounds; null: none, or the sums are synchronous. */
  staleness_bound: number | null;
  lost: SummationLost | null;
  services: SummationService[];
  workers: SummationWorker[];
  flows: SummationFlow[];
  /** The longest first. */
  waits: SummationWait[];
  /** Pulls, by rounds that the slowest worker was behind. */
  staleness: number[];
  key_classes: SummationKeyClass[];
  /** Ids. */
  findings: string[];
}

/** Whose loss ended the group. */
export interface SummationLost {
  rank: number;
  role: SummationRole;
  index: number;
  host: string;
  why: string;
}

export interface SummationService {
  /** Its number: those of servers first, then one in each worker. */
  service: number;
  role: SummationRole;
  index: number;
  rank: number;
  host: string;
  process: string | null;
  optimal_share: number;
  share: number;
  owned_bytes: number;
  /** Of its process, for one round of all tensors. */
  predicted_sent_bytes: number;
  predicted_received_bytes: number;
  pushed_bytes_per_s: number;
  pulled_bytes_per_s: number;
  summed_bytes_per_s: number;
  /** Null: it has not summed. */
  sum_ns_per_mib: number | null;
  finished_rounds: number;
  waits: number;
  loopback_bytes: number;
  lost: boolean;
}

export interface SummationWorker {
  index: number;
  rank: number;
  host: string;
  global_rank: number | null;
  /** Rounds in which it came last, */
  last_arrivals: number;
  /** and their part of all. */
  last_share: number;
  /** After the first one. */
  mean_late_ns: number;
  contributions: number;
  unanswered: number;
  credits_used_bytes: number;
  credit_bytes: number;
  stages: SummationStage[];
}

export interface SummationStage {
  stage: string;
  waiting_parts: number;
  running_parts: number;
  parts_per_s: number;
  mean_wait_ns: number;
  mean_work_ns: number;
  longest_wait_ns: number;
}

export interface SummationFlow {
  worker: number;
  service: number;
  push_bytes_per_s: number;
  pull_bytes_per_s: number;
  /** Issued and not sent. */
  push_backlog_bytes: number;
}

export interface SummationWait {
  service: number;
  key: number;
  tensor: string;
  round: number;
  /** True: for contributions. False: for answers to be taken. */
  for_push: boolean;
  /** Indices of those it waits for. */
  workers: number[];
  age_ns: number;
}

export interface SummationKeyClass {
  key_class: string;
  push_issued_bytes: number;
  push_completed_bytes: number;
  pull_issued_bytes: number;
  pull_completed_bytes: number;
}

export interface SummationRound {
  key: number;
  round: number;
  fingerprint: string;
  at: string;
  /** The service; null, as below: not known. */
  made_by: number | null;
  contributors: number | null;
  last_arriver: number | null;
  spread_ns: number | null;
  took_ns: number | null;
  /** Whether all who told of it have the same bytes; null: only one has, or sums are asynchronous. */
  agree: boolean | null;
}
