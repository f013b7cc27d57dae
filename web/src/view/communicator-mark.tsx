import type { CommunicatorSummary } from "../api";
import type { MarkKind } from "./mark";

/** How a communicator is, as a shape and in a word. */
export function communicatorMark(one: CommunicatorSummary): { kind: MarkKind; label: string } {
  if (one.state === "ended") return { kind: "ended", label: "ended" };
  if (one.findings.critical > 0) return { kind: "critical", label: "critical" };
  if (one.state === "broken") return { kind: "killed", label: "broken" };
  if (one.degraded) return { kind: "warning", label: "degraded" };
  if (one.state === "forming") return { kind: "stale", label: "forming" };
  return { kind: "ok", label: "active" };
}
