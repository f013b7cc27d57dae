/** Rows of the tables of a job, a communicator and a host, to be taken into a spreadsheet. Their heads are the API's words. Pure. */

import type { CommunicatorSummary, Connection, Finding, Gpu, HostChannels, HostRank, Incident, Nic, Place, PrimitiveTotals, Rank, Ring, SeriesLine } from "../api";
import { purposeBadge } from "./purpose";
import type { CsvValue } from "./csv";

type Rows = CsvValue[][];

export function ringRows(rings: Ring[]): Rows {
  const head = ["channel", "rank", "host", "gpu", "transport", "nic", "recv_nic", "gpu_direct", "odd", "next", "sent_bytes"];
  return [head, ...rings.flatMap(({ channel, order }) => order.map((hop) => [
    channel, hop.rank, hop.host, hop.gpu, hop.transport, hop.nic, hop.recv_nic, hop.gpu_direct, (hop.odd ?? []).join(" "), hop.next, hop.sent_bytes,
  ]))];
}

export function rankRows(ranks: Rank[]): Rows {
  const head = ["rank", "global_rank", "host", "pid", ...PLACE, "gpu", "state", "init_channels", "final_channels", "cause", "primitive", "seq_number", "operation", "duration_s"];
  return [head, ...ranks.map((one) => [
    one.rank, one.global_rank, one.host, one.pid, ...placeCells(one.place), one.gpu, one.state, one.init_channels, one.final_channels, one.cause,
    one.operation?.primitive, one.operation?.seq_number, one.operation?.state, one.operation?.duration_s,
  ])];
}

export function primitiveRows(totals: PrimitiveTotals[]): Rows {
  const head = ["primitive", "issued_calls", "issued_bytes", "completed_calls", "completed_bytes", "failed_calls", "backlog_bytes", "intra_bytes", "inter_bytes", "reason", "completed_bytes_per_s", "bus_bytes_per_s"] as const;
  return [[...head], ...totals.map((one) => head.map((name) => one[name]))];
}

export function communicatorRows(all: CommunicatorSummary[]): Rows {
  const head = ["id", "name", "purpose", "job", "state", "created", "ended", "n_ranks", "hosts", "base", "final_channels", "culprits", "completed_bytes_per_s"];
  return [head, ...all.map((one) => [
    one.id, one.name, purposeBadge(one), one.job, one.state, one.created, one.ended, one.n_ranks, one.hosts.length, one.base, one.final_channels,
    one.culprits.join(" "), one.completed_bytes_per_s,
  ])];
}

export function nicRows(nics: Nic[]): Rows {
  const head = ["name", "port", "up", "state", "physical_state", "link_layer", "interface", "pci", "numa_node", "rate_bytes_per_s", "sent_bytes_per_s", "received_bytes_per_s", "payload_bytes_per_s", "link_downs"] as const;
  return [[...head, "errors", "channels", "reasons"], ...nics.map((nic) => [
    ...head.map((name) => nic[name]),
    [...nic.errors, ...nic.failures, ...nic.retransmits, ...nic.congestion].map((one) => `${one.name}=${one.value}`).join(" "),
    nic.channels.map((one) => `${one.comm}:${one.channels.join("/")}`).join(" "),
    nic.reasons.join("; "),
  ])];
}

export function connectionRows(all: Connection[]): Rows {
  const head = ["id", "job", "pid", "global_rank", "is_send", "state", "since", "error", "path_mtu_bytes", "traffic_class", "service_level", "bytes", "requests", "completed_requests", "work_requests", "waits", "wait_s", "registrations", "cached_registrations"] as const;
  const end = ["host", "pid", "global_rank", "device", "port", "gid", "gid_index", "gid_kind", "mtu_bytes"] as const;
  const heads = [...head, ...end.map((name) => `local_${name}`), ...end.map((name) => `remote_${name}`), "queue_pairs"];
  return [heads, ...all.map((one) => [
    ...head.map((name) => one[name]), ...end.map((name) => one.local[name]), ...end.map((name) => one.remote[name]),
    one.queue_pairs.map((pair) => `${pair.number}:${pair.remote_number}:${pair.state ?? ""}`).join(" "),
  ])];
}

export function gpuRows(gpus: Gpu[]): Rows {
  const head = ["index", "name", "uuid", "pci", "numa_node", "memory_bytes"] as const;
  return [[...head, "nics"], ...gpus.map((gpu) => [...head.map((name) => gpu[name]), gpu.nics.map((one) => `${one.nic}:${one.distance}`).join(" ")])];
}

export function hostRankRows(ranks: HostRank[]): Rows {
  const head = ["job", "comm", "rank", "pid", "state", "init_channels", "final_channels"] as const;
  return [
    [...head, ...PLACE, "condition", "reason"],
    ...ranks.map((one) => [...head.map((name) => one[name]), ...placeCells(one.place), one.standing.condition, one.standing.reason]),
  ];
}

/** Where a scheduler has put a process. */
const PLACE = ["namespace", "pod", "container", "node", "job_id", "step_id"] as const;

function placeCells(place: Place | undefined): CsvValue[] {
  return PLACE.map((name) => place?.[name]);
}

/** What lived when, as the timeline draws it. */
export function lifetimeRows(communicators: CommunicatorSummary[], findings: Finding[]): Rows {
  return [
    ["what", "id", "name", "from", "to"],
    ...communicators.map((one) => ["communicator", one.id, one.name, one.created, one.ended]),
    ...findings.map((one) => [one.finding, one.id, one.message, one.first_seen, one.resolved_at]),
  ];
}

export function historyRows(items: HostChannels[]): Rows {
  const head = ["created", "ended", "comm", "name", "job", "n_ranks", "n_ranks_here", "init_channels", "base", "final_channels", "cause"] as const;
  return [[...head], ...items.map((one) => head.map((name) => one[name]))];
}

export function seriesRows(timesMs: number[], lines: SeriesLine[]): Rows {
  const head = ["time", ...lines.map((line) => [line.primitive, line.host, line.comm].filter(Boolean).join(" "))];
  return [head, ...timesMs.map((ms, i) => [new Date(ms).toISOString(), ...lines.map((line) => line.values[i])])];
}

export function incidentRows(items: Incident[]): Rows {
  const head = ["id", "state", "severity", "finding", "sentence", "job", "host", "rank", "comm", "n_victims", "began_at", "first_seen", "resolved_at"] as const;
  return [[...head, "acknowledged_by", "silenced_until"], ...items.map((one) => [...head.map((name) => one[name]), one.acknowledged?.by, one.silenced_until])];
}
