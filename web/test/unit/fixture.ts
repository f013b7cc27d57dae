import type { CommunicatorSummary, Coverage, Finding, HostSummary, Incident, Job, Operation, Rank, Ring, Standing } from "../../src/api";

const COUNTS = { critical: 0, warning: 0, info: 0 };
const FULL: Coverage = { state: "full", ranks: 8, calls: 8, plugin: 8, log: 8, lacks: [] };
export const NOW = Date.parse("2026-03-01T03:26:08Z");

const WELL: Standing = { condition: "healthy", reason: "its last call completed 0.2 s ago" };

export function job(rest: Partial<Job> = {}): Job {
  return {
    id: "train", state: "running", standing: WELL, first_seen: "2026-03-01T02:00:00Z", last_seen: "2026-03-01T03:26:08Z", world_size: 8,
    n_processes: 8, n_killed: 0, hosts: [], active_communicators: 1, n_communicators: 1, findings: COUNTS, coverage: FULL, issued_bytes: 0,
    completed_bytes: 0, completed_bytes_per_s: 0, dropped: {}, ...rest,
  };
}

export function host(name: string, rest: Partial<HostSummary> = {}): HostSummary {
  return {
    host: name, standing: WELL, degraded: false, reasons: [], findings: COUNTS, jobs: ["train"], n_processes: 2, init_channels: 2,
    final_channels: 4, completed_bytes_per_s: 0, n_nics: null, n_nics_down: null, n_gpus: null, last_seen: "2026-03-01T03:26:08Z", ...rest,
  };
}

export function finding(rest: Partial<Finding> = {}): Finding {
  return {
    id: "f", finding: "channel_shortfall", severity: "critical", state: "firing", job: "train", host: "host-2", comm: "c",
    cause: "fewer_nics", message: "host-2 found 1 channel", first_seen: "2026-03-01T03:12:08Z",
    last_seen: "2026-03-01T03:26:08Z", ...rest,
  };
}

export function operation(rest: Partial<Operation> = {}): Operation {
  return {
    rank: 0, host: "host-0", primitive: "all_reduce", seq_number: 7, bytes: 1024, count: 256, datatype: "float32",
    state: "in_flight", issued_at: "2026-03-01T03:25:27Z", duration_s: 41, channels_done: 0, channels_expected: 2, ...rest,
  };
}

export function rank(number: number, rest: Partial<Rank> = {}): Rank {
  return {
    rank: number, host: `host-${Math.floor(number / 2)}`, pid: number, state: "running", standing: WELL, init_channels: 2, final_channels: 4,
    sources: ["calls", "log"], completion: "profiler", cause: "doubled", causes: ["doubled"], node: Math.floor(number / 2), operation: operation({ rank: number }), ...rest,
  };
}

/** A ring of `n` ranks, `perHost` on each host. */
export function ring(n: number, perHost: number, rest: Partial<Ring> = {}): Ring {
  const hostOf = (r: number) => `host-${Math.floor(r / perHost)}`;
  return {
    channel: 0, complete: true, missing_ranks: [],
    order: Array.from({ length: n }, (_, r) => {
      const next = (r + 1) % n;
      return { rank: r, host: hostOf(r), transport: hostOf(r) === hostOf(next) ? "P2P/CUMEM" : "NET/IB", nic: null, next, sent_bytes: 0 };
    }),
    ...rest,
  };
}

export function communicator(rest: Partial<CommunicatorSummary> = {}): CommunicatorSummary {
  return {
    id: "c", comm_hash: "0xc", job: "train", state: "active", standing: WELL, created: "2026-03-01T03:00:00Z", n_ranks: 8, n_ranks_seen: 8,
    n_nodes: 4, hosts: ["host-0", "host-1", "host-2", "host-3"], base: 2, final_channels: 4, culprits: [], degraded: false,
    findings: COUNTS, coverage: FULL, completion: "profiler", issued_bytes: 0, completed_bytes: 0, completed_bytes_per_s: 0, ...rest,
  };
}

export function incident(rest: Partial<Incident> = {}): Incident {
  return {
    id: "f", state: "firing", severity: "critical", finding: "rank_missing", sentence: "rank 5 on host-2 has not called AllReduce #7", advice: "", job: "train", host: "host-2",
    rank: 5, comm: "c", culprits: [{ host: "host-2", rank: 5, doing: "stopped (SIGSTOP)" }], n_victims: 7, began_at: "2026-03-01T03:13:08Z", first_seen: "2026-03-01T03:13:10Z",
    last_seen: "2026-03-01T03:26:08Z", findings: ["f"], timeline: [], notes: [], ...rest,
  };
}
