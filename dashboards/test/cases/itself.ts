/** Hosts' hardware, and ringscope itself. */

import type { Case, Series } from "../promtool.js";
import { finding, here, instance, job, series, SILENCED, STEADY } from "./series.js";

const ALL = [
  "DaemonAway",
  "RedundancyLost",
  "AgentAway",
  "AgentSilent",
  "CollectorFault",
  "CollectorDropping",
  "NobodyLeads",
  "StandbyCutOff",
  "StoreAway",
  "RemoteWriteLosing",
  "MetricsOmitted",
  "NicDegraded",
  "GpuMissing",
];

const { host } = here;
const up = (samples: string) => series("up", { instance, job: "ringscope" }, samples);
const UP = up("1x400");
const processes = (state: string, samples: string) =>
  series("ringscope_job_processes", { instance, job, host, state }, samples);
const lost = (samples: string) => series("ringscope_dropped_events_total", { instance, reason: "ring_overrun" }, samples);

function gone(alert: string): string[] {
  return ALL.filter((other) => other !== alert);
}

/** A finding about the hardware of a host: it names no job and no communicator. */
function hardware(kind: string, cause: string, severity: string): Series {
  return { ...UP, ...finding(kind, cause, severity, { instance, host }) };
}

export const hardwareCases: Case[] = [
  {
    name: "a NIC is down, and somebody silenced the incident",
    series: { ...UP, ...finding("nic_degraded", "nic_down", "critical", { instance, host }, SILENCED) },
    silent: ALL,
    until: "5m",
  },
  {
    name: "a NIC is down",
    series: hardware("nic_degraded", "nic_down", "critical"),
    fires: [
      {
        alert: "NicDegraded",
        labels: { instance, host, finding: "nic_degraded", cause: "nic_down", severity: "critical" },
        section: "nic_degraded",
        page: "hosts/host-2",
        summary: "A NIC of host-2 is degraded (nic_down)",
        description: "The host's page says which NIC, since when, and with which counters.",
        at: ["5s", "5m"],
      },
    ],
    silent: gone("NicDegraded"),
    until: "5m",
  },
  {
    name: "a GPU is missing",
    series: hardware("gpu_missing", "fewer_gpus", "warning"),
    fires: [
      {
        alert: "GpuMissing",
        labels: { instance, host, finding: "gpu_missing", cause: "fewer_gpus", severity: "warning" },
        section: "gpu_missing",
        page: "hosts/host-2",
        summary: "host-2 shows fewer GPUs than before, or than its peers",
        description: "The host's page says which GPUs are left.",
        at: ["5s", "5m"],
      },
    ],
    silent: gone("GpuMissing"),
    until: "5m",
  },
];

