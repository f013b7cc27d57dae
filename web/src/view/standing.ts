/**
 * How the daemon says that something stands, as a shape and in a word: nothing is judged here.
 */

import type { CommunicatorSummary, Condition, HostSummary, Job, Rank, Standing } from "../api";
import type { MarkKind } from "./mark";

export interface Shown {
  kind: MarkKind;
  label: string;
  /** Why, in words; where something is wrong or not known it stands on the page, else it is told on request. */
  why: string;
  /** Whether the words should be seen at once. */
  loud: boolean;
}

const MARKS: Record<Condition, MarkKind> = { healthy: "ok", unknown: "unknown", degraded: "warning", hung: "hung", failed: "killed" };

export function standingMark({ condition, reason, waits }: Standing): Shown {
  if (waits) return { kind: "waits", label: "hung, waits", why: reason, loud: true };
  return { kind: MARKS[condition], label: condition, why: reason, loud: condition !== "healthy" };
}

/** A host without a process is well, and that says little. */
export function hostMark(host: HostSummary): Shown {
  return host.n_processes === 0 && host.standing.condition === "healthy" ? over(host.standing, "no process") : standingMark(host.standing);
}

export function jobMark(job: Job): Shown {
  const well = job.standing.condition === "healthy";
  if (job.state === "ended" && well) return over(job.standing, "ended");
  const shown = standingMark(job.standing);
  return job.state === "ended" ? { ...shown, label: `ended, ${shown.label}` } : shown;
}

export function communicatorMark(one: CommunicatorSummary): Shown {
  return one.state === "ended" && one.standing.condition === "healthy" ? over(one.standing, "ended") : standingMark(one.standing);
}

export function rankMark(rank: Rank): Shown {
  return (rank.state === "exited" || rank.state === "gone" || rank.state === "imported") && rank.standing.condition === "healthy" ? over(rank.standing, rank.state) : standingMark(rank.standing);
}

function over({ reason }: Standing, label: string): Shown {
  return { kind: "ended", label, why: reason, loud: false };
}
