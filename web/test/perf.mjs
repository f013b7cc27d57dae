// How long the overview takes with a thousand hosts of eight ranks, in Chromium: node test/perf.mjs [SCENARIO] [SECONDS]
// Interactive: from navigation until every host's cell is drawn and a frame has been painted. Per live update: main-thread
// time of applying the answers and drawing what they change, from the trace of long and short tasks. Exits with 1 if a median is beyond its limit.

import { launch, openPage } from "./chromium.mjs";
import { startMock } from "./mock-daemon.mjs";

const INTERACTIVE_MAX_MS = 1_000;
const UPDATE_MAX_MS = 150;

const [scenario = "huge", seconds = "20"] = process.argv.slice(2);
const mock = await startMock(scenario);
const browser = await launch();
let failed = false;
try {
  const hosts = (await (await fetch(`${mock.url}api/v1/nodes?limit=1000`)).json()).items.length;
  const interactive = [];
  for (let i = 0; i < 5; i += 1) interactive.push(await timeToInteractive(hosts));
  report("overview interactive", interactive, INTERACTIVE_MAX_MS);
  const { applies, tasks } = await updates(Number(seconds));
  report("applying and drawing an update", applies, UPDATE_MAX_MS);
  report("tasks above 50 ms (any cause)", tasks, UPDATE_MAX_MS);
} finally {
  await browser.close();
  await mock.stop();
}
process.exit(failed ? 1 : 0);

async function timeToInteractive(hosts) {
  const { page, close } = await openPage(browser, { width: 1440, url: "about:blank" });
  await page.addInitScript((hosts) => {
    const look = () => {
      if (document.querySelectorAll("a.cell").length >= hosts) {
        // A frame painted, and a task run after it: the page answers.
        requestAnimationFrame(() => setTimeout(() => { globalThis.interactiveMs = performance.now(); }));
      } else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  }, hosts);
  await page.goto(mock.url);
  await page.waitForFunction(() => globalThis.interactiveMs !== undefined);
  const ms = await page.evaluate(() => globalThis.interactiveMs);
  await close();
  return ms;
}

async function updates(seconds) {
  const { page, close } = await openPage(browser, { width: 1440, url: mock.url });
  await page.waitForSelector("a.cell");
  await page.waitForTimeout(2_000);
  const seen = await page.evaluate(async (ms) => {
    performance.clearMeasures();
    const tasks = [];
    const observer = new PerformanceObserver((list) => tasks.push(...list.getEntries().map((one) => one.duration)));
    observer.observe({ type: "longtask" });
    await new Promise((resolve) => setTimeout(resolve, ms));
    return { tasks, applies: performance.getEntriesByName("ringscope-update").map((one) => one.duration) };
  }, seconds * 1_000);
  await close();
  return seen;
}

function report(words, values, limitMs) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share) => (sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0).toFixed(0);
  const worst = sorted.at(-1) ?? 0;
  // The worst of a busy machine says more of its neighbours than of the page.
  const slow = (sorted[sorted.length >> 1] ?? 0) > limitMs;
  if (slow) failed = true;
  process.stdout.write(`${words}: n ${sorted.length}, median ${at(0.5)} ms, p90 ${at(0.9)} ms, worst ${worst.toFixed(0)} ms (limit ${limitMs} ms)${slow ? " TOO SLOW" : ""}\n`);
}
