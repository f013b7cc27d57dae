/** Bandwidth by size as points of a chart: sizes on a logarithmic axis, bus bandwidth from nothing up. Pure. */

import type { BandwidthCurve, Bandwidths } from "../api";
import type { CsvValue } from "./csv";
import { bandwidth, plural, primitiveName, size, stepDuration } from "./format";

export interface Point {
  bytes: number;
  busBytesPerS: number;
}

export interface Drawn {
  /** Where the axes end: powers of two of bytes, and bytes per second. */
  fromLog2: number;
  toLog2: number;
  top: number;
  /** Every size that any line has, ascending: powers of two. */
  sizes: number[];
}

/** The axes of all curves. */
export function drawn(curves: BandwidthCurve[]): Drawn {
  const points = curves.flatMap((curve) => [...curve.sizes, ...curve.best]);
  const sizes = [...new Set(points.map((one) => one.from_bytes))].sort((a, b) => a - b);
  const fromLog2 = Math.floor(Math.log2(sizes[0] ?? 1024));
  const toLog2 = Math.max(fromLog2 + LEAST_LOG2, Math.ceil(Math.log2((sizes.at(-1) ?? 1024) * 2)));
  return { fromLog2, toLog2, sizes, top: Math.max(LEAST_TOP, ...points.map((one) => one.bus_bytes_per_s * 1.1)) };
}
/** One size alone does not fill the chart; nor is noise around nothing blown up. */
const LEAST_LOG2 = 4;
const LEAST_TOP = 1e5;

/** Where a size stands on the axis, from 0 to 1. */
export function across(bytes: number, { fromLog2, toLog2 }: Drawn): number {
  return (Math.log2(bytes) - fromLog2) / (toLog2 - fromLog2);
}

/** Which of the sizes is nearest to a place on the axis. */
export function nearest(share: number, axes: Drawn): number | undefined {
  const places = axes.sizes.map((bytes) => Math.abs(across(bytes * Math.SQRT2, axes) - share));
  return axes.sizes[places.indexOf(Math.min(...places))];
}

/** Sizes on the axis, at most `n`. */
export function sizeTicks({ fromLog2, toLog2 }: Drawn, n: number): number[] {
  const every = [1, 2, 5, 10, 20].find((step) => (toLog2 - fromLog2) / step < n) ?? 20;
  const ticks = [];
  for (let log2 = Math.ceil(fromLog2 / every) * every; log2 <= toLog2; log2 += every) ticks.push(2 ** log2);
  return ticks;
}

/** Round numbers from nothing up to `top`. */
export function rateTicks(top: number): number[] {
  const rough = top / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough)!;
  return Array.from({ length: Math.floor(top / step) + 1 }, (_, i) => i * step);
}

export const own = (curve: BandwidthCurve): Point[] => curve.sizes.map((one) => ({ bytes: one.bytes, busBytesPerS: one.bus_bytes_per_s }));
export const best = (curve: BandwidthCurve): Point[] => curve.best.map((one) => ({ bytes: one.bytes, busBytesPerS: one.bus_bytes_per_s }));

/** What is known of one size, in words. */
export function sizeWords(curves: BandwidthCurve[], fromBytes: number): string {
  const words = curves.flatMap((curve) => {
    const one = curve.sizes.find((of) => of.from_bytes === fromBytes);
    const most = curve.best.find((of) => of.from_bytes === fromBytes);
    if (one === undefined && most === undefined) return [];
    const here = one === undefined ? "not used here" : `${size(one.bytes)} in ${stepDuration(one.seconds)}, ${bandwidth(one.bus_bytes_per_s)}, ${plural(one.n_operations, "operation")} timed`;
    return [`${primitiveName(curve.primitive)} ${here}${most === undefined ? "" : `; best ${bandwidth(most.bus_bytes_per_s)}`}`];
  });
  return words.join(" · ");
}

/** The whole in a sentence, for who hears the page. */
export function summary(shown: Bandwidths): string {
  const words = shown.curves.flatMap((curve) => {
    const fastest = curve.sizes.reduce<BandwidthCurve["sizes"][number] | undefined>((most, one) => (most === undefined || one.bus_bytes_per_s > most.bus_bytes_per_s ? one : most), undefined);
    return fastest === undefined ? [] : [`${primitiveName(curve.primitive)} reaches ${bandwidth(fastest.bus_bytes_per_s)} at ${size(fastest.bytes)}`];
  });
  return words.join("; ");
}

/** Whose best it is. */
export function likeWords({ n_like: n, n_ranks, n_hosts }: Bandwidths): string {
  if (n === 0 || n_hosts === undefined) return "the best seen here";
  return `the best seen here and on ${plural(n, "other communicator")} of ${plural(n_ranks, "rank")} on ${plural(n_hosts, "host")}`;
}

/** The table, its head first. */
export function bandwidthRows(curves: BandwidthCurve[]): CsvValue[][] {
  const rows = curves.flatMap((curve) => {
    const all = new Set([...curve.sizes, ...curve.best].map((one) => one.from_bytes));
    return [...all].sort((a, b) => a - b).map((from): CsvValue[] => {
      const one = curve.sizes.find((of) => of.from_bytes === from);
      const most = curve.best.find((of) => of.from_bytes === from);
      return [curve.primitive, from, one?.bytes ?? null, one?.n_operations ?? 0, one?.seconds ?? null, one?.algorithm_bytes_per_s ?? null, one?.bus_bytes_per_s ?? null, most?.bus_bytes_per_s ?? null, most?.comm ?? null];
    });
  });
  return [["primitive", "from_bytes", "bytes", "operations", "seconds", "algorithm_bytes_per_s", "bus_bytes_per_s", "best_bus_bytes_per_s", "best_comm"], ...rows];
}
