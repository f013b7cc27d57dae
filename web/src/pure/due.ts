/** What to fetch again, and when: soon after a change, never more often than a pace, and now and then anyway. Pure. */

export type Resource = "lists" | "findings" | "communicator" | "rings" | "series";

export interface Pace {
  /** After a change, not more often than this. */
  minMs: number;
  /** Without any change, this often: rates and ages change by time alone. */
  maxMs: number;
}

export const PACES: Record<Resource, Pace> = {
  // In a job that hangs nothing changes but these ages: then the page must not be the last to know.
  lists: { minMs: 1_000, maxMs: 3_000 },
  findings: { minMs: 500, maxMs: 15_000 },
  communicator: { minMs: 1_000, maxMs: 2_000 },
  // Rings hardly ever change while a communicator lives, and are the largest answer.
  rings: { minMs: 4_000, maxMs: 30_000 },
  series: { minMs: 5_000, maxMs: 15_000 },
};

/** Communicators above this size are fetched at a third of the pace. */
const LARGE_RANKS = 256;

export interface Want {
  /** When it was last asked for; absent: never, so it is due. */
  fetchedMs?: number | undefined;
  dirty: boolean;
}

export function isDue(resource: Resource, want: Want, nRanks: number, nowMs: number): boolean {
  if (want.fetchedMs === undefined) return true;
  const age = nowMs - want.fetchedMs;
  const slow = nRanks > LARGE_RANKS && (resource === "communicator" || resource === "rings") ? 3 : 1;
  const { minMs, maxMs } = PACES[resource];
  return want.dirty ? age >= minMs * slow : age >= maxMs * slow;
}

/** What a `changed` event makes dirty, while `shown` is on the screen. The daemon names at most 256 communicators. */
export function touched(communicators: string[], findings: boolean, shown: string | undefined): Resource[] {
  const resources: Resource[] = ["lists"];
  if (findings) resources.push("findings");
  if (shown !== undefined && (communicators.length >= 256 || communicators.includes(shown))) {
    resources.push("communicator", "rings", "series");
  }
  return resources;
}
