/** A summation group: who owns and moves what, for whom rounds wait. */

import { dashboard } from "./dashboard.js";
import { lines, NEUTRAL, stat, table } from "./panels.js";
import { findingCount, firingFindings, HOST_PAGE, orZero } from "./parts.js";
import { DAEMON, labelVariable, now, over, rows } from "./query.js";

const OF = `${DAEMON},job="$job",group="$group"`;
const rate = (metric: string, more = "") => `rate(${metric}{${OF}${more}}[$__rate_interval])`;

export const summation = dashboard({
  uid: "ringscope-summation", title: "ringscope / Summation", marks: OF, page: "/#/summation/$group",
  description: "One group of the summation service: who owns and moves what, who comes last, for whom rounds wait.",
  variables: [
    labelVariable("job", "Job", `ringscope_sum_share{${DAEMON}}`, false), labelVariable("group", "Group", `ringscope_sum_share{${DAEMON},job="$job"}`, false),
  ],
  sections: [
    {
      panels: [
        findingCount("critical", OF, 4), findingCount("warning", OF, 4), findingCount("info", OF, 4),
        stat({
          title: "Pushed", unit: "Bps", w: 4, h: 4, steps: NEUTRAL, sparkline: true, description: "Bytes per second that all workers pushed.",
          targets: over(["", orZero(`sum(${rate("ringscope_sum_completed_bytes_total", ',primitive="push"')})`)]),
        }),
        stat({
          title: "Rounds that wait", unit: "short", w: 4, h: 4, steps: NEUTRAL, description: "Rounds of all services that wait for workers.",
          targets: now(["", orZero(`sum(ringscope_sum_rounds_waiting{${OF}})`)]),
        }),
        stat({
          title: "Oldest wait", unit: "s", w: 4, h: 4, steps: [[null, "green"], [1, "yellow"], [10, "red"]], description: "For how long the oldest round waits.",
          targets: now(["", orZero(`max(ringscope_sum_oldest_wait_seconds{${OF}})`)]),
        }),
        firingFindings(OF, ["host"]),
      ],
    },
    {
      title: "Services",
      panels: [
        table({
          title: "Shares against their optimum", w: 12, h: 8, sortBy: "Owned / optimal", descending: true, empty: "No group is in use.",
          description: "What each service owns of all bytes against what is best for the network cards. Above 1.1 every round waits for it.",
          targets: rows(
            `max by (service, host) (ringscope_sum_share{${OF}})`, `max by (service, host) (ringscope_sum_optimal_share{${OF}})`,
            `max by (service, host) (ringscope_sum_share{${OF}} / (ringscope_sum_optimal_share{${OF}} > 0))`,
          ),
          columns: [
            { field: "service", name: "Service", width: 90 }, { field: "host", name: "Host", url: HOST_PAGE },
            { field: "Value #A", name: "Owned", unit: "percentunit", width: 110 }, { field: "Value #B", name: "Optimal", unit: "percentunit", width: 110 },
            { field: "Value #C", name: "Owned / optimal", unit: "none", width: 130, steps: [[null, "green"], [1.1, "yellow"]] },
          ],
        }),
        lines({
          title: "Pushed by service", unit: "Bps", w: 12, h: 8, description: "Bytes per second that workers pushed to each service. Curves lie as the shares do.",
          targets: over(["{{service}}", `sum by (service) (${rate("ringscope_sum_completed_bytes_total", ',primitive="push"')})`]),
        }),
        lines({
          title: "Issued and not completed", unit: "bytes", w: 12, h: 8, description: "Bytes that were submitted to a service or asked of it, and did not get there yet. One that only grows is stuck.",
          targets: over([
            "{{primitive}} {{service}}",
            `sum by (primitive, service) (ringscope_sum_issued_bytes_total{${OF}}) - sum by (primitive, service) (ringscope_sum_completed_bytes_total{${OF}})`,
          ]),
        }),
        lines({
          title: "Speed of summing", unit: "Bps", w: 12, h: 8, description: "Bytes of contributions added up in a second of summing, by host: what its memory and cores give.",
          targets: over([
            "{{host}}", `sum by (host) (${rate("ringscope_sum_summed_bytes_total")}) / (sum by (host) (${rate("ringscope_sum_summing_seconds_total")}) > 0)`,
          ]),
        }),
        lines({
          title: "Bytes that crossed no network card", unit: "Bps", w: 24, h: 8, description: "Between workers and services of one host, in both directions.",
          targets: over(["{{host}}", `sum by (host) (${rate("ringscope_sum_loopback_bytes_total")})`]),
        }),
      ],
    },
    {
      title: "Workers",
      panels: [
        lines({
          title: "Who comes last", unit: "percentunit", w: 12, h: 8, max: 1, stacked: true,
          description: "Fraction of rounds in which each worker came last. One that has most of them keeps the others waiting.",
          targets: over([
            "{{worker}} {{host}}",
            `sum by (worker, host) (${rate("ringscope_sum_last_arrivals_total")}) / ignoring (worker, host) group_left () sum(${rate("ringscope_sum_last_arrivals_total")})`,
          ]),
        }),
        lines({
          title: "Parts that wait for a stage", unit: "short", w: 12, h: 8, stacked: true, description: "Parts in the queue of each stage of all workers. The fullest stage is the narrow one.",
          targets: over(["{{stage}}", `sum by (stage) (ringscope_sum_stage_queue_parts{${OF}})`]),
        }),
        lines({
          title: "Time waited for stages", unit: "short", w: 12, h: 8, description: "Parts that wait, on average over time: seconds of waiting in a second, by stage.",
          targets: over(["{{stage}}", `sum by (stage) (${rate("ringscope_sum_stage_wait_seconds_total")})`]),
        }),
        lines({
          title: "Bytes in flight", unit: "bytes", w: 12, h: 8, description: "Credits that the workers of each host use.",
          targets: over(["{{host}}", `sum by (host) (ringscope_sum_credits_used_bytes{${OF}})`]),
        }),
        lines({
          title: "Staleness of pulls", unit: "ops", w: 24, h: 8,
          description: "Pulls per second by at most how many rounds the slowest worker was behind; +Inf is all of them. Asynchronous groups only: else 0.",
          targets: over([
            "≤ {{le}}", `(sum by (le) (${rate("ringscope_sum_staleness_rounds_bucket")})) or label_replace(vector(0), "le", "synchronous", "", "")`,
          ]),
        }),
      ],
    },
  ],
});
