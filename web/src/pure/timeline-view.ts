/** Where the parts of a job's timeline lie on the screen, and how a view of it moves. Pure. */

import { ticks } from "./lanes";

export interface TimeView {
  fromUs: number;
  toUs: number;
}

/** Nearer than this there is nothing more to see. */
const MIN_VIEW_US = 20;
const MAX_ROW_PX = 18;
const MIN_HEIGHT_PX = 96;
const MAX_HEIGHT_PX = 620;
/** A rank's name wants so much height. */
const NAME_EVERY_PX = 14;

/** Rows as high as fit; of very many a pixel each. */
export function rowPx(nRows: number): number {
  return Math.max(1, Math.min(MAX_ROW_PX, Math.floor(MAX_HEIGHT_PX / Math.max(1, nRows))));
}

export function heightPx(nRows: number): number {
  return Math.max(MIN_HEIGHT_PX, nRows * rowPx(nRows));
}

/** Rows that are named: every one, or every so many. */
export function namedRows(nRows: number): number[] {
  const steps = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
  const step = steps.find((one) => one * rowPx(nRows) >= NAME_EVERY_PX) ?? 1024;
  return Array.from({ length: Math.ceil(nRows / step) }, (_, i) => i * step);
}

/** Within what there is, and not nearer than makes sense. */
export function clamped({ fromUs, toUs }: TimeView, endUs: number): TimeView {
  const span = Math.min(Math.max(toUs - fromUs, MIN_VIEW_US), endUs);
  const from = Math.max(0, Math.min(fromUs, endUs - span));
  return { fromUs: from, toUs: from + span };
}

/** Nearer or farther (`factor` below and above 1), with what lies at a share of the width staying there. */
export function scaled({ fromUs, toUs }: TimeView, factor: number, share: number, endUs: number): TimeView {
  const at = fromUs + (toUs - fromUs) * share;
  factor = Math.max(factor, MIN_VIEW_US / (toUs - fromUs));
  return clamped({ fromUs: at - (at - fromUs) * factor, toUs: at + (toUs - at) * factor }, endUs);
}

export function moved({ fromUs, toUs }: TimeView, byUs: number, endUs: number): TimeView {
  return clamped({ fromUs: fromUs + byUs, toUs: toUs + byUs }, endUs);
}

/** Times along the axis: moments where they are seconds apart, else how long after the first. */
export function axis({ fromUs, toUs }: TimeView, fromMs: number, most: number): { share: number; ms: number; afterUs?: number }[] {
  const spanUs = toUs - fromUs;
  if (spanUs >= 2_000_000) return ticks({ fromMs: fromMs + fromUs / 1000, toMs: fromMs + toUs / 1000 }, most).map(({ at, ms }) => ({ share: at, ms }));
  const rough = spanUs / Math.max(2, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough)!;
  const result = [];
  for (let us = Math.ceil(fromUs / step) * step; us <= toUs; us += step) result.push({ share: (us - fromUs) / spanUs, ms: fromMs + us / 1000, afterUs: us - Math.floor(fromUs / 1e6) * 1e6 });
  return result;
}
