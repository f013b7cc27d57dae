/**
 * The pixels of a job's timeline: how much of each is waiting and how much transfer. Few operations are laid down one by
 * one; of very many, shares of bins are read that were made once. Pure.
 */

import { countBetween, firstFrom, type JobTimeline } from "./job-timeline";

/** Bins of the finest sums: at the widest view several to a pixel. */
const BINS = 4096;
const COARSEST = 256;
/** Up to so many operations are laid down anew for each picture. */
const MAX_LAID = 600_000;
/** Up to so many are drawn as shapes of their own. */
const MAX_SHAPES = 4_000;
/** Shades of waiting, and of transfer. */
const STEPS = 16;
/** What a pixel says of which nothing is told; below it: shade of waiting times `STEPS`, plus shade of transfer. */
const NOTHING = STEPS * STEPS;

/** What each pixel says, of bins that become twice as wide from level to level. */
export interface Pyramid {
  binUs: number;
  /** More operations than this in view, and bins are read. */
  most: number;
  levels: { bins: number; codes: Uint8Array }[];
}

export interface View {
  fromUs: number;
  toUs: number;
  /** Columns of pixels. */
  width: number;
}

/** Makes a pyramid some rows at a time, so that the page answers meanwhile; undefined: so few operations need none. */
export function pyramid(of: JobTimeline, most = MAX_LAID): { made: Pyramid; isDone: () => boolean; step: (rows: number) => void } | undefined {
  if (of.call.length <= most) return undefined;
  const rows = of.ranks.length;
  const made: Pyramid = { binUs: Math.max(1, of.endUs / BINS), most, levels: [] };
  for (let bins = BINS; bins >= COARSEST; bins /= 2) made.levels.push({ bins, codes: new Uint8Array(rows * bins) });
  const [waiting, transfer] = [new Float32Array(BINS), new Float32Array(BINS)];
  let row = 0;
  return {
    made,
    isDone: () => row >= rows,
    step(count) {
      for (const end = Math.min(rows, row + count); row < end; row += 1) {
        waiting.fill(0);
        transfer.fill(0);
        layRow(of, of.start[row]!, of.start[row + 1]!, 1, 0, 1 / made.binUs, BINS, waiting, transfer);
        for (const { bins, codes } of made.levels) {
          if (bins < BINS) halve(waiting, transfer, bins);
          for (let bin = 0, at = row * bins; bin < bins; bin += 1, at += 1) codes[at] = code(waiting[bin]!, transfer[bin]!);
        }
      }
    },
  };
}

function halve(waiting: Float32Array, transfer: Float32Array, bins: number): void {
  for (let bin = 0; bin < bins; bin += 1) {
    waiting[bin] = (waiting[2 * bin]! + waiting[2 * bin + 1]!) / 2;
    transfer[bin] = (transfer[2 * bin]! + transfer[2 * bin + 1]!) / 2;
  }
}

/** Of streams that overlap, a pixel is full of transfer before it is of waiting. */
function code(waiting: number, transfer: number): number {
  const t = transfer > 1 ? 1 : transfer;
  const w = waiting > 1 - t ? 1 - t : waiting;
  return ((w * (STEPS - 1) + 0.5) | 0) * STEPS + ((t * (STEPS - 1) + 0.5) | 0);
}

/** Adds what each `every`th operation covers of pixels `scale` to a microsecond from `fromUs` on. */
function layRow(of: JobTimeline, first: number, end: number, every: number, fromUs: number, scale: number, width: number, waiting: Float32Array, transfer: Float32Array): void {
  const { called, last, completed } = of;
  for (let i = first; i < end; i += every) {
    const a = (called[i]! - fromUs) * scale;
    if (a >= width) return;
    const b = (last[i]! - fromUs) * scale;
    const c = (completed[i]! - fromUs) * scale;
    lay(waiting, width, a, b, every);
    lay(transfer, width, b, c, every);
  }
}

function lay(into: Float32Array, width: number, from: number, to: number, weight: number): void {
  if (to <= 0 || from >= width || to <= from) return;
  const start = from < 0 ? 0 : from;
  const end = to > width ? width : to;
  const [first, last] = [start | 0, end | 0];
  if (first === last) {
    into[first]! += (end - start) * weight;
    return;
  }
  into[first]! += (first + 1 - start) * weight;
  for (let x = first + 1; x < last; x += 1) into[x]! += weight;
  if (last < width) into[last]! += (end - last) * weight;
}

