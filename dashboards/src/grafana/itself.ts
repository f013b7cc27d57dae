/** ringscope itself: do the agents speak, does the daemon keep up, is anything lost. */

import { dashboard } from "./dashboard.js";
import { GOOD_IS_ZERO, lines, NEUTRAL, stat, table } from "./panels.js";
import { HOST_PAGE, orZero } from "./parts.js";
import { now, over, rows } from "./query.js";

export const itself = dashboard({
  uid: "ringscope-itself", title: "ringscope / Itself", marks: 'finding="partly_seen"', page: "/#/", variables: [],
  description: "ringscope itself: do the agents speak, does the daemon keep up, is anything lost.",
  sections: [
    {
      panels: [
        stat({
          title: "Database", unit: "none", w: 4, h: 4, steps: [[null, "red"], [1, "green"]], description: "1: the database can be used. 0: history is waiting.",
          targets: now(["", "min(ringscope_store_up)"]),
        }),
        stat({
          title: "Agents", unit: "short", w: 4, h: 4, steps: NEUTRAL, zero: "none", description: "Agents heard of in the last minute.",
          targets: now(["", orZero("count(time() - ringscope_agent_heard_timestamp_seconds < 60)")]),
        }),
        stat({
          title: "Silent agents", unit: "short", w: 4, h: 4, steps: GOOD_IS_ZERO, zero: "none", description: "Agents not heard of for a minute.",
          targets: now(["", orZero("count(time() - ringscope_agent_heard_timestamp_seconds >= 60)")]),
        }),
        stat({
          title: "Dropped", unit: "short", w: 4, h: 4, steps: [[null, "green"], [1, "yellow"]], zero: "none",
          description: "Events that collectors, agents and this daemon lost in the last hour.", targets: now(["", "sum(increase(ringscope_dropped_events_total[1h])) or vector(0)"]),
        }),
        stat({
          title: "Omitted communicators", unit: "short", w: 4, h: 4, steps: [[null, "green"], [1, "yellow"]], zero: "none",
          description: "Communicators in use that /metrics leaves out, because there are more than the setting metrics_communicators.",
          targets: now(["", "sum(ringscope_metrics_communicators_omitted)"]),
        }),
        stat({
          title: "Scrape", unit: "s", w: 4, h: 4, steps: NEUTRAL, sparkline: true, description: "Time that /metrics took.",
          targets: over(["", "max(ringscope_scrape_duration_seconds)"]),
        }),
      ],
    },
    {
      title: "Ingest",
      panels: [
        lines({
          title: "Batches", unit: "ops", w: 12, h: 8, description: "Batches per second from agents: taken, seen before, refused.",
          targets: over(
            ["taken", "sum(rate(ringscope_ingest_batches_total[$__rate_interval]))"], ["seen before", "sum(rate(ringscope_ingest_duplicates_total[$__rate_interval]))"],
            ["refused", "sum(rate(ringscope_ingest_refused_total[$__rate_interval]))"],
          ),
        }),
        lines({
          title: "Bytes of batches", unit: "Bps", w: 12, h: 8, description: "Bytes per second of batches from agents, unpacked.", targets: over(["", "sum(rate(ringscope_ingest_bytes_total[$__rate_interval]))"]),
        }),
        lines({
          title: "Transactions", unit: "ops", w: 12, h: 8, description: "Transactions per second: committed, failed; and points of history lost.",
          targets: over(
            ["committed", "sum(rate(ringscope_store_commits_total[$__rate_interval]))"], ["failed", "sum(rate(ringscope_store_errors_total[$__rate_interval]))"],
            ["points lost", "sum(rate(ringscope_store_dropped_samples_total[$__rate_interval]))"],
          ),
        }),
        lines({
          title: "Lost, by reason", unit: "ops", w: 12, h: 8, description: "Events per second that collectors, agents and this daemon lost. 0 is the aim.",
          targets: over(["{{reason}}", '(sum by (reason) (rate(ringscope_dropped_events_total[$__rate_interval]))) or label_replace(vector(0), "reason", "none", "", "")']),
        }),
      ],
    },
    {
      title: "Who speaks",
      panels: [
        table({
          title: "Agents by silence", w: 12, h: 8, sortBy: "Silent for", descending: true, empty: "No agent has spoken.", description: "The host whose agent has been silent longest comes first.",
          targets: rows("time() - max by (host) (ringscope_agent_heard_timestamp_seconds)"),
          columns: [{ field: "host", name: "Host", url: HOST_PAGE }, { field: "Value", name: "Silent for", unit: "s", width: 130 }],
        }),
        lines({
          title: "Collectors", unit: "short", w: 12, h: 8, stacked: true, description: "Processes by what their collector does.",
          targets: over(["{{state}}", '(sum by (state) (ringscope_collector_state)) or label_replace(vector(0), "state", "none", "", "")']),
        }),
      ],
    },
  ],
});
