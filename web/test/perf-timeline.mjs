// How long the timeline of a job takes to its first picture, and how many frames a second it has while it is dragged, over
// 1 024 ranks of 10 000 operations: node test/perf-timeline.mjs [RANKS] [OPERATIONS]. Exits with 1 beyond a limit.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";
import { launch, openPage } from "./chromium.mjs";

const FIRST_PAINT_MAX_MS = 500;
const FRAMES_MIN_PER_S = 50;
const DRAG_MS = 3_000;
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };

const [ranks = "1024", operations = "10000"] = process.argv.slice(2);
const dist = mkdtempSync(join(tmpdir(), "ringscope-timeline-"));
await build({ root: fileURLToPath(new URL("perf-timeline", import.meta.url)), base: "./", logLevel: "warn", build: { outDir: dist, emptyOutDir: true, target: "es2022" } });
const server = createServer((request, response) => {
  try {
    const path = request.url === "/" ? "/index.html" : request.url;
    const body = readFileSync(join(dist, path));
    response.writeHead(200, { "content-type": TYPES[extname(path)] ?? "application/octet-stream" }).end(body);
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const browser = await launch();
let failed = false;
try {
  const { page } = await openPage(browser, { width: 1440, height: 1200, url: `http://127.0.0.1:${server.address().port}/` });
  await page.waitForFunction(() => "firstPaint" in globalThis);
  const paints = [];
  for (let i = 0; i < 3; i += 1) paints.push(await page.evaluate(([ranks, operations]) => globalThis.firstPaint(ranks, operations), [Number(ranks), Number(operations)]));
  const first = [...paints].sort((a, b) => a - b)[1];
  say(`first picture of ${ranks} ranks x ${operations} operations: ${paints.map((ms) => ms.toFixed(0)).join(", ")} ms (limit ${FIRST_PAINT_MAX_MS} ms)`, first > FIRST_PAINT_MAX_MS);
  for (const [what, zooms] of [["all of it", 0], ["a part of 1 in 4", 4], ["a part of 1 in 60", 12], ["single operations", 22]]) {
    await page.focus("canvas");
    await page.keyboard.press("0");
    for (let i = 0; i < zooms; i += 1) await page.keyboard.press("+");
    const { perS, pictureMs } = await dragged(page);
    say(`dragging ${what}: ${perS.toFixed(0)} frames a second (limit ${FRAMES_MIN_PER_S}), a picture takes ${pictureMs.toFixed(1)} ms`, perS < FRAMES_MIN_PER_S);
  }
} finally {
  await browser.close();
  server.close();
  rmSync(dist, { recursive: true });
}
process.exit(failed ? 1 : 0);

/** Takes hold of the axis and moves it to and fro; frames a second, and the median of how long the page was at a picture. */
async function dragged(page) {
  const { x, y, width } = await page.locator("canvas").boundingBox();
  await page.mouse.move(x + width / 2, y + 8);
  await page.mouse.down();
  await page.evaluate(() => { globalThis.stop = globalThis.frames(); });
  const end = Date.now() + DRAG_MS;
  for (let i = 0; Date.now() < end; i += 1) await page.mouse.move(x + width / 2 + 300 * Math.sin(i / 12), y + 8);
  const { lengths, pictures } = await page.evaluate(() => globalThis.stop());
  await page.mouse.up();
  return { perS: (1000 * lengths.length) / lengths.reduce((sum, ms) => sum + ms, 0), pictureMs: pictures.sort((a, b) => a - b)[pictures.length >> 1] ?? 0 };
}

function say(words, tooSlow) {
  if (tooSlow) failed = true;
  process.stdout.write(`${words}${tooSlow ? " TOO SLOW" : ""}\n`);
}
