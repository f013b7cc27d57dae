/**
 * Operations of every rank of a job on one time axis: read into columns, found under the pointer, and followed to who made
 * the others wait. Times are microseconds since the beginning of the answer, of the daemon's clock. Pure.
 */

import type { Timeline } from "../api";
import { duration, integer, list, plural, primitiveName } from "./format";

/** Of what has no number: a send or a receive. */
export const NO_CALL = 0xffff_ffff;

export interface JobTimeline {
  fromMs: number;
  /** Length of what the answer holds. */
  endUs: number;
  ranks: Timeline["ranks"];
  /** Ranks that have no row, those of the highest numbers: there are more than `MAX_ROWS`. */
  hiddenRanks: number;
  communicators: Timeline["communicators"];
  clocks: Timeline["clocks"];
  primitives: string[];
  /** Operations by row, then by time: those of row r are `start[r]` to `start[r + 1]`. */
  start: Uint32Array;
  row: Uint16Array;
  comm: Uint16Array;
  /** `NO_CALL`: it has no number. */
  call: Uint32Array;
  primitive: Uint8Array;
  /** As `last` and `completed` any number: what hung for an hour was called long before the answer begins. */
  called: Float64Array;
  /** When the last rank had called: until here it waits for others, from here on bytes move. */
  last: Float64Array;
  /** 1: it is known when the last rank had called. Else `last` is when the device began it, or the call itself. */
  isSplit: Uint8Array;
  completed: Float64Array;
  /** When it and all before it in its row are over: where streams overlap, one may end before an earlier one does. */
  ends: Float64Array;
  /** Of how many calls one is told, where the fewest are. 1: all are, so that what lies between two is the rank's own time. */
  every: number;
}

/** Rows drawn; a job has fewer ranks than this, or is shown in part. */
export const MAX_ROWS = 4096;

/** What has no row is left out; rows are ranks in order. */
export function load(answer: Timeline): JobTimeline {
  const { operations: from } = answer;
  const order = answer.ranks.map((one, i) => ({ one, i })).sort((a, b) => a.one.rank - b.one.rank || a.i - b.i).slice(0, MAX_ROWS);
  const ranks = order.map(({ one }) => one);
  const rowOf = new Int32Array(answer.ranks.length).fill(-1);
  order.forEach(({ i }, row) => (rowOf[i] = row));
  const primitives = [...new Set(from.primitive)];
  const primitiveOf = new Map(primitives.map((one, i) => [one, i]));
  const n = from.rank.length;
  const rows = new Int32Array(n);
  const start = new Uint32Array(ranks.length + 1);
  for (let i = 0; i < n; i += 1) {
    const row = rowOf[from.rank[i]!] ?? -1;
    rows[i] = row;
    if (row >= 0) start[row + 1]! += 1;
  }
  for (let row = 0; row < ranks.length; row += 1) start[row + 1]! += start[row]!;
  const kept = start[ranks.length]!;
  const made: JobTimeline = {
    fromMs: Date.parse(answer.from), endUs: (Date.parse(answer.to) - Date.parse(answer.from)) * 1000, ranks, hiddenRanks: answer.ranks.length - ranks.length, communicators: answer.communicators, clocks: answer.clocks, primitives,
    start, row: new Uint16Array(kept), comm: new Uint16Array(kept), call: new Uint32Array(kept), primitive: new Uint8Array(kept),
    called: new Float64Array(kept), last: new Float64Array(kept), isSplit: new Uint8Array(kept), completed: new Float64Array(kept), ends: new Float64Array(kept),
    every: Math.max(1, ...answer.communicators.map((one) => one.every)),
  };
  const next = start.slice();
  for (const i of inTime(from.called_us)) {
    const row = rows[i]!;
    if (row < 0) continue;
    const at = next[row]!++;
    const called = from.called_us[i]!;
    const completed = Math.max(called, from.completed_us[i]!);
    made.row[at] = row;
    made.comm[at] = from.communicator[i]!;
    made.call[at] = from.call_number[i] ?? NO_CALL;
    made.primitive[at] = primitiveOf.get(from.primitive[i]!)!;
    made.called[at] = called;
    made.completed[at] = completed;
    made.ends[at] = at === start[row]! ? completed : Math.max(completed, made.ends[at - 1]!);
    made.isSplit[at] = from.last_called_us[i] == null ? 0 : 1;
    made.last[at] = Math.min(Math.max(from.last_called_us[i] ?? from.started_us[i] ?? called, called), completed);
  }
  return made;
}

/** Indices by time; as they are, where they are in order already. */
function inTime(called: number[]): Iterable<number> {
  const order = Uint32Array.from(called, (_, i) => i);
  for (let i = 1; i < called.length; i += 1) if (called[i]! < called[i - 1]!) return order.sort((a, b) => called[a]! - called[b]!);
  return order;
}

