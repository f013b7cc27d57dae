import type { SummationGroup, SummationGroupState } from "../../api";
import type { MarkKind } from "../mark";

const MARKS: Record<SummationGroupState, MarkKind> = { starting: "stale", running: "ok", suspended: "ended", ended: "ended", failed: "killed" };

/** How a group is, as a shape and in a word. */
export function groupMark(group: SummationGroup): { kind: MarkKind; label: string } {
  const kind = group.state === "running" && group.n_findings > 0 ? "warning" : (MARKS[group.state] ?? "info");
  return { kind, label: group.state };
}
