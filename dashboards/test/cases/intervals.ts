/** Faults in time, whatever the interval at which Prometheus looks: what each alert is about, how soon it is out, and what is too short for it. */

import { comm, host, instance, job } from "./series.js";

/** A fault holds from `begin` until before `end`, in seconds. */
export interface Span {
  begin: number;
  end: number;
}

/** What a series has at a time; `undefined`: nothing. */
type Values = (at: number, fault: Span) => number | undefined;

export interface Fault {
  /** Alerts that it makes, each without the prefix `Ringscope`. */
  alerts: string[];
  series: Record<string, Values>;
  /** How long it must hold until the alert is out, but for two scrapes of any length. */
  holds: number;
  /** For how long it is told of, however long it holds. Absent: as long. */
  told?: number;
  /** What holds only so long, or is over before the next scrape, makes no alert. Absent: whatever is seen does. */
  tooShort?: number;
}

const holds = (at: number, { begin, end }: Span) => at >= begin && at < end;
const during =
  (value: number): Values =>
  (at, fault) =>
    holds(at, fault) ? value : undefined;
const switches =
  (well: number, ill: number): Values =>
  (at, fault) =>
    holds(at, fault) ? ill : well;
const always =
  (value: number): Values =>
  () =>
    value;
/** Grows by so much a second, but while the fault holds. */
const stands =
  (perSecond: number): Values =>
  (at, { begin, end }) =>
    perSecond * (at < begin ? at : at < end ? begin : at - (end - begin));
/** When it was last heard: always, but while the fault holds. */
const heard: Values = (at, fault) => (holds(at, fault) ? fault.begin : at);

const here = `instance="${instance}",job="${job}",comm="${comm}",host="${host}"`;
const there = `instance="${instance}",job="${job}"`;
const traffic = `${here},primitive="all_reduce"`;

function found(kind: string, cause = "x"): Record<string, Values> {
  return { [`ringscope_finding{${here},finding="${kind}",cause="${cause}",severity="warning"}`]: during(1) };
}

/** Alerts that stand for a kind of finding each. */
const FINDINGS: Record<string, string> = {
  ChannelShortfall: "channel_shortfall",
  CappedByPeer: "capped_by_peer",
  FinalDisagrees: "final_disagrees",
  FinalUnexplained: "final_unexplained",
  ChannelRegression: "channel_regression",
  TransportFallback: "transport_fallback",
  RailMismatch: "rail_mismatch",
  PartlySeen: "partly_seen",
  NicDegraded: "nic_degraded",
  GpuMissing: "gpu_missing",
  SumShareImbalance: "sum_share_imbalance",
  SumStraggler: "sum_straggler",
  SumRoundStuck: "sum_round_stuck",
  SumFingerprintMismatch: "sum_fingerprint_mismatch",
  SumParametersDiffer: "sum_parameters_differ",
  SumServerLost: "sum_server_lost",
};

const channels = {
  [`ringscope_init_channels{${here}}`]: during(2),
  [`ringscope_final_channels{${here}}`]: during(8),
};

export const faults: Fault[] = [
  {
    alerts: ["Incident"],
    series: { [`ringscope_incident{${here},incident="a1",finding="rank_missing",severity="critical"}`]: during(1) },
    holds: 0,
  },
  { alerts: ["Unknown"], series: { [`ringscope_health{instance="${instance}",level="unknown"}`]: switches(0, 1) }, holds: 600, tooShort: 500 },
  {
    alerts: [...Object.keys(FINDINGS), "InitBelowHalfFinal", "InitBelowHalfFinalUnexplained"],
    series: Object.assign(
      { ...channels, ...found("init_below_half_final", "unexplained") },
      ...Object.values(FINDINGS).map((kind) => found(kind)),
    ) as Record<string, Values>,
    holds: 0,
    tooShort: 5,
  },
  {
    alerts: ["BacklogGrowing"],
    series: {
      [`ringscope_issued_bytes_total{${traffic}}`]: (at) => at * 4096,
      [`ringscope_completed_calls_total{${traffic}}`]: stands(1),
      [`ringscope_backlog_bytes{${traffic}}`]: always(4096),
    },
    holds: 180,
    tooShort: 85,
  },
  {
    alerts: ["CompletionStands"],
    series: {
      [`ringscope_issued_bytes_total{${traffic}}`]: always(1_000_000),
      [`ringscope_completed_calls_total{${traffic}}`]: stands(1),
      [`ringscope_backlog_bytes{${traffic}}`]: always(4096),
    },
    holds: 360,
    tooShort: 295,
  },
  {
    alerts: ["NoDataFromRunningJob"],
    series: {
      [`ringscope_job_heard_timestamp_seconds{${there}}`]: heard,
      [`ringscope_job_info{${there},state="running"}`]: always(1),
    },
    holds: 900,
    tooShort: 890,
  },
  { alerts: ["DaemonAway"], series: { [`up{instance="${instance}",job="ringscope"}`]: switches(1, 0) }, holds: 75, tooShort: 20 },
  {
    alerts: ["RedundancyLost"],
    series: {
      [`up{instance="${instance}",job="ringscope"}`]: switches(1, 0),
      'ringscope_daemon_leads{instance="e:9440"}': always(1),
    },
    holds: 75,
    tooShort: 20,
  },
  { alerts: ["AgentAway"], series: { [`ringscope_job_processes{${there},host="${host}",state="stale"}`]: during(4) }, holds: 75, tooShort: 20 },
  {
    alerts: ["AgentSilent"],
    series: { [`ringscope_agent_heard_timestamp_seconds{instance="${instance}",host="${host}"}`]: heard },
    holds: 300,
    tooShort: 290,
  },
  { alerts: ["CollectorFault"], series: { [`ringscope_collector_state{${there},host="${host}",state="fault"}`]: during(2) }, holds: 0 },
  {
    alerts: ["CollectorDropping"],
    series: { [`ringscope_dropped_events_total{instance="${instance}",reason="ring_overrun"}`]: (at, { begin }) => (at < begin ? undefined : 8) },
    holds: 0,
    told: 600,
  },
  {
    alerts: ["RemoteWriteLosing"],
    series: { [`ringscope_remote_write_samples_total{instance="${instance}",result="failed"}`]: (at, { begin }) => (at < begin ? 5 : 2005) },
    holds: 0,
    told: 300,
  },
  {
    alerts: ["NobodyLeads"],
    series: { [`ringscope_daemon_leads{instance="${instance}"}`]: switches(1, 0) },
    holds: 75,
    tooShort: 20,
  },
  {
    alerts: ["StandbyCutOff"],
    series: {
      [`ringscope_daemon_reaches_leader{instance="${instance}"}`]: switches(1, 0),
      'ringscope_daemon_leads{instance="e:9440"}': always(1),
    },
    holds: 75,
    tooShort: 20,
  },
  { alerts: ["StoreAway"], series: { [`ringscope_store_up{instance="${instance}"}`]: switches(1, 0) }, holds: 75, tooShort: 20 },
  {
    alerts: ["MetricsOmitted"],
    series: { [`ringscope_metrics_left_out{instance="${instance}",kind="communicators"}`]: switches(0, 12) },
    holds: 300,
    tooShort: 200,
  },
];
