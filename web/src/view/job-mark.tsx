import type { Job } from "../api";
import type { MarkKind } from "./mark";

/** How a job is, as a shape and in a word. */
export function jobMark(job: Job): { kind: MarkKind; label: string } {
  if (job.state === "ended") return job.n_killed > 0 ? { kind: "killed", label: "ended, processes killed" } : { kind: "ended", label: "ended" };
  if (job.findings.critical > 0) return { kind: "critical", label: "critical" };
  if (job.n_killed > 0) return { kind: "killed", label: "processes killed" };
  if (job.findings.warning > 0) return { kind: "warning", label: "warning" };
  if (job.state === "stale") return { kind: "stale", label: "stale" };
  if (job.state === "imported") return { kind: "ended", label: "imported" };
  return { kind: "ok", label: "running" };
}
