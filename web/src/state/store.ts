/** What every page shares, as signals: the address, the clock, the lists, and the sentence made of them. */

import { computed, signal } from "@preact/signals";
import type { CommunicatorDetail, CommunicatorSummary, Finding, HostSummary, Job } from "../api";
import { byUrgency, byWeight } from "../pure/choose";
import { health } from "../pure/health";
import { distinctNames } from "../pure/names";
import { progress, type Trouble } from "../pure/progress";
import { resolve } from "../pure/range";
import { format, parse, type Place, type Span } from "../pure/route";
import { list, resource } from "./api";
import { clockOffsetMs, type List } from "./client";

export type Connection =
  | { state: "connecting" }
  | { state: "live" }
  /** `nextTryMs`: when the daemon is asked again. */
  | { state: "away"; nextTryMs: number };

export const connection = signal<Connection>({ state: "connecting" });
/** When the daemon was last heard, on this browser's clock. */
export const heardMs = signal<number | null>(null);

/** Ticks once a second. */
export const browserNowMs = signal(Date.now());
export const nowMs = computed(() => browserNowMs.value + clockOffsetMs.value);

export const route = signal(parse(location.hash));
addEventListener("hashchange", () => {
  route.value = parse(location.hash);
});
/** The address of another place, within the time range that is looked at. */
export function link(place: Place & Span): string {
  const { from, to } = route.value;
  return format({ from, to, ...place });
}
/** Goes there without an entry in the browser's history: for filters that change with every key. */
export function replace(place: Place & Span): void {
  history.replaceState(null, "", link(place));
  route.value = parse(location.hash);
}

/** By whole seconds. */
export const range = computed(() => resolve(route.value, nowMs.value));

const none: List<never> = { items: [], more: false };
const jobsAnswer = list<Job>("jobs", { on: "lists" });
const hostsAnswer = list<HostSummary>("nodes", { on: "hosts" });
const firingAnswer = list<Finding>("findings?state=firing", { on: "findings" });
/** Whether the lists have been fetched at all: before, nothing is known, not even that there is nothing. */
export const loaded = computed(() => [jobsAnswer, hostsAnswer, firingAnswer].every((one) => one.value.value !== undefined || one.value.refused !== undefined));
export const jobs = computed(() => jobsAnswer.value.value ?? none as List<Job>);
export const hosts = computed(() => hostsAnswer.value.value ?? none as List<HostSummary>);
export const firing = computed(() => firingAnswer.value.value ?? none as List<Finding>);

export const sortedJobs = computed(() => [...jobs.value.items].sort(byUrgency));
/** The job that the address is about, else the most urgent one. */
export const jobId = computed((): string | undefined => {
  const at = route.value;
  if (at.page === "job") return at.job;
  if (at.page === "communicator") return watched.value?.job;
  return sortedJobs.value[0]?.id;
});
export const job = computed(() => jobs.value.items.find((one) => one.id === jobId.value));

/** Of that job, the one to look at first in front. */
export const communicators = computed(() => {
  const id = jobId.value;
  if (id === undefined) return none as List<CommunicatorSummary>;
  return list<CommunicatorSummary>(`communicators?job=${encodeURIComponent(id)}`, { on: "lists" }).value.value ?? (none as List<CommunicatorSummary>);
});
export const sortedCommunicators = computed(() => [...communicators.value.items].sort(byWeight));
/** Names by id, of the communicators of that job. */
export const communicatorNames = computed(() => distinctNames(communicators.value.items));

/** The communicator that the address is about, else the first of the most urgent job: where waiting ranks are looked for. */
export const communicatorId = computed((): string | undefined => {
  const at = route.value;
  return at.page === "communicator" ? at.comm : sortedCommunicators.value[0]?.id;
});
export const watchedAnswer = computed(() => {
  const id = communicatorId.value;
  return id === undefined ? undefined : resource<CommunicatorDetail>(`communicators/${encodeURIComponent(id)}`, { on: id }).value;
});
export const watched = computed(() => watchedAnswer.value?.value);
export const ranks = computed(() => watched.value?.ranks ?? []);
export const ranksProgress = computed(() => progress(ranks.value));

export const degradedHosts = computed(
  () => new Map(hosts.value.items.filter((host) => host.degraded).map((host) => [host.host, host])),
);
/** By whole ten seconds: the sentence must not be read out anew every second. */
const calmNowMs = computed(() => Math.floor(nowMs.value / 10_000) * 10_000);
/** Kept by its text, so that the sentence above the page changes only when its words do. */
const trouble = computed<Trouble | undefined>((): Trouble | undefined => {
  const next = ranksProgress.value.trouble;
  const last = troubleSeen;
  troubleSeen = last !== undefined && next?.words === last.words ? last : next;
  return troubleSeen;
});
let troubleSeen: Trouble | undefined;
/** Killed ranks of the communicator on the screen, by host. */
export const killedByHost = computed(() => {
  const byHost = new Map<string, number[]>();
  for (const rank of ranks.value) {
    if (rank.state === "killed") byHost.set(rank.host, [...(byHost.get(rank.host) ?? []), rank.rank]);
  }
  return byHost;
});
/** Ranks of it that live, and that the others wait for, by host. */
export const lateByHost = computed(() => {
  const byHost = new Map<string, number[]>();
  for (const rank of ranks.value) {
    if (rank.state === "killed" || !ranksProgress.value.behind.has(rank.rank)) continue;
    byHost.set(rank.host, [...(byHost.get(rank.host) ?? []), rank.rank]);
  }
  return byHost;
});
export const headline = computed(() =>
  health(jobs.value.items, hosts.value.items, firing.value.items, trouble.value, calmNowMs.value, ranksProgress.value.end),
);
