/** ringscope itself: do the agents speak, does the daemon keep up, is anything lost. */

import { dashboard } from "./dashboard.js";
import { GOOD_IS_ZERO, lines, NEUTRAL, stat, table } from "./panels.js";
import { HOST_PAGE, orZero } from "./parts.js";
import { DAEMON, now, over, rows } from "./query.js";

/** What so large a part of a histogram's values is below. */
function quantile(part: number, histogram: string): string {
  return `histogram_quantile(${part}, sum by (le) (rate(${histogram}_bucket{${DAEMON}}[$__rate_interval])))`;
}

export const itself = dashboard({
  uid: "ringscope-itself", title: "ringscope / Itself", marks: `${DAEMON},finding="partly_seen"`, page: "/#/", variables: [],
  description: "ringscope itself: do the agents speak, does the daemon keep up, is anything lost.",
  sections: [
    {
      panels: [
        stat({
          title: "Database", unit: "none", w: 4, h: 4, steps: [[null, "red"], [1, "green"]], description: "1: the database can be used. 0: history is waiting.",
          targets: now(["", `min(ringscope_store_up{${DAEMON}})`]),
        }),
        stat({
          title: "Agents", unit: "short", w: 4, h: 4, steps: NEUTRAL, zero: "none", description: "Agents heard of in the last minute.",
          targets: now(["", orZero(`count(time() - ringscope_agent_heard_timestamp_seconds{${DAEMON}} < 60)`)]),
        }),
        stat({
          title: "Silent agents", unit: "short", w: 4, h: 4, steps: GOOD_IS_ZERO, zero: "none", description: "Agents not heard of for a minute.",
          targets: now(["", orZero(`count(time() - ringscope_agent_heard_timestamp_seconds{${DAEMON}} >= 60)`)]),
        }),
        stat({
          title: "Dropped", unit: "short", w: 4, h: 4, steps: [[null, "green"], [1, "yellow"]], zero: "none",
          description: "Events that collectors, agents and this daemon lost in the last hour.", targets: now(["", `sum(increase(ringscope_dropped_events_total{${DAEMON}}[1h])) or vector(0)`]),
        }),
        stat({
          title: "Left out", unit: "short", w: 4, h: 4, steps: [[null, "green"], [1, "yellow"]], zero: "none",
          description: "Communicators, hosts, jobs, findings, incidents and summation groups that /metrics leaves out: the setting metrics_series leaves no room.",
          targets: now(["", `sum(ringscope_metrics_left_out{${DAEMON},kind!~".*_by_host|hosts_nics"})`]),
        }),
        stat({
          title: "Scrape", unit: "s", w: 4, h: 4, steps: NEUTRAL, sparkline: true, description: "Time that /metrics took.",
          targets: over(["", `max(ringscope_scrape_duration_seconds{${DAEMON}})`]),
        }),
      ],
    },
    {
      title: "Ingest",
      panels: [
        lines({
          title: "Batches", unit: "ops", w: 12, h: 8, description: "Batches per second from agents: taken, seen before, refused.",
          targets: over(
            ["taken", `sum(rate(ringscope_ingest_batches_total{${DAEMON}}[$__rate_interval]))`], ["seen before", `sum(rate(ringscope_ingest_duplicates_total{${DAEMON}}[$__rate_interval]))`],
            ["refused", `sum(rate(ringscope_ingest_refused_total{${DAEMON}}[$__rate_interval]))`],
          ),
        }),
        lines({
          title: "Bytes of batches", unit: "Bps", w: 12, h: 8, description: "Bytes per second of batches from agents, unpacked.", targets: over(["", `sum(rate(ringscope_ingest_bytes_total{${DAEMON}}[$__rate_interval]))`]),
        }),
        lines({
          title: "Transactions", unit: "ops", w: 12, h: 8, description: "Transactions per second: committed, failed; and points of history lost.",
          targets: over(
            ["committed", `sum(rate(ringscope_store_commits_total{${DAEMON}}[$__rate_interval]))`], ["failed", `sum(rate(ringscope_store_errors_total{${DAEMON}}[$__rate_interval]))`],
            ["points lost", `sum(rate(ringscope_store_dropped_samples_total{${DAEMON}}[$__rate_interval]))`],
          ),
        }),
        lines({
          title: "Lost, by reason", unit: "ops", w: 12, h: 8, description: "Events per second that collectors, agents and this daemon lost. 0 is the aim.",
          targets: over(["{{reason}}", `(sum by (reason) (rate(ringscope_dropped_events_total{${DAEMON}}[$__rate_interval]))) or label_replace(vector(0), "reason", "none", "", "")`]),
        }),
      ],
    },
    {
      title: "How long it takes",
      panels: [
        lines({
          title: "Ingest of a batch", unit: "s", w: 12, h: 8, description: "Half, and 99 of 100 batches are answered in less: applied, and their facts stored.",
          targets: over(["half", quantile(0.5, "ringscope_ingest_duration_seconds")], ["99 %", quantile(0.99, "ringscope_ingest_duration_seconds")]),
        }),
        lines({
          title: "Waits", unit: "s", w: 12, h: 8, description: "99 of 100 wait less for the model's lock, and batches for a thread that applies them.",
          targets: over(["lock", quantile(0.99, "ringscope_hub_lock_wait_seconds")], ["thread", `${quantile(0.99, "ringscope_ingest_queue_seconds")} >= 0 or vector(0)`]),
        }),
        lines({
          title: "Writes to the database", unit: "s", w: 12, h: 8, description: "Half, and 99 of 100 writes take less.",
          targets: over(["half", quantile(0.5, "ringscope_store_write_duration_seconds")], ["99 %", quantile(0.99, "ringscope_store_write_duration_seconds")]),
        }),
        lines({
          title: "Judgement is behind", unit: "s", w: 12, h: 8, description: "How long the communicator that waits longest has changed and not been judged: 99 of 100 looks find less. Large ones wait their turn.",
          targets: over(["99 %", quantile(0.99, "ringscope_judgement_delay_seconds")]),
        }),
      ],
    },
    {
      title: "What Prometheus gets",
      panels: [
        lines({
          title: "Left out, by kind", unit: "short", w: 12, h: 8,
          description: "What has no series, or sums alone (by_host, hosts_nics), because --metrics-series leaves no room. The unhealthy and largest come first.",
          targets: over(["{{kind}}", `sum by (kind) (ringscope_metrics_left_out{${DAEMON}})`]),
        }),
        lines({
          title: "Remote write", unit: "ops", w: 12, h: 8, description: "Samples per second that are written to a database for long (--remote-write): sent, refused for good, dropped because too much waited.",
          targets: over(["{{result}}", `sum by (result) (rate(ringscope_remote_write_samples_total{${DAEMON}}[$__rate_interval]))`]),
        }),
        lines({
          title: "Limit of series", unit: "short", w: 24, h: 6, description: "Series that each daemon shows at most: --metrics-series.",
          targets: over(["{{instance}}", `max by (instance) (ringscope_metrics_series_limit{${DAEMON}})`]),
        }),
      ],
    },
    {
      title: "Who speaks",
      panels: [
        table({
          title: "Agents by silence", w: 12, h: 8, sortBy: "Silent for", descending: true, empty: "No agent has spoken.", description: "The host whose agent has been silent longest comes first.",
          targets: rows(`time() - max by (host) (ringscope_agent_heard_timestamp_seconds{${DAEMON}})`),
          columns: [{ field: "host", name: "Host", url: HOST_PAGE }, { field: "Value", name: "Silent for", unit: "s", width: 130 }],
        }),
        lines({
          title: "Collectors", unit: "short", w: 12, h: 8, stacked: true, description: "Processes by what their collector does.",
          targets: over(["{{state}}", `(sum by (state) (ringscope_collector_state{${DAEMON}})) or label_replace(vector(0), "state", "none", "", "")`]),
        }),
      ],
    },
  ],
});
