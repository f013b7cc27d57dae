// What the overview costs a browser with a thousand hosts of eight ranks, told to a real daemon by the simulated cluster:
// the time until it can be used, the main thread's time for a live update, the weight of the page. Prints the figures
// beside their limits, and one line of JSON. node test/perf-live.mjs [--hosts 1000] [--runs 7] [--seconds 60]

import { readdirSync } from "node:fs";
import { get } from "node:http";
import { cpus } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { launch } from "./chromium.mjs";
import { startDaemon, startSimulated } from "./real.mjs";

const LIMITS = { interactive_ms: 1000, update_ms: 150, weight_bytes: 150_000 };
const options = { hosts: 1000, runs: 7, seconds: 60 };
for (let i = 2; i + 1 < process.argv.length; i += 2) options[process.argv[i].slice(2)] = Number(process.argv[i + 1]);
const DIST = fileURLToPath(new URL("../dist", import.meta.url));

const daemon = await startDaemon();
const browser = await launch();
let simulated;
try {
  simulated = await startSimulated(daemon.url, { hosts: options.hosts, ranks: 8, degraded: 3, interval: 5 });
  const starts = [];
  for (let run = 0; run < options.runs; run += 1) starts.push(await start());
  const updates = await live();
  print(starts, updates, await weight());
} finally {
  await browser.close();
  await simulated?.stop();
  await daemon.end();
}

/** From the start of the navigation, with nothing in the browser's cache. */
async function start() {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  await session.send("Network.enable");
  let loaded = 0;
  const own = new Set();
  session.on("Network.responseReceived", ({ requestId, response }) => {
    if (!new URL(response.url).pathname.startsWith("/api/")) own.add(requestId);
  });
  session.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
    if (own.has(requestId)) loaded += encodedDataLength;
  });
  await page.addInitScript(watchForHosts, options.hosts);
  await page.goto(`${daemon.url}/`, { waitUntil: "commit" });
  const interactive_ms = await page.waitForFunction(() => globalThis.interactiveMs, undefined, { timeout: 60_000 });
  const input_ms = await answer(page);
  const result = { interactive_ms: await interactive_ms.jsonValue(), input_ms, loaded_bytes: loaded };
  await context.close();
  return result;
}

/** Runs in the page: interactive is when the sentence and every host are painted and the main thread takes a task. */
function watchForHosts(hosts) {
  const look = () => {
    const sentence = document.querySelector("main h1");
    if (sentence !== null && document.querySelectorAll("main [data-host]").length >= hosts) {
      requestAnimationFrame(() => setTimeout(() => (globalThis.interactiveMs = performance.now())));
    } else {
      requestAnimationFrame(look);
    }
  };
  look();
}

/** From a key to the frame that shows what it did. */
async function answer(page) {
  await page.evaluate(() => {
    document.addEventListener(
      "keydown",
      ({ timeStamp }) => requestAnimationFrame(() => setTimeout(() => (globalThis.inputMs = performance.now() - timeStamp))),
      { capture: true, once: true },
    );
  });
  await page.keyboard.press("?");
  return (await page.waitForFunction(() => globalThis.inputMs)).jsonValue();
}

