/**
 * What the daemon says under a path, kept current while somebody looks at it. Every path is asked for once, however many
 * parts of the page show it; an answer stays while its successor is asked for.
 */

import { batch, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { Changed, Page } from "../api";
import { isDue, touches, type Topic, type Want } from "../pure/due";
import { away, distinct, type Fault } from "../pure/fault";
import { Failed, read, readAll, type List, type Read } from "./client";

export interface Answer<T> {
  /** Undefined: not known yet, refused, or missing. */
  value: T | undefined;
  /** Why there is no newer answer; the last value stays beside it. */
  fault?: Fault | undefined;
  /** The same in words. */
  refused?: string | undefined;
  /** With a fault: when the value beside it came, on this browser's clock. */
  atMs?: number | undefined;
  /** The daemon knows no such thing. */
  missing: boolean;
}

export interface Options {
  /** What changes it: "lists", "health", "incidents", "findings", "hosts", "summation", a communicator's id, or "never". */
  on: Topic;
  /** Without any change, ask this often. */
  everyMs?: number;
}

interface Entry {
  path: string;
  on: Topic;
  everyMs: number | undefined;
  answer: Signal<Answer<unknown>>;
  watched: boolean;
  asking: boolean;
  want: Want;
  /** When the last good answer came. */
  goodMs?: number;
  /** Asks; true if the answer differs from the last. */
  ask: () => Promise<unknown>;
}

/** Whether what was answered stays as it is: somebody looks at a moment of the past. */
export const paused = signal(false);

/** Answers nobody looks at any more, kept so that going back shows something at once. */
const MAX_IDLE = 40;

const entries = new Map<string, Entry>();
/** What `useApi` says of no path at all. */
const NOTHING: Answer<never> = { value: undefined, missing: false };

/** Looks at `path` below `/api/v1/`; undefined: at nothing. While an answer for another time range is asked for, the old one stays. */
export function useApi<T>(path: string | undefined, options: Options): Answer<T> {
  const answer = path === undefined ? (NOTHING as Answer<T>) : resource<T>(path, options).value;
  const last = useRef<{ key: string; answer: Answer<T> } | null>(null);
  const key = timeless(path);
  if (answer.value === undefined && !answer.missing && answer.refused === undefined && last.current?.key === key) return last.current.answer;
  last.current = { key, answer };
  return answer;
}

/** As `useApi`, for lists: with every page, as far as the page shows them. */
export function useList<T>(path: string | undefined, options: Options): Answer<List<T>> {
  return path === undefined ? (NOTHING as Answer<List<T>>) : list<T>(path, options).value;
}

export function resource<T>(path: string, options: Options): ReadonlySignal<Answer<T>> {
  let last: Read<T> | undefined;
  const made = entry(path, options, async (want) => {
    last = await read<T>(path, last);
    want.size = last.text.length;
    return last.value;
  });
  return made.answer as Signal<Answer<T>>;
}

export function list<T>(path: string, options: Options): ReadonlySignal<Answer<List<T>>> {
  let pages: Read<Page<T>>[] = [];
  let value: List<T> | undefined;
  const made = entry(`all ${path}`, options, async (want) => {
    const next = await readAll<T>(path, pages);
    if (value === undefined || next.length !== pages.length || next.some((page, i) => page !== pages[i])) {
      value = { items: next.flatMap((page) => page.value.items), more: next.at(-1)?.value.next_cursor != null };
    }
    pages = next;
    want.size = next.reduce((sum, page) => sum + page.text.length, 0);
    return value;
  });
  return made.answer as Signal<Answer<List<T>>>;
}

function entry(path: string, { on, everyMs }: Options, ask: (want: Want) => Promise<unknown>): Entry {
  const known = entries.get(path);
  if (known !== undefined) return known;
  const want: Want = { dirty: true, size: 0 };
  const made: Entry = {
    path, on, everyMs, watched: false, asking: false, want,
    ask: () => ask(want),
    answer: signal<Answer<unknown>>(NOTHING, {
      watched() {
        made.watched = true;
        queueMicrotask(() => void wake());
      },
      unwatched() {
        made.watched = false;
        forgetIdle();
      },
    }),
  };
  entries.set(path, made);
  return made;
}

function forgetIdle(): void {
  const idle = [...entries.values()].filter((one) => !one.watched);
  for (const one of idle.slice(0, Math.max(0, idle.length - MAX_IDLE))) entries.delete(one.path);
}

let wake: () => Promise<void> = async () => {};
/** `live` says how to ask at once for what has just come on the screen. */
export function onWatched(refresh: () => Promise<void>): void {
  wake = refresh;
}

/** Everything may have changed, or what an event names. */
export function markDirty(changed?: Changed): void {
  for (const { on, want } of entries.values()) if (changed === undefined || touches(on, changed)) want.dirty = true;
}

/** Asks for what is due. Throws if nobody answers; what is refused, or answered by somebody else, is put beside the last answer. */
export async function refreshDue(): Promise<void> {
  const nowMs = Date.now();
  const isAsked = (one: Entry) => one.watched && !one.asking && !(paused.peek() && one.goodMs !== undefined);
  const due = [...entries.values()].filter((one) => isAsked(one) && isDue(one.on, one.want, nowMs, one.everyMs));
  // The headline is made of these: one of them old would contradict the others for a moment.
  const together = due.filter((one) => SUMMARY.has(one.on));
  for (const one of entries.values()) {
    if (together.length > 0 && isAsked(one) && one.want.dirty && SUMMARY.has(one.on) && !due.includes(one)) together.push(one);
  }
  const alone = due.filter((one) => !SUMMARY.has(one.on));
  await Promise.all([round(together), ...alone.map((one) => round([one]))]);
}
const SUMMARY = new Set<Topic>(["health", "incidents", "lists", "hosts", "findings"]);

async function round(asked: Entry[]): Promise<void> {
  if (asked.length === 0) return;
  for (const one of asked) {
    one.asking = true;
    one.want.fetchedMs = Date.now();
    one.want.dirty = false;
  }
  const outcomes = await Promise.all(asked.map(answerOf));
  const startMs = performance.now();
  batch(() => {
    asked.forEach((one, i) => put(one, outcomes[i]!));
    noteFaults();
  });
  // What the answers change is drawn in a task or a microtask of its own: the measure ends behind it.
  setTimeout(() => performance.measure("ringscope-update", { start: startMs, end: performance.now() }));
  const lost = outcomes.find((one) => "lost" in one);
  if (lost !== undefined && "lost" in lost) throw lost.lost;
}

type Outcome = { value: unknown } | { fault: Fault } | { missing: true } | { lost: unknown };

async function answerOf(one: Entry): Promise<Outcome> {
  try {
    return { value: await one.ask() };
  } catch (error) {
    const fault = error instanceof Failed ? error.fault : away();
    if (fault.kind === "away") return { lost: error };
    return fault.kind === "refused" && fault.status === 404 ? { missing: true } : { fault };
  } finally {
    one.asking = false;
  }
}

/** Equal answers leave the old object in place, so that nothing is drawn again for them. */
function put(one: Entry, outcome: Outcome): void {
  const last = one.answer.peek();
  if ("value" in outcome) {
    one.goodMs = answeredMs.value = Date.now();
    one.want.failures = 0;
    if (outcome.value !== last.value || last.fault !== undefined || last.missing) one.answer.value = { value: outcome.value, missing: false };
  } else if ("missing" in outcome) {
    one.want.failures = 0;
    if (!last.missing) one.answer.value = { value: undefined, missing: true };
  } else {
    one.want.dirty = true;
    if ("fault" in outcome) {
      one.want.failures = (one.want.failures ?? 0) + 1;
      if (last.fault?.words !== outcome.fault.words) {
        one.answer.value = { value: last.value, missing: false, fault: outcome.fault, refused: outcome.fault.words, atMs: one.goodMs };
      }
    }
  }
}

/** What is wrong with the answers that the screen shows, and the age of the oldest of them. */
export interface Faults {
  faults: Fault[];
  /** When the oldest value beside a fault came. Absent: there is none. */
  oldestMs?: number | undefined;
}

/** When the daemon last gave an answer of its own, on this browser's clock. */
export const answeredMs = signal<number | null>(null);

export const faulty = signal<Faults>({ faults: [] });

function noteFaults(): void {
  const bad = [...entries.values()].filter((one) => one.watched).map((one) => one.answer.peek()).filter((one) => one.fault !== undefined);
  const faults = distinct(bad.map((one) => one.fault!));
  const times = bad.flatMap((one) => (one.value !== undefined && one.atMs !== undefined ? [one.atMs] : []));
  const oldestMs = times.length === 0 ? undefined : Math.min(...times);
  const last = faulty.peek();
  const key = (all: Fault[]) => all.map((one) => one.words).join("\n");
  if (key(faults) !== key(last.faults) || oldestMs !== last.oldestMs) faulty.value = { faults, oldestMs };
}

/** Without what names the time range. */
function timeless(path: string | undefined): string {
  return path === undefined ? "" : path.replace(/([?&])(?:from|to|step)=[^&]*/g, "$1");
}
