/** What every page shares, as signals: the address, the clock, the lists, and how the daemon says that things stand. */

import { computed, signal } from "@preact/signals";
import type { CommunicatorDetail, CommunicatorSummary, Finding, Health, HostSummary, Incident, Job } from "../api";
import { byUrgency, byWeight } from "../pure/choose";
import { inTrouble } from "../pure/condition";
import type { Fault } from "../pure/fault";
import { suspects, worstIncidentsFirst } from "../pure/incidents";
import { shortNames } from "../pure/host-names";
import { distinctNames } from "../pure/names";
import { positions } from "../pure/positions";
import { atOf } from "../pure/past";
import { resolve } from "../pure/range";
import { format, parse, type Place, type Span } from "../pure/route";
import { answeredMs, list, resource } from "./api";
import { clockOffsetMs, type List } from "./client";

export type Connection =
  | { state: "connecting" }
  | { state: "live" }
  /** `fault`: why; `nextTryMs`: when the daemon is asked again. */
  | { state: "away"; fault: Fault; nextTryMs: number };

export const connection = signal<Connection>({ state: "connecting" });
/** When its events were last heard, on this browser's clock. */
export const eventMs = signal<number | null>(null);
/** When the daemon was last heard at all: something may come between before the first event. */
export const heardMs = computed(() => eventMs.value ?? answeredMs.value);

/** Ticks once a second. */
export const browserNowMs = signal(Date.now());
export const nowMs = computed(() => browserNowMs.value + clockOffsetMs.value);

export const route = signal(parse(location.hash));
addEventListener("hashchange", () => {
  route.value = parse(location.hash);
});
/** The moment of the past that is looked at; undefined: now. */
export const atMs = computed(() => atOf(route.value, nowMs.value));
/** The address of another place, within the time range and at the moment that is looked at. */
export function link(place: Place & Span): string {
  const { from, to, at } = route.value;
  return format({ from, to, at, ...place });
}
/** Goes there without an entry in the browser's history: for filters that change with every key. */
export function replace(place: Place & Span): void {
  history.replaceState(null, "", link(place));
  route.value = parse(location.hash);
}

/** By whole seconds. */
export const range = computed(() => resolve(route.value, nowMs.value));

const none: List<never> = { items: [], more: false };
const healthAnswer = resource<Health>("health", { on: "health" });
const incidentsAnswer = list<Incident>("incidents?state=firing", { on: "incidents" });
const jobsAnswer = list<Job>("jobs", { on: "lists" });
const hostsAnswer = list<HostSummary>("nodes", { on: "hosts" });
const firingAnswer = list<Finding>("findings?state=firing", { on: "findings" });
const core = computed(() => [healthAnswer, incidentsAnswer, jobsAnswer, hostsAnswer, firingAnswer].map((one) => one.value));
/** Whether all has been fetched that the page is made of: before, nothing is known, not even that there is nothing. */
export const loaded = computed(() => core.value.every((one) => one.value !== undefined));
/** Why it cannot be: the first of what is missing. */
export const unreadable = computed((): Fault | undefined => {
  if (loaded.value) return undefined;
  const { value } = connection;
  if (value.state === "away") return value.fault;
  const bad = core.value.find((one) => one.value === undefined && (one.fault !== undefined || one.missing));
  return bad === undefined ? undefined : (bad.fault ?? OTHER_VERSION);
});
const OTHER_VERSION: Fault = {
  kind: "refused",
  status: 404,
  words: "Status 404 Not Found: this daemon does not know what the page asks for.",
  advice: "The page is of another version than the daemon: reload it.",
};
/** Since when the sentence above the page is old, on this browser's clock. Absent: it is not. */
export const staleMs = computed((): number | undefined => {
  if (connection.value.state === "away") return heardMs.value ?? undefined;
  const { fault, atMs } = healthAnswer.value;
  return fault === undefined ? undefined : atMs;
});

export const health = computed(() => healthAnswer.value.value);
/** Open, worst first. */
export const incidents = computed(() => worstIncidentsFirst(incidentsAnswer.value.value?.items ?? []));
export const jobs = computed(() => jobsAnswer.value.value ?? none as List<Job>);
export const hosts = computed(() => hostsAnswer.value.value ?? none as List<HostSummary>);
/** Names of every host known; made anew only where there are others. */
const allHosts = computed(() => [...new Set([...hosts.value.items.map(({ host }) => host), ...jobs.value.items.flatMap((one) => one.hosts)])].sort().join("\n"));
/** What lists call them, by whole name. */
export const hostNames = computed((): ReadonlyMap<string, string> => shortNames(allHosts.value === "" ? [] : allHosts.value.split("\n")));
export function shortHost(host: string): string {
  return hostNames.value.get(host) ?? host;
}
export const firing = computed(() => firingAnswer.value.value ?? none as List<Finding>);

export const sortedJobs = computed(() => [...jobs.value.items].sort(byUrgency));
/** The job that the address is about, else the most urgent one. */
export const jobId = computed((): string | undefined => {
  const at = route.value;
  if (at.page === "job") return at.job;
  if (at.page === "communicator") return watched.value?.job;
  const incident = at.page === "incident" ? incidents.value.find((one) => one.id === at.incident) : undefined;
  if (incident !== undefined && incident.job !== "") return incident.job;
  return sortedJobs.value[0]?.id;
});
export const job = computed(() => jobs.value.items.find((one) => one.id === jobId.value));

/** Of that job, the one to look at first in front. */
const communicatorsAnswer = computed(() => {
  const id = jobId.value;
  return id === undefined ? undefined : list<CommunicatorSummary>(`communicators?job=${encodeURIComponent(id)}`, { on: "lists" }).value;
});
export const communicators = computed(() => communicatorsAnswer.value?.value ?? (none as List<CommunicatorSummary>));
/** Whether the daemon has said which there are. */
export const communicatorsKnown = computed(() => communicatorsAnswer.value?.value !== undefined);
export const sortedCommunicators = computed(() => [...communicators.value.items].sort(byWeight));
/** Names by id, of the communicators of that job. */
export const communicatorNames = computed(() => distinctNames(communicators.value.items));

/** The communicator that the address is about. */
export const communicatorId = computed((): string | undefined => (route.value.page === "communicator" ? route.value.comm : undefined));
export const watchedAnswer = computed(() => {
  const id = communicatorId.value;
  return id === undefined ? undefined : resource<CommunicatorDetail>(`communicators/${encodeURIComponent(id)}`, { on: id }).value;
});
export const watched = computed(() => watchedAnswer.value?.value);
export const ranks = computed(() => watched.value?.ranks ?? []);
/** Where they stand against each other, for who reads the table: facts, no judgement. */
export const rankPositions = computed(() => positions(ranks.value));
/** Open incidents in the communicator on the screen. */
export const watchedIncidents = computed(() => incidents.value.filter((one) => one.comm !== "" && one.comm === watched.value?.id));
/** Ranks of it that the others wait for, or that differ, as the daemon says. */
export const accusedRanks = computed((): ReadonlySet<number> =>
  new Set(watchedIncidents.value.flatMap((one) => one.culprits).flatMap(({ rank }) => (rank === undefined ? [] : [rank]))));

/** Hosts to mark: not those that only wait for others that are named. */
export const hostsInTrouble = computed(() => new Set(hosts.value.items.filter(({ standing }) => inTrouble(standing) && !standing.waits).map((host) => host.host)));
/** Hosts to look at, worst first. */
export const suspectHosts = computed(() => suspects(incidents.value, hosts.value.items));
