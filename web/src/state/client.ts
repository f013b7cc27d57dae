/** Asks the daemon. One place for addresses, pages and errors; nothing here keeps state but the daemon's clock. */

import { signal } from "@preact/signals";
import type { Page, Problem } from "../api";

export const API = "api/v1/";

/** Pages fetched of one list at most; what is beyond is said on the screen, not shown. */
const MAX_PAGES = 4;
const PAGE_LIMIT = 1000;
const TIMEOUT_MS = 10_000;

/** The daemon's clock minus this browser's, milliseconds. */
export const clockOffsetMs = signal(0);
/** `Date` has whole seconds: a smaller difference says nothing. */
const MIN_CLOCK_OFFSET_MS = 2_000;

/** The daemon answered, and said no. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    detail: string,
  ) {
    super(detail);
  }
}

/** The text of an answer. `no-cache`: the browser keeps it and asks with its ETag whether it still holds. */
async function text(path: string): Promise<string> {
  const response = await fetch(API + path, {
    headers: { accept: "application/json" },
    cache: "no-cache",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  noteClock(response.headers.get("date"));
  if (!response.ok) throw new Refused(response.status, await problemOf(response));
  return response.text();
}

export interface List<T> {
  items: T[];
  /** Whether there is more than was fetched. */
  more: boolean;
}

/** An answer as text, and what it says. */
export interface Read<T> {
  text: string;
  value: T;
}

/** Reads `path`; an answer equal to `last` is not parsed again. */
export async function read<T>(path: string, last?: Read<T>): Promise<Read<T>> {
  const now = await text(path);
  return last?.text === now ? last : { text: now, value: JSON.parse(now) as T };
}

/** Reads the pages of a list; those equal to `last` are not parsed again. */
export async function readAll<T>(path: string, last: Read<Page<T>>[] = []): Promise<Read<Page<T>>[]> {
  const pages: Read<Page<T>>[] = [];
  const join = path.includes("?") ? "&" : "?";
  let at = "";
  while (pages.length < MAX_PAGES) {
    const page = await read(`${path}${join}limit=${PAGE_LIMIT}${at}`, last[pages.length]);
    pages.push(page);
    const cursor = page.value.next_cursor;
    if (cursor == null) break;
    at = `&cursor=${encodeURIComponent(cursor)}`;
  }
  return pages;
}

async function problemOf(response: Response): Promise<string> {
  try {
    const problem = (await response.json()) as Problem;
    return problem.detail || problem.title;
  } catch {
    return response.statusText || `status ${response.status}`;
  }
}

function noteClock(date: string | null): void {
  const ms = date === null ? Number.NaN : Date.parse(date);
  if (Number.isNaN(ms)) return;
  const offset = ms - Date.now();
  const next = Math.abs(offset) < MIN_CLOCK_OFFSET_MS ? 0 : offset;
  if (Math.abs(next - clockOffsetMs.value) > MIN_CLOCK_OFFSET_MS) clockOffsetMs.value = next;
}
