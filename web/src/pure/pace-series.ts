/** How fast a job went over time, in words. Pure. */

import type { PaceSeries, PastPace } from "../api";
import { stepDuration } from "./format";

/** What is known of one point: "0.12 s a step, own time of the slowest rank 40 ms, 60 % in collectives, 5 % waiting there for the last rank". */
export function paceWords(pace: Pick<PastPace, "step_seconds" | "own_seconds" | "in_operations_share" | "waiting_share">): string {
  const percent = (share: number) => `${Math.round(share * 100)} %`;
  return `${stepDuration(pace.step_seconds)} a step, own time of the slowest rank ${stepDuration(pace.own_seconds)}, ${percent(pace.in_operations_share)} in collectives, ${percent(pace.waiting_share)} waiting there for the last rank`;
}

/** The same of a point of the series. */
export function pointWords(series: PaceSeries, index: number): string {
  const [step, own, busy, waiting] = [series.step_seconds, series.own_seconds, series.in_operations_share, series.waiting_share].map((line) => line[index]);
  if (step == null || own == null || busy == null || waiting == null) return "not known";
  return paceWords({ step_seconds: step, own_seconds: own, in_operations_share: busy, waiting_share: waiting });
}

/** Whether anything of it is known. */
export function isKnown(series: PaceSeries): boolean {
  return series.step_seconds.some((one) => one !== null);
}
