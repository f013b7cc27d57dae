import type { JobLevel, JobPace, RankPace } from "../api";
import { integer, plural, stepDuration } from "./format";

/** A rank's step in parts, each a share of the longest step of the job. */
export interface PaceRow {
  rank: RankPace;
  name: string;
  /** Own time, as far as it is usual; what is beyond that; in operations; what long steps took longer. */
  parts: { usual: number; beyond: number; operations: number; longer: number };
  words: string;
}

export function paceRows(pace: JobPace): PaceRow[] {
  // Of the whole job: its longest step may be that of a rank that is not among these.
  const longest = pace.step_seconds ?? pace.ranks[0]?.step_seconds ?? 0;
  return pace.ranks.map((rank) => {
    const share = (seconds: number) => (longest > 0 ? Math.max(0, seconds) / longest : 0);
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

/** From this age of a job on, that nothing is known of its time has another reason than its youth. */
const YOUNG_MS = 60_000;

/** What is said above the rows. */
export function paceSummary(pace: JobPace, ageMs: number, level: JobLevel | undefined): string {
  const first = pace.ranks[0];
  if (first === undefined) return whyUnknown(pace.job, ageMs, level);
  const takes = stepDuration(pace.step_seconds ?? first.step_seconds);
  const step = first.has_steps ? `A step takes ${takes}` : `No step was found in the order of its calls; each call comes after ${takes}`;
  const unknown = pace.n_unknown > 0 ? ` How ${plural(pace.n_unknown, "other rank")} ${pace.n_unknown === 1 ? "spends its" : "spend their"} time is not known.` : "";
  return [`${step}, on all ranks alike. Whose own time is longer makes the others wait.${basisWords(pace)}${unknown}`, ...pace.lacks].join(" ");
}

/** Where times are the device's, and how well its clock is known: "": they are not. */
function basisWords({ ranks }: JobPace): string {
  if (!ranks[0]?.by_device) return "";
  const errors = ranks.flatMap((one) => one.device_error_seconds ?? []);
  const within = errors.length > 0 ? `; its clock and the host's are aligned within ${stepDuration(Math.max(...errors))}` : "";
  return ` Operations count from when the device begins them${within}.`;
}

/** Why it is known of no rank, and what to do. */
function whyUnknown(job: string, ageMs: number, level: JobLevel | undefined): string {
  if (ageMs < YOUNG_MS) return "Not known yet: ringscope sees some seconds of a job before it says how its time goes.";
  const processes = level?.processes ?? [];
  if (processes.length > 0 && processes.every((one) => one.level === "off")) {
    return `Not known: the level of this job is off, so nothing of it is recorded. \`ringscope level --job ${job} counters\` switches it on.`;
  }
  return "Not known: the job completed fewer than five steps of late, or its ranks run without the collector, or its agents are older than this daemon. `ringscope doctor` on one of its hosts says whether it is the collector or the agent.";
}

/** What is said below the rows; "": nothing more. */
export function more(pace: JobPace): string {
  const hidden = pace.n_ranks - pace.ranks.length;
  return hidden > 0 ? `and ${integer(hidden)} more, none slower` : "";
}
