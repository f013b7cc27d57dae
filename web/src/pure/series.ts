/** Bandwidth over time: the store's history, and what was seen live since. Pure. */

import type { PrimitiveTotals, Series, SeriesLine } from "../api";
import { byName } from "./names";

/** One look at a communicator's counters. */
export interface Sample {
  timeMs: number;
  /** By primitive. */
  issuedBytes: Record<string, number>;
  completedBytesPerS: Record<string, number>;
}

/** What the chart draws: columns of equal length. */
export interface Columns {
  /** Seconds since the epoch, ascending. */
  times: number[];
  primitives: string[];
  /** By primitive; bytes per second, null where nothing is known. */
  completed: (number | null)[][];
  issued: (number | null)[][];
}

/** Live samples kept: more than the daemon's history can lag behind. */
export const MAX_SAMPLES = 120;
/** Primitives drawn; a communicator rarely uses more than three. */
export const MAX_LINES = 6;
/** Issued bytes per second are taken over at least this: counters arrive in batches, a shorter time would show those. */
const ISSUED_OVER_MS = 3_000;

export function sample(primitives: PrimitiveTotals[], timeMs: number): Sample {
  const issuedBytes: Record<string, number> = {};
  const completedBytesPerS: Record<string, number> = {};
  for (const totals of primitives) {
    issuedBytes[totals.primitive] = totals.issued_bytes;
    completedBytesPerS[totals.primitive] = totals.completed_bytes_per_s;
  }
  return { timeMs, issuedBytes, completedBytesPerS };
}

/** Appends, bounded; drops what is not newer than the last. */
export function append(samples: Sample[], next: Sample): Sample[] {
  const last = samples.at(-1);
  if (last && next.timeMs <= last.timeMs) return samples;
  return [...samples, next].slice(-MAX_SAMPLES);
}

/** `endMs`: what was seen later is left out. History first, then every live sample that is newer than it. */
export function columns(completed: Series | null, issued: Series | null, live: Sample[], endMs: number): Columns {
  const names = new Set<string>();
  for (const line of completed?.lines ?? []) names.add(line.primitive);
  for (const line of issued?.lines ?? []) names.add(line.primitive);
  for (const one of live) for (const name of Object.keys(one.completedBytesPerS)) names.add(name);
  const primitives = [...names].sort().slice(0, MAX_LINES);

  const times = (completed?.times_ms ?? issued?.times_ms ?? []).map((ms) => ms / 1000);
  const history = times.length;
  const lastMs = history > 0 ? times[history - 1]! * 1000 : 0;
  const fresh = live.map((one, i) => ({ one, before: live.slice(0, i).findLast((early) => one.timeMs - early.timeMs >= ISSUED_OVER_MS) })).filter(({ one }) => one.timeMs > lastMs && one.timeMs <= endMs);
  for (const { one } of fresh) times.push(one.timeMs / 1000);

  const issuedAt = new Map((issued?.times_ms ?? []).map((ms, i) => [ms, i]));
  const result: Columns = { times, primitives, completed: [], issued: [] };
  for (const name of primitives) {
    const done = completed?.lines.find((line) => line.primitive === name && line.host === undefined)?.values;
    const asked = issued?.lines.find((line) => line.primitive === name && line.host === undefined)?.values;
    const doneColumn: (number | null)[] = [];
    const askedColumn: (number | null)[] = [];
    for (let i = 0; i < history; i += 1) {
      doneColumn.push(done?.[i] ?? null);
      const j = issuedAt.get(Math.round(times[i]! * 1000));
      askedColumn.push(j === undefined ? null : (asked?.[j] ?? null));
    }
    for (const { one, before } of fresh) {
      doneColumn.push(one.completedBytesPerS[name] ?? null);
      askedColumn.push(issuedRate(before, one, name));
    }
    result.completed.push(doneColumn);
    result.issued.push(askedColumn);
  }
  return result;
}

function issuedRate(before: Sample | undefined, now: Sample, primitive: string): number | null {
  const a = before?.issuedBytes[primitive];
  const b = now.issuedBytes[primitive];
  if (before === undefined || a === undefined || b === undefined || b < a) return null;
  return ((b - a) * 1000) / (now.timeMs - before.timeMs);
}

/** How far the store may lag behind the agents: until here only live samples are drawn. */
const SETTLING_MS = 2_000;

/** Without the points whose step is not over: a point is the mean of the step that it begins, cut short it would show a fall that never was. */
export function settled<S extends Pick<Series, "step_s" | "times_ms"> & { lines: { values: (number | null)[] }[] }>(series: S, nowMs: number): S {
  const whole = series.times_ms.filter((ms) => ms + series.step_s * 1000 <= nowMs - SETTLING_MS).length;
  if (whole === series.times_ms.length) return series;
  return {
    ...series,
    times_ms: series.times_ms.slice(0, whole),
    lines: series.lines.map((line) => ({ ...line, values: line.values.slice(0, whole) })),
  };
}

/** One thing over time. */
export interface KeyedLine {
  key: string;
  values: (number | null)[];
}

/** Adds the lines of one key up; what is not known of one counts as nothing beside what is known of another. */
export function merge(lines: SeriesLine[], keyOf: (line: SeriesLine) => string): KeyedLine[] {
  const merged = new Map<string, (number | null)[]>();
  for (const line of lines) {
    const sum = merged.get(keyOf(line));
    merged.set(keyOf(line), line.values.map((value, i) => (value == null ? (sum?.[i] ?? null) : value + (sum?.[i] ?? 0))));
  }
  return [...merged].map(([key, values]) => ({ key, values }));
}

/** Those that carry the most, by name; how many are left out. */
export function heaviest(lines: KeyedLine[], most: number): { lines: KeyedLine[]; hidden: number } {
  const weight = ({ values }: KeyedLine) => values.reduce<number>((sum, value) => sum + (value ?? 0), 0);
  const kept = [...lines].sort((a, b) => weight(b) - weight(a)).slice(0, most);
  return { lines: kept.sort((a, b) => byName(a.key, b.key)), hidden: lines.length - kept.length };
}
