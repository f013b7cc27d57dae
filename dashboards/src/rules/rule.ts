/** What rules are made of: the shapes of Prometheus' rule files, and one way to write an alert. */

import { runbook } from "../links.js";
import { thresholds } from "../thresholds.js";

export interface Alert {
  alert: string;
  expr: string;
  for: string;
  keep_firing_for: string;
  /** Without a severity the alert has that of its series: `ringscope_finding` carries one. */
  labels?: { severity: Severity };
  annotations: { summary: string; description: string; runbook_url: string; page: string };
}

export interface Recording {
  record: string;
  expr: string;
}

export interface Group<Rule> {
  name: string;
  rules: Rule[];
}

export type Severity = "critical" | "warning" | "info";

export interface AlertSpec {
  /** Without the prefix `Ringscope`. */
  name: string;
  /** Section of the runbook. */
  section: string;
  expr: string;
  /** Absent: none. What must hold for two scrapes says so in its expression. */
  for?: string;
  /** Absent: that of `thresholds.restartGap`. */
  keepFiringFor?: string;
  severity?: Severity;
  summary: string;
  description: string;
  page: string;
}

export function alert(spec: AlertSpec): Alert {
  return {
    alert: `Ringscope${spec.name}`,
    expr: spec.expr,
    for: spec.for ?? "0s",
    keep_firing_for: spec.keepFiringFor ?? thresholds.restartGap,
    ...(spec.severity && { labels: { severity: spec.severity } }),
    annotations: {
      summary: spec.summary,
      description: spec.description,
      runbook_url: runbook(spec.section),
      page: spec.page,
    },
  };
}

/** An alert for each series of a kind of finding. Its severity is the finding's. */
export function findingAlert(kind: string, spec: Omit<AlertSpec, "section" | "expr" | "severity">): Alert {
  return alert({ ...spec, section: kind, expr: finding(kind) });
}

/** A kind of finding, seen in two scrapes. 0 is one whose incident somebody has silenced: it makes no alert. */
export function finding(kind: string): string {
  const found = `ringscope_finding{finding="${kind}"}`;
  return `${found} == 1 and sum_over_time(${found}[${thresholds.twice}]) >= 2`;
}

/** Labels by which what several daemons of several clusters show is told apart. Where there is no label `cluster`, it adds nothing. */
export const DAEMON = "cluster, instance";

/**
 * A number in a text: what an expression gives when the alert fires. `%labels%` in it stands for a selector of these
 * labels of the alert, and of those of its daemon. `?` if there is none: findings are told of every communicator, channels only of
 * as many as the daemon's `metrics_series` allows.
 */
export function number(expr: string, labels: string[], format = "value"): string {
  const all = [...new Set([...DAEMON.split(", "), ...labels])];
  const selector = all.map((label) => `${label}=%q`).join(",");
  const values = all.map((label) => ` $labels.${label}`).join("");
  const text = expr.replaceAll("%labels%", selector).replaceAll('"', '\\"');
  return `{{ with printf "${text}"${values} | query }}{{ . | first | ${format} }}{{ else }}?{{ end }}`;
}
