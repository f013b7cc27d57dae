/** Keeps the page current: listens to the daemon's events, refreshes what they touch, and says when it cannot. */

import { effect } from "@preact/signals";
import type { Changed } from "../api";
import { backoffMs } from "../pure/backoff";
import { away, ended, faultOf, type Fault } from "../pure/fault";
import { EventParser } from "../pure/sse";
import { markDirty, onWatched, paused, refreshDue } from "./api";
import { ask, contentType, Failed } from "./client";
import * as store from "./store";

/** The daemon says something every 10 s: after more than two of these the connection is dead. */
const SILENCE_MS = 25_000;
/** How often the refresher looks for something due. */
const LOOK_MS = 200;

let drop: AbortController | null = null;

export function start(): void {
  setInterval(() => {
    store.browserNowMs.value = Date.now();
  }, 1_000);
  effect(() => {
    paused.value = store.atMs.value !== undefined;
  });
  addEventListener("online", () => wake());
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) wake();
  });
  void listen();
  void refresher();
}

let wake = (): void => {};

/** Asks again at once: what was in the way is gone. */
export function retryNow(): void {
  markDirty();
  wake();
}

/** One connection after the other, for ever. */
async function listen(): Promise<never> {
  for (let failures = 0; ; ) {
    let fault: Fault = ended();
    try {
      await connection(() => {
        failures = 0;
      });
    } catch (error) {
      // Said on the page, tried again.
      fault = error instanceof Failed ? error.fault : away();
    }
    failures += 1;
    const waitMs = backoffMs(failures, Math.random());
    store.connection.value = { state: "away", fault, nextTryMs: Date.now() + waitMs };
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, waitMs);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    wake = () => {};
  }
}

/** Reads one event stream until it ends or falls silent. */
async function connection(opened: () => void): Promise<void> {
  const controller = new AbortController();
  drop = controller;
  let watchdog = setTimeout(() => controller.abort(), SILENCE_MS);
  try {
    const response = await ask("events", { headers: { accept: "text/event-stream" }, cache: "no-store", signal: controller.signal });
    // A login page says 200 too.
    if (response.body === null || !contentType(response).startsWith("text/event-stream")) throw new Failed(faultOf(response.status, contentType(response)));
    opened();
    heard();
    markDirty();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new EventParser();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      clearTimeout(watchdog);
      watchdog = setTimeout(() => controller.abort(), SILENCE_MS);
      for (const event of parser.push(value)) if (event.event === "changed") changed(event.data);
    }
  } finally {
    clearTimeout(watchdog);
    controller.abort();
  }
}

function changed(data: string): void {
  try {
    markDirty(JSON.parse(data) as Changed);
  } catch {
    // Not understood: look at everything.
    markDirty();
  }
}

function heard(): void {
  store.eventMs.value = Date.now();
  if (store.connection.value.state !== "live") store.connection.value = { state: "live" };
}

async function refresher(): Promise<never> {
  onWatched(refresh);
  for (;;) {
    await refresh();
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

/** Does not wait for slow answers: what is being asked is not asked again. */
async function refresh(): Promise<void> {
  if (store.connection.peek().state === "away" || document.hidden) return;
  refreshDue().catch(() => {
    // The daemon did not answer a plain question either: let the listener begin anew and say so.
    markDirty();
    drop?.abort();
  });
}
