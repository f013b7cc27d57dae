/** Waits between attempts to reach the daemon. Pure. */

const FIRST_MS = 500;
/** A daemon that comes back is shown within ten seconds. */
const MAX_MS = 10_000;

/** `random` in [0, 1): spreads the pages of one operations room, so that they do not all return at once. */
export function backoffMs(failures: number, random: number): number {
  const full = Math.min(MAX_MS, FIRST_MS * 2 ** Math.max(0, failures - 1));
  return Math.round(full * (0.75 + random * 0.25));
}
