// What a user would notice, in a real browser against the made-up daemon. SCREENSHOTS=DIR also writes pictures there,
// ONLY=WORDS runs those whose name contains them.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { accessChecks } from "./checks-access.mjs";
import { incidentChecks } from "./checks-incidents.mjs";
import { pastChecks } from "./checks-past.mjs";
import { ringChecks } from "./checks-ring.mjs";
import { summationChecks } from "./checks-summation.mjs";
import { timeChecks } from "./checks-time.mjs";
import { faults } from "./axe.mjs";
import { launch, openPage, still } from "./chromium.mjs";
import { startMock } from "./mock-daemon.mjs";
import { shoot } from "./screenshots.mjs";
import { chord, counts, drawn, fits, goesTo, presses, reads, says, text, titled, until, whole, yields } from "./reading.mjs";

const REASON = "host-2 found 1 channel, the others 2: every rank runs on 2 channels instead of 4";
/** The communicator of most scenarios, and of the large one. */
const WORLD = "#/communicators/9f3b5c6d7e8f";
const LARGE = "#/communicators/aaaabbbbcccc";
const READER = { token: "x", name: "x", role: "read" };
const ADMIN = { known: true, name: "ann", role: "admin" };
const PROVIDER = { issuer_host: "login.example.org", address: "https://ring.example/api/v1/session/oidc" };
/** What is pictured: a name, a scenario, an address, what stands before the daemon or became of it, and
 * what somebody does. ONLY=WORDS pictures those alone whose name contains them. */
const PICTURES = [
  ...["empty", "degraded", "single", "killed", "partly", "huge", "no-nccl", "off", "long-names", "long-hosts", "crowd"].map((scenario) => ({ name: scenario, scenario })),
  ...[["hang", "rank_missing"], ["mismatch", "call_mismatch"], ["cycle", "order_deadlock"], ["init", "init_stuck"], ["crowd", "rank_missing"], ["long-names", "rank_missing"], ["long-hosts", "rank_missing"]].map(([scenario, kind]) => ({
    name: `${scenario}-incident`, scenario, at: `#/incidents/f-${kind}`,
  })),
  { name: "hang", scenario: "hang" },
  { name: "slow", scenario: "slow" },
  { name: "slow-incident", scenario: "slow", at: "#/incidents/f-slow" },
  { name: "slow-finding", scenario: "slow", at: "#/findings?id=f-slow" },
  ...["communicators/9f3b5c6d7e8f", "hosts", "jobs/llm-7b-pretrain", "findings?id=f-rank_missing"].map((at) => ({ name: `long-hosts-${at.split("/")[0].split("?")[0]}`, scenario: "long-hosts", at: `#/${at}` })),
  { name: "slow-job", scenario: "slow", at: "#/jobs/llm-7b-pretrain" },
  { name: "slow-job-lateness", scenario: "slow", at: "#/jobs/llm-7b-pretrain", acts: (page) => page.click("#job-timeline >> text=Lateness") },
  { name: "slow-job-call", scenario: "slow", at: "#/jobs/llm-7b-pretrain", acts: (page) => page.click("#job-timeline >> text=One call") },
  { name: "slow-many-job", scenario: "slow-many", at: "#/jobs/moe-pretrain" },
  { name: "incidents", scenario: "hang", at: "#/incidents" },
  { name: "hang-communicator", scenario: "hang", at: WORLD },
  ...["sum-differ", "sum-same"].map((scenario) => ({ name: scenario, scenario, at: "#/summation/5d1c09ab77e2" })),
  { name: "proxy-401", scenario: "healthy", proxy: "unauthorized" },
  { name: "proxy-login-later", scenario: "healthy", later: (mock) => mock.proxy("login") },
  { name: "sign-in", scenario: "healthy", wants: READER },
  { name: "sign-in-wrong", scenario: "healthy", wants: READER, acts: signsInWrongly },
  { name: "sign-in-elsewhere", scenario: "healthy", wants: { ...READER, oidc: PROVIDER } },
  { name: "sign-in-elsewhere-away", scenario: "healthy", wants: { ...READER, oidc: { ...PROVIDER, away: "connection refused" } } },
  { name: "sign-in-away", scenario: "healthy", wants: READER, acts: (page, mock) => mock.away(true) || signsInWrongly(page) },
  { name: "audit", scenario: "healthy", wants: ADMIN, at: "#/audit" },
  { name: "audit-empty", scenario: "healthy", wants: ADMIN, at: "#/audit?who=nobody" },
  { name: "audit-not-for", scenario: "healthy", wants: { ...ADMIN, role: "operate" }, at: "#/audit" },
  { name: "audit-away", scenario: "healthy", wants: ADMIN, at: "#/audit", later: (mock) => mock.away(true) },
  { name: "away", scenario: "healthy", later: (mock) => mock.away(true) },
];

