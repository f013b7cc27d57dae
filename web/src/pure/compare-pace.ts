/** How fast something was before and after, side by side: what is not known of one side is never a difference. Pure. */

import type { CommunicatorSummary, JobPace, Series } from "../api";
import { bandwidth, duration, stepDuration } from "./format";

/** One row: what is compared, both values in words, and the difference. */
export interface PaceRow {
  name: string;
  before: string;
  after: string;
  /** "+12 %"; "": one of them is not known. */
  difference: string;
  /** Whether it got worse by more than noise. */
  worse: boolean;
  /** Why a side is not known; "": both are. */
  why: string;
}

/** Less than this is noise. */
const NOISE_SHARE = 0.05;
/** The last minutes of a communicator tell how fast it was. */
const WINDOW_MS = 5 * 60_000;
/** Fewer points than this are no mean. */
const POINTS = 30;
const MIN_STEP_S = 5;

/** The time that stands for a communicator: its last minutes, or those until now. Absent: it has not lived long enough. */
export function windowOf({ created, ended }: Pick<CommunicatorSummary, "created" | "ended">, nowMs: number): string | undefined {
  const end = Math.min(Date.parse(ended ?? "") || nowMs, nowMs);
  const from = Math.max(Date.parse(created), end - WINDOW_MS);
  const stepS = Math.max(MIN_STEP_S, Math.round((end - from) / 1000 / POINTS));
  if (end - from < stepS * 1000) return undefined;
  // By whole steps, so that the same question is asked for a while.
  const down = (ms: number) => new Date(Math.floor(ms / (stepS * 1000)) * stepS * 1000).toISOString();
  return `from=${down(from)}&to=${down(end)}&step=${stepS}s`;
}

/** The mean from the first bucket in which anything happened to the last: between calls that are rare others are empty. */
export function meanOf(series: Series | undefined): number | undefined {
  if (series === undefined) return undefined;
  const sums = series.times_ms.map((_, i) => series.lines.reduce<number | undefined>((sum, { values }) => (values[i] == null ? sum : (sum ?? 0) + values[i]!), undefined));
  const happened = (sum: number | undefined) => sum !== undefined && sum > 0;
  const first = sums.findIndex(happened);
  if (first < 0) return undefined;
  const busy = sums.slice(first, sums.findLastIndex(happened) + 1);
  return busy.reduce<number>((sum, one) => sum + (one ?? 0), 0) / busy.length;
}

/** What is measured of one side. */
export interface Measured {
  bytesPerS: number | undefined;
  callsPerS: number | undefined;
  nRanks: number;
}

const NO_SAMPLES = "no samples of it are kept";
const NOT_KEPT = "times of steps are not kept over time";

/** Bandwidth and the time from call to call of both; of the job as it is now, where the later one is in use, how its steps go. */
export function paceRows(before: Measured, after: Measured, pace: JobPace | undefined): PaceRow[] {
  const everyS = ({ callsPerS, nRanks }: Measured) => (callsPerS === undefined ? undefined : nRanks / callsPerS);
  const slowest = pace?.ranks.reduce((most, one) => Math.max(most, one.own_seconds), 0);
  const busy = pace === undefined || pace.ranks.length === 0 ? undefined : pace.ranks.reduce((sum, one) => sum + one.in_operations_seconds / one.step_seconds, 0) / pace.ranks.length;
  const percent = (share: number) => `${Math.round(share * 100)} %`;
  return [
    row("Completed per second, all ranks", before.bytesPerS, after.bytesPerS, bandwidth, "more", NO_SAMPLES),
    row("From one call to the next", everyS(before), everyS(after), duration, "less", NO_SAMPLES),
    row("A step of the job", undefined, pace?.step_seconds, stepDuration, "less", NOT_KEPT),
    row("Own time of its slowest rank", undefined, slowest === undefined || slowest === 0 ? undefined : slowest, stepDuration, "less", NOT_KEPT),
    row("Share of a step in collectives", undefined, busy, percent, "less", NOT_KEPT),
  ];
}

function row(name: string, before: number | undefined, after: number | undefined, say: (value: number) => string, better: "more" | "less", why: string): PaceRow {
  const words = (value: number | undefined) => (value === undefined ? "not known" : say(value));
  const share = before === undefined || after === undefined || before === 0 ? undefined : after / before - 1;
  const rounded = Math.round((share ?? 0) * 100);
  return {
    name,
    before: words(before),
    after: words(after),
    difference: share === undefined ? "" : rounded === 0 ? "the same" : `${rounded > 0 ? "+" : "−"}${Math.abs(rounded)} %`,
    worse: share !== undefined && (better === "more" ? share < -NOISE_SHARE : share > NOISE_SHARE),
    why: share === undefined ? why : "",
  };
}
