/** What to ask the daemon for again, and when: soon after a change, never more often than a pace, and now and then anyway. Pure. */

import type { Changed } from "../api";

/** What changes an answer: a list, findings, incidents, health, hosts, summation groups, a communicator by id, or nothing but time. */
export type Topic = "lists" | "findings" | "incidents" | "health" | "hosts" | "summation" | "never" | (string & {});

export interface Pace {
  /** After a change, not more often than this. */
  minMs: number;
  /** Without any change, this often: rates and ages change by time alone. */
  maxMs: number;
}

const PACES: Record<string, Pace> = {
  // In a job that hangs nothing changes but these ages: then the page must not be the last to know.
  lists: { minMs: 1_000, maxMs: 3_000 },
  hosts: { minMs: 1_000, maxMs: 3_000 },
  findings: { minMs: 500, maxMs: 15_000 },
  // What everybody looks at first; small.
  health: { minMs: 500, maxMs: 3_000 },
  incidents: { minMs: 500, maxMs: 5_000 },
  summation: { minMs: 1_000, maxMs: 2_000 },
  never: { minMs: 1_000, maxMs: 15_000 },
};
const COMMUNICATOR: Pace = { minMs: 1_000, maxMs: 2_000 };

/** The larger an answer, the more it costs both sides: from so many characters on, so many times slower. */
const SLOWER: [number, number][] = [
  [4_000_000, 10],
  [1_000_000, 5],
  [250_000, 3],
];

export interface Want {
  /** When it was last asked for; absent: never, so it is due. */
  fetchedMs?: number | undefined;
  dirty: boolean;
  /** Characters of the last answer. */
  size: number;
  /** How often in a row it was asked for in vain. */
  failures?: number | undefined;
}

/** Who was refused asks less and less often, at last this seldom. */
const MAX_WAIT_MS = 15_000;

export function pace(on: Topic, size: number, everyMs?: number): Pace {
  const { minMs, maxMs } = PACES[on] ?? COMMUNICATOR;
  const slow = SLOWER.find(([least]) => size >= least)?.[1] ?? 1;
  return { minMs: minMs * slow, maxMs: Math.max(everyMs ?? maxMs, minMs) * slow };
}

export function isDue(on: Topic, want: Want, nowMs: number, everyMs?: number): boolean {
  if (want.fetchedMs === undefined) return true;
  const age = nowMs - want.fetchedMs;
  const { failures = 0 } = want;
  if (failures > 0) return age >= Math.min(MAX_WAIT_MS, 1_000 * 2 ** Math.min(failures - 1, 10));
  const { minMs, maxMs } = pace(on, want.size, everyMs);
  return age >= (want.dirty ? minMs : maxMs);
}

/** The daemon names at most so many communicators in an event: with as many, any other may have changed too. */
const MAX_NAMED = 256;

const ALWAYS = new Set<Topic>(["lists", "hosts", "summation", "health", "incidents"]);

export function touches(on: Topic, { communicators, findings }: Changed): boolean {
  if (on === "never") return false;
  if (ALWAYS.has(on)) return true;
  if (on === "findings") return findings;
  return communicators.length >= MAX_NAMED || communicators.includes(on);
}
