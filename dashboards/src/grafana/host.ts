/** One host: its NICs and GPUs, its channels, its part of the work. */

import { dashboard } from "./dashboard.js";
import { GOOD_IS_ZERO, lines, NEUTRAL, stat, table } from "./panels.js";
import { bandwidth, channels, findingCount, firingFindings, issuedAgainstCompleted, orZero } from "./parts.js";
import { DAEMON, labelVariable, now, over, rows } from "./query.js";

const OF = `${DAEMON},host="$host"`;

export const host = dashboard({
  uid: "ringscope-host", title: "ringscope / Host", marks: OF, page: "/#/hosts/$host",
  description: "One host: its NICs and GPUs, its channels, its part of the work.",
  variables: [labelVariable("host", "Host", `{__name__=~"ringscope_(nic_up|issued_bytes_total|agent_heard_timestamp_seconds)",${DAEMON}}`, false)],
  sections: [
    {
      panels: [
        findingCount("critical", OF, 4), findingCount("warning", OF, 4),
        stat({
          title: "NICs down", unit: "short", w: 4, h: 4, zero: "none", steps: [[null, "green"], [1, "yellow"]],
          description: "Ports that carry no data, used or not.", targets: now(["", orZero(`count(ringscope_nic_up{${OF}} == 0)`)]),
        }),
        stat({
          title: "GPUs", unit: "short", w: 4, h: 4, steps: NEUTRAL, zero: "none or not known",
          description: "GPUs that the driver shows.", targets: now(["", orZero(`sum(ringscope_gpus{${OF}})`)]),
        }),
        stat({
          title: "Collectors at fault", unit: "short", w: 4, h: 4, zero: "none", steps: GOOD_IS_ZERO,
          description: "Processes whose collector switched itself off.", targets: now(["", orZero(`sum(ringscope_collector_state{${OF},state="fault"})`)]),
        }),
        stat({
          title: "Processes", unit: "short", w: 4, h: 4, steps: NEUTRAL, zero: "none", description: "Processes that run here, of all jobs.",
          targets: now(["", orZero(`sum(ringscope_job_processes{${OF}})`)]),
        }),
        firingFindings(OF, ["job", "comm"]),
      ],
    },
    {
      title: "Hardware",
      panels: [
        table({
          title: "NICs", w: 12, h: 8, sortBy: "NIC", empty: "Nobody has read this host's NICs.",
          description: "Every port: whether it carries data, its rate, and how often its link went down.",
          targets: rows(`max by (nic, port) (ringscope_nic_up{${OF}})`, `max by (nic, port) (ringscope_nic_rate_bytes_per_second{${OF}})`,
            `max by (nic, port) (ringscope_nic_link_downs_total{${OF}})`),
          columns: [
            { field: "nic", name: "NIC", url: "${ringscope_url}/#/hosts/$host?nic=${__value.raw}" }, { field: "port", name: "Port", width: 80 },
            { field: "Value #A", name: "Up", unit: "none", width: 80, steps: [[null, "red"], [1, "green"]] },
            { field: "Value #B", name: "Rate", unit: "Bps", width: 120 }, { field: "Value #C", name: "Link downs", unit: "none", width: 110 },
          ],
        }),
        lines({
          title: "NIC traffic", unit: "Bps", w: 12, h: 8, description: "Bytes per second that each port sends and receives. NICs of one job on one rail plan carry the same.",
          targets: over(
            ["{{nic}} sent", `sum by (nic) (rate(ringscope_nic_sent_bytes_total{${OF}}[$__rate_interval]))`],
            ["{{nic}} received", `sum by (nic) (rate(ringscope_nic_received_bytes_total{${OF}}[$__rate_interval]))`],
          ),
        }),
        lines({
          title: "NIC errors", unit: "short", w: 24, h: 6,
          description: "What the ports counted in the last five minutes: errors of the link, RDMA requests that failed, and what was lost and sent again.",
          targets: over(["{{nic}} {{counter}}", ["nic_errors", "rdma_errors", "rdma_retransmits"].map((of) =>
            `(sum by (nic, counter) (increase(ringscope_${of}_total{${OF}}[5m])) > 0)`).concat(`label_replace(vector(0), "nic", "none", "", "")`).join(" or ")]),
        }),
      ],
    },
    { title: "Channels", panels: [channels(OF, 24, "{{comm}}")] },
    { title: "Work", panels: [bandwidth(OF, "job, primitive", "{{job}} {{primitive}}", 12, "Bandwidth by primitive"), issuedAgainstCompleted(OF, 12)] },
  ],
});
