/** Incidents in order and in words. Pure. */

import type { Culprit, Finding, HostSummary, Incident, Severity } from "../api";
import { inTrouble, worstFirst } from "./condition";
import { duration, list, plural, rankRanges } from "./format";

const SEVERITIES: Severity[] = ["critical", "warning", "info"];

/** As the daemon orders them: what is about jobs that have ended last; critical first; of equals the one that began first. */
export function worstIncidentsFirst(incidents: Incident[]): Incident[] {
  return [...incidents].sort(
    (a, b) =>
      Number(a.job_ended_at !== undefined) - Number(b.job_ended_at !== undefined) ||
      SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity) || a.began_at.localeCompare(b.began_at) || a.id.localeCompare(b.id),
  );
}

export function newestFirst(incidents: Incident[]): Incident[] {
  return [...incidents].sort((a, b) => (b.resolved_at ?? b.last_seen).localeCompare(a.resolved_at ?? a.last_seen) || a.id.localeCompare(b.id));
}

/** Hosts to look at: those of incidents that somebody should look at, then what else is in trouble. */
export function suspects(incidents: Incident[], hosts: HostSummary[]): string[] {
  const accused = incidents.filter((one) => one.severity !== "info").flatMap((one) => [...new Set([one.host, ...one.culprits.map(({ host }) => host)])]);
  const others = worstFirst(hosts.filter((host) => inTrouble(host.standing) && host.findings.critical + host.findings.warning > 0)).map((host) => host.host);
  return [...new Set([...accused, ...others])].filter((host) => host !== "");
}

/** Findings that no incident tells of: the others would say the same once more. */
export function untold<F extends Pick<Finding, "id" | "incident">>(findings: F[], told: Pick<Incident, "id" | "findings">[]): F[] {
  const ids = new Set(told.flatMap((one) => [one.id, ...one.findings]));
  return findings.filter(({ id, incident }) => !ids.has(id) && !(incident !== undefined && ids.has(incident)));
}

/** The incident whose sentence these words are, or say in other words of who waits; undefined: none of them. */
export function telling<I extends Pick<Incident, "sentence">>(words: string, told: I[]): I | undefined {
  return told.find(({ sentence }) => sentence !== "" && saying(sentence.replace(/[.\s]+$/, "")).test(words));
}

/** Who says something, as the daemon keeps it: who signed in, and beside them whom they name. */
export function speaker(signedIn: string, named: string): string {
  return signedIn === "" || signedIn === named ? named : `${signedIn} (for ${named})`;
}

/** What stands before its times, and what behind: "since" 14:03:07 ", for 12 min". */
export function timeWords(one: Incident, nowMs: number): [string, string] {
  if (one.imported === true) return ["imported: began", ""];
  if (one.resolved_at == null) return ["since", `, for ${duration(Math.max(0, (nowMs - Date.parse(one.began_at)) / 1000))}`];
  const withJob = one.job_ended_at === undefined ? "" : ", ended with its job";
  return ["", `, ${lastedWords(one)}${withJob}`];
}

export function lastedWords(one: Incident): string {
  return `lasted ${duration(Math.max(0, (Date.parse(one.resolved_at ?? one.last_seen) - Date.parse(one.began_at)) / 1000))}`;
}

/**
 * `words` with the sentence of an incident in them cut to its beginning, for a place that has the whole sentence beside it.
 * One of a line stays as it is.
 */
export function brief(words: string, told: Pick<Incident, "sentence">[]): string {
  for (const { sentence } of told) {
    const whole = sentence.replace(/[.\s]+$/, "");
    const found = whole.length <= MAX_LINE ? null : saying(whole).exec(words);
    if (found === null) continue;
    return words.slice(0, found.index) + beginning(found[0]) + words.slice(found.index + found[0].length);
  }
  return words;
}

/** Finds a sentence in words: its numbers may be others, for what goes on is measured anew by whoever tells of it. */
function saying(sentence: string): RegExp {
  const literal = (part: string) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  // Not those that are part of a name.
  const parts = sentence.split(/(?<![\w.-])\d+(?:\.\d+)?(?= (?:ms|µs|s|min|h|%))/);
  return new RegExp(parts.map(literal).join("\\d+(?:\\.\\d+)?"), "i");
}

/** Up to its first stop, but for one in a command, or so early that what stands before it only names somebody. */
function beginning(sentence: string): string {
  for (const { index } of sentence.matchAll(/[;:] /g)) {
    const start = sentence.slice(0, index);
    if (index >= MIN_BRIEF && start.split("`").length % 2 === 1) return start;
  }
  return sentence;
}
const MIN_BRIEF = 24;
const MAX_LINE = 100;

/** Who is waiting because of it; "" where nobody is. */
export function victimWords({ n_victims: n, state }: Incident): string {
  if (n === 0) return "";
  const verb = state === "resolved" ? "waited" : n === 1 ? "waits" : "wait";
  return `${plural(n, "rank")} ${verb} because of it`;
}

/** Whether nobody is told of it now. */
export function isSilenced(one: Incident, nowMs: number): boolean {
  return one.silenced_until !== undefined && Date.parse(one.silenced_until) > nowMs;
}

/** "rank 5 on host-1", "ranks 0–3 on host-0 and host-1", "rank 5 of the job on host-1", "host-2". */
export function culpritName(culprits: Culprit[]): string {
  const hosts = list([...new Set(culprits.map(({ host }) => host).filter((host) => host !== ""))], 3);
  const own = culprits.flatMap(({ rank }) => (rank === undefined ? [] : [rank]));
  const ranks = own.length > 0 ? own : culprits.flatMap(({ global_rank: rank }) => (rank === undefined ? [] : [rank]));
  if (ranks.length === 0) return hosts;
  const some = ranks.length > 16 ? plural(ranks.length, "rank") : `${ranks.length === 1 ? "rank" : "ranks"} ${rankRanges(ranks, 6)}`;
  const who = own.length > 0 ? some : `${some} of the job`;
  return hosts === "" ? who : `${who} on ${hosts}`;
}

export interface Moment {
  atMs: number;
  /** Time since it truly began. */
  after: string;
  text: string;
  /** Seconds since the moment before it. */
  pauseS: number;
}

/** What was known when, oldest first. */
export function moments({ timeline, began_at }: Pick<Incident, "timeline" | "began_at">): Moment[] {
  const beganMs = Date.parse(began_at);
  const sorted = [...timeline].sort((a, b) => a.at.localeCompare(b.at));
  return sorted.map(({ at, text }, i) => {
    const atMs = Date.parse(at);
    const before = i === 0 ? atMs : Date.parse(sorted[i - 1]!.at);
    return { atMs, after: afterWords((atMs - beganMs) / 1000), text, pauseS: Math.max(0, (atMs - before) / 1000) };
  });
}

/** Clocks of hosts differ a little. */
const SAME_S = 0.05;

function afterWords(seconds: number): string {
  if (Math.abs(seconds) < SAME_S) return "it began";
  return seconds < 0 ? `${duration(-seconds)} before` : `after ${duration(seconds)}`;
}

/** How long nobody is to be told of it, as one chooses it. */
export const SILENCES: { words: string; seconds: number }[] = [
  { words: "1 hour", seconds: 3_600 },
  { words: "4 hours", seconds: 14_400 },
  { words: "1 day", seconds: 86_400 },
  { words: "7 days", seconds: 604_800 },
];
