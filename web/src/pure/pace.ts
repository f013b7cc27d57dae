import type { JobPace, RankPace } from "../api";
import { integer, plural, stepDuration } from "./format";

/** A rank's step in parts, each a share of the longest step that is shown. */
export interface PaceRow {
  rank: RankPace;
  name: string;
  /** Own time, as far as it is usual; what is beyond that; in operations; what long steps took longer. */
  parts: { usual: number; beyond: number; operations: number; longer: number };
  words: string;
}

export function paceRows(pace: JobPace, limit: number): PaceRow[] {
  const longest = Math.max(...pace.ranks.map((rank) => rank.step_seconds), Number.MIN_VALUE);
  return pace.ranks.slice(0, limit).map((rank) => {
    const share = (seconds: number) => Math.max(0, seconds) / longest;
    const usual = Math.min(rank.own_seconds, rank.usual_own_seconds);
    const longer = rank.longer_share * rank.step_seconds;
    return {
      rank,
      name: rank.global_rank === undefined ? `pid ${rank.pid}` : `rank ${rank.global_rank}`,
      parts: { usual: share(usual), beyond: share(rank.own_seconds - usual), operations: share(rank.in_operations_seconds), longer: share(longer) },
      words: `${stepDuration(rank.own_seconds)} of its own, usual ${stepDuration(rank.usual_own_seconds)}; ${stepDuration(rank.in_operations_seconds)} in collectives${longer >= 0.001 ? `; ${stepDuration(longer)} more by long steps` : ""}`,
    };
  });
}

/** What is said above the rows. */
export function paceSummary(pace: JobPace): string {
  const first = pace.ranks[0];
  if (first === undefined) return "Not known yet: ringscope sees some seconds of a job before it says how its time goes.";
  const step = first.has_steps ? `A step takes ${stepDuration(pace.step_seconds ?? first.step_seconds)}` : `No step was found in the order of its calls; each call comes after ${stepDuration(pace.step_seconds ?? first.step_seconds)}`;
  const unknown = pace.n_unknown > 0 ? ` Of ${plural(pace.n_unknown, "other rank")} it is not known.` : "";
  const basis = first.by_device ? " Operations count from when the device begins them." : "";
  return `${step}, on all ranks alike. Whose own time is longer makes the others wait.${basis}${unknown}`;
}

export function more(pace: JobPace, shown: number): string {
  return `and ${integer(pace.ranks.length - shown)} more, none slower`;
}
