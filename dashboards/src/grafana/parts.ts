/** Panels that several dashboards have. `of` selects what they are about, e.g. `job=~"$job"`. */

import type { Panel } from "@grafana/schema";
import { type Column, GOOD_IS_ZERO, lines, NEUTRAL, stat, table } from "./panels.js";
import { now, over, rows } from "./query.js";

const SEVERITIES = { critical: "red", warning: "yellow", info: "blue" } as const;
const page = (path: string) => `\${ringscope_url}/#${path}`;
export const HOST_PAGE = page("/hosts/${__value.raw}");
export const COMM_PAGE = page("/communicators/${__value.raw}");
const INCIDENT_PAGE = page("/incidents/${__value.raw}");
export const JOB_PAGE = page("/jobs/${__value.raw}");

/** Counts, 0 where there is nothing to count: an empty panel would leave the reader in doubt. */
export const orZero = (expr: string) => `(${expr}) or vector(0)`;

export function findingCount(severity: keyof typeof SEVERITIES, of: string, w: number): Panel {
  return stat({
    title: `${severity[0]!.toUpperCase()}${severity.slice(1)} findings`, unit: "short", w, h: 4, zero: "none",
    description: `Findings of severity ${severity} that fire now.`,
    steps: severity === "info" ? NEUTRAL : severity === "warning" ? [[null, "green"], [1, "yellow"]] : GOOD_IS_ZERO,
    targets: now(["", orZero(`count(ringscope_finding{severity="${severity}",${of}})`)]),
    links: [{ title: "Findings in ringscope", url: `\${ringscope_url}/#/findings?severity=${severity}` }],
  });
}

export function firingFindings(of: string, columns: ("job" | "host" | "comm")[], w = 24): Panel {
  const known: Record<string, Column> = {
    job: { field: "job", name: "Job", url: JOB_PAGE },
    host: { field: "host", name: "Host", url: HOST_PAGE },
    comm: { field: "comm", name: "Communicator", url: COMM_PAGE },
  };
  return table({
    title: "What fires", w, h: 8, sortBy: "Severity", empty: "No finding fires.",
    description: "Every finding that fires: who holds the others back, and why. Click a host to see its NICs and rings in ringscope.",
    targets: rows(`max by (severity, finding, cause, job, host, comm) (ringscope_finding{${of}})`),
    columns: [
      { field: "severity", name: "Severity", width: 100, words: SEVERITIES },
      { field: "finding", name: "Finding" }, { field: "cause", name: "Cause" }, ...columns.map((column) => known[column]!),
    ],
  });
}

export function openIncidents(of: string, w = 24): Panel {
  return table({
    title: "Open incidents", w, h: 6, sortBy: "Severity", empty: "No incident is open.",
    description: "One cause a line, with all that follows from it. Click one to see in ringscope who is to blame, who waits and what to do; those that somebody silenced are not open here.",
    targets: rows(`max by (severity, finding, job, host, rank, incident) (ringscope_incident{${of}}) > 0`),
    columns: [
      { field: "severity", name: "Severity", width: 100, words: SEVERITIES },
      { field: "incident", name: "Incident", url: INCIDENT_PAGE }, { field: "finding", name: "What" },
      { field: "job", name: "Job", url: JOB_PAGE }, { field: "host", name: "Host", url: HOST_PAGE }, { field: "rank", name: "Rank", width: 80 },
    ],
  });
}

/** What the library finished in a second, by a label. */
export function bandwidth(of: string, by: string, legend: string, w: number, title: string): Panel {
  return lines({
    title, unit: "Bps", w, h: 8,
    description: "Payload bytes per second that the library finished (algbw, summed over ranks). Equal hosts of one job have equal curves.",
    targets: over([legend, `sum by (${by}) (rate(ringscope_completed_bytes_total{${of}}[$__rate_interval]))`]),
  });
}

export function issuedAgainstCompleted(of: string, w: number): Panel {
  return lines({
    title: "Issued against completed", unit: "Bps", w, h: 8,
    description: "Payload bytes per second handed to the library, and finished by it. Issued above completed: work piles up.",
    targets: over(
      ["issued", `sum(rate(ringscope_issued_bytes_total{${of}}[$__rate_interval]))`],
      ["completed", `sum(rate(ringscope_completed_bytes_total{${of}}[$__rate_interval]))`],
    ),
  });
}

export function backlog(of: string, by: string, legend: string, w: number): Panel {
  return lines({
    title: "Backlog", unit: "bytes", w, h: 8, description: "Payload bytes issued and not completed. A curve that only grows is a job that is stuck.",
    targets: over([legend, `sum by (${by}) (ringscope_backlog_bytes{${of}})`]),
  });
}

export function wireBytes(of: string, w: number): Panel {
  return lines({
    title: "Bytes on links", unit: "Bps", w, h: 8, stacked: true,
    description: "Bytes between ranks of one host (intra) and of several (inter). Only where the collector runs at level steps: else 0.",
    targets: over(["{{scope}}", `(sum by (scope) (rate(ringscope_wire_bytes_total{${of}}[$__rate_interval]))) or label_replace(vector(0), "scope", "not measured", "", "")`]),
  });
}

export function channels(of: string, w: number, legend: string): Panel {
  return lines({
    title: "Init and final channels", unit: "none", w, h: 8, steps: true,
    description: "Channels that each host's own search found (init), and those in use (final). One host with fewer init channels holds all others back.",
    targets: over(
      [`init ${legend}`, `min by (comm, host) (ringscope_init_channels{${of}})`],
      [`final ${legend}`, `min by (comm, host) (ringscope_final_channels{${of}})`],
    ),
  });
}

export function channelTable(of: string, w: number): Panel {
  return table({
    title: "Channels by host", w, h: 8, sortBy: "Init", empty: "No log told of channels.",
    description: "The host with the lowest init limits its communicator: final follows from the lowest init of all hosts.",
    targets: rows(`min by (comm, host) (ringscope_init_channels{${of}})`, `min by (comm, host) (ringscope_final_channels{${of}})`),
    columns: [
      { field: "host", name: "Host", url: HOST_PAGE }, { field: "comm", name: "Communicator", url: COMM_PAGE },
      { field: "Value #A", name: "Init", unit: "none", width: 90 }, { field: "Value #B", name: "Final", unit: "none", width: 90 },
    ],
  });
}
