/**
 * The alerts where Prometheus scrapes and evaluates seldom: each is out in time, stays while its fault holds, also when the daemon
 * restarts and misses a scrape, and none is made by what is too short for it. At each interval the fault begins at several moments
 * between two scrapes.
 */

import assert from "node:assert/strict";
import { test } from "node:test";

import { alertGroups } from "../src/files.js";
import { faults } from "./cases/intervals.js";
import type { Fault, Span } from "./cases/intervals.js";
import { firingAt } from "./promtool.js";
import type { Series } from "./promtool.js";

const INTERVALS = [15, 60];
/** Parts of an interval by which the fault begins before a scrape. */
const PHASES = [0, 0.5, 0.95];
const BEGIN = 1200;
/** How long an alert outlives its series: what thresholds say, and two looks. */
const GAP = 190;
/** A restart of the daemon, after the beginning of the fault. */
const RESTART = { after: 400, lasts: 20 };

test("each alert has a fault in time", () => {
  const alerts = alertGroups.flatMap((group) => group.rules.map((rule) => rule.alert.replace("Ringscope", "")));
  assert.deepEqual(faults.flatMap((fault) => fault.alerts).sort(), alerts.sort());
});

for (const interval of INTERVALS) {
  test(`every ${interval} s: an alert is out in time, stays, and ends`, () => {
    const tests = cases((fault, phase) => {
      const begin = BEGIN - phase * interval;
      const span = { begin, end: begin + fault.holds + 900 };
      const restart = { begin: begin + fault.holds + RESTART.after, end: 0 };
      restart.end = restart.begin + Math.max(RESTART.lasts, phase * interval);
      const out = times(begin + fault.holds + 2 * interval, until(fault, span), interval);
      const before = times(interval, begin - 1, 20 * interval);
      const after = times(span.end + GAP + 2 * interval, span.end + GAP + 600, 10 * interval);
      return {
        series: sampled(fault, span, interval, span.end + GAP + 600, restart),
        expected: [...out.map((at): [number, number] => [at, 1]), ...[...before, ...after].map((at): [number, number] => [at, 0])],
      };
    });
    firingAt(interval, tests);
  });

  test(`every ${interval} s: what lasts just long enough is not missed`, () => {
    const tests = cases((fault, phase) => {
      const begin = BEGIN - phase * interval;
      const span = { begin, end: begin + fault.holds + 2 * interval };
      const end = span.end + 2 * interval;
      return { series: sampled(fault, span, interval, end), expected: [[Math.ceil(end / interval) * interval, 1]], ever: true };
    });
    firingAt(interval, tests);
  });

  test(`every ${interval} s: what is too short makes no alert`, () => {
    const tests = cases((fault, phase) => {
      if (fault.tooShort === undefined) return undefined;
      const begin = BEGIN - phase * Math.min(interval, fault.tooShort);
      const span = { begin, end: begin + (fault.tooShort === 5 ? Math.min(5, interval) : fault.tooShort) };
      const end = span.end + 900;
      return { series: sampled(fault, span, interval, end), expected: [[Math.ceil(end / interval) * interval, 0]], ever: true };
    });
    firingAt(interval, tests);
  });
}

interface Timed {
  series: Series;
  /** Whether the alert fires, in seconds. */
  expected: [at: number, firing: number][];
  /** Whether it has ever fired until then. */
  ever?: boolean;
}

function cases(make: (fault: Fault, phase: number) => Timed | undefined) {
  return faults.flatMap((fault) =>
    PHASES.flatMap((phase) => {
      const made = make(fault, phase);
      return made === undefined ? [] : [{ ...made, alerts: fault.alerts, name: `${fault.alerts.join()}, ${phase} of an interval before a scrape` }];
    }),
  );
}

function until(fault: Fault, span: Span): number {
  return fault.told === undefined ? span.end : span.begin + fault.told;
}

/** Moments at which Prometheus evaluates. */
function times(from: number, to: number, step: number): number[] {
  const first = Math.ceil(from / step) * step;
  return Array.from({ length: Math.max(0, Math.floor((to - 1 - first) / step) + 1) }, (_, i) => first + i * step);
}

/** What scrapes find. While the daemon restarts they find nothing, and Prometheus marks that. */
function sampled(fault: Fault, span: Span, interval: number, end: number, restart?: Span): Series {
  const samples = Math.ceil(end / interval) + 1;
  const series = Object.entries(fault.series).map(([name, values]) => {
    let had = false;
    const words = Array.from({ length: samples }, (_, i) => {
      const at = i * interval;
      const isUp = restart === undefined || at < restart.begin || at >= restart.end;
      const value = isUp ? values(at, span) : name.startsWith("up{") ? 0 : undefined;
      const word = value === undefined ? (had ? "stale" : "_") : String(value);
      had = value !== undefined;
      return word;
    });
    return [name, words.join(" ")];
  });
  return Object.fromEntries(series) as Series;
}