export const itselfCases: Case[] = [
  {
    name: "all is well",
    series: {
      ...UP,
      ...processes("running", "4x400"),
      ...series("ringscope_agent_heard_timestamp_seconds", { instance, host }, "0+5x400"),
      ...series("ringscope_collector_state", { instance, job, host, state: "on" }, "4x400"),
      ...series("ringscope_store_up", { instance, job: "ringscope" }, "1x400"),
      ...series("ringscope_metrics_left_out", { instance, job: "ringscope", kind: "communicators" }, "0x400"),
    },
    silent: ALL,
    until: "30m",
  },
  {
    name: "the daemon does not answer",
    series: up("1x12 0x120"),
    fires: [
      {
        alert: "DaemonAway",
        labels: { instance, job: "ringscope", severity: "critical" },
        section: "daemon_away",
        page: "",
        summary: "ringscope's daemon does not answer",
        description:
          "Prometheus gets nothing from d:9440, and no other daemon leads, so no other alert of ringscope can fire. Agents keep what they read until it is back.",
        at: ["145s", "10m"],
      },
    ],
    silent: ["DaemonAway", "RedundancyLost"],
    at: ["60s", "90s", "120s", "135s"],
  },
  {
    name: "one of two daemons does not answer, and the other leads",
    series: {
      ...up("1x12 0x120"),
      ...series("up", { instance: "e:9440", job: "ringscope" }, "1x132"),
      ...series("ringscope_daemon_leads", { instance, job: "ringscope" }, "1x12 stale"),
      ...series("ringscope_daemon_leads", { instance: "e:9440", job: "ringscope" }, "0x13 1x119"),
      ...series("ringscope_daemon_reaches_leader", { instance: "e:9440", job: "ringscope" }, "1x13 stale"),
    },
    fires: [
      {
        alert: "RedundancyLost",
        labels: { instance, job: "ringscope", severity: "warning" },
        section: "redundancy_lost",
        summary: "One of ringscope's daemons does not answer; another one leads",
        description:
          "Prometheus gets nothing from d:9440. Another daemon of the same database leads, and all goes on; if that one is lost too, perhaps nobody takes over.",
        at: ["150s", "10m"],
      },
    ],
    silent: gone("RedundancyLost"),
    until: "10m",
  },
  {
    name: "one of two daemons of another cluster leads",
    series: {
      ...series("up", { cluster: "a", instance, job: "ringscope" }, "1x12 0x120"),
      ...series("up", { cluster: "b", instance: "e:9440", job: "ringscope" }, "1x132"),
      ...series("ringscope_daemon_leads", { cluster: "b", instance: "e:9440", job: "ringscope" }, "1x132"),
    },
    fires: [
      {
        alert: "DaemonAway",
        labels: { cluster: "a", instance, job: "ringscope", severity: "critical" },
        section: "daemon_away",
        page: "",
        summary: "ringscope's daemon does not answer",
        description:
          "Prometheus gets nothing from d:9440, and no other daemon leads, so no other alert of ringscope can fire. Agents keep what they read until it is back.",
        at: ["145s", "10m"],
      },
    ],
    silent: ["RedundancyLost"],
    until: "10m",
  },
  {
    name: "a daemon that stands by does not reach the one that leads",
    series: {
      ...UP,
      ...series("ringscope_daemon_leads", { instance: "e:9440", job: "ringscope" }, "1x400"),
      ...series("ringscope_daemon_leads", { instance, job: "ringscope" }, "0x400"),
      ...series("ringscope_daemon_reaches_leader", { instance, job: "ringscope" }, "1x12 0x388"),
    },
    fires: [
      {
        alert: "StandbyCutOff",
        labels: { instance, job: "ringscope", severity: "warning" },
        section: "standby_cut_off",
        summary: "A daemon that stands by does not reach the one that leads",
        description:
          "The daemon d:9440 stands by, and the one that leads does not answer it: it hands nothing on, and answers 503. `curl http://d:9440/readyz` and its log say why.",
        at: ["145s", "10m"],
      },
    ],
    silent: ["StandbyCutOff"],
    at: ["60s", "120s", "135s"],
  },
  {
    name: "there is no daemon to scrape",
    series: series("up", { instance: "other", job: "other" }, "1x120"),
    fires: [
      {
        alert: "DaemonAway",
        labels: { job: "ringscope", severity: "critical" },
        section: "daemon_away",
        summary: "ringscope's daemon does not answer",
        description:
          "Prometheus gets nothing from any daemon: it has none to scrape, and no other daemon leads, so no other alert of ringscope can fire. Agents keep what they read until it is back.",
        at: ["80s", "10m"],
      },
    ],
  },
  {
    name: "the daemon restarts",
    series: {
      ...up("1x12 0x4 1x120"),
      ...processes("running", "4x12 stale _x3 4x120"),
      ...series("ringscope_store_up", { instance, job: "ringscope" }, "1x12 stale _x3 0x4 1x120"),
    },
    silent: ALL,
    until: "5m",
  },
  {
    name: "a host is not heard of",
    series: { ...UP, ...processes("running", "4x12 stale"), ...processes("stale", "_x12 4x120") },
    fires: [
      {
        alert: "AgentAway",
        labels: { instance, job, host, severity: "warning" },
        section: "agent_away",
        page: "hosts/host-2",
        summary: "Nothing is heard of host-2, where job train runs",
        description:
          "For more than a minute nothing was heard of 4 processes of job train on host-2, and nobody has seen them end: the agent there is away, or the host is.",
        at: ["140s", "10m"],
      },
    ],
    silent: ["AgentAway"],
    at: ["60s", "90s", "130s"],
  },
  {
    name: "a host is lost, and somebody silenced the incident",
    series: {
      ...UP,
      ...processes("running", "4x12 stale"),
      ...processes("stale", "_x12 4x120"),
      ...series("ringscope_agent_heard_timestamp_seconds", { instance, host }, "60x132"),
      ...series("ringscope_incident", { instance, host, incident: "c3", finding: "host_lost", severity: "critical" }, "_x14 0x118"),
    },
    silent: ALL,
    until: "10m",
  },
  {
    name: "a host is not heard of for half a minute",
    series: { ...UP, ...processes("stale", "4x6 stale"), ...processes("running", "_x6 4x120") },
    silent: ALL,
    until: "5m",
  },
  {
    name: "the processes of the silent host ended with their job",
    series: { ...UP, ...processes("stale", "4x6 stale"), ...series("ringscope_job_info", { instance, job, state: "ended" }, "1x120") },
    silent: ALL,
    until: "5m",
  },
  {
    name: "the agent of an idle host is silent",
    series: { ...UP, ...series("ringscope_agent_heard_timestamp_seconds", { instance, host }, "60x400") },
    fires: [
      {
        alert: "AgentSilent",
        labels: { instance, host, severity: "info" },
        section: "agent_away",
        page: "hosts/host-2",
        summary: "The agent of host-2 is silent",
        description: "The agent of host-2 was last heard 9m 0s ago. A job that starts there now is not seen.",
        at: ["10m"],
      },
    ],
    silent: ["AgentSilent"],
    until: "6m",
  },
  {
    name: "collectors switched themselves off",
    series: { ...UP, ...series("ringscope_collector_state", { instance, job, host, state: "fault" }, `2${STEADY}`) },
    fires: [
      {
        alert: "CollectorFault",
        labels: { instance, job, host, state: "fault", severity: "warning" },
        section: "collector_fault",
        page: "hosts/host-2",
        summary: "Collectors on host-2 have switched themselves off",
        description:
          "2 collectors of job train on host-2 met a fault and switched themselves off. The job goes on; its calls there are not counted.",
        at: ["5s", "5m"],
      },
    ],
    silent: gone("CollectorFault"),
    until: "5m",
  },
  {
    name: "a collector that a person switched off",
    series: { ...UP, ...series("ringscope_collector_state", { instance, job, host, state: "off" }, `2${STEADY}`) },
    silent: ALL,
    until: "5m",
  },
  {
    // 5 until 20 min, 8 from then on: shown for ten minutes.
    name: "events are lost",
    series: { ...UP, ...lost("5x240 8x400") },
    fires: [
      {
        alert: "CollectorDropping",
        labels: { instance, reason: "ring_overrun", severity: "warning" },
        section: "collector_dropping",
        page: "",
        summary: "ringscope loses events (ring_overrun)",
        description:
          "8 events have been lost for the reason ring_overrun, more than 10m ago. What was recorded of single operations has gaps.",
        at: ["1215s", "29m"],
      },
    ],
    silent: ["CollectorDropping"],
    at: ["15m", "19m", "20m", "33m", "40m"],
  },
  {
    name: "events are lost for a new reason",
    series: { ...UP, ...lost("_x240 3x400") },
    fires: [
      {
        alert: "CollectorDropping",
        labels: { instance, reason: "ring_overrun", severity: "warning" },
        section: "collector_dropping",
        page: "",
        summary: "ringscope loses events (ring_overrun)",
        description:
          "3 events have been lost for the reason ring_overrun, more than 10m ago. What was recorded of single operations has gaps.",
        at: ["1215s", "29m"],
      },
    ],
    silent: ["CollectorDropping"],
    at: ["19m", "33m"],
  },
  {
    name: "after a restart the losses of before come back agent by agent",
    series: { ...UP, ...lost("26x240 stale _x2 6x3 26x400") },
    silent: ["CollectorDropping"],
    at: ["15m", "1215s", "1230s", "1245s", "25m", "40m"],
  },
  {
    name: "the database is away",
    series: {
      ...UP,
      ...series("ringscope_store_up", { instance, job: "ringscope" }, "1x12 0x120"),
      ...series("ringscope_store_errors_total", { instance, job: "ringscope" }, "0x12 7x120"),
    },
    fires: [
      {
        alert: "StoreAway",
        labels: { instance, job: "ringscope", severity: "warning" },
        section: "store_away",
        page: "",
        summary: "ringscope's database is away",
        description:
          "The daemon d:9440 cannot use its database, with 7 errors so far. Until it can, batches are refused and wait with the agents, up to their limit on disk: nothing new is known, and nothing new is found.",
        at: ["145s", "10m"],
      },
    ],
    silent: ["StoreAway"],
    at: ["60s", "120s", "135s"],
  },
  {
    name: "two daemons stand by and none leads",
    series: {
      ...UP,
      ...series("ringscope_daemon_leads", { instance, job: "ringscope" }, "1x10 0x390"),
      ...series("ringscope_daemon_leads", { instance: "e:9440", job: "ringscope" }, "0x400"),
      ...series("ringscope_daemon_reaches_leader", { instance, job: "ringscope" }, "_x11 0x389"),
      ...series("ringscope_daemon_reaches_leader", { instance: "e:9440", job: "ringscope" }, "1x10 0x390"),
    },
    fires: [
      {
        alert: "NobodyLeads",
        labels: { severity: "critical" },
        section: "nobody_leads",
        summary: "None of the daemons leads, or several do",
        description:
          "0 of the daemons that share a database lead, and one should: while none does, no batch is taken and no other alert of ringscope can fire. Agents keep what they read.",
        at: ["145s", "10m"],
      },
    ],
    silent: ["NobodyLeads", "StandbyCutOff"],
    at: ["45s", "60s", "120s"],
  },
  {
    name: "one of two daemons leads, and then the other",
    series: {
      ...UP,
      ...series("ringscope_daemon_leads", { instance, job: "ringscope" }, "1x100 0x300"),
      ...series("ringscope_daemon_leads", { instance: "e:9440", job: "ringscope" }, "0x103 1x297"),
    },
    silent: ["NobodyLeads"],
    until: "20m",
  },
  {
    // 2 000 samples at 10 min.
    name: "remote write drops",
    series: {
      ...UP,
      ...series("ringscope_remote_write_samples_total", { instance, job: "ringscope", result: "dropped" }, "7x119 2007x280"),
      ...series("ringscope_remote_write_samples_total", { instance, job: "ringscope", result: "sent" }, "0+100x400"),
    },
    fires: [
      {
        alert: "RemoteWriteLosing",
        labels: { instance, result: "dropped", severity: "warning" },
        section: "remote_write_losing",
        page: "",
        summary: "Long history loses samples (dropped)",
        description:
          "In 5m the daemon d:9440 could not write 2000 samples to the database of --remote-write (dropped). Its log says why.",
        at: ["600s", "14m"],
      },
    ],
    silent: ["RemoteWriteLosing"],
    at: ["5m", "595s", "18m", "30m"],
  },
  {
    name: "communicators are left out",
    series: {
      ...UP,
      ...series("ringscope_metrics_left_out", { instance, job: "ringscope", kind: "communicators" }, `12${STEADY}`),
      ...series("ringscope_metrics_left_out", { instance, job: "ringscope", kind: "communicators_by_host" }, `3${STEADY}`),
    },
    fires: [
      {
        alert: "MetricsOmitted",
        labels: { instance, job: "ringscope", kind: "communicators", severity: "info" },
        section: "metrics_omitted",
        page: "",
        summary: "12 communicators are not among the metrics",
        description:
          "The daemon d:9440 shows the unhealthy and largest first, and leaves out 12 communicators: rules and dashboards are blind to them, ringscope's page is not.",
        at: ["5m", "9m"],
      },
    ],
    silent: ["MetricsOmitted"],
    until: "4m",
  },
  {
    name: "communicators have sums alone",
    series: {
      ...UP,
      ...series("ringscope_metrics_left_out", { instance, job: "ringscope", kind: "communicators_by_host" }, `3${STEADY}`),
      ...series("ringscope_metrics_left_out", { instance, job: "ringscope", kind: "hosts_nics" }, `900${STEADY}`),
    },
    silent: ALL,
    until: "9m",
  },
];
