// What a user does, in a real browser against the real thing: the demo with its degraded host, and a daemon with a
// simulated cluster that goes away and returns. ONLY=words runs the checks whose name has these words.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { faults } from "./axe.mjs";
import { launch, openPage, still } from "./chromium.mjs";
import { incidentOf, startLoader, startStage } from "./hangs.mjs";
import { pagesOf } from "./pages.mjs";
import { chord, counts, drawn, fits, goesTo, PATIENCE_MS, presses, says, titled, until } from "./reading.mjs";
import { eventually, json, startDaemon, startDemo, startSimulated } from "./real.mjs";

const DEGRADED = "host-2";
const REASON = /host-2 found 1 channel|nic1 of host-2 is down/;

const DEMO = {
  async "the overview names the degraded host and why"({ open }) {
    const page = await open("#/");
    await says(page, "h1", /host-2/);
    await says(page, "main", REASON);
    await says(page, 'main [data-host="host-2"]', /[▲◆]|host-2/);
    await titled(page, /^[▲◆] host-2/);
  },

  async "from the host to the ring, to the NIC, to the evidence, by clicks alone"({ open, url }) {
    const page = await open("#/");
    await page.click(`main a[href*="#/hosts/${DEGRADED}"] >> visible=true`);
    await page.waitForFunction(() => location.hash.startsWith("#/hosts/host-2"));
    await says(page, "main", REASON);
    await page.click(`main a[href*="#/communicators/"] >> visible=true`);
    await page.waitForSelector(".ring [data-rank]");
    await page.click(".ring-table summary");
    await page.click(`.ring-table a[href*="#/hosts/${DEGRADED}?"][href*="nic="]`);
    await page.waitForFunction(() => /#\/hosts\/host-2\?.*nic=nic/.test(location.hash));
    await says(page, '[data-nic="nic1"]', /down/i);
    await page.click('main a[href*="#/findings"][href*="id="] >> visible=true');
    await page.waitForFunction(() => /#\/findings\?.*id=/.test(location.hash));
    const id = await page.evaluate(() => new URLSearchParams(location.hash.split("?")[1]).get("id"));
    const evidence = await eventually("the daemon proves it", async () => {
      const { items } = await json(url, "/api/v1/findings?state=firing&limit=1000");
      return items.find((finding) => finding.id === id)?.evidence?.slice(0, 60);
    });
    for (const { text } of evidence) await contains(page, "main", text.trim());
  },

  async "the degraded host is an incident: the sentence of the daemon, who looks after it, and the way back to the host"({ open, url }) {
    const page = await open("#/");
    await eventually("the page says the daemon's sentence", async () => {
      const { sentence } = await json(url, "/api/v1/health");
      return (await page.locator("main h1").innerText()).includes(sentence.slice(0, 30));
    });
    await page.click("#incidents .message a >> visible=true");
    await page.waitForFunction(() => location.hash.startsWith("#/incidents/"));
    await page.fill("#care input", "end-to-end");
    await page.click("#care .care-buttons button");
    await says(page, ".care-state", /^end-to-end looks after it/);
    await page.fill("#care textarea", "seen");
    await page.click("#care >> text=Add the note");
    await says(page, "#care .notes", /end-to-end.*seen/);
    await eventually("the daemon keeps it", async () => (await json(url, "/api/v1/incidents?state=firing")).items.some((one) => one.acknowledged?.by === "end-to-end" && one.notes[0]?.text === "seen"));
    await page.click(`.page-head a[href*="#/hosts/"]`);
    await page.waitForFunction(() => location.hash.startsWith("#/hosts/"));
  },

  async "looking back shows what the database kept; a time before all of it says so"({ open, url }) {
    const found = await eventually("the demo finds its degraded host", async () => (await json(url, "/api/v1/findings?state=firing&limit=1000")).items.find((one) => one.host === DEGRADED && one.severity !== "info"));
    // It may have begun before the ranks told their rings: a moment at which they have. Who was there then is kept a little later.
    const then = await eventually("all communicators have rings", async () => {
      const { items } = await json(url, "/api/v1/communicators?limit=1000");
      const rings = await Promise.all(items.map((one) => json(url, `/api/v1/communicators/${one.id}/rings`)));
      return items.length > 0 && rings.every((one) => one.rings.some((ring) => ring.order.length > 0)) ? Date.now() : undefined;
    });
    await eventually("the database has it and them", async () => {
      const { findings, communicators } = await json(url, `/api/v1/past?at=${then}`);
      return communicators.length > 0 && findings.some((one) => one.id === found.id);
    });
    const page = await open(`#/?at=${new Date(then).toISOString()}`);
    await says(page, ".past-banner", /^As of /);
    await says(page, "main", REASON);
    await page.waitForSelector("#ring-panel .ring [data-rank]");
    const early = await open("#/?at=2020-01-01T00:00:00Z");
    await says(early, ".past-lacks", /What is kept begins at \d{4}-/);
    await early.click(".back-to-now");
    await says(early, 'main [data-host="host-2"]', /host-2/);
  },

  async "what to do is beside what was found"({ open, pages }) {
    const page = await open(pages.finding);
    await page.waitForSelector('main a[href*="#/runbook/"]');
    await page.click('main a[href*="#/runbook/"] >> visible=true');
    await page.waitForFunction(() => location.hash.startsWith("#/runbook/"));
    await says(page, "main", /\w+ \w+ \w+ \w+ \w+/);
  },

  async "findings are filtered by what the address says"({ open, url }) {
    const hostOf = async () => new Map((await json(url, "/api/v1/findings?limit=1000")).items.map((finding) => [finding.id, finding.host]));
    await eventually("the demo finds something on several hosts", async () => new Set((await hostOf()).values()).size > 1);
    const page = await open(`#/findings?host=${DEGRADED}&state=firing`);
    await says(page, "main", REASON);
    const listed = () => page.$$eval('main .finding .message a[href*="#/findings"][href*="id="]', (all) => all.map((one) => new URLSearchParams(one.hash.split("?")[1]).get("id")));
    // Findings come and go: what is listed is held against what the daemon says now.
    const allThere = async () => {
      const [ids, known] = [await listed(), await hostOf()];
      return ids.length > 0 && ids.every((id) => known.get(id) === DEGRADED);
    };
    await eventually("findings of that host are listed, and no other", allThere);
    await page.goto(`${url}/#/findings?severity=critical&host=host-0`);
    await page.waitForFunction(() => document.querySelector('main .finding .message a[href*="#/findings"][href*="id="]') === null);
  },

  async "search finds a host, a job and a communicator"({ open, url, pages }) {
    const comm = decodeURIComponent(pages.communicator.split("/").pop());
    const { comm_hash: hash } = await json(url, `/api/v1/communicators/${comm}`);
    for (const [words, hash_] of [
      ["host-3", /^#\/hosts\/host-3/],
      ["demo-min", /^#\/jobs\/demo-min-channels/],
      [hash, /^#\/communicators\//],
    ]) {
      const page = await open("#/");
      await presses(page, "/", "#search:focus");
      await page.keyboard.type(words);
      await page.waitForSelector('[role="option"]:not([aria-disabled="true"])');
      await page.keyboard.press("ArrowDown");
      await page.keyboard.press("Enter");
      await page.waitForFunction((source) => new RegExp(source).test(location.hash), hash_.source);
    }
  },

  async "every page can be linked to, and survives a reload"({ open, url, pages }) {
    const page = await open("#/");
    for (const [name, hash] of Object.entries(pages)) {
      // An address of another document first: as a new tab does, this asks for everything anew.
      await page.goto("about:blank");
      await page.goto(`${url}/${hash}`);
      await still(page);
      const heading = await shown(page);
      assert.ok(await until(() => page.evaluate((hash) => location.hash === hash, hash)), `${name}: the address stays`);
      await page.reload();
      await drawn(page);
      await eventually(`${name}: the same after a reload`, async () => (await shown(page)) === heading, PATIENCE_MS);
      assert.ok(await until(async () => (await page.locator('nav [aria-current="page"]').count()) <= 1), `${name}: one place in the navigation`);
    }
  },

  async "the rings of a communicator are held against those of the one it replaced"({ open, url }) {
    const { items } = await json(url, "/api/v1/communicators?job=demo-training&limit=1000");
    const now = items.find((one) => one.name === "world/1");
    const before = items.find((one) => one.name === "world/0");
    const page = await open(`#/communicators/${now.id}`);
    await page.selectOption("#ring-panel .picker select", before.id);
    await says(page, ".comparison", /^2 channels instead of 4/);
    await page.waitForFunction(() => document.querySelectorAll("#ring-panel .ring").length === 2);
    await goesTo(page, new RegExp(`compare=${before.id}`));
  },

  async "the command of every menu asks the daemon for what the panel shows"({ open, url, pages }) {
    const commands = new Set();
    const downloads = new Set();
    const page = await open("#/");
    for (const hash of [pages.overview, pages.job, pages.communicator, pages.host, pages.findings]) {
      // An address of another document first: else the panels of the page before would be counted.
      await page.goto("about:blank");
      await page.goto(`${url}/${hash}`);
      await page.waitForFunction(() => {
        const [panels, menus] = ["main .panel", ".export .command"].map((all) => document.querySelectorAll(all).length);
        return panels > 0 && menus >= panels - 1 && document.querySelector("main .loading") === null;
      });
      for (const command of await page.$$eval(".export .command", (all) => all.map((one) => one.value))) commands.add(command);
      for (const href of await page.$$eval(".export a[download]", (all) => all.map((one) => one.href))) downloads.add(href);
    }
    for (const href of downloads) assert.equal((await fetch(href)).status, 200, href);
    assert.ok(commands.size > 10, `${commands.size} commands`);
    for (const command of commands) {
      const { stdout } = await promisify(execFile)("sh", ["-c", `${command} --fail`], { maxBuffer: 64e6 });
      const answer = JSON.parse(stdout);
      assert.ok(!("items" in answer) || Array.isArray(answer.items), command);
    }
  },

  async "a job shows what is wrong with the hardware of its hosts"({ open, pages }) {
    const page = await open(pages.job);
    await says(page, "#incidents", /nic1 of host-2 is down/);
    await page.click("#findings .more a");
    await says(page, "#firing", /nic1 of host-2 is down/);
  },

  async "links of before there were pages lead to the new ones"({ open, url }) {
    const { items } = await json(url, "/api/v1/communicators?limit=1000");
    const page = await open(`#/job/demo-training/communicator/${items[0].id}/channel/1`);
    await page.waitForSelector(".ring [data-rank], main .notice");
    await says(page, "main", /Channel 1|channel 1/i);
  },

  async "by keyboard alone to the degraded host"({ open }) {
    const page = await open("#/");
    await chord(page, "h", /#\/hosts/);
    await page.waitForSelector(`main a[href*="#/hosts/${DEGRADED}"] >> visible=true`);
    await tabTo(page, `a[href*="#/hosts/${DEGRADED}"]`);
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => location.hash.startsWith("#/hosts/host-2"));
    await says(page, "main", REASON);
    await chord(page, "o", /(#\/|\/)$/);
    await presses(page, "?", "dialog[open]");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog[open]", { state: "detached" });
  },

  async "axe-core finds nothing serious on any page, light and dark"({ open, url, pages }) {
    const found = [];
    for (const dark of [false, true]) {
      const page = await open("#/", { dark });
      for (const [name, hash] of Object.entries(pages)) {
        await visit(page, `${url}/${hash}`);
        // The themes differ in nothing but colours.
        for (const fault of await faults(page, dark ? ["color-contrast"] : undefined)) found.push(`${name}${dark ? " (dark)" : ""}: ${fault}`);
      }
    }
    assert.deepEqual(found, []);
  },

  async "nothing overflows at 390 px"({ open, url, pages }) {
    const page = await open("#/", { width: 390, height: 844 });
    for (const [name, hash] of Object.entries(pages)) {
      await visit(page, `${url}/${hash}`);
      await fits(page, name);
    }
  },

  // Last: by now there is a history to draw.
  async "a job's traffic has a line for each host and each communicator"({ open, pages }) {
    const page = await open(pages.job);
    for (const [by, words] of [["by host", /host-0.*host-2.*host-3/], ["by communicator", /data-0\/1.*world\/1/], ["by primitive", /AllReduce/]]) {
      await page.click(`#traffic >> text=${by}`);
      await page.waitForFunction(() => document.querySelectorAll("#traffic canvas").length === 2);
      await says(page, "#traffic .over-time .chart-readout", words);
      // The last thing known of each, in words: lines of nothing would say so.
      await page.waitForFunction(() => /[\d.]+ [kMG]B\/s/.test(document.querySelector("#traffic .over-time [role=img]")?.getAttribute("aria-label") ?? ""));
    }
  },
};

const SIMULATED = {
  async "a daemon that goes away leaves its pages readable, says since when, and is found again"({ open, daemon }) {
    const page = await open("#/");
    const before = await page.locator("main").innerText();
    await daemon.stop();
    await page.waitForSelector(".stale-banner");
    await says(page, ".stale-banner", /since \d\d:\d\d:\d\d/i);
    assert.ok((await page.locator("main").innerText()).length > before.length / 2, "the last known state stays");
    await daemon.again();
    await page.waitForSelector(".stale-banner", { state: "detached" });
    // Not only connected: what is shown moves on.
    await moves(page);
  },

  async "the host with a NIC down says so"({ open, url }) {
    const { host } = await eventually("the simulated host is found", async () => {
      const { items } = await json(url, "/api/v1/findings?state=firing&limit=1000");
      return items.find((finding) => finding.finding === "channel_shortfall");
    });
    const page = await open(`#/hosts/${host}`);
    await says(page, "main", /mlx5_7/);
    await says(page, "main", /DOWN|down/);
    const next = await open(`#/hosts/${host}?nic=mlx5_7`);
    await says(next, "main", /Polling|link/i);
  },
};

const HANG = {
  async "a Python job that waits in its data loader: the page names the rank, the line and the file, and the end of it"({ open, url, loader, incident }) {
    const line = `^Rank 3 \\(host-1, pid \\d+\\) is in loader\\.py:\\d+ \\S*__next__, blocked reading ${loader.file}`;
    const page = await open("#/");
    // In short: the incident below says it in full.
    await says(page, "h1", new RegExp(`${line}$`));
    await says(page, "#incidents", /open incident.*Rank 3 .*3 ranks wait because of it/);
    await titled(page, /^◆ host-1/);
    await page.click("#incidents .message a");
    await goesTo(page, new RegExp(`#/incidents/${encodeURIComponent(incident.id)}$`));
    await says(page, ".page-head h2", new RegExp(`${line};`));
    await says(page, "#culprit", /^Who: rank 3 on host-1.*is in loader\.py:\d+/);
    await counts(page, ".waits .role-culprit", 1);
    await counts(page, ".waits .wait-link", 3);
    await fits(page, "the incident");
    const narrow = await open(`#/incidents/${encodeURIComponent(incident.id)}`, { width: 390, height: 844 });
    await fits(narrow, "the incident at 390 px");
    assert.deepEqual(await faults(narrow), []);
    // The data comes, for as long as it takes to be seen.
    const feed = setInterval(loader.more, 200);
    try {
      await eventually("all is well again", async () => (await json(url, "/api/v1/health")).level === "ok");
      await says(page, "#timeline", /It is over/);
    } finally {
      clearInterval(feed);
    }
  },
};

const browser = await launch();
let failed = 0;
try {
  await withHang();
  await withDemo();
  await withSimulated();
} finally {
  await browser.close();
}
if (failed > 0) process.exit(1);

async function withHang() {
  const checks = chosen(HANG);
  if (checks.length === 0) return;
  const stage = await startStage();
  const loader = startLoader(stage, "llm-7b");
  try {
    const incident = await incidentOf(stage, "llm-7b", (one) => one.severity === "critical" && one.sentence.includes("loader.py"));
    for (const [name, check] of checks) await run(name, check, { url: stage.url, loader, incident });
  } finally {
    loader.close();
    await stage.end();
  }
}

async function withDemo() {
  const checks = chosen(DEMO);
  if (checks.length === 0) return;
  const demo = await startDemo();
  try {
    const pages = await pagesOf(demo.url);
    for (const [name, check] of checks) await run(name, check, { url: demo.url, pages });
  } finally {
    await demo.stop();
  }
}

async function withSimulated() {
  const checks = chosen(SIMULATED);
  if (checks.length === 0) return;
  const daemon = await startDaemon();
  let simulated;
  try {
    simulated = await startSimulated(daemon.url, { hosts: 6, ranks: 8, degraded: 1, interval: 1 });
    for (const [name, check] of checks) await run(name, check, { url: daemon.url, daemon });
  } finally {
    await simulated?.stop();
    await daemon.end();
  }
}

function chosen(checks) {
  return Object.entries(checks).filter(([name]) => name.includes(process.env.ONLY ?? ""));
}

async function run(name, check, { url, ...rest }) {
  const opened = [];
  const open = async (hash, options = {}) => {
    const view = await openPage(browser, { width: 1440, url: `${url}/${hash}`, ...options });
    opened.push(view);
    await drawn(view.page);
    return view.page;
  };
  const began = Date.now();
  try {
    await check({ open, url, ...rest });
    for (const { seen } of opened) {
      assert.deepEqual(seen.elsewhere, [], "requests to another origin");
      assert.deepEqual(seen.errors.filter((error) => !isRefusal(error)), [], "console errors");
    }
    process.stdout.write(`ok   ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)\n`);
  } catch (error) {
    failed += 1;
    process.stdout.write(`FAIL ${name}\n${error.stack}\n`);
  } finally {
    for (const { close } of opened) await close().catch(() => {});
  }
}

/** Chromium itself writes these lines when the daemon is stopped. */
function isRefusal(error) {
  return /status of 503|net::ERR_(CONNECTION_REFUSED|CONNECTION_RESET|CONNECTION_CLOSED|CONTENT_LENGTH_MISMATCH|NETWORK_CHANGED|INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE|SOCKET_NOT_CONNECTED)/.test(error);
}

/** Another place of the same document, with its panels filled. */
async function visit(page, url) {
  await page.goto(url);
  await still(page);
}

async function shown(page) {
  return (await page.locator("main h1, main h2").allInnerTexts()).map((text) => text.replace(/[\d:.,]+.*/s, "").trim()).join(" | ");
}

/** Text with all its spaces, as evidence is printed. */
async function contains(page, selector, part) {
  const seen = ({ selector, part }) => document.querySelector(selector)?.textContent.includes(part) ?? false;
  await page.waitForFunction(seen, { selector, part }).catch(() => {
    throw new Error(`${selector} does not contain: ${part}`);
  });
}

async function tabTo(page, selector) {
  for (let i = 0; i < 200; i += 1) {
    await page.keyboard.press("Tab");
    const { there, visible } = await page.evaluate((selector) => {
      const at = document.activeElement;
      return { there: at.matches(selector), visible: getComputedStyle(at).outlineStyle !== "none" };
    }, selector);
    if (there) {
      assert.ok(visible, "the focus is seen");
      return;
    }
  }
  throw new Error(`Tab does not reach ${selector}`);
}

/** A number on the page changes without anybody's doing. */
async function moves(page) {
  const before = await page.locator("main").innerText();
  await page.waitForFunction((before) => (document.querySelector("main")?.innerText ?? before) !== before, before);
}