/** Whether each operation of a view is drawn as a shape. */
export function drawsShapes(of: JobTimeline, { fromUs, toUs }: Pick<View, "fromUs" | "toUs">): boolean {
  return countBetween(of, fromUs, toUs) <= MAX_SHAPES;
}

/**
 * What each pixel of a view says, coloured by `colours`: each row of ranks `rowPx` pixels high. While the pyramid is not made
 * yet, of too many operations some stand for all.
 */
export function raster(of: JobTimeline, sums: Pyramid | undefined, view: View, colours: Uint32Array, rowPx: number, pixels: Uint32Array): void {
  const { fromUs, toUs, width } = view;
  const count = countBetween(of, fromUs, toUs);
  const scale = width / (toUs - fromUs);
  const level = sums === undefined || count <= sums.most ? undefined : levelFor(sums, 1 / scale);
  const every = level === undefined ? Math.max(1, Math.round(count / MAX_LAID)) : 1;
  const [waiting, transfer] = [new Float32Array(width), new Float32Array(width)];
  for (let row = 0; row < of.ranks.length; row += 1) {
    const [first, end] = [of.start[row]!, of.start[row + 1]!];
    const line = row * rowPx * width;
    const fromX = end === first ? width : Math.max(0, Math.min(width, Math.floor((of.called[first]! - fromUs) * scale)));
    const toX = end === first ? width : Math.max(fromX, Math.min(width, Math.ceil((of.ends[end - 1]! - fromUs) * scale)));
    pixels.fill(colours[NOTHING]!, line, line + fromX);
    pixels.fill(colours[NOTHING]!, line + toX, line + width);
    if (level !== undefined) {
      const step = (toUs - fromUs) / width / (of.endUs / level.bins);
      const base = row * level.bins;
      let bin = (fromUs * level.bins) / of.endUs + step * (fromX + 0.5);
      for (let x = line + fromX; x < line + toX; x += 1, bin += step) pixels[x] = colours[level.codes[base + (bin | 0)]!]!;
    } else {
      waiting.fill(0);
      transfer.fill(0);
      layRow(of, firstFrom(of, row, fromUs), end, every, fromUs, scale, width, waiting, transfer);
      for (let x = fromX; x < toX; x += 1) pixels[line + x] = colours[code(waiting[x]!, transfer[x]!)]!;
    }
    for (let more = 1; more < rowPx; more += 1) pixels.copyWithin(line + more * width, line, line + width);
  }
}

/** The coarsest whose bins are not wider than a pixel, else the finest. */
function levelFor({ levels, binUs }: Pyramid, pxUs: number): { bins: number; codes: Uint8Array } {
  let at = 0;
  while (at + 1 < levels.length && binUs * 2 ** (at + 1) <= pxUs) at += 1;
  return levels[at]!;
}

/** Red, green, blue. */
export type Rgb = readonly [number, number, number];
export interface Palette {
  /** Outside of collectives; where calls between were not told: what is not known. */
  own: Rgb;
  waiting: Rgb;
  transfer: Rgb;
  /** Where the rank has told nothing. */
  nothing: Rgb;
}

/** The colour of all that a pixel may say, as the bytes of an image. */
export function coloursOf({ own, waiting, transfer, nothing }: Palette): Uint32Array {
  const colours = new Uint32Array(NOTHING + 1);
  for (let at = 0; at < NOTHING; at += 1) {
    const [w, t] = [Math.floor(at / STEPS) / (STEPS - 1), (at % STEPS) / (STEPS - 1)];
    colours[at] = packed(own.map((c, i) => c + (waiting[i]! - c) * w + (transfer[i]! - c) * t));
  }
  colours[NOTHING] = packed(nothing);
  return colours;
}

function packed(colour: readonly number[]): number {
  const [r, g, b] = colour.map((c) => Math.max(0, Math.min(255, Math.round(c))));
  return ((255 << 24) | (b! << 16) | (g! << 8) | r!) >>> 0;
}
