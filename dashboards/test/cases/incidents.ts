/** Incidents, and how everything stands. */

import type { Case } from "../promtool.js";
import { comm, host, instance, job, series, SILENCED, STEADY } from "./series.js";

const ALL = ["Incident", "Unknown"];

const hang = { instance, job, comm, host, incident: "a1", finding: "rank_missing", rank: "5", severity: "critical" };
const nic = { instance, host, incident: "b2", finding: "nic_degraded", severity: "warning" };
const described =
  "ringscope has found it, and its page says in one sentence who is to blame, who waits, since when and what to do. Whatever follows from it is in the same incident.";

function incident(labels: Record<string, string>, samples: string) {
  return series("ringscope_incident", labels, samples);
}

function health(level: string, samples: string) {
  return series("ringscope_health", { instance, level }, samples);
}

export const incidentCases: Case[] = [
  {
    name: "a hang: critical, at once, with host, rank and job",
    series: incident(hang, `_x2 1${STEADY}`),
    fires: [
      {
        alert: "Incident",
        labels: hang,
        section: "rank_missing",
        page: "incidents/a1",
        summary: "rank_missing on host-2, rank 5, in job train",
        description: described,
        at: ["15s", "5m"],
      },
    ],
    silent: ["Unknown"],
    until: "5m",
  },
  {
    name: "a NIC that no job uses: a warning, about the host alone",
    series: incident(nic, `1${STEADY}`),
    fires: [
      {
        alert: "Incident",
        labels: nic,
        section: "nic_degraded",
        page: "incidents/b2",
        summary: "nic_degraded on host-2",
        description: described,
        at: ["5s"],
      },
    ],
  },
  { name: "an incident that somebody silenced", series: incident(hang, SILENCED), silent: ALL, until: "5m" },
  {
    name: "an incident that is over",
    series: incident(hang, "1x6 stale"),
    silent: ["Incident"],
    at: ["235s", "5m"],
  },
  {
    name: "nobody can say how everything stands",
    series: health("unknown", "1x240"),
    fires: [
      {
        alert: "Unknown",
        labels: { instance, level: "unknown", severity: "info" },
        section: "unknown",
        page: "",
        summary: "ringscope cannot say how everything stands",
        description:
          "Nothing is known to be wrong, and for some job or host on d:9440 there is no evidence that all is well. The first line of the page says which, and what would be needed to know.",
        at: ["660s"],
      },
    ],
    silent: ["Unknown"],
    until: "9m",
  },
  {
    name: "a job that starts is unknown for a minute",
    series: { ...health("unknown", "1x12 0x228"), ...health("ok", "0x12 1x228") },
    silent: ALL,
    until: "15m",
  },
];
