/** A moment of the past, as the address names it and as a field shows it. Pure. */

import type { HostSummary, PastHost } from "../api";
import type { ChartMark } from "./chart-marks";
import { clock } from "./format";
import type { PageName, Span } from "./route";

/** Pages that can show how things stood; the others show what is known now, and say so. */
const PAST_PAGES: ReadonlySet<PageName> = new Set<PageName>(["overview", "jobs", "job", "hosts", "host", "incidents", "findings"]);

export function showsPast(page: PageName): boolean {
  return PAST_PAGES.has(page);
}

/** The moment of `at=`; undefined: none, no time at all, or one that is still to come. */
export function atOf({ at }: Span, nowMs: number): number | undefined {
  const ms = Date.parse(at ?? "");
  return Number.isNaN(ms) || ms > nowMs ? undefined : ms;
}

/** As the address has it. */
export function atWords(ms: number): string {
  return new Date(ms).toISOString().replace(".000Z", "Z");
}

/** As a field of date and time has it: in the zone of the browser. */
export function fieldWords(ms: number): string {
  const date = new Date(ms);
  const day = [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((n) => String(n).padStart(2, "0")).join("-");
  return `${day}T${clock(ms)}`;
}

/** What was chosen in such a field; undefined: nothing whole, or a time that is still to come. */
export function fieldMs(text: string, nowMs: number): number | undefined {
  const ms = new Date(text).getTime();
  return text === "" || Number.isNaN(ms) || ms > nowMs ? undefined : ms;
}

/** As lists of hosts take it. What is not kept of it is not known; a bandwidth below nothing is one that was not recorded. */
export function asSummary(host: PastHost, atMs: number): HostSummary {
  return {
    ...host,
    completed_bytes_per_s: host.completed_bytes_per_s ?? -1,
    degraded: false,
    reasons: [],
    findings: { critical: 0, warning: 0, info: 0 },
    n_nics: null,
    n_nics_down: null,
    n_gpus: null,
    last_seen: new Date(atMs).toISOString(),
  };
}

/** The mark that is meant by who points there; a finding before what is beside it. */
export function pointedMark(marks: ChartMark[], ms: number, withinMs: number): ChartMark | undefined {
  const near = marks.filter((one) => Math.abs(one.ms - ms) <= withinMs);
  const weight = (one: ChartMark) => (one.kind === "finding" && one.severity !== "info" ? 0 : withinMs) + Math.abs(one.ms - ms);
  return near.sort((a, b) => weight(a) - weight(b))[0];
}
