/** The one time range of the page, as somebody draws it on any chart. */

import { computed } from "@preact/signals";
import { drawnSpan } from "../pure/range";
import type { Span } from "../pure/route";
import * as store from "./store";

/** What was looked at before the first zoom. */
let before: Span = {};

/** Whether the range stands still, as one that was drawn does. */
export const isZoomed = computed(() => store.route.value.from !== undefined && !store.route.value.from.startsWith("-"));

/** Looks at this part alone; the browser's way back leads out again. */
export function zoom(fromMs: number, toMs: number): void {
  const { from, to } = store.route.value;
  if (!isZoomed.value) before = { from, to };
  location.hash = store.link({ ...store.route.value, ...drawnSpan(fromMs, toMs, store.nowMs.value) });
}

/** Back to what was looked at before, or to the last minutes. */
export function reset(): void {
  if (!isZoomed.value) return;
  location.hash = store.link({ ...store.route.value, from: before.from, to: before.to });
  before = {};
}
