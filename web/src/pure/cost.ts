/** What a slowness costs a job, in words. Pure. */

import type { Cost, Finding } from "../api";
import { stepDuration } from "./format";

/** "costs 0.31 s per step, 18 % of the time, 4.2 rank hours so far"; "" where it is not known. `isOver`: it costs nothing any more. */
export function costWords(cost: Cost | undefined, isOver = false): string {
  if (cost === undefined) return "";
  const { seconds_per_step: perStepS, percent, rank_hours: rankHours, alone_seconds_per_step: aloneS } = cost;
  const parts = [
    perStepS > 0 ? `${stepDuration(perStepS)} per step${aloneS === undefined ? "" : ` (${aloneS >= perStepS * NOTHING_SHARE ? stepDuration(aloneS) : "nothing"} of it by itself, for others are slow too)`}` : "",
    percent > 0 ? `${short(percent)} % of the time` : "",
    rankHours > 0 ? `${short(rankHours)} rank hours${isOver ? "" : " so far"}` : "",
  ].filter(Boolean);
  return parts.length === 0 ? "" : `${isOver ? "cost" : "costs"} ${parts.join(", ")}`;
}

/** Of what is lost: to gain less is to gain nothing, as the sentence of the finding says too. */
const NOTHING_SHARE = 1 / 20;

/** Of findings that are shown as one: the one that costs the most. Costs are not added up: several findings tell of the same lost time per step. */
export function highestCost(findings: Pick<Finding, "cost">[]): Cost | undefined {
  return findings.flatMap(({ cost }) => cost ?? []).reduce<Cost | undefined>((most, one) => (most === undefined || one.rank_hours > most.rank_hours ? one : most), undefined);
}

/** Two digits that say something. */
function short(value: number): string {
  if (value < 0.1) return "less than 0.1";
  return value < 9.95 ? value.toFixed(1).replace(/\.0$/, "") : value.toFixed(0);
}