/** Main-thread time of each live update: all tasks from its first answer to that of the next. */
async function live() {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  await page.addInitScript(watchForHosts, options.hosts);
  await page.goto(`${daemon.url}/`);
  await page.waitForFunction(() => globalThis.interactiveMs, undefined, { timeout: 60_000 });
  const context = page.context();
  const session = await context.newCDPSession(page);
  const answers = [];
  await session.send("Network.enable");
  await browser.startTracing(page, { categories: ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"] });
  await page.waitForTimeout(options.seconds * 1000);
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  await page.close();
  const main = mainThread(traceEvents);
  const here = traceEvents.filter((event) => event.pid === main.pid);
  const paths = new Map();
  for (const event of here) {
    if (event.name === "ResourceSendRequest") paths.set(event.args.data.requestId, new URL(event.args.data.url).pathname);
    if (event.name === "ResourceFinish" && paths.get(event.args.data.requestId)?.startsWith("/api/")) answers.push(event.ts);
  }
  const tasks = here.filter((event) => event.tid === main.tid && event.ph === "X" && event.name === "RunTask");
  return bursts(answers).map(([from, to]) => {
    const own = tasks.filter((task) => task.ts >= from && task.ts < to);
    const within = own.map((task) => task.dur / 1000);
    return { cpu_ms: own.reduce((sum, task) => sum + (task.tdur ?? 0) / 1000, 0), sum_ms: within.reduce((sum, ms) => sum + ms, 0), longest_ms: Math.max(0, ...within) };
  });
}

function mainThread(events) {
  const busy = events.find((event) => event.name === "ResourceSendRequest" && event.args.data.url.startsWith(daemon.url));
  if (busy === undefined) throw new Error("the page asked for nothing while it was watched: there was no live update");
  const { tid } = events.find((event) => event.pid === busy.pid && event.name === "thread_name" && event.args.name === "CrRendererMain");
  return { pid: busy.pid, tid };
}

/** Answers that come together are one update. The last has no end and is left out. */
function bursts(times) {
  times.sort((a, b) => a - b);
  const starts = times.filter((time, i) => i === 0 || time - times[i - 1] > 500_000);
  // The answer is handled in the task in which it finishes.
  return starts.slice(0, -1).map((from, i) => [from - 20_000, starts[i + 1] - 20_000]);
}

/** All files of the page as the daemon serves them to a browser. */
async function weight() {
  const files = readdirSync(DIST, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  let bytes = 0;
  for (const file of files) bytes += await served(relative(DIST, join(file.parentPath, file.name)));
  return bytes;
}

function served(path) {
  return new Promise((resolve, reject) => {
    get(`${daemon.url}/${path === "index.html" ? "" : path}`, { headers: { "accept-encoding": "gzip" } }, (response) => {
      let bytes = 0;
      response.on("data", (chunk) => (bytes += chunk.length)).on("error", reject);
      response.on("end", () => (response.statusCode === 200 ? resolve(bytes) : reject(new Error(`${path}: ${response.statusCode}`))));
    }).on("error", reject);
  });
}

function print(starts, updates, weight_bytes) {
  if (updates.length < 5) throw new Error(`only ${updates.length} live updates in ${options.seconds} s: watch for longer (--seconds)`);
  const rows = [
    ["interactive after", "ms", starts.map((one) => one.interactive_ms), LIMITS.interactive_ms],
    ["a key is answered after", "ms", starts.map((one) => one.input_ms)],
    ["main thread per live update", "ms", updates.map((one) => one.sum_ms), LIMITS.update_ms],
    // What of it the processor was at work: the rest the thread waited for other processes of this machine.
    ["of it processor time", "ms", updates.map((one) => one.cpu_ms)],
    ["longest task of an update", "ms", updates.map((one) => one.longest_ms), LIMITS.update_ms],
    ["page weight, all files, gzip", "kB", [weight_bytes / 1000], LIMITS.weight_bytes / 1000],
    ["page weight, what is loaded", "kB", starts.map((one) => one.loaded_bytes / 1000), LIMITS.weight_bytes / 1000],
  ];
  const cpu = cpus()[0]?.model ?? "unknown CPU";
  process.stdout.write(`overview of ${options.hosts} hosts x 8 ranks; ${starts.length} starts, ${updates.length} live updates; ${cpu}, ${cpus().length} cores\n`);
  process.stdout.write(`${"".padEnd(30)}   median      min      max    limit\n`);
  for (const [name, unit, values, limit] of rows) {
    const sorted = [...values].sort((a, b) => a - b);
    const figures = [sorted[sorted.length >> 1], sorted[0], sorted.at(-1)].map((value) => value.toFixed(1).padStart(8));
    const verdict = limit === undefined ? "" : `${limit} ${unit} ${sorted[sorted.length >> 1] <= limit ? "met" : "not met"}`;
    process.stdout.write(`${name.padEnd(30)} ${figures.join(" ")}    ${verdict || unit}\n`);
  }
  const json = { benchmark: "page", cpu, n_cpus: cpus().length, hosts: options.hosts, limits: LIMITS, weight_bytes, starts, updates };
  process.stdout.write(`${JSON.stringify(json)}\n`);
}
