/** Asks the daemon. One place for addresses, pages and errors; nothing here keeps state but the daemon's clock. */

import { signal } from "@preact/signals";
import type { Page, Problem } from "../api";

export const API = "api/v1/";

/** Pages fetched of one list at most; what is beyond is said on the screen, not shown. */
const MAX_PAGES = 4;
const PAGE_LIMIT = 500;
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

export async function get<T>(path: string): Promise<T> {
  const response = await fetch(API + path, {
    headers: { accept: "application/json" },
    cache: "no-store",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  noteClock(response.headers.get("date"));
  if (!response.ok) throw new Refused(response.status, await problemOf(response));
  return (await response.json()) as T;
}

/** As `get`, but null where the daemon knows no such thing. */
export async function find<T>(path: string): Promise<T | null> {
  try {
    return await get<T>(path);
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return null;
    throw error;
  }
}

export interface List<T> {
  items: T[];
  /** Whether there is more than was fetched. */
  more: boolean;
}

export async function all<T>(path: string): Promise<List<T>> {
  const items: T[] = [];
  const join = path.includes("?") ? "&" : "?";
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const at = cursor === undefined ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const answer = await get<Page<T>>(`${path}${join}limit=${PAGE_LIMIT}${at}`);
    items.push(...answer.items);
    cursor = answer.next_cursor;
    if (cursor === undefined) return { items, more: false };
  }
  return { items, more: true };
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
