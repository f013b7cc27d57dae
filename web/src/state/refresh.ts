/** Fetches what is due and puts it into the store. One round at a time; a round never overtakes another. */

import { batch, type Signal } from "@preact/signals";
import type { CommunicatorDetail, CommunicatorSummary, Finding, HostSummary, Job, Primitives, Rings, Series } from "../api";
import { isDue, type Resource, type Want } from "../pure/due";
import { append, sample } from "../pure/series";
import { all, find, Refused } from "./client";
import * as store from "./store";

const RESOURCES: Resource[] = ["lists", "findings", "communicator", "rings", "series"];
const wants = new Map<Resource, Want>();
/** What the wants of the communicator were for: another one makes them all due. */
let fetchedFor: string | undefined;
let fetchedJob: string | undefined;

export function markDirty(resources: Resource[] = RESOURCES): void {
  for (const resource of resources) wants.set(resource, { ...wants.get(resource), dirty: true });
}

/** Makes something due at once, e.g. because another time span was chosen. */
export function forget(resource: Resource): void {
  wants.set(resource, { dirty: true });
}

/** Fetches what is due. Throws if the daemon cannot be reached; what it refuses is put into the store. */
export async function refreshDue(): Promise<void> {
  if (store.jobId.value !== fetchedJob) forget("lists");
  const due = RESOURCES.filter((resource) => {
    if (store.communicatorId.value !== fetchedFor && resource !== "lists" && resource !== "findings") return true;
    const want = wants.get(resource) ?? { dirty: true };
    return isDue(resource, want, store.communicator.value?.n_ranks ?? 0, Date.now());
  });
  if (due.length === 0) return;
  const nowMs = Date.now();
  for (const resource of due) wants.set(resource, { fetchedMs: nowMs, dirty: false });
  if (due.includes("lists")) await allowed("lists", lists());
  if (due.includes("findings")) await allowed("findings", findings());
  const id = store.communicatorId.value;
  if (id !== undefined) {
    // The lists may just have chosen another communicator than `due` was made for.
    const rest = id === fetchedFor ? due : RESOURCES;
    fetchedFor = id;
    await Promise.all([
      rest.includes("communicator") && allowed("communicator", ranksAndBytes(id)),
      rest.includes("rings") && allowed("rings", rings(id)),
      rest.includes("series") && allowed("series", series(id)),
    ]);
  }
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
  const [jobs, hosts] = await Promise.all([all<Job>("jobs"), all<HostSummary>("nodes")]);
  batch(() => {
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

async function ranksAndBytes(id: string): Promise<void> {
  const path = `communicators/${encodeURIComponent(id)}`;
  const [detail, primitives] = await Promise.all([find<CommunicatorDetail>(path), find<Primitives>(`${path}/primitives`)]);
  if (store.communicatorId.value !== id) return;
  batch(() => {
    if (store.primitives.value?.id !== id) store.samples.value = [];
    put(store.detail, detail);
    put(store.primitives, primitives);
    if (primitives) store.samples.value = append(store.samples.value, sample(primitives.primitives, store.nowMs.value));
  });
}

async function rings(id: string): Promise<void> {
  const rings = await find<Rings>(`communicators/${encodeURIComponent(id)}/rings`);
  if (store.communicatorId.value === id) put(store.rings, rings);
}

/** Points across the chart: as many as a screen column can tell apart. */
const MAX_POINTS = 150;

async function series(id: string): Promise<void> {
  const spanS = store.windowS.value;
  const to = new Date(store.chartEndMs.value);
  const from = new Date(to.getTime() - spanS * 1000);
  const query = (metric: string) =>
    `series?metric=${metric}&comm=${encodeURIComponent(id)}&from=${from.toISOString()}&to=${to.toISOString()}` +
    `&step=${Math.max(1, Math.round(spanS / MAX_POINTS))}s&rate=true`;
  const [completed, issued] = await Promise.all([
    find<Series>(query("completed_bytes")),
    find<Series>(query("issued_bytes")),
  ]);
  if (store.communicatorId.value === id && store.windowS.value === spanS) put(store.history, { completed, issued });
}

/** Equal answers leave the old object in place, so that nothing is drawn again for them. */
function put<T>(target: Signal<T>, value: T): void {
  if (JSON.stringify(target.peek()) !== JSON.stringify(value)) target.value = value;
}
