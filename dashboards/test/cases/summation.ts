/** The summation service. */

import type { Case, Firing } from "../promtool.js";
import { finding, instance, job, series, SILENCED, STEADY } from "./series.js";

const group = "5d1c09ab77e2";
const host = "sum-0";
const here = { instance, job, group, host };
const ALL = ["SumShareImbalance", "SumStraggler", "SumRoundStuck", "SumFingerprintMismatch", "SumParametersDiffer", "SumServerLost"];
const HERE = `summation group ${group} of job train`;

/** Two servers at work, of which one owns more than it should. */
const known = {
  ...series("ringscope_sum_share", { ...here, service: "0" }, `0.36${STEADY}`),
  ...series("ringscope_sum_share", { ...here, host: "sum-1", service: "1" }, `0.24${STEADY}`),
  ...series("ringscope_sum_optimal_share", { ...here, service: "0" }, `0.3${STEADY}`),
  ...series("ringscope_sum_rounds_waiting", here, `2${STEADY}`),
  ...series("ringscope_sum_oldest_wait_seconds", here, `90${STEADY}`),
};

/** A kind of finding fires its alert, and no other. */
function alone(
  kind: string,
  cause: string,
  severity: string,
  text: Pick<Firing, "alert" | "summary" | "description">,
): Case {
  const labels = { ...here, finding: kind, cause, severity };
  return {
    name: `${kind} alone`,
    series: { ...known, ...finding(kind, cause, severity, here) },
    fires: [{ ...text, labels, section: kind, page: `summation/${group}`, at: ["5s", "5m"] }],
    silent: ALL.filter((alert) => alert !== text.alert),
    until: "2m",
  };
}

export const summationCases: Case[] = [
  { name: "a group at work", series: known, silent: ALL, until: "5m" },
  alone("sum_share_imbalance", "uneven_placement", "warning", {
    alert: "SumShareImbalance",
    summary: "The summation service on sum-0 has more than its share",
    description: `A service on sum-0 owns up to 36% of all bytes where 30% is best in ${HERE} (uneven_placement).`,
  }),
  alone("sum_straggler", "late_start", "warning", {
    alert: "SumStraggler",
    summary: "The worker on sum-0 keeps job train waiting",
    description: `A worker on sum-0 comes last in most rounds, and late, in ${HERE} (late_start).`,
  }),
  alone("sum_round_stuck", "not_submitted", "critical", {
    alert: "SumRoundStuck",
    summary: "Job train waits for the worker on sum-0",
    description: `2 rounds of ${HERE} wait, the oldest for 1m 30s, for a worker on sum-0 (not_submitted).`,
  }),
  alone("sum_fingerprint_mismatch", "different_sums", "critical", {
    alert: "SumFingerprintMismatch",
    summary: "Members of job train have different sums",
    description: `A member on sum-0 has other bytes of a result than the rest of ${HERE}. What was computed since cannot be trusted.`,
  }),
  alone("sum_parameters_differ", "differs_from_most", "critical", {
    alert: "SumParametersDiffer",
    summary: "Workers of job train have different parameters",
    description: `Workers of ${HERE} have compared their parameters, and they are not the same (differs_from_most). What is computed since is of no one model.`,
  }),
  alone("sum_server_lost", "server_lost", "critical", {
    alert: "SumServerLost",
    summary: "Job train has lost a summation server on sum-0",
    description: `A server of ${HERE} on sum-0 was lost (server_lost). This is a warning where the session goes on without it.`,
  }),
  {
    name: "rounds that wait, whose incident somebody silenced",
    series: { ...known, ...finding("sum_round_stuck", "not_submitted", "critical", here, SILENCED) },
    silent: ALL,
    until: "5m",
  },
  {
    name: "a daemon that restarts does not resolve a lost server, and one that is back does",
    series: finding("sum_server_lost", "server_lost", "critical", here, "1x12 stale _x2 1x12 stale"),
    silent: ["SumServerLost"],
    at: ["280s"],
  },
];
