/** Findings as an operator reads them: one line a conclusion, however many hosts or ranks it holds for. Pure. */

import type { Finding, FindingKind, Job, Severity } from "../api";
import { byName } from "./names";

export interface FindingGroup {
  key: string;
  /** The first of them; its message stands for all. */
  first: Finding;
  all: Finding[];
  hosts: string[];
  /** Ids of the communicators that it was found in. */
  comms: string[];
}

const SEVERITIES: Severity[] = ["critical", "warning", "info"];

const NAMES = {
  init_below_half_final: "Init channels below half of final",
  channel_shortfall: "Channel shortfall",
  capped_by_peer: "Capped by a peer",
  final_disagrees: "Final channels disagree",
  channel_regression: "Channel regression",
  transport_fallback: "Transport fallback",
  rail_mismatch: "Rail mismatch",
  final_unexplained: "Fewer channels than the rules give",
  partly_seen: "Partly seen",
  nic_degraded: "NIC degraded",
  gpu_missing: "GPU missing",
  waiting: "Waiting",
  rank_missing: "Rank missing",
  rank_dead: "Rank dead",
  host_lost: "Host lost",
  call_mismatch: "Call mismatch",
  order_deadlock: "Order deadlock",
  p2p_unmatched: "Send or receive unmatched",
  transfer_stalled: "Transfer stalled",
  device_stalled: "Device stalled",
  init_stuck: "Init stuck",
  async_error: "Asynchronous error",
  teardown_stuck: "Teardown stuck",
  kernel_fault: "Fault told by the kernel",
  compute_straggler: "Slow rank",
  slow_host: "Slow host",
  uneven_work: "Uneven work",
  other_work: "Other work",
  slow_link: "Slow link",
  slow_nic: "Slow NIC",
  congestion: "Congestion",
  slow_device: "Slow GPU",
  slowdown: "Slower than it was",
  too_small: "Operations too small",
  rdma_retransmits: "RDMA retransmits",
  rdma_errors: "RDMA errors",
  queue_pair_error: "Queue pair error",
  gid_mismatch: "GID mismatch",
  mtu_mismatch: "MTU mismatch",
  pfc_storm: "PFC storm",
} satisfies Record<Exclude<FindingKind, `sum_${string}`>, string>;

/** Of the summation service. */
const SUM_NAMES = {
  sum_share_imbalance: "Share imbalance",
  sum_straggler: "Summation straggler",
  sum_round_stuck: "Round stuck",
  sum_fingerprint_mismatch: "Fingerprint mismatch",
  sum_parameters_differ: "Parameters differ",
  sum_server_lost: "Summation server lost",
} satisfies Record<Extract<FindingKind, `sum_${string}`>, string> & Record<`sum_${string}`, string>;

const ALL_NAMES: Record<string, string> = { ...NAMES, ...SUM_NAMES };

export const KINDS = Object.keys(ALL_NAMES) as FindingKind[];

export function kindName(kind: FindingKind): string {
  return ALL_NAMES[kind] ?? kind.replaceAll("_", " ");
}

/** Of the job itself, or about the hardware of one of its hosts. */
export function concerns(finding: Finding, job: Job | undefined): boolean {
  if (job === undefined) return false;
  return finding.job === job.id || (finding.job === "" && job.state !== "ended" && job.hosts.includes(finding.host));
}

/**
 * Groups equal conclusions of one job, over its hosts, ranks and communicators; worst first, then newest. What held at
 * another time is another line: two incidents of a minute are not one of an hour.
 */
export function group(findings: Finding[]): FindingGroup[] {
  const last = new Map<string, FindingGroup>();
  const groups: FindingGroup[] = [];
  for (const finding of [...findings].sort((a, b) => a.first_seen.localeCompare(b.first_seen))) {
    const kind = [finding.state, finding.severity, finding.finding, finding.job, finding.cause, shape(finding)].join("|");
    const open = last.get(kind);
    if (open !== undefined && open.all.some((one) => finding.first_seen <= end(one))) open.all.push(finding);
    else {
      const next = { key: finding.id, first: finding, all: [finding], hosts: [], comms: [] };
      last.set(kind, next);
      groups.push(next);
    }
  }
  for (const one of groups) {
    one.all.sort((a, b) => byName(a.host, b.host) || (a.rank ?? -1) - (b.rank ?? -1));
    one.first = one.all[0]!;
    one.hosts = [...new Set(one.all.map((finding) => finding.host))];
    one.comms = [...new Set(one.all.flatMap((finding) => (finding.comm === "" ? [] : [finding.comm])))];
  }
  return groups.sort(
    (a, b) =>
      SEVERITIES.indexOf(a.first.severity) - SEVERITIES.indexOf(b.first.severity) ||
      time(b.first).localeCompare(time(a.first)) ||
      a.key.localeCompare(b.key),
  );
}

/** While it fires it has none. */
function end(finding: Finding): string {
  return finding.state === "firing" ? "9999" : (finding.resolved_at ?? finding.last_seen);
}

/** The message without its host and rank: conclusions with other numbers stay lines of their own. */
function shape(finding: Finding): string {
  const words = finding.message.split(finding.host).join("•").replace(/\bchannel \d+/, "channel •");
  return finding.rank === undefined ? words : words.replace(`rank ${finding.rank} `, "rank • ");
}

function time(finding: Finding): string {
  return finding.resolved_at ?? finding.first_seen;
}
