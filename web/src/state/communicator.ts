/** The communicator that is on the screen, and what is measured of it. */

import { computed, effect, signal } from "@preact/signals";
import type { Primitives, Rings, Series } from "../api";
import { seriesQuery, stepS } from "../pure/range";
import type { CommunicatorRoute } from "../pure/route";
import { append, sample, settled, type Sample } from "../pure/series";
import { resource } from "./api";
import { nowMs, range, route, watched, watchedAnswer } from "./store";

/** What the address says of it. */
export const at = computed((): CommunicatorRoute => {
  const here = route.value;
  return here.page === "communicator" ? here : { page: "communicator", comm: watched.value?.id ?? "" };
});
export const shownId = computed(() => watched.value?.id);
export const missing = computed(() => watchedAnswer.value?.missing === true);

const below = <T>(what: string) =>
  computed(() => {
    const id = shownId.value;
    return id === undefined ? undefined : resource<T>(`communicators/${encodeURIComponent(id)}/${what}`, { on: id, ...EVERY[what] }).value.value;
  });
/** Rings hardly ever change while a communicator lives. */
const EVERY: Record<string, { everyMs: number }> = { rings: { everyMs: 30_000 } };
export const rings = below<Rings>("rings");
export const primitives = below<Primitives>("primitives");

export const ring = computed(() => {
  const all = rings.value?.rings ?? [];
  const { channel } = at.value;
  return all.find((one) => one.channel === channel) ?? (channel === undefined ? all[0] : undefined);
});

/** Shortest time that the chart spans. */
const MIN_SPAN_MS = 30_000;
/** Where the chart ends: with the range, or when the communicator did. */
export const chartEndMs = computed(() => {
  const ended = Date.parse(watched.value?.ended ?? "");
  return Number.isNaN(ended) ? range.value.toMs : Math.min(ended, range.value.toMs);
});
/** Where it begins: a communicator younger than the range fills the chart all the same. */
export const chartFromMs = computed(() => {
  const made = Date.parse(watched.value?.created ?? "");
  const earliest = Math.min(Number.isNaN(made) ? 0 : made, chartEndMs.value - MIN_SPAN_MS);
  return Math.max(Math.min(range.value.fromMs, chartEndMs.value - MIN_SPAN_MS), earliest);
});

/** Moves by whole steps, and so seldom. */
const query = computed(() => seriesQuery(route.value, nowMs.value));
const history = (metric: string) =>
  computed(() => {
    const id = shownId.value;
    if (id === undefined) return null;
    const path = `series?metric=${metric}&comm=${encodeURIComponent(id)}&${query.value}&rate=true`;
    const series = resource<Series>(path, { on: id, everyMs: Math.max(5_000, stepS(range.peek()) * 1000) }).value.value;
    return series === undefined ? null : settled(series, nowMs.peek());
  });
export const completed = history("completed_bytes");
export const issued = history("issued_bytes");

export const samples = signal<Sample[]>([]);
let sampled: string | undefined;
effect(() => {
  const now = primitives.value;
  if (route.value.page !== "communicator" || now === undefined) return;
  const before = sampled === now.id ? samples.peek() : [];
  sampled = now.id;
  samples.value = append(before, sample(now.primitives, nowMs.peek()));
});
