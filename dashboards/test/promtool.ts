/** Cases for Prometheus' own test of rules: series, and what must fire, or must not. */

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { stringify } from "yaml";

import { runbook } from "../src/links.js";

export const ROOT = join(import.meta.dirname, "../..");

/** A sample every 5 s, from 0 s on, as promtool writes them. */
export type Series = Record<string, string>;

export interface Firing {
  /** Without the prefix `Ringscope`. */
  alert: string;
  labels: Record<string, string>;
  summary: string;
  description: string;
  /** Section of the runbook. */
  section: string;
  /** Place on the page of the daemon `d:9440`. Absent: no daemon in particular. */
  page?: string;
}

export interface Case {
  name: string;
  series: Series;
  /** What must fire then, and no other of the same name. */
  fires?: (Firing & { at: string[] })[];
  /** Alerts that must be silent: every 15 s from the start to `until`, or then. */
  silent?: string[];
  until?: string;
  at?: string[];
}

/** Fails with promtool's words if a case is not as it should be. */
export function check(cases: Case[]): void {
  const tests = cases.map((one) => ({
    name: one.name,
    interval: "5s",
    input_series: Object.entries(one.series).map(([series, values]) => ({ series, values })),
    alert_rule_test: [...firing(one), ...silence(one)],
  }));
  promtool(tests);
}

/** Fails unless each expression gives these samples after `at`. */
export function checkExpressions(series: Series, at: string, expected: Record<string, [string, number][]>): void {
  const promql_expr_test = Object.entries(expected).map(([expr, samples]) => ({
    expr,
    eval_time: at,
    exp_samples: samples.map(([labels, value]) => ({ labels, value })),
  }));
  const input_series = Object.entries(series).map(([series, values]) => ({ series, values }));
  promtool([{ interval: "5s", input_series, promql_expr_test }]);
}

export interface Timed {
  name: string;
  /** Each without the prefix `Ringscope`. */
  alerts: string[];
  series: Series;
  /** After so many seconds: whether each fires. */
  expected: [at: number, firing: number][];
  /** Whether it has fired until then at all. */
  ever?: boolean;
}

/** Fails unless each alert fires when it should, where Prometheus scrapes and evaluates at this interval. */
export function firingAt(interval: number, all: Timed[]): void {
  const tests = all.map(({ name, alerts, series, expected, ever }) => {
    const firing = `ALERTS{alertname=~"Ringscope(${alerts.join("|")})",alertstate="firing"}`;
    const count = (of: string) => `count(count by (alertname) (${of})) or vector(0)`;
    const expr = count(ever ? `count_over_time(${firing}[1d])` : firing);
    return {
      name,
      interval: `${interval}s`,
      input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
      promql_expr_test: expected.map(([at, value]) => ({ expr, eval_time: `${at}s`, exp_samples: [{ labels: "{}", value: value * alerts.length }] })),
    };
  });
  promtool(tests, `${interval}s`);
}

export function command(program: string, args: string[]): string {
  try {
    return execFileSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  } catch (error) {
    const { code, stdout, stderr } = error as { code?: string; stdout?: string; stderr?: string };
    if (code === "ENOENT") {
      throw new Error(
        `${program} is missing: apt-get install -y --no-install-recommends prometheus prometheus-alertmanager`,
      );
    }
    throw new Error(`${program} ${args.join(" ")}:\n${stdout ?? ""}${stderr ?? ""}`);
  }
}

function promtool(tests: object[], evaluation_interval = "5s"): void {
  const dir = mkdtempSync(join(tmpdir(), "ringscope-rules-"));
  try {
    const rule_files = ["recording", "alerts"].map((name) => join(ROOT, "rules", `${name}.yml`));
    const file = join(dir, "test.yml");
    writeFileSync(file, stringify({ rule_files, evaluation_interval, tests }));
    command("promtool", ["test", "rules", file]);
  } finally {
    rmSync(dir, { recursive: true });
  }
}

function firing(one: Case): object[] {
  return (one.fires ?? []).flatMap((firing) =>
    firing.at.map((eval_time) => ({
      eval_time,
      alertname: `Ringscope${firing.alert}`,
      exp_alerts: [
        {
          exp_labels: firing.labels,
          exp_annotations: {
            summary: firing.summary,
            description: firing.description,
            runbook_url: runbook(firing.section),
            page: firing.page === undefined ? "" : `http://d:9440/#/${firing.page}`,
          },
        },
      ],
    })),
  );
}

function silence(one: Case): object[] {
  const seconds = Number((one.until ?? "0m").replace("m", "")) * 60;
  const every = Array.from({ length: Math.floor(seconds / 15) }, (_, step) => `${(step + 1) * 15}s`);
  const times = [...(one.at ?? []), ...every];
  return (one.silent ?? []).flatMap((alert) =>
    times.map((eval_time) => ({ eval_time, alertname: `Ringscope${alert}`, exp_alerts: [] })),
  );
}
