/** One job: its communicators, pace, backlog and channels. */

import { dashboard } from "./dashboard.js";
import { NEUTRAL, stat, table } from "./panels.js";
import {
  backlog, bandwidth, channels, channelTable, COMM_PAGE, findingCount, firingFindings, issuedAgainstCompleted,
  openIncidents, orZero, wireBytes,
} from "./parts.js";
import { DAEMON, labelVariable, now, over, rows } from "./query.js";

const OF = `${DAEMON},job="$job"`;

export const job = dashboard({
  uid: "ringscope-job", title: "ringscope / Job", marks: OF, page: "/#/jobs/$job",
  description: "One job: its communicators, pace, backlog and channels.",
  variables: [labelVariable("job", "Job", `ringscope_job_info{${DAEMON}}`, false)],
  sections: [
    {
      panels: [
        findingCount("critical", OF, 4), findingCount("warning", OF, 4), findingCount("info", OF, 4),
        stat({
          title: "Hosts", unit: "short", w: 4, h: 4, steps: NEUTRAL, description: "Hosts on which its processes live.",
          targets: now(["", orZero(`count(count by (host) (ringscope_job_processes{${OF}}))`)]),
        }),
        stat({
          title: "Throughput", unit: "Bps", w: 4, h: 4, steps: NEUTRAL, sparkline: true, description: "Payload bytes per second that all its ranks finished.",
          targets: over(["", `sum(rate(ringscope_completed_bytes_total{${OF}}[$__rate_interval])) or vector(0)`]),
        }),
        stat({
          title: "Last heard", unit: "dateTimeFromNow", w: 4, h: 4, steps: NEUTRAL, description: "When an agent last told of one of its processes.",
          // Grafana wants milliseconds.
          targets: now(["", `max(ringscope_job_heard_timestamp_seconds{${OF}}) * 1000`]),
        }),
        openIncidents(OF),
        firingFindings(OF, ["host", "comm"]),
      ],
    },
    {
      title: "Communicators",
      panels: [
        table({
          title: "Communicators in use", w: 24, h: 8, sortBy: "Ranks", descending: true, empty: "No communicator is in use.",
          description: "Each with its size, pace and backlog. Click one to see its rings.",
          targets: rows(
            `max by (comm, name, n_ranks, n_nodes) (ringscope_communicator_info{${OF}})`,
            `sum by (comm) (rate(ringscope_completed_bytes_total{${OF}}[$__rate_interval]))`, `sum by (comm) (ringscope_backlog_bytes{${OF}})`,
            `min by (comm) (ringscope_init_channels{${OF}})`, `min by (comm) (ringscope_final_channels{${OF}})`,
          ),
          columns: [
            { field: "comm", name: "Communicator", url: COMM_PAGE }, { field: "name", name: "Name" }, { field: "n_ranks", name: "Ranks", width: 90 },
            { field: "n_nodes", name: "Nodes", width: 90 }, { field: "Value #B", name: "Throughput", unit: "Bps", width: 130 },
            { field: "Value #C", name: "Backlog", unit: "bytes", width: 130 }, { field: "Value #D", name: "Lowest init", unit: "none", width: 110 },
            { field: "Value #E", name: "Final", unit: "none", width: 90 },
          ],
        }),
      ],
    },
    {
      title: "Pace",
      panels: [
        bandwidth(OF, "primitive", "{{primitive}}", 12, "Bandwidth by primitive"), bandwidth(OF, "host", "{{host}}", 12, "Bandwidth by host"),
        issuedAgainstCompleted(OF, 12), backlog(OF, "comm", "{{comm}}", 12),
      ],
    },
    { title: "Channels and links", panels: [channels(OF, 12, "{{host}} {{comm}}"), channelTable(OF, 12), wireBytes(OF, 24)] },
  ],
});
