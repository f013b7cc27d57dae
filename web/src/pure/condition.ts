/** How things stand, as the daemon judges them. The page judges nothing: it sorts, and says it. Pure. */

import type { Condition, HostSummary, Standing } from "../api";
import { byName } from "./names";

const CONDITIONS: Condition[] = ["healthy", "unknown", "degraded", "hung", "failed"];

/** 0: healthy; the higher, the worse. */
export function badness({ condition }: Standing): number {
  return CONDITIONS.indexOf(condition);
}

/** Whether somebody should look. */
export function inTrouble({ condition }: Standing): boolean {
  return condition === "degraded" || condition === "hung" || condition === "failed";
}

export function worstFirst(hosts: HostSummary[]): HostSummary[] {
  return [...hosts].sort(
    (a, b) =>
      badness(b.standing) - badness(a.standing) || b.findings.critical - a.findings.critical || b.findings.warning - a.findings.warning || byName(a.host, b.host),
  );
}