if (!existsSync(fileURLToPath(new URL("../dist/index.html", import.meta.url)))) {
  throw new Error("web/dist is missing: npm run build");
}

const CHECKS = {
  async "an empty daemon says how to start a job"({ open }) {
    const { page } = await open("empty");
    await reads(page, "h1", "No job yet");
    await says(page, ".empty", /ringscope run -- python train\.py.*ringscope agent --daemon .*Put the name by which other hosts reach this machine.*ringscope doctor --pid PID.*cargo xtask demo/);
  },

  async "a job that starts appears without a reload"({ open }) {
    const { page, mock } = await open("empty");
    mock.show("healthy");
    await page.waitForSelector('#jobs >> text=llm-7b-pretrain');
    await reads(page, "h1", "All 4 hosts healthy");
  },

  async "a degraded host and its reason come first"({ open }) {
    const { page } = await open("degraded");
    await reads(page, "h1", `1 of 4 hosts degraded: ${REASON}`);
    await says(page, ".advice", /a NIC or a GPU link of host-2 is down/);
    await says(page, ".facts", /Since\s*(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\s*14 min ago/);
    await says(page, "#incidents", /Channel shortfall/);
    await says(page, '#hosts tbody[data-host="host-2"]', /host-2 .*the incident above/);
    await says(page, "#findings", /1 finding belongs to the incident above/);
    await says(page, "#findings", /The same on 2 other hosts/);
    await titled(page, /◆ host-2/);
    const { page: ring } = await open("degraded", { at: WORLD });
    await yields(ring, () => document.querySelector(".host-arc.degraded text")?.textContent, "▲ host-2");
  },

  async "the ring shows every rank, its transports and NICs, by pointer and by keyboard"({ open }) {
    const { page } = await open("healthy", { at: WORLD });
    await yields(page, () => [...document.querySelectorAll(".ring [data-rank]")].map((one) => Number(one.dataset.rank)), [0, 1, 2, 3, 4, 5, 6, 7]);
    await page.hover('.ring [data-rank="1"]');
    await says(page, ".ring-details", /1\s*→\s*to\s*2/);
    await says(page, ".ring-details", /NET\/IB\s*via mlx5_0/);
    await page.mouse.move(0, 0);
    await page.focus(".ring");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    await says(page, ".ring-details", /host-0 → host-1/);
    await page.keyboard.press("Escape");
    await says(page, ".ring-details", /Channel 0/);
    await page.click(".ring-table summary");
    await page.waitForFunction(() => document.querySelectorAll(".ring-table tbody tr").length === 8);
  },

  async "the host to look at shows its communicators and what was found on it"({ open }) {
    const { page } = await open("degraded");
    await page.click('.facts >> text="host-2"');
    await says(page, "#host", /every rank runs on 2 channels instead of 4.*since (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d.*world llm-7b-pretrain 4, 5 \w+ 1 → 2/);
    await goesTo(page, /#\/hosts\/host-2$/);
    await page.goBack();
    await page.waitForSelector("#host", { state: "detached" });
  },

  async "another channel is one click away and has an address"({ open }) {
    const { page } = await open("healthy", { at: WORLD });
    await page.click('nav[aria-label="Channel"] >> text="3"');
    await page.waitForFunction(() => document.querySelector(".ring-details")?.textContent.includes("Channel 3"));
    await goesTo(page, /#\/communicators\/9f3b5c6d7e8f\?channel=3$/);
    await page.reload();
    await page.waitForSelector(".ring-details");
    await says(page, ".ring-details", /Channel 3/);
  },

  async "another communicator, and a host alone"({ open }) {
    const { page } = await open("healthy", { at: WORLD });
    await page.click("text=tensor-0");
    await page.waitForFunction(() => document.querySelectorAll(".ring [data-rank]").length === 2);
    await page.click("text=world");
    await page.waitForFunction(() => document.querySelectorAll("#ranks tbody tr").length === 8);
    await page.goto(new URL("#/hosts/host-3", page.url()).href);
    await says(page, "#host", /host-3.*2 live processes.*world llm-7b-pretrain 6, 7 healthy 2 → 4/);
    await page.click("#host-ranks >> text=world");
    await page.waitForFunction(() => document.querySelectorAll("#ranks tbody tr").length === 2);
    await says(page, "#ranks", /only host-3/);
  },

  async "bytes and bandwidth by primitive"({ open }) {
    const { page } = await open("healthy", { at: WORLD });
    await counts(page, ".uplot canvas", 1);
    await says(page, '[data-primitive="all_reduce"]', /AllReduce.*GB\/s.*TiB/);
  },

  async "a killed rank is named, with what it was in"({ open }) {
    const { page } = await open("killed");
    await reads(page, "h1", "Rank 3 on host-1 was killed in AllReduce #1041; 7 ranks wait in AllReduce #1042");
    await says(page, '#hosts tbody[data-host="host-1"]', /the incident above/);
    await says(page, "#incidents", /rank 3 on host-1 was killed/i);
    const { page: ranks } = await open("killed", { at: WORLD });
    await says(ranks, '#ranks tr[data-rank="3"]', /killed.*died in it/);
    await counts(ranks, ".ring .state-killed .cross", 1);
  },

  async "an incomplete ring names the missing ranks"({ open }) {
    const { page } = await open("incomplete", { at: WORLD });
    await says(page, "#ring-panel", /Ring incomplete\. .*5 and 6/);
    await says(page, ".ring-details", /Missing: ranks 5, 6/);
    await counts(page, ".ring .missing", 2);
  },

  async "unknown channels are said to be unknown"({ open }) {
    const { page } = await open("unknown", { at: WORLD });
    await says(page, "#ring-panel", /not known: the log has no GRAPH lines/);
    await says(page, ".scope", /channels not known/);
  },

  async "the channels' words are whole"({ open }) {
    const { page } = await open("incomplete", { at: WORLD });
    await page.waitForSelector(".ring-thumbs small");
    const heights = () => [...document.querySelectorAll(".ring-thumbs small")].map((words) => words.getClientRects().length === 1 && words.offsetHeight < 20);
    await yields(page, heights, Array(await page.locator(".ring-thumbs small").count()).fill(true));
  },

  async "of a job that is not watched nothing is said to be nothing"({ open }) {
    const { page } = await open("not-watched");
    await says(page, "#jobs", /not watched since .*because \/scratch lies on a disk.*: set RINGSCOPE_DIR/);
    await page.click("#jobs >> text=llm-7b-pretrain");
    await says(page, "#communicators", /^Communicators.*None is seen: how the job stands says why/);
    if (/0 GB\/s/.test(await page.locator("main").innerText())) throw new Error("a rate that nobody knows is shown as none");
  },

  async "ended jobs stay readable"({ open }) {
    const { page } = await open("ended");
    await says(page, "h1", /^No job is running; the last, llm-7b-pretrain, ended at /);
    await page.click("#jobs >> text=llm-7b-pretrain");
    await page.click("#communicators >> text=world");
    await page.waitForFunction(() => document.querySelectorAll(".ring [data-rank]").length === 8);
  },

  async "300 hosts and 1024 ranks are drawn, and the page stays quick"({ open }) {
    const { page } = await open("large", { at: LARGE });
    await says(page, "h1", /^1 of 300 hosts degraded: gpu-r05n14 /);
    await counts(page, ".ring [data-host]", 128, "a place for each host");
    await page.goto(new URL("#/hosts", page.url()).href);
    await page.waitForFunction(() => document.querySelectorAll(".heat-map a.cell").length === 300);
    // A freeze would be in every window of three seconds; other work on the machine is not.
    const slowest = () => page.evaluate(async () => {
      const end = performance.now() + 3_000;
      let worst = 0;
      for (let last = performance.now(); last < end; ) {
        await new Promise((resolve) => requestAnimationFrame(resolve));
        worst = Math.max(worst, performance.now() - last);
        last = performance.now();
      }
      return worst;
    });
    assert.ok(await until(async () => (await slowest()) < 1_500), "three seconds in which no frame takes longer than 1.5 s");
  },

  async "a daemon that goes away and returns"({ open }) {
    const { page, mock } = await open("degraded", { at: WORLD });
    mock.away(true);
    await page.waitForSelector(".stale-banner");
    await says(page, ".stale-banner", /Stale since (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d/);
    await counts(page, ".ring [data-rank]", 8, "the last known state stays");
    mock.show("healthy");
    mock.away(false);
    await page.waitForSelector(".stale-banner", { state: "detached" });
    await reads(page, "h1", "All 4 hosts healthy");
  },

  async "lines that cannot be drawn because the plotter was not sent say so, and are drawn once it is"({ browserOpen }) {
    const { page, mock } = await browserOpen("degraded");
    await page.route("**/uPlot*", (route) => route.abort("connectionrefused"));
    await page.goto(mock.url + WORLD);
    await page.reload();
    await says(page, ".chart-readout", /The lines cannot be drawn: the daemon did not send the plotter/);
    await page.unroute("**/uPlot*");
    await page.waitForSelector(".chart canvas");
    await says(page, ".chart-readout", /completed issued/);
  },

  async "a database that is away costs the history only"({ open }) {
    const { page, mock } = await open("degraded", { at: WORLD });
    mock.loseStore();
    await page.waitForSelector(".banner >> text=the database is away");
    await reads(page, "h1", `1 of 4 hosts degraded: ${REASON}`);
    const before = await text(page, "#ranks tbody tr");
    await page.waitForFunction((old) => document.querySelector("#ranks tbody tr")?.innerText.trim().replace(/\s+/g, " ") !== old, before);
  },

  async "what is not seen is said, and an odd hop is marked and proved"({ open }) {
    const { page } = await open("partly", { at: WORLD });
    await says(page, "#ring-panel .notice", /Partly seen.*ringscope run --shim/);
    await says(page, ".cards .partly", /partly seen/);
    await says(page, ".channel-steps", /2 fewest found 4 doubled/);
    await counts(page, ".ring .hop-odd", 1);
    await says(page, ".ring-legend", /odd hop/);
    await says(page, ".totals tbody", /\+ 24 in CUDA graphs, runs not reported/);
    await says(page, ".totals [data-primitive=broadcast]", /NCCL 2\.30\.7 does not tell what a broadcast sends between hosts/);
    await page.goto(new URL("#/findings", page.url()).href);
    await page.click("#firing >> text=keep their rail");
    await says(page, ".evidence", /20021\.log 214 .*Channel 00\/0 : 3\[1\] -> 4\[0\]/);
  },

  async "a finding has an address, its evidence, what to do, and leads to its place"({ open }) {
    const { page } = await open("huge", { at: "#/findings" });
    await page.click("#firing >> text=mlx5_3 of gpu-r05n14 is down");
    await says(page, ".evidence", /phys_state 1 2: Polling/);
    await says(page, ".to-do", /Reseat or replace the cable/);
    await says(page, ".finding-detail", /gpu-r05n14 gpu-r51n13 its incident NIC mlx5_3/);
    await goesTo(page, /#\/findings\?id=f-nic77$/);
    await page.reload();
    await says(page, ".evidence", /DOWN/);
    await page.click(".places >> text=NIC mlx5_3");
    await goesTo(page, /#\/hosts\/gpu-r05n14\?nic=mlx5_3$/);
  },

  async "findings are filtered by the address, and history has durations"({ open }) {
    const { page } = await open("degraded", { at: "#/findings" });
    await says(page, "#firing", /2 conclusions firing/);
    await says(page, "#history", /host-1 found 1 channel.*lasted 73 min/);
    await page.click("text=Warning and worse");
    await says(page, "#firing", /1 conclusion firing/);
    await page.selectOption('.filters select >> nth=0', "capped_by_peer");
    await says(page, "#firing", /Nothing fires that fits the filters/);
    await goesTo(page, /#\/findings\?severity=warning&kind=capped_by_peer$/);
    await page.click("text=clear filters");
    await says(page, "#firing", /2 conclusions firing/);
  },

  async "search finds hosts as one types, by keyboard alone"({ open }) {
    const { page } = await open("huge");
    await presses(page, "/", "#search:focus");
    await page.keyboard.type("r51n1");
    // First only for all that is typed: hits of its beginning have others before it.
    await says(page, '#search-hits [role="option"]', /^host gpu-r51n10/);
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await reads(page, '#search-hits [aria-selected="true"]', "host gpu-r51n11 job pretrain-405b");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => location.hash === "#/hosts/gpu-r51n11");
    // Who is quicker than the answer goes where the answer to all that was typed leads.
    await presses(page, "/", "#search:focus");
    await page.keyboard.type("r51n", { delay: 200 });
    await page.keyboard.type("13");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => location.hash === "#/hosts/gpu-r51n13");
    await presses(page, "/", "#search:focus");
    await page.keyboard.type("nothing like it");
    await says(page, "#search-hits", /Nothing of that name/);
    await page.keyboard.press("Escape");
    await page.waitForSelector("#search-hits", { state: "detached" });
  },

  async "keys lead to the pages and to help"({ open }) {
    const { page } = await open("degraded");
    for (const [key, words] of [["h", /#\/hosts$/], ["j", /#\/jobs$/], ["i", /#\/incidents$/], ["f", /#\/findings$/], ["o", /#\/$/]]) {
      await chord(page, key, words);
      await page.waitForSelector('nav[aria-label="Pages"] [aria-current="page"]');
    }
    await presses(page, "?", "dialog[open]");
    await says(page, "dialog[open]", /search/);
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog[open]", { state: "detached" });
  },

  async "a map of a thousand hosts marks those in trouble by a shape, and arrows walk it"({ open }) {
    const { page } = await open("huge", { at: "#/hosts?shade=nics" });
    await page.waitForFunction(() => document.querySelectorAll(".heat-map a.cell").length === 1000);
    const marked = () => [...document.querySelectorAll(".heat-map a.cell b")].map((one) => [one.parentElement.dataset.host, one.textContent]);
    await yields(page, marked, [["gpu-r05n14", "▲"], ["gpu-r39n06", "▲"], ["gpu-r51n13", "▲"]]);
    await page.focus('a.cell[tabindex="0"]');
    await page.keyboard.press("ArrowRight");
    await says(page, ".pointed", /gpu-r01n02 0 of 4 NICs down/);
    await page.keyboard.press("ArrowDown");
    await says(page, ".pointed", /gpu-r04n02/);
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => location.hash === "#/hosts/gpu-r04n02");
  },

  async "hosts are filtered and sorted, and the address says how"({ open }) {
    const { page } = await open("huge", { at: "#/hosts" });
    await page.click("text=only in trouble");
    await page.waitForFunction(() => document.querySelectorAll("#host-table [data-host]").length === 3);
    await says(page, "#host-table [data-host]", /gpu-r39n06/);
    await page.click("#host-table thead >> text=NICs");
    await says(page, "#host-table [data-host]", /^gpu-r05n14/);
    await page.fill('.filters input[type="search"]', "r51");
    await page.waitForFunction(() => document.querySelectorAll("#host-table [data-host]").length === 1);
    await goesTo(page, /#\/hosts\?q=r51&degraded=true&sort=nics$/);
    await page.reload();
    await page.waitForFunction(() => document.querySelectorAll("#host-table [data-host]").length === 1);
  },

  async "what a panel shows can be taken elsewhere"({ open }) {
    const { page, mock } = await open("degraded");
    await page.click('#hosts summary[aria-label^="Copy or download"]');
    await yields(page, () => document.querySelector("#hosts .command")?.value, `curl -sS --compressed '${mock.url}api/v1/nodes?limit=1000'`);
    const [download] = await Promise.all([page.waitForEvent("download"), page.click("#hosts >> text=Download CSV")]);
    assert.equal(download.suggestedFilename(), "hosts.csv");
    const lines = readFileSync(await download.path(), "utf8").trim().split("\r\n");
    assert.equal(lines.length, 5);
    assert.match(lines[3], /^host-2,degraded,"host-2 found 1 channel, the others 2/);
    await page.keyboard.press("Escape");
    await counts(page, "#hosts .export[open]", 0);
  },

  async "the time range stays from page to page, and charts follow it"({ open }) {
    const { page, mock } = await open("degraded");
    await page.selectOption(".time-range select", "6h");
    await page.waitForFunction(() => location.hash === "#/?from=-6h");
    await says(page, "#throughput", /below the last 6 h/);
    await page.click('nav[aria-label="Pages"] >> text=Jobs');
    await page.waitForFunction(() => location.hash === "#/jobs?from=-6h");
    await page.click("#jobs >> text=llm-7b-pretrain");
    await page.waitForFunction(() => location.hash === "#/jobs/llm-7b-pretrain?from=-6h");
    assert.ok(await until(async () => mock.asked().some((path) => /series\?.*from=/.test(path))), "the history of that time is asked for");
  },

  async "links of before there were pages still lead to the place"({ open }) {
    const { page } = await open("healthy", { at: "#/job/llm-7b-pretrain/communicator/9f3b5c6d7e8f/channel/3" });
    await says(page, ".ring-details", /Channel 3/);
  },

  async "the runbook has an entry for each kind, and says which fires"({ open }) {
    const { page } = await open("degraded", { at: "#/runbook/channel_shortfall" });
    await says(page, "#runbook-channel_shortfall", /found fewer channels than the others.*Check.*Do/);
    await says(page, ".runbook nav", /Channel shortfall firing/);
  },

  async "the chosen theme is kept"({ open }) {
    const { page } = await open("healthy");
    const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const light = await ground();
    await page.click("text=Dark");
    await page.waitForFunction((old) => getComputedStyle(document.documentElement).backgroundColor !== old, light);
    await page.reload();
    await page.waitForFunction((old) => document.querySelector("h1") !== null && getComputedStyle(document.documentElement).backgroundColor !== old, light);
  },

  async "no sideways scrolling on a telephone"({ open }) {
    for (const scenario of ["empty", "degraded", "killed", "incomplete", "partly", "large"]) {
      const { page, mock } = await open(scenario, { width: 390, height: 844 });
      for (const at of ["#/", "#/jobs", "#/jobs/llm-7b-pretrain", scenario === "large" ? LARGE : WORLD, "#/hosts", "#/hosts/host-2", "#/findings", "#/runbook"]) {
        await page.goto(mock.url + at);
        await drawn(page);
        await fits(page, `${scenario} ${at}`);
        await whole(page, ".pages a, .all-hosts :is(th, td), .hosts-table tbody :is(th, td), .ranks-table :is(th, td, .op, small)", `${scenario} ${at}`);
      }
    }
  },

  async "the keyboard reaches everything, and focus is seen"({ open }) {
    const { page } = await open("degraded", { at: WORLD });
    await page.waitForSelector(".ring");
    const stops = [];
    for (let i = 0; i < 100; i += 1) {
      await page.keyboard.press("Tab");
      const stop = await page.evaluate(() => {
        const at = document.activeElement;
        const style = getComputedStyle((at.matches("input") && at.closest("label")) || at);
        return { name: at.getAttribute("class") || at.tagName, seen: style.outlineStyle !== "none", body: at === document.body };
      });
      if (stop.body) break;
      stops.push(stop);
    }
    assert.ok(stops.some((stop) => stop.name === "ring"), "the ring");
    assert.ok(stops.length > 15);
    assert.deepEqual(stops.filter((stop) => !stop.seen), []);
  },
};

const browser = await launch();
let failed = 0;
try {
  for (const [name, check] of Object.entries({ ...CHECKS, ...ringChecks, ...summationChecks, ...incidentChecks, ...accessChecks, ...timeChecks, ...pastChecks })) {
    if (name.includes(process.env.ONLY ?? "")) await run(name, check);
  }
  if (process.env.SCREENSHOTS) await pictures(process.env.SCREENSHOTS);
} finally {
  await browser.close();
}
if (failed > 0) process.exit(1);

async function run(name, check) {
  const opened = [];
  const browserOpen = async (scenario, options = {}) => {
    const mock = await startMock(scenario, 0, options.proxy, options.wants);
    const one = { mock };
    opened.push(one);
    one.view = await openPage(browser, { width: 1440, ...options, url: mock.url + (options.at ?? "") });
    return { page: one.view.page, mock };
  };
  const open = async (scenario, options) => {
    const opened = await browserOpen(scenario, options);
    await drawn(opened.page);
    return opened;
  };
  const nothingSerious = async (page, what) => {
    await still(page);
    assert.deepEqual(await faults(page), [], what);
  };
  try {
    await check({ open, browserOpen, faults: nothingSerious });
    for (const { view } of opened) {
      assert.deepEqual(view.seen.elsewhere, [], "requests to another origin");
      assert.deepEqual(view.seen.errors.filter((error) => !isRefusal(error)), [], "console errors");
    }
    process.stdout.write(`ok   ${name}\n`);
  } catch (error) {
    failed += 1;
    process.stdout.write(`FAIL ${name}\n${error.stack}\n`);
  } finally {
    for (const { mock, view } of opened) {
      await view?.close().catch(() => {});
      await mock.stop().catch(() => {});
    }
  }
}

/** Chromium itself writes these lines when the daemon is stopped, refuses, or knows no such thing. */
function isRefusal(error) {
  return /status of (401|403|404|500|502|503)|Refused to connect|net::ERR_(CONNECTION_REFUSED|CONNECTION_RESET|CONNECTION_CLOSED|CONTENT_LENGTH_MISMATCH|NETWORK_CHANGED|INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE|SOCKET_NOT_CONNECTED)/.test(error);
}

async function signsInWrongly(page) {
  await page.fill("input[name=token]", "rsc_wrong");
  await page.click(".sign-in button");
  await page.waitForSelector("#sign-in-fault");
}

async function pictures(outdir) {
  for (const { name, scenario, at = "", proxy, wants, later, acts } of PICTURES) {
    if (!name.includes(process.env.ONLY ?? "")) continue;
    await shoot(browser, outdir, name, async (open, take) => {
      const mock = await startMock(scenario, 0, proxy, wants);
      try {
        const page = await open(mock.url + at);
        if (later !== undefined) {
          await later(mock);
          await page.waitForSelector(".stale-banner");
        }
        await acts?.(page, mock);
        await take(page);
      } finally {
        await mock.stop();
      }
    });
  }
  process.stdout.write(`pictures in ${outdir}\n`);
}
