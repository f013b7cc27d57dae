import type { HostSummary } from "../api";
import { duration, rankRanges } from "../pure/format";
import * as store from "../state/store";
import type { MarkKind } from "./mark";

/** A host not heard of for this long is silent. */
const SILENT_S = 15;

/** How a host is, as a shape and in words. */
export function hostMark(host: HostSummary, nowMs: number): { kind: MarkKind; label: string; why?: string } {
  if (host.findings.critical > 0) return { kind: "critical", label: "degraded, critical" };
  if (host.degraded) return { kind: "warning", label: "degraded" };
  const killed = store.killedByHost.value.get(host.host);
  if (killed !== undefined) {
    const ranks = `${killed.length === 1 ? "Rank" : "Ranks"} ${rankRanges(killed)}`;
    return { kind: "killed", label: "ranks killed", why: `${ranks} ${killed.length === 1 ? "was" : "were"} killed` };
  }
  const late = store.lateByHost.value.get(host.host);
  if (late !== undefined) {
    return { kind: "late", label: "ranks late", why: `The others wait for ${late.length === 1 ? "rank" : "ranks"} ${rankRanges(late)}` };
  }
  if (host.n_processes === 0) return { kind: "ended", label: "no process" };
  const silentS = (nowMs - Date.parse(host.last_seen)) / 1000;
  if (silentS > SILENT_S) return { kind: "stale", label: "silent", why: `Nothing heard for ${duration(silentS)}` };
  return { kind: "ok", label: "healthy" };
}
