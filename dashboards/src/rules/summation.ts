/** Alerts on the summation service. */

import { page } from "../links.js";
import { findingAlert, number } from "./rule.js";
import type { Alert, Group } from "./rule.js";

const host = ["group", "host"];
const SHARE = number("max(ringscope_sum_share{%labels%})", host, "value | humanizePercentage");
const OPTIMAL = number("max(ringscope_sum_optimal_share{%labels%})", host, "value | humanizePercentage");
const WAITING = number("sum(ringscope_sum_rounds_waiting{%labels%})", ["group"]);
const OLDEST = number("max(ringscope_sum_oldest_wait_seconds{%labels%})", ["group"], "value | humanizeDuration");
const HERE = "summation group {{ $labels.group }} of job {{ $labels.job }}";

export const summation: Group<Alert> = {
  name: "ringscope-summation",
  rules: [
    findingAlert("sum_share_imbalance", {
      name: "SumShareImbalance",
      summary: "The summation service on {{ $labels.host }} has more than its share",
      description: `A service on {{ $labels.host }} owns up to ${SHARE} of all bytes where ${OPTIMAL} is best in ${HERE} ({{ $labels.cause }}).`,
      page: page.summation,
    }),
    findingAlert("sum_straggler", {
      name: "SumStraggler",
      summary: "The worker on {{ $labels.host }} keeps job {{ $labels.job }} waiting",
      description: `A worker on {{ $labels.host }} comes last in most rounds, and late, in ${HERE} ({{ $labels.cause }}).`,
      page: page.summation,
    }),
    findingAlert("sum_round_stuck", {
      name: "SumRoundStuck",
      summary: "Job {{ $labels.job }} waits for the worker on {{ $labels.host }}",
      description: `${WAITING} rounds of ${HERE} wait, the oldest for ${OLDEST}, for a worker on {{ $labels.host }} ({{ $labels.cause }}).`,
      page: page.summation,
    }),
    findingAlert("sum_fingerprint_mismatch", {
      name: "SumFingerprintMismatch",
      summary: "Members of job {{ $labels.job }} have different sums",
      description: `A member on {{ $labels.host }} has other bytes of a result than the rest of ${HERE}. What was computed since cannot be trusted.`,
      page: page.summation,
    }),
    findingAlert("sum_parameters_differ", {
      name: "SumParametersDiffer",
      summary: "Workers of job {{ $labels.job }} have different parameters",
      description: `Workers of ${HERE} have compared their parameters, and they are not the same ({{ $labels.cause }}). What is computed since is of no one model.`,
      page: page.summation,
    }),
    findingAlert("sum_server_lost", {
      name: "SumServerLost",
      summary: "Job {{ $labels.job }} has lost a summation server on {{ $labels.host }}",
      description: `A server of ${HERE} on {{ $labels.host }} was lost ({{ $labels.cause }}). This is a warning where the session goes on without it.`,
      page: page.summation,
    }),
  ],
};
