/** The time range that the address names: `from=-1h` follows the clock, `from=…&to=…` (RFC 3339) stands still. Pure. */

import { duration, moment } from "./format";
import { atOf } from "./past";
import type { Span } from "./route";

export interface Range {
  fromMs: number;
  toMs: number;
  /** Ends now, and moves on. */
  live: boolean;
}

/** The daemon's own default. */
export const DEFAULT_S = 15 * 60;
/** What is offered. */
export const CHOICES = ["5m", "15m", "1h", "6h", "1d", "7d"];

const UNITS_S: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 };
const MAX_S = 400 * 86_400;

/** Seconds of "15m"; undefined if it is no length of time. */
export function seconds(text: string): number | undefined {
  const found = /^(\d{1,6})([smhd])$/.exec(text);
  if (found === null) return undefined;
  const value = Number(found[1]) * UNITS_S[found[2]!]!;
  return value > 0 && value <= MAX_S ? value : undefined;
}

/** Words that make no sense count as absent: a bad link must not hide the page. While a moment is looked at, a length of time lies around it. */
export function resolve(span: Span, nowMs: number): Range {
  const atMs = atOf(span, nowMs);
  if (atMs !== undefined && span.to === undefined && (span.from === undefined || span.from.startsWith("-"))) {
    const lengthMs = (seconds(span.from?.slice(1) ?? "") ?? DEFAULT_S) * 1000;
    return { fromMs: atMs - lengthMs * BEFORE_SHARE, toMs: atMs + lengthMs * (1 - BEFORE_SHARE), live: false };
  }
  const back = span.from?.startsWith("-") ? seconds(span.from.slice(1)) : undefined;
  if (back !== undefined) return { fromMs: nowMs - back * 1000, toMs: nowMs, live: true };
  const from = Date.parse(span.from ?? "");
  const to = Date.parse(span.to ?? "");
  const live = Number.isNaN(to) || to > nowMs;
  const toMs = live ? nowMs : to;
  const fromMs = Number.isNaN(from) || from >= toMs ? toMs - DEFAULT_S * 1000 : from;
  return { fromMs, toMs, live };
}

/** What led to a moment is more of interest than what came of it. */
const BEFORE_SHARE = 2 / 3;

/** A shorter range has no point of a chart in it. */
const MIN_DRAWN_MS = 20_000;

/** The words of a range that somebody has drawn, to whole seconds; one too short grows around its middle. */
export function drawnSpan(aMs: number, bMs: number, nowMs: number): { from: string; to: string } {
  const middle = (aMs + bMs) / 2;
  const half = Math.max(Math.abs(bMs - aMs), MIN_DRAWN_MS) / 2;
  const toMs = Math.min(middle + half, nowMs);
  const second = (ms: number) => new Date(Math.round(ms / 1000) * 1000).toISOString().replace(".000", "");
  return { from: second(Math.min(middle - half, toMs - MIN_DRAWN_MS)), to: second(toMs) };
}

/** Where the data begin, if the range is longer than they are: a line that begins in the middle of a chart tells of no beginning. */
export function dataFrom(timesS: number[], lines: { values: (number | null)[] }[], fromMs: number, toMs: number): number | undefined {
  const first = timesS.findIndex((_, i) => lines.some(({ values }) => values[i] != null));
  if (first < 0) return undefined;
  const ms = timesS[first]! * 1000;
  return ms - fromMs > Math.max((toMs - fromMs) * LATE_SHARE, 2 * stepS({ fromMs, toMs, live: false }) * 1000) ? ms : undefined;
}
const LATE_SHARE = 0.04;

/** Points across a chart: as many as a screen column can tell apart. */
const MAX_POINTS = 150;
/** Shorter than this a chart shows the steps of the training instead of its pace. */
const MIN_STEP_S = 5;

export function stepS(range: Range): number {
  return Math.max(MIN_STEP_S, Math.round((range.toMs - range.fromMs) / 1000 / MAX_POINTS));
}

/**
 * The range as parameters of `series`. The last 15 minutes are the daemon's default, so their address never changes; other
 * ranges that follow the clock move by whole steps, so that an answer is asked for once a step.
 */
export function seriesQuery(span: Span, nowMs: number): string {
  const range = resolve(span, nowMs);
  const step = stepS(range);
  if (range.live && span.from === undefined && span.to === undefined) return `step=${step}s`;
  const down = (ms: number) => new Date(Math.floor(ms / (step * 1000)) * step * 1000).toISOString();
  const to = range.live ? "" : `&to=${new Date(range.toMs).toISOString()}`;
  return `from=${down(range.fromMs)}${to}&step=${step}s`;
}

/** "last 15 min", or "03:10:00 – 03:40:00". */
export function rangeWords(span: Span, nowMs: number): string {
  const range = resolve(span, nowMs);
  if (range.live && (span.from === undefined || span.from.startsWith("-"))) {
    return `last ${duration((range.toMs - range.fromMs) / 1000)}`;
  }
  return `${moment(range.fromMs, nowMs)} – ${range.live ? "now" : moment(range.toMs, nowMs)}`;
}
