/** All jobs and hosts: is something wrong, where. */

import { dashboard } from "./dashboard.js";
import { GOOD_IS_ZERO, lines, NEUTRAL, stat, table } from "./panels.js";
import { bandwidth, findingCount, firingFindings, HOST_PAGE, JOB_PAGE, openIncidents, orZero } from "./parts.js";
import { DAEMON, now, over, rows } from "./query.js";

const ALL = DAEMON;

export const fleet = dashboard({
  uid: "ringscope-fleet", title: "ringscope / Fleet", marks: ALL, page: "/#/", variables: [],
  description: "All jobs and hosts: is something wrong, where, since when.",
  sections: [
    {
      panels: [
        stat({
          title: "Degraded hosts", unit: "short", w: 4, h: 4, zero: "none", steps: GOOD_IS_ZERO,
          description: "Hosts about which a finding of severity warning or above fires.",
          targets: now(["", orZero(`count(count by (host) (ringscope_finding{${DAEMON},severity=~"warning|critical"}))`)]),
        }),
        findingCount("critical", ALL, 4), findingCount("warning", ALL, 4),
        stat({
          title: "Running jobs", unit: "short", w: 4, h: 4, steps: NEUTRAL, zero: "none", description: "Jobs of which processes run.",
          targets: now(["", orZero(`count(ringscope_job_info{${DAEMON},state="running"})`)]),
        }),
        stat({
          title: "Throughput", unit: "Bps", w: 4, h: 4, steps: NEUTRAL, sparkline: true, description: "Payload bytes per second that all ranks finished.",
          targets: over(["", `sum(rate(ringscope_completed_bytes_total{${DAEMON}}[$__rate_interval])) or vector(0)`]),
        }),
        stat({
          title: "NICs down", unit: "short", w: 4, h: 4, zero: "none", steps: [[null, "green"], [1, "yellow"]],
          description: "Ports that carry no data, used or not. Those that ought to are among the findings.",
          targets: now(["", orZero(`count(ringscope_nic_up{${DAEMON}} == 0)`)]),
        }),
        openIncidents(ALL),
        firingFindings(ALL, ["job", "host", "comm"]),
      ],
    },
    {
      title: "Jobs",
      panels: [
        table({
          title: "Jobs", w: 12, h: 8, sortBy: "Throughput", descending: true, empty: "No job runs.",
          description: "Every job with its processes, pace and backlog.",
          targets: rows(
            `sum by (job) (ringscope_job_processes{${DAEMON}})`, `sum by (job) (rate(ringscope_completed_bytes_total{${DAEMON}}[$__rate_interval]))`,
            `sum by (job) (ringscope_backlog_bytes{${DAEMON}})`,
          ),
          columns: [
            { field: "job", name: "Job", url: JOB_PAGE }, { field: "Value #A", name: "Processes", unit: "none", width: 110 },
            { field: "Value #B", name: "Throughput", unit: "Bps", width: 130 }, { field: "Value #C", name: "Backlog", unit: "bytes", width: 130 },
          ],
        }),
        bandwidth(ALL, "job", "{{job}}", 12, "Bandwidth by job"),
      ],
    },
    {
      title: "Hosts",
      panels: [
        table({
          title: "Slowest hosts", w: 12, h: 8, sortBy: "Throughput", empty: "No host has completed anything.",
          description: "The twenty hosts that finish least. In one job all should finish the same.",
          targets: rows(`bottomk(20, sum by (host) (rate(ringscope_completed_bytes_total{${DAEMON},host!=""}[$__rate_interval])))`),
          columns: [{ field: "host", name: "Host", url: HOST_PAGE }, { field: "Value", name: "Throughput", unit: "Bps", width: 130 }],
        }),
        lines({
          title: "Findings that fire", unit: "short", w: 12, h: 8, stacked: true, description: "How many, by kind, over time.",
          targets: over(["{{finding}}", `(count by (finding) (ringscope_finding{${DAEMON}})) or label_replace(vector(0), "finding", "none", "", "")`]),
        }),
      ],
    },
  ],
});
