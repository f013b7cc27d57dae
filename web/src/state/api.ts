/**
 * What the daemon says under a path, kept current while somebody looks at it. Every path is asked for once, however many
 * parts of the page show it; an answer stays while its successor is asked for.
 */

import { batch, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { Changed, Page } from "../api";
import { isDue, touches, type Topic, type Want } from "../pure/due";
import { read, readAll, Refused, type List, type Read } from "./client";

export interface Answer<T> {
  /** Undefined: not known yet, refused, or missing. */
  value: T | undefined;
  /** What the daemon refused, in its words; the last value stays beside it. */
  refused?: string | undefined;
  /** The daemon knows no such thing. */
  missing: boolean;
}

export interface Options {
  /** What changes it: "lists", "findings", "hosts", "summation", a communicator's id, or "never". */
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
  /** Asks; true if the answer differs from the last. */
  ask: () => Promise<unknown>;
}

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

/** Asks for what is due. Throws if the daemon cannot be reached; what it refuses is put beside the answer. */
export async function refreshDue(): Promise<void> {
  const nowMs = Date.now();
  const due = [...entries.values()].filter((one) => one.watched && !one.asking && isDue(one.on, one.want, nowMs, one.everyMs));
  // The headline is made of these: one of them old would contradict the others for a moment.
  const together = due.filter((one) => SUMMARY.has(one.on));
  for (const one of entries.values()) {
    if (together.length > 0 && one.watched && !one.asking && one.want.dirty && SUMMARY.has(one.on) && !due.includes(one)) together.push(one);
  }
  const alone = due.filter((one) => !SUMMARY.has(one.on));
  await Promise.all([round(together), ...alone.map((one) => round([one]))]);
}
const SUMMARY = new Set<Topic>(["lists", "hosts", "findings"]);

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
    noteRefusals();
  });
  // What the answers change is drawn in a task or a microtask of its own: the measure ends behind it.
  setTimeout(() => performance.measure("ringscope-update", { start: startMs, end: performance.now() }));
  const lost = outcomes.find((one) => "lost" in one);
  if (lost !== undefined && "lost" in lost) throw lost.lost;
}

type Outcome = { value: unknown } | { refused: string } | { missing: true } | { lost: unknown };

async function answerOf(one: Entry): Promise<Outcome> {
  try {
    return { value: await one.ask() };
  } catch (error) {
    if (error instanceof Refused) return error.status === 404 ? { missing: true } : { refused: error.message };
    return { lost: error };
  } finally {
    one.asking = false;
  }
}

/** Equal answers leave the old object in place, so that nothing is drawn again for them. */
function put(one: Entry, outcome: Outcome): void {
  const last = one.answer.peek();
  if ("value" in outcome) {
    if (outcome.value !== last.value || last.refused !== undefined) one.answer.value = { value: outcome.value, missing: false };
  } else if ("missing" in outcome) {
    if (!last.missing) one.answer.value = { value: undefined, missing: true };
  } else {
    one.want.dirty = true;
    if ("refused" in outcome && last.refused !== outcome.refused) {
      one.answer.value = { value: last.value, missing: false, refused: outcome.refused };
    }
  }
}

/** What the daemon refuses at the moment of what is on the screen, in its words. */
export const refused = signal<string[]>([]);

function noteRefusals(): void {
  const words = [...entries.values()].filter((one) => one.watched).map((one) => one.answer.peek().refused);
  const distinct = [...new Set(words.filter((one) => one !== undefined))];
  if (distinct.join() !== refused.peek().join()) refused.value = distinct;
}

/** Without what names the time range. */
function timeless(path: string | undefined): string {
  return path === undefined ? "" : path.replace(/([?&])(?:from|to|step)=[^&]*/g, "$1");
}
