/** How fast something was before and after, side by side: what is not known of one side is never a difference. Pure. */

import type { CommunicatorSummary, PaceSeries, Series } from "../api";
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

/** The mean of what is known of a line. */
export function meanKnown(values: (number | null)[] | undefined): number | undefined {
  const known = (values ?? []).filter((one) => one !== null);
  return known.length === 0 ? undefined : known.reduce((sum, one) => sum + one, 0) / known.length;
}

/** What is measured of one side: its communicator, and how the steps of the job went at that time. */
export interface Measured {
  bytesPerS: number | undefined;
  callsPerS: number | undefined;
  nRanks: number;
  pace: PaceSeries | undefined;
}

const NO_SAMPLES = "no samples of it are kept";
const NO_PACE = "no times of steps are kept of then";

/** Bandwidth and the time from call to call of both; and how the steps of the job went at either time. */
export function paceRows(before: Measured, after: Measured): PaceRow[] {
  const everyS = ({ callsPerS, nRanks }: Measured) => (callsPerS === undefined ? undefined : nRanks / callsPerS);
  const percent = (share: number) => `${Math.round(share * 100)} %`;
  const ofSteps = (name: string, of: (pace: PaceSeries) => (number | null)[], say: (value: number) => string) => {
    const mean = ({ pace }: Measured) => meanKnown(pace && of(pace));
    return row(name, mean(before), mean(after), say, "less", NO_PACE);
  };
  return [
    row("Completed per second, all ranks", before.bytesPerS, after.bytesPerS, bandwidth, "more", NO_SAMPLES),
    row("From one call to the next", everyS(before), everyS(after), duration, "less", NO_SAMPLES),
    ofSteps("A step of the job", (pace) => pace.step_seconds, stepDuration),
    ofSteps("Own time of its slowest rank", (pace) => pace.own_seconds, stepDuration),
    ofSteps("Share of a step in collectives", (pace) => pace.in_operations_share, percent),
    ofSteps("Of this, waiting for the last rank", (pace) => pace.waiting_share, percent),
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
