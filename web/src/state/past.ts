/** The moment of the past that the page shows, and how one gets there and back. */

import { atWords } from "../pure/past";
import type { Route } from "../pure/route";
import * as store from "./store";

/** So far back "a time in the past" begins: what happened of late is what people look for. */
const FIRST_BACK_MS = 5 * 60_000;

/** Shows everything as it was then; the browser's way back leads out again. */
export function goTo(ms: number): void {
  location.hash = store.link({ ...store.route.value, at: atWords(ms) } as Route);
}

/** Begins to look at the past: at the middle of a range that stands still, else some minutes ago. */
export function lookBack(): void {
  const { fromMs, toMs, live } = store.range.value;
  goTo(Math.floor((live ? store.nowMs.value - FIRST_BACK_MS : (fromMs + toMs) / 2) / 1000) * 1000);
}

/** Shows what is now. */
export function backToNow(): void {
  location.hash = store.link({ ...store.route.value, at: undefined } as Route);
}

/** What the daemon is asked for. */
export function pastPath(atMs: number, job?: string): string {
  return `past?at=${atWords(atMs)}${job === undefined ? "" : `&job=${encodeURIComponent(job)}`}`;
}
