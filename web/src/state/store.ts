/** Everything the page shows, as signals. Written by `refresh` and `live`, read by the views. */

import { computed, signal } from "@preact/signals";
import type {
  CommunicatorDetail, CommunicatorSummary, Finding, HostDetail, HostSummary, Job, Primitives, Rank, Ring, Rings, Series,
} from "../api";
import type { Resource } from "../pure/due";
import { byUrgency, byWeight } from "../pure/choose";
import { health } from "../pure/health";
import { progress, type Trouble } from "../pure/progress";
import { parse } from "../pure/route";
import type { Sample } from "../pure/series";
import { clockOffsetMs, type List } from "./client";

export type Connection =
  | { state: "connecting" }
  | { state: "live" }
  /** `nextTryMs`: when the daemon is asked again. */
  | { state: "away"; nextTryMs: number };

export const connection = signal<Connection>({ state: "connecting" });
/** When the daemon was last heard, on this browser's clock. */
export const heardMs = signal<number | null>(null);
/** What the daemon refuses at the moment, in its words. */
export const refused = signal<Partial<Record<Resource, string | undefined>>>({});

/** Ticks once a second. */
export const browserNowMs = signal(Date.now());
export const nowMs = computed(() => browserNowMs.value + clockOffsetMs.value);

const none = <T>(): List<T> => ({ items: [], more: false });

/** Whether the lists have been fetched at all: before, nothing is known, not even that there is nothing. */
export const loaded = signal(false);
export const jobs = signal<List<Job>>(none());
export const hosts = signal<List<HostSummary>>(none());
export const communicators = signal<List<CommunicatorSummary>>(none());
export const firing = signal<List<Finding>>(none());
export const resolved = signal<List<Finding>>(none());

/** Of the host that the address names. */
export const hostDetail = signal<HostDetail | null>(null);

/**
 * Communicator whose objects are below. It follows `communicatorId` when all of them have come, so that the old picture
 * stays until the new one is whole.
 */
export const shownId = signal<string | undefined>(undefined);
/** Of that communicator; null: not known to the daemon. */
export const detail = signal<CommunicatorDetail | null>(null);
export const rings = signal<Rings | null>(null);
export const primitives = signal<Primitives | null>(null);
export const history = signal<{ completed: Series | null; issued: Series | null }>({ completed: null, issued: null });
export const samples = signal<Sample[]>([]);

/** Seconds that the chart spans. */
export const windowS = signal(300);

export const route = signal(parse(location.hash));
addEventListener("hashchange", () => {
  route.value = parse(location.hash);
});

export const sortedJobs = computed(() => [...jobs.value.items].sort(byUrgency));
export const job = computed(() => {
  const named = route.value.job;
  return named === undefined ? sortedJobs.value[0] : sortedJobs.value.find((one) => one.id === named);
});
export const jobId = computed(() => job.value?.id);

export const sortedCommunicators = computed(() =>
  communicators.value.items.filter((one) => one.job === jobId.value).sort(byWeight),
);
/** The one to show: as the address says, else the first by weight. */
export const communicatorId = computed(() => route.value.communicator ?? sortedCommunicators.value[0]?.id);
export const communicator = computed<CommunicatorSummary | undefined>(() =>
  detail.value !== null && detail.value.id === shownId.value
    ? detail.value
    : sortedCommunicators.value.find((one) => one.id === shownId.value),
);

/** Names by id, of the communicators of the job on the screen. */
export const communicatorNames = computed(() => new Map(communicators.value.items.map((one) => [one.id, one.name ?? one.id])));

/** Where the chart ends: now, or when the communicator did. */
export const chartEndMs = computed(() => {
  const ended = communicator.value?.ended;
  return ended === undefined ? nowMs.value : Date.parse(ended);
});
/** Shortest time that the chart spans. */
const MIN_SPAN_MS = 30_000;
/** Where it begins: a communicator younger than the time chosen fills the chart all the same. */
export const chartFromMs = computed(() => {
  const endMs = chartEndMs.value;
  const made = Date.parse(communicator.value?.created ?? "");
  const earliest = Math.min(Number.isNaN(made) ? 0 : made, endMs - MIN_SPAN_MS);
  return Math.max(endMs - windowS.value * 1000, earliest);
});

export const shownRings = computed(() => (rings.value?.id === shownId.value ? rings.value : null));
export const ring = computed<Ring | undefined>(() => {
  const all = shownRings.value?.rings ?? [];
  const channel = route.value.channel;
  return all.find((one) => one.channel === channel) ?? (channel === undefined ? all[0] : undefined);
});
export const ranks = computed<Rank[]>(() =>
  detail.value !== null && detail.value.id === shownId.value ? detail.value.ranks : [],
);
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