/** First operation of a row that is not over at `us`. */
export function firstFrom({ start, ends }: JobTimeline, row: number, us: number): number {
  let [low, high] = [start[row]!, start[row + 1]!];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (ends[middle]! <= us) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** How many operations lie between two times, in all rows. */
export function countBetween(of: JobTimeline, fromUs: number, toUs: number): number {
  let count = 0;
  for (let row = 0; row + 1 < of.start.length; row += 1) count += Math.max(0, firstFrom(of, row, toUs) - firstFrom(of, row, fromUs));
  return count;
}

/** The operation of a row at a time, within `slackUs`; -1: none. */
export function hit(of: JobTimeline, row: number, us: number, slackUs: number): number {
  if (row < 0 || row >= of.ranks.length) return -1;
  for (let i = firstFrom(of, row, us - slackUs); i < of.start[row + 1]! && of.called[i]! <= us + slackUs; i += 1) if (of.completed[i]! > us - slackUs) return i;
  return -1;
}

/** All ranks' parts in the call that `at` is a part of, the last to call first. */
export function partsOf(of: JobTimeline, at: number): number[] {
  const found: number[] = [];
  if (of.call[at] === NO_CALL) return [at];
  for (let i = 0; i < of.call.length; i += 1) if (of.call[i] === of.call[at] && of.comm[i] === of.comm[at]) found.push(i);
  return found.sort((a, b) => of.called[b]! - of.called[a]!);
}

/** Hops followed back. */
const MAX_CHAIN = 12;
/** A rank that came this much later than its last wait ended was late by its own doing. */
const OWN_SHARE = 0.5;

/**
 * Who waited for whom: from the operation to the part of the rank that came last to it; where that one came late because it
 * had waited elsewhere just before, on from there. The last is where the lateness arose.
 */
export function chain(of: JobTimeline, at: number): number[] {
  const result = [at];
  for (let here = at; result.length < MAX_CHAIN; ) {
    const late = partsOf(of, here)[0]!;
    if (late === here || result.includes(late)) break;
    result.push(late);
    const before = late - 1;
    if (before < of.start[of.row[late]!]!) break;
    const own = of.called[late]! - of.ends[before]!;
    const waited = of.last[before]! - of.called[before]!;
    if (of.isSplit[before] === 0 || waited <= 0 || own > waited * OWN_SHARE) break;
    here = before;
    result.push(before);
  }
  return result;
}

/** "rank 5 on host-2: AllReduce #1042 of world: 0.3 s of its own before, waited 1.2 s for others, 4.1 ms of transfer". */
export function operationWords(of: JobTimeline, at: number, nameOf: (host: string) => string): string {
  const { rank, host } = of.ranks[of.row[at]!]!;
  const comm = of.communicators[of.comm[at]!];
  const own = ownBefore(of, at);
  const parts = [
    own === undefined ? "" : `${seconds(own)} of its own before`,
    ...(of.isSplit[at] === 1
      ? [`waited ${seconds(of.last[at]! - of.called[at]!)} for others`, `${seconds(of.completed[at]! - of.last[at]!)} of transfer`]
      : [`${seconds(of.completed[at]! - of.called[at]!)} in it, of which nobody knows how much it waited`]),
  ].filter(Boolean);
  return `rank ${rank} on ${nameOf(host)}: ${callWords(of, at)} of ${comm?.name ?? comm?.id ?? "?"}: ${parts.join(", ")}`;
}

/** "AllReduce #1042"; a send has no number. */
export function callWords(of: JobTimeline, at: number): string {
  const name = primitiveName(of.primitives[of.primitive[at]!]!);
  return of.call[at] === NO_CALL ? name : `${name} #${of.call[at]}`;
}

/** Time outside of collectives before it; undefined: not known, as calls between were not told. */
export function ownBefore(of: JobTimeline, at: number): number | undefined {
  if (of.every > 1 || at === of.start[of.row[at]!]) return undefined;
  return Math.max(0, of.called[at]! - of.ends[at - 1]!);
}

export function seconds(us: number): string {
  return duration(Math.max(0, us) / 1e6);
}

/** How far the rows may be shifted against each other. */
export function clockWords({ clocks }: Pick<JobTimeline, "clocks">): string {
  if (clocks.length < 2) return "";
  const worst = clocks.reduce((a, b) => (b.error_s > a.error_s ? b : a));
  const moved = clocks.filter(({ offset_s }) => Math.abs(offset_s) >= 0.001);
  const by = moved.length === 0 ? "" : `; ${plural(moved.length, "clock")} moved, by up to ${duration(Math.max(...moved.map(({ offset_s }) => Math.abs(offset_s))))}`;
  return `hosts aligned within ${duration(worst.error_s)}${by}`;
}

/** Of an answer without operations: the daemon's own words say that there are none, and why. */
export function emptyWords({ lacks }: Pick<Timeline, "lacks">): string {
  return lacks.length > 0 ? lacks.join(" ") : "No operation that ran in this time was told.";
}

/** What the answer holds, in words. */
export function heldWords({ call, ranks, hiddenRanks, communicators, every }: JobTimeline): string {
  const which = every > 1 ? `, one of ${integer(every)} calls` : "";
  const hidden = hiddenRanks > 0 ? `; ${plural(hiddenRanks, "rank")} with higher numbers ${hiddenRanks === 1 ? "is" : "are"} not shown` : "";
  return `${integer(call.length)} operations of ${plural(ranks.length, "rank")} in ${communicators.length > 2 ? plural(communicators.length, "communicator") : list(communicators.map((one) => one.name ?? one.id))}${which}${hidden}`;
}
