/** The state of everything in one sentence: the first thing on the page. Pure. */

import type { Finding, HostSummary, Job, Severity } from "../api";
import { advice } from "./advice";
import type { Trouble } from "./progress";
import { capital, duration, list, moment, plural } from "./format";

export type Level = "empty" | "idle" | "ok" | "warning" | "critical";

export interface Health {
  level: Level;
  sentence: string;
  /** Start of the oldest firing finding that somebody should look at, milliseconds since the epoch. */
  sinceMs?: number;
  /** What to do about the worst of it. */
  advice?: string;
  /** Hosts to look at, worst first. */
  suspects: string[];
}

/** `trouble`: what is wrong among the ranks on the screen, if they wait; `end`: how they ended, if not well. */
export function health(jobs: Job[], hosts: HostSummary[], findings: Finding[], trouble: Trouble | undefined, nowMs: number, end?: string): Health {
  const degraded = worstFirst(hosts.filter((host) => host.degraded));
  const live = jobs.filter((job) => job.state !== "ended");
  if (jobs.length === 0 && degraded.length === 0) {
    const heard = hosts.length > 0 ? `; ${plural(hosts.length, "host")} reporting` : "";
    return { level: "empty", sentence: `No job yet${heard}`, suspects: [] };
  }
  if (live.length === 0 && degraded.length === 0) return idle(jobs, nowMs, end);

  const suspects = [...new Set([...degraded.map((host) => host.host), ...(trouble?.hosts ?? [])])];
  const parts: string[] = [];
  let level: Level = "ok";
  const watched = hosts.filter((host) => host.n_processes > 0 || host.degraded || host.jobs.length > 0).length;
  if (degraded.length > 0) {
    level = degraded.some((host) => host.findings.critical > 0) ? "critical" : "warning";
    const more = degraded.length > 1 ? `; and ${list(degraded.slice(1).map((host) => host.host), 3)}` : "";
    parts.push(`${degraded.length} of ${plural(watched, "host")} degraded: ${reason(degraded[0]!)}${more}`);
  }
  const killed = live.filter((job) => job.n_killed > 0);
  if (trouble !== undefined) {
    level = "critical";
    parts.push(trouble.words);
  } else if (killed.length > 0) {
    level = "critical";
    parts.push(...killed.slice(0, 2).map(killedWords));
  }
  const silent = live.filter((job) => job.state === "stale");
  if (silent.length > 0) {
    if (level === "ok") level = "warning";
    const first = silent[0]!;
    const quiet = duration(Math.max(0, (nowMs - Date.parse(first.last_seen)) / 1000));
    parts.push(`nothing heard of ${list(silent.map((job) => job.id), 3)} for ${quiet}`);
  }
  if (level === "ok") {
    const fine = watched === 0 ? "No host is degraded" : watched === 1 ? "The only host is healthy" : `All ${plural(watched, "host")} healthy`;
    parts.unshift(fine);
  }
  const sinceMs = oldest(findings) ?? trouble?.sinceMs;
  const todo = trouble?.advice ?? adviceFor(degraded[0], findings);
  return {
    level,
    sentence: capital(parts.join("; ")),
    suspects,
    ...(sinceMs === undefined ? {} : { sinceMs }),
    ...(todo === undefined ? {} : { advice: todo }),
  };
}

function adviceFor(host: HostSummary | undefined, findings: Finding[]): string | undefined {
  const mine = findings.filter((finding) => finding.host === host?.host && finding.state === "firing" && finding.severity !== "info");
  const worst = mine.find((finding) => finding.severity === "critical") ?? mine[0];
  return worst && advice(worst);
}

function idle(jobs: Job[], nowMs: number, end: string | undefined): Health {
  const last = jobs.reduce((a, b) => (a.last_seen > b.last_seen ? a : b));
  const how = last.n_killed > 0 ? `: ${end ?? killedWords(last)}` : "";
  return {
    level: last.n_killed > 0 ? "warning" : "idle",
    sentence: `No job is running; the last, ${last.id}, ended at ${moment(Date.parse(last.last_seen), nowMs)}${how}`,
    suspects: [],
  };
}

/** The host's worst reason, that which says its own cause in front of others; with its name unless it has it already. */
export function reason(host: HostSummary): string {
  const words = (host.reasons.find((one) => one.includes(" because ")) ?? host.reasons[0] ?? "no reason given").replace(/[.\s]+$/, "");
  return words.includes(host.host) ? words : `${host.host}: ${words}`;
}

export function worstFirst(hosts: HostSummary[]): HostSummary[] {
  return [...hosts].sort(
    (a, b) =>
      b.findings.critical - a.findings.critical || b.findings.warning - a.findings.warning || byName(a.host, b.host),
  );
}

/** host-2 before host-10. */
export function byName(a: string, b: string): number {
  return COLLATOR.compare(a, b);
}

const COLLATOR = new Intl.Collator("en", { numeric: true });

function killedWords(job: Job): string {
  return `${job.n_killed} of ${job.n_processes} processes of ${job.id} ${job.n_killed === 1 ? "was" : "were"} killed`;
}

function oldest(findings: Finding[]): number | undefined {
  const firing = findings.filter((finding) => finding.state === "firing" && finding.severity !== ("info" satisfies Severity));
  if (firing.length === 0) return undefined;
  return Math.min(...firing.map((finding) => Date.parse(finding.first_seen)));
}
