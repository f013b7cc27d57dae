// Pictures of every page of real daemons: the demo with its degraded host, one host alone, a thousand simulated hosts of
// which three are degraded, none at all, and jobs that hang; what a proxy says in a daemon's place, and a daemon that is
// away; light and dark, wide and narrow. node test/screens.mjs OUTDIR [--docs] [STAGE...]
// Writes OUTDIR/STAGE/PAGE-WIDTH-THEME.png, and index.html with all of them. --docs: those of docs/ are made anew from them.

import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { launch, openPage, still } from "./chromium.mjs";
import { DOCS, writeDocs } from "./docs.mjs";
import { pagesOf } from "./pages.mjs";
import { json, startDaemon, startDemo, startSimulated } from "./real.mjs";
import { AWAY, HANGS, PROXIES } from "./screens-hangs.mjs";
import { SLOW } from "./screens-slow.mjs";

const WIDTHS = [1440, 390];
/** What is below is not in the picture. */
const HEIGHT_MAX = 3000;
const SETTLES_MS = 1_000;
/** For the curves to be worth looking at. */
const HISTORY_MS = 60_000;

const STAGES = {
  demo: { start: demo },
  "one-host": { start: () => simulated({ hosts: 1, degraded: 0, interval: 1 }) },
  "thousand-hosts": { start: () => simulated({ hosts: 1000, degraded: 3, interval: 5 }) },
  empty: { start: empty, historyMs: 0 },
  ...HANGS,
  slow: SLOW,
  ...PROXIES,
  away: AWAY,
};

const [out, ...rest] = process.argv.slice(2);
const forDocs = rest.includes("--docs");
const names = rest.filter((name) => name !== "--docs");
if (out === undefined || names.some((name) => !(name in STAGES))) {
  process.stderr.write(`usage: node test/screens.mjs OUTDIR [--docs] [${Object.keys(STAGES).join("|")}...]\n`);
  process.exit(64);
}
const outdir = resolve(out);
const chosen = names.length > 0 ? names : forDocs ? [...new Set(DOCS.map((one) => one.stage))] : Object.keys(STAGES);
const browser = await launch();
const shots = [];
try {
  for (const name of chosen) {
    say(`${name}: starting`);
    const began = Date.now();
    const { start, historyMs = HISTORY_MS } = STAGES[name];
    const stage = await start();
    try {
      say(`${name}: known after ${seconds(began)} s; ${historyMs / 1000} s of history`);
      await new Promise((resolve) => setTimeout(resolve, historyMs));
      await shootAll(name, stage);
    } finally {
      await stage.stop();
    }
  }
} finally {
  await browser.close();
}
writeFileSync(join(outdir, "index.html"), sheet(shots));
if (forDocs) say(writeDocs(outdir, chosen));
say(`${shots.length} pictures: ${join(outdir, "index.html")}`);

async function demo() {
  const running = await startDemo();
  const { items } = await json(running.url, "/api/v1/communicators?job=demo-training&limit=1000");
  const [now, before] = ["world/1", "world/0"].map((name) => items.find((one) => one.name === name)?.id);
  const compare = now && before ? { compare: `#/communicators/${now}?compare=${before}` } : {};
  return { ...running, pages: { ...(await pagesOf(running.url)), ...compare } };
}

async function simulated(options) {
  const daemon = await startDaemon();
  try {
    const cluster = await startSimulated(daemon.url, { ranks: 8, ...options });
    const stop = async () => {
      await cluster.stop();
      await daemon.end();
    };
    return { url: daemon.url, stop };
  } catch (error) {
    await daemon.end();
    throw error;
  }
}

async function empty() {
  const daemon = await startDaemon();
  return { url: daemon.url, stop: () => daemon.end(), pages: { overview: "#/", incidents: "#/incidents" } };
}

/** `before` brings a page about that no address does, with the page's name; `after` undoes that. */
async function shootAll(stage, { url, pages: known, before, after }) {
  const pages = Object.entries(known ?? (await pagesOf(url)));
  mkdirSync(join(outdir, stage), { recursive: true });
  for (const width of WIDTHS) {
    for (const theme of ["light", "dark"]) {
      const began = Date.now();
      const options = { width, height: width < 500 ? 844 : 900, dark: theme === "dark", url: `${url}/` };
      const { page, close } = await openPage(browser, options);
      for (const [name, hash] of pages) {
        if (!isWanted({ stage, page: name, width, theme })) continue;
        if (before === undefined) {
          await page.goto(`${url}/${hash}`);
          await still(page);
        } else {
          await before(page, name);
          // What was still being asked for then is never answered.
          await page.waitForTimeout(SETTLES_MS);
        }
        const file = join(stage, `${name}-${width}-${theme}.png`);
        await page.screenshot({ path: join(outdir, file), fullPage: true, clip: await clip(page, width) });
        shots.push({ stage, name, width, theme, file });
      }
      await close();
      await after?.();
      say(`${stage}: ${pages.length} pages, ${width} px, ${theme}: ${seconds(began)} s`);
    }
  }
}

/** For docs/ no others are taken. */
function isWanted(shot) {
  return !forDocs || DOCS.some((one) => Object.entries(shot).every(([key, value]) => one[key] === value));
}

async function clip(page, width) {
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  return { x: 0, y: 0, width, height: Math.min(height, HEIGHT_MAX) };
}

function sheet(all) {
  const stages = [...new Set(all.map((shot) => shot.stage))];
  const figure = ({ file, name, width, theme }) =>
    `<a href="${file}"><figure><img src="${file}" loading="lazy"><figcaption>${name} · ${width} · ${theme}</figcaption></figure></a>`;
  const section = (stage) => `<h2>${stage}</h2><div>${all.filter((shot) => shot.stage === stage).map(figure).join("")}</div>`;
  return `<!doctype html><meta charset="utf-8"><title>ringscope, every page</title>
<style>body{font:14px system-ui;margin:2rem;background:#777}div{display:flex;flex-wrap:wrap;gap:1rem;align-items:start}
figure{margin:0;background:#fff;padding:.3rem}img{height:22rem;display:block}a{color:#000}</style>
${stages.map(section).join("\n")}\n`;
}

function seconds(began) {
  return ((Date.now() - began) / 1000).toFixed(0);
}

function say(words) {
  process.stdout.write(`${words}\n`);
}
