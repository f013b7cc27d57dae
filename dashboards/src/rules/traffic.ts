/** Alerts on what is issued and completed. Without a backlog series nothing tells of completion, and none fires. */

import { page } from "../links.js";
import { thresholds } from "../thresholds.js";
import { alert, DAEMON, number } from "./rule.js";
import type { Alert, Group } from "./rule.js";

const sum = `sum by (${DAEMON}, job, comm)`;
const BACKLOG = number("sum(ringscope_backlog_bytes{%labels%})", ["job", "comm"], "value | humanize1024");
const PROCESSES = number('sum(ringscope_job_processes{%labels%,state="running"})', ["job"]);

/** What ringscope has named is told as its incident; or by nobody, where somebody has silenced that. */
const UNLESS_NAMED = `unless on (${DAEMON}, job) ringscope_incident{severity="critical"}`;

/**
 * By how much a count has grown: no `increase`, which is blind to what came between the last sample before its window and the
 * first inside. So what is said not to have grown has not, however seldom Prometheus looks.
 */
function grown(metric: string, since: string): string {
  return `${sum} (${metric}) - ${sum} (${metric} offset ${since})`;
}

export const traffic: Group<Alert> = {
  name: "ringscope-traffic",
  rules: [
    alert({
      name: "BacklogGrowing",
      section: "backlog_growing",
      expr: [
        `${grown("ringscope_issued_bytes_total", thresholds.stall)} > 0`,
        `and ${sum} (ringscope_backlog_bytes) > 0`,
        `unless ${grown("ringscope_completed_calls_total", thresholds.stall)} != 0`,
        UNLESS_NAMED,
      ].join("\n"),
      for: thresholds.backlogGrows,
      severity: "critical",
      summary: "Job {{ $labels.job }} issues and nothing completes",
      description: `In ${thresholds.stall} the ranks of communicator {{ $labels.comm }} issued {{ $value | humanize1024 }}B and completed no call; ${BACKLOG}B wait.`,
      page: page.communicator,
    }),
    alert({
      name: "CompletionStands",
      section: "completion_stands",
      expr: [
        `${sum} (ringscope_backlog_bytes) > 0`,
        `and ${sum} (min_over_time(ringscope_backlog_bytes[${thresholds.completionStands}])) > 0`,
        `and ${sum} (ringscope_backlog_bytes offset ${thresholds.completionStands}) > 0`,
        `unless ${grown("ringscope_completed_calls_total", thresholds.completionStands)} != 0`,
        // What ringscope has named is told as its incident.
        `unless on (${DAEMON}, job) ringscope_incident`,
      ].join("\n"),
      severity: "warning",
      summary: `Job {{ $labels.job }} has completed nothing for ${thresholds.completionStands}`,
      description: `{{ $value | humanize1024 }}B of communicator {{ $labels.comm }} wait, and no call has completed for ${thresholds.completionStands}: it hangs, or waits for work by design, and ringscope has named nobody.`,
      page: page.communicator,
    }),
    alert({
      name: "NoDataFromRunningJob",
      section: "no_data_from_running_job",
      // When it was scraped, and not now: an old sample is no silence.
      expr: `timestamp(ringscope_job_heard_timestamp_seconds) - ringscope_job_heard_timestamp_seconds > ${thresholds.silentJobSeconds}\nand on (${DAEMON}, job) ringscope_job_info{state="running"}\n${UNLESS_NAMED}`,
      severity: "warning",
      summary: "Job {{ $labels.job }} runs and calls no collective",
      description: `The ${PROCESSES} processes of job {{ $labels.job }} live, and their counters have not moved for {{ $value | humanizeDuration }}: the job stands, or its calls go past the collector.`,
      page: page.job,
    }),
  ],
};
