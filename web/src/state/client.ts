/** Asks the daemon. One place for addresses, pages and errors; nothing here keeps state but the daemon's clock. */

import { signal } from "@preact/signals";
import type { Page, Problem } from "../api";
import { away, faultOf, redirected, type Fault } from "../pure/fault";

export const API = "api/v1/";

/** Pages fetched of one list at most; what is beyond is said on the screen, not shown. */
const MAX_PAGES = 4;
const PAGE_LIMIT = 1000;
const TIMEOUT_MS = 10_000;

/** The daemon's clock minus this browser's, milliseconds. */
export const clockOffsetMs = signal(0);
/** `Date` has whole seconds: a smaller difference says nothing. */
const MIN_CLOCK_OFFSET_MS = 2_000;

/** Set while the daemon does not know who asks: what it says of that. */
export const stranger = signal<Fault | undefined>(undefined);

/** Of a problem: a proxy has named somebody whose groups give no role. */
const NO_ROLE = "about:blank#no-role";

/** How one signs in: what the daemon tells anybody. */
export const WAYS = "session/ways";

/** There is no answer, or none of the daemon's. */
export class Failed extends Error {
  constructor(readonly fault: Fault) {
    super(fault.words);
  }
}

/** `fetch`, with all that is no answer of the daemon as `Failed`. The daemon sends nobody elsewhere: who does is a login. */
export async function ask(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(API + path, { ...init, redirect: "manual" });
  } catch (error) {
    throw new Failed(error instanceof DOMException && error.name === "TimeoutError" ? away(TIMEOUT_MS / 1000) : away());
  }
  if (response.type === "opaqueredirect") throw new Failed(redirected());
  noteClock(response.headers.get("date"));
  if (!response.ok) {
    const problem = await problemOf(response);
    const fault = faultOf(response.status, contentType(response), problem);
    // Whom a proxy names and who has no role may have a token. Who is refused while signing in reads it there.
    const mayNothing = response.status === 401 || problem?.type === NO_ROLE;
    if (fault.kind === "refused" && mayNothing && init.method !== "POST") stranger.value = fault;
    throw new Failed(fault);
  }
  // Also where somebody signed in on another page of this browser. Strangers are told how to sign in.
  if (path !== WAYS) stranger.value = undefined;
  return response;
}

export function contentType(response: Response): string {
  return response.headers.get("content-type") ?? "";
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

/** Reads `path`; an answer equal to `last` is not parsed again. `no-cache`: the browser keeps it and asks with its ETag whether it still holds. */
export async function read<T>(path: string, last?: Read<T>): Promise<Read<T>> {
  const response = await ask(path, { headers: { accept: "application/json" }, cache: "no-cache", signal: AbortSignal.timeout(TIMEOUT_MS) });
  const now = await bodyOf(response);
  return last?.text === now ? last : { text: now, value: parsed<T>(now, response) };
}

/** Reads the pages of a list; those equal to `last` are not parsed again. */
export async function readAll<T>(path: string, last: Read<Page<T>>[] = []): Promise<Read<Page<T>>[]> {
  const pages: Read<Page<T>>[] = [];
  const join = path.includes("?") ? "&" : "?";
  let at = "";
  while (pages.length < MAX_PAGES) {
    const page = await read<Page<T>>(`${path}${join}limit=${PAGE_LIMIT}${at}`, last[pages.length]);
    if (!Array.isArray(page.value.items)) throw new Failed(faultOf(200, ""));
    pages.push(page);
    const cursor = page.value.next_cursor;
    if (cursor == null) break;
    at = `&cursor=${encodeURIComponent(cursor)}`;
  }
  return pages;
}

/** Tells the daemon something. */
export async function post(path: string, body: unknown): Promise<void> {
  const response = await ask(path, {
    method: "POST",
    headers: { accept: "application/json", "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  // A login page says 200 too: then nothing was kept.
  if (/html/i.test(contentType(response))) throw new Failed(faultOf(response.status, contentType(response)));
}

/** A body may break off as well. */
async function bodyOf(response: Response): Promise<string> {
  try {
    return await response.text();
  } catch {
    throw new Failed(away());
  }
}

function parsed<T>(text: string, response: Response): T {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as T;
  } catch {
    // Said below.
  }
  throw new Failed(faultOf(response.status, contentType(response)));
}

/** What the daemon itself says of its refusal; undefined: it is somebody else's. */
async function problemOf(response: Response): Promise<Problem | undefined> {
  try {
    const problem = (await response.json()) as Partial<Problem> | null;
    return typeof problem?.title === "string" ? { detail: "", ...problem } as Problem : undefined;
  } catch {
    return undefined;
  }
}

function noteClock(date: string | null): void {
  const ms = date === null ? Number.NaN : Date.parse(date);
  if (Number.isNaN(ms)) return;
  const offset = ms - Date.now();
  const next = Math.abs(offset) < MIN_CLOCK_OFFSET_MS ? 0 : offset;
  if (Math.abs(next - clockOffsetMs.value) > MIN_CLOCK_OFFSET_MS) clockOffsetMs.value = next;
}
