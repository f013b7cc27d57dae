/** Fetches what is due and puts it into the store. One round at a time; a round never overtakes another. */

import { batch, type Signal } from "@preact/signals";
import type { CommunicatorDetail, CommunicatorSummary, Finding, HostDetail, HostSummary, Job, Primitives, Rings, Series } from "../api";
import { isDue, type Resource, type Want } from "../pure/due";
import { append, sample } from "../pure/series";
import { all, clockOffsetMs, find, Refused } from "./client";
import * as store from "./store";

const RESOURCES: Resource[] = ["lists", "findings", "communicator", "rings", "series"];
const wants = new Map<Resource, Want>();
/** What the wants of the communicator were for: another one makes them all due. */
let fetchedFor: string | undefined;
let fetchedJob: string | undefined;
let fetchedHost: string | undefined;

export function markDirty(resources: Resource[] = RESOURCES): void {
  for (const resource of resources) wants.set(resource, { ...wants.get(resource), dirty: true });
}

/** Makes something due at once, e.g. because another time span was chosen. */
export function forget(resource: Resource): void {
  wants.set(resource, { dirty: true });
}

/** Fetches what is due. Throws if the daemon cannot be reached; what it refuses is put into the store. */
export async function refreshDue(): Promise<void> {
  if (store.jobId.value !== fetchedJob || store.route.value.host !== fetchedHost) forget("lists");
  const due = RESOURCES.filter((resource) => {
    if (store.communicatorId.value !== fetchedFor && resource !== "lists" && resource !== "findings") return true;
    const want = wants.get(resource) ?? { dirty: true };
    return isDue(resource, want, store.communicator.value?.n_ranks ?? 0, Date.now());
  });
  if (due.length === 0) return;
  // The headline is made of both: one of them old would contradict the other for a moment.
  for (const [one, other] of [["lists", "findings"], ["findings", "lists"]] as const) {
    if (due.includes(one) && !due.includes(other) && wants.get(other)?.dirty) due.push(other);
  }
  const nowMs = Date.now();
  for (const resource of due) wants.set(resource, { fetchedMs: nowMs, dirty: false });
  if (due.includes("lists")) await allowed("lists", lists());
  if (due.includes("findings")) await allowed("findings", findings());
  const id = store.communicatorId.value;
  if (id !== undefined) {
    // The lists may just have chosen another communicator than `due` was made for.
    const rest = id === fetchedFor ? due : RESOURCES;
    fetchedFor = id;
    if (store.shownId.value !== id) {
      if (rest.includes("communicator")) await allowed("communicator", show(id));
      if (store.shownId.value === id) await allowed("series", series(id));
      return;
    }
    await Promise.all([
      rest.includes("communicator") && allowed("communicator", ranksAndBytes(id)),
      rest.includes("rings") && allowed("rings", rings(id)),
      rest.includes("series") && allowed("series", series(id)),
    ]);
  } else store.shownId.value = undefined;
}

/** What the daemon refuses stays refused on the screen until it is given; the rest goes on. */
async function allowed(resource: Resource, asked: Promise<void>): Promise<void> {
  let words: string | undefined;
  try {
    await asked;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    words = error.message;
    markDirty([resource]);
  }
  if (store.refused.value[resource] !== words) store.refused.value = { ...store.refused.value, [resource]: words };
}

async function lists(): Promise<void> {
  const host = store.route.value.host;
  const [jobs, hosts, hostDetail] = await Promise.all([
    all<Job>("jobs"),
    all<HostSummary>("nodes"),
    host === undefined ? null : find<HostDetail>(`nodes/${encodeURIComponent(host)}`),
  ]);
  fetchedHost = host;
  batch(() => {
    put(store.hostDetail, hostDetail);
    put(store.jobs, jobs);
    put(store.hosts, hosts);
  });
  const job = store.jobId.value;
  fetchedJob = job;
  const communicators = job === undefined
    ? { items: [], more: false }
    : await all<CommunicatorSummary>(`communicators?job=${encodeURIComponent(job)}`);
  batch(() => {
    put(store.communicators, communicators);
    store.loaded.value = true;
  });
}

async function findings(): Promise<void> {
  const [firing, resolved] = await Promise.all([
    all<Finding>("findings?state=firing"),
    all<Finding>("findings?state=resolved"),
  ]);
  batch(() => {
    put(store.firing, firing);
    put(store.resolved, resolved);
  });
}

/** Puts another communicator on the screen, in one step. */
async function show(id: string): Promise<void> {
  const [[detail, primitives], rings] = await Promise.all([askRanksAndBytes(id), askRings(id)]);
  if (store.communicatorId.value !== id) return;
  batch(() => {
    store.shownId.value = id;
    store.samples.value = [];
    put(store.history, { completed: null, issued: null });
    put(store.rings, rings);
    putRanksAndBytes(detail, primitives);
  });
}

async function ranksAndBytes(id: string): Promise<void> {
  const [detail, primitives] = await askRanksAndBytes(id);
  if (store.shownId.value === id) putRanksAndBytes(detail, primitives);
}

async function rings(id: string): Promise<void> {
  const rings = await askRings(id);
  if (store.shownId.value === id) put(store.rings, rings);
}

function askRanksAndBytes(id: string): Promise<[CommunicatorDetail | null, Primitives | null]> {
  const path = `communicators/${encodeURIComponent(id)}`;
  return Promise.all([find<CommunicatorDetail>(path), find<Primitives>(`${path}/primitives`)]);
}

function askRings(id: string): Promise<Rings | null> {
  return find<Rings>(`communicators/${encodeURIComponent(id)}/rings`);
}

function putRanksAndBytes(detail: CommunicatorDetail | null, primitives: Primitives | null): void {
  const nowMs = Date.now() + clockOffsetMs.value;
  batch(() => {
    put(store.detail, detail);
    put(store.primitives, primitives);
    if (primitives) store.samples.value = append(store.samples.value, sample(primitives.primitives, nowMs));
  });
}

/** Points across the chart: as many as a screen column can tell apart. */
const MAX_POINTS = 150;
/** Shorter than this a chart shows the steps of the training instead of its pace. */
const MIN_STEP_S = 5;
/** How far the store may lag behind the agents: until here only live samples are drawn. */
const SETTLING_MS = 2_000;

async function series(id: string): Promise<void> {
  const spanS = store.windowS.value;
  const stepS = Math.max(MIN_STEP_S, Math.round((store.chartEndMs.value - store.chartFromMs.value) / 1000 / MAX_POINTS));
  // A point is the mean of the step that it begins: one that is cut short would show a fall that never was.
  const stepMs = stepS * 1000;
  const settledMs = Math.min(store.chartEndMs.value, store.nowMs.value - SETTLING_MS);
  const to = new Date(Math.floor(settledMs / stepMs) * stepMs - 1);
  const from = new Date(Math.min(store.chartFromMs.value, to.getTime() - stepMs));
  const query = (metric: string) =>
    `series?metric=${metric}&comm=${encodeURIComponent(id)}&from=${from.toISOString()}&to=${to.toISOString()}` +
    `&step=${stepS}s&rate=true`;
  const [completed, issued] = await Promise.all([
    find<Series>(query("completed_bytes")),
    find<Series>(query("issued_bytes")),
  ]);
  if (store.shownId.value === id && store.windowS.value === spanS) put(store.history, { completed, issued });
}

/** Equal answers leave the old object in place, so that nothing is drawn again for them. */
function put<T>(target: Signal<T>, value: T): void {
  if (JSON.stringify(target.peek()) !== JSON.stringify(value)) target.value = value;
}
