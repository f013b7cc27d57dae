// What a user would notice of time: what slowness costs, zones, zooming, marks on charts. Run by browser.mjs.

import assert from "node:assert/strict";
import { counts, fits, goesTo, has, says, until } from "./reading.mjs";

const SPAN = /\?from=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ&to=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;

/** Draws from one share of the width to another over the first of `selector`. */
async function draw(page, selector, from, to) {
  await page.waitForSelector(selector);
  await page.locator(selector).first().scrollIntoViewIfNeeded();
  const { x, y, width, height } = await page.locator(selector).first().boundingBox();
  await page.mouse.move(x + width * from, y + height * 0.6);
  await page.mouse.down();
  await page.mouse.move(x + width * ((from + to) / 2), y + height * 0.6);
  await page.mouse.move(x + width * to, y + height * 0.6);
  await page.mouse.up();
}

/** Seconds that the address spans. */
function spanS(page) {
  const query = new URLSearchParams(page.url().split("?")[1]);
  return (Date.parse(query.get("to")) - Date.parse(query.get("from"))) / 1000;
}

export const timeChecks = {
  async "what a slow rank costs stands beside it: on the overview, on its incident and among the findings"({ open }) {
    const cost = /costs 0\.31 s per step, 18 % of the time, 4\.2 rank hours so far/;
    const { page, mock } = await open("slow");
    await says(page, "#incidents .cost", cost);
    await page.goto(`${mock.url}#/incidents/f-slow`);
    await says(page, ".page-head", /Costs 0\.31 s per step, 18 % of the time, 4\.2 rank hours so far/);
    await page.goto(`${mock.url}#/findings?id=f-slow`);
    await says(page, "#firing .cost", cost);
    await says(page, ".finding-detail .numbers", /What it costs 0\.31 s per step/);
    const { page: other } = await open("degraded");
    await counts(other, ".cost", 0);
  },

  async "what is drawn on a chart becomes the range of the page; a double click, the button and the way back lead out"({ open }) {
    const { page, mock } = await open("degraded");
    await draw(page, "#throughput .u-over", 0.2, 0.6);
    await goesTo(page, SPAN);
    assert.ok(Math.abs(spanS(page) - 360) < 15, `${spanS(page)} s of 15 min * 0.4`);
    assert.ok(await until(async () => mock.asked().some((path) => /series\?.*from=.*&to=/.test(path))), "the history of that time is asked for");
    await says(page, ".time-range", /Reset zoom/);
    await page.locator("#throughput .u-over").dblclick();
    await goesTo(page, /#\/$/);
    await counts(page, ".time-range button", 0);
    await page.goBack();
    await goesTo(page, SPAN);
    // The same range on another page, and another range within it: the way out leads to where all began.
    await page.click('nav[aria-label="Pages"] >> text=Jobs');
    await page.click("#jobs >> text=llm-7b-pretrain");
    await goesTo(page, /#\/jobs\/llm-7b-pretrain\?from=/);
    const whole = spanS(page);
    await draw(page, "#traffic .u-over", 0.4, 0.9);
    await until(async () => spanS(page) < whole * 0.8);
    await page.click(".time-range >> text=Reset zoom");
    await goesTo(page, /#\/jobs\/llm-7b-pretrain$/);
  },

  async "a range is drawn over bars as well, and a click on one still leads to what it stands for"({ open }) {
    const { page } = await open("degraded", { at: "#/jobs/llm-7b-pretrain" });
    await draw(page, ".timeline svg", 0.5, 0.8);
    await goesTo(page, SPAN);
    await page.click("#timeline .bar-link >> nth=0");
    await goesTo(page, /#\/communicators\/9f3b5c6d7e8f/);
  },

  async "the zone of all times is always on the screen, and what is copied has whole times"({ open }) {
    const { page } = await open("degraded");
    await says(page, ".zone", /^times in UTC([+−]\d{1,2}(:\d\d)?)?$/);
    assert.ok(await page.locator(".zone").evaluate((one) => one.getBoundingClientRect().bottom <= innerHeight + 1));
    const copied = (selector) => page.evaluate((selector) => {
      let text;
      document.addEventListener("copy", (event) => { text = event.clipboardData.getData("text/plain"); }, { once: true });
      getSelection().selectAllChildren(document.querySelector(selector));
      document.execCommand("copy");
      return text;
    }, selector);
    assert.match(await copied("#incidents .about"), /since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d, for 14 min/);
    assert.match(await copied("#incidents .about time"), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d$/);
    await has(page, "#incidents time", "datetime", /[+-]\d\d:\d\d$/);
  },

  async "where each step goes: the slowest sixteen, who is not shown, and no name of a host too long for it"({ open }) {
    const { page } = await open("slow-many", { at: "#/jobs/moe-pretrain" });
    await counts(page, "#pace .pace li", 16);
    await says(page, "#pace", /A step takes 1\.72 s.*rank 613 .*1\.54 s of its own, usual 1\.23 s;.*and 1.008 more, none slower/s);
    const { page: long } = await open("long-hosts", { at: "#/jobs/llm-7b-pretrain" });
    await counts(long, "#pace .pace li", 16);
    await fits(long, "long names of hosts");
  },

  async "how each rank spends its time: own, waiting, transfer; a click says who waited for whom, drawing shows a part"({ open }) {
    const { page } = await open("slow", { at: "#/jobs/llm-7b-pretrain" });
    const canvas = "#job-timeline canvas";
    await says(page, "#job-timeline", /1.600 operations of 8 ranks in world; hosts aligned within 300 µs; 1 clock moved, by up to 42 ms\. Only the last 2 minutes of the range are shown here/);
    await page.waitForSelector(canvas);
    await page.locator(canvas).scrollIntoViewIfNeeded();
    // Rank 5 has hardly any waiting in its row, its neighbours have much.
    const orange = (row) => page.locator(canvas).evaluate((one, row) => {
      const scale = one.width / one.clientWidth;
      const { data } = one.getContext("2d").getImageData(120 * scale, (22 + row * 18 + 8) * scale, 600, 1);
      let count = 0;
      for (let i = 0; i < data.length; i += 4) if (data[i] > 200 && data[i + 2] < 90) count += 1;
      return count;
    }, row);
    assert.ok(await until(async () => (await orange(4)) > 30 && (await orange(5)) < 5), `waiting of rank 4: ${await orange(4)}, of rank 5: ${await orange(5)}`);
    await draw(page, canvas, 0.4, 0.42);
    await says(page, "#job-timeline .chart-readout", /Show all of it/);
    const { x, y, width } = await page.locator(canvas).boundingBox();
    const found = await until(async () => {
      for (let share = 0.3; share < 0.6; share += 0.03) {
        await page.mouse.click(x + width * share, y + 22 + 2 * 18 + 8);
        const all = await page.locator(".time-chain li").allInnerTexts();
        if (all.length === 2) return all;
      }
      return undefined;
    });
    assert.match(found[0], /^rank 2 on host-1: All(Reduce|Gather) #\d+ of world: .* of its own before, waited 1\d ms for others/);
    assert.match(found[1], /^It arose at rank 5 on host-2: .*waited 0 s for others/);
    await page.focus(canvas);
    await page.keyboard.press("0");
    await counts(page, "#job-timeline .chart-readout button", 0);
  },

  async "who is late, call by call and rank by rank; nothing of it where the daemon does not tell"({ open }) {
    const { page } = await open("slow", { at: "#/jobs/llm-7b-pretrain" });
    await page.click("#job-timeline >> text=Lateness");
    await says(page, "#job-timeline", /Rank 5 on host-2 is late the most: 12 ms behind the others on average\./);
    await page.locator("#job-timeline canvas").click();
    await says(page, "#job-timeline .falls tbody tr", /^5 host-2 \d+ ms \+1\d ms 0 s \d/);
    await counts(page, "#job-timeline .falls tbody tr", 8);
    const { page: other } = await open("degraded", { at: "#/jobs/llm-7b-pretrain" });
    await other.waitForSelector("#traffic .u-over");
    await counts(other, "#job-timeline", 0);
  },

  async "what operations of each size reach is read out size by size, by keys and by pointing"({ open }) {
    const { page } = await open("healthy", { at: "#/communicators/9f3b5c6d7e8f" });
    await says(page, "#bandwidth .chart-readout", /AllReduce.*AllGather.*3 other communicators of 8 ranks on 4 hosts/s);
    await page.locator('#bandwidth [role="img"]').focus();
    await page.keyboard.press("Home");
    await says(page, "#bandwidth .chart-readout", /^From 1 KiB: AllReduce not used here; best/);
    await page.keyboard.press("ArrowRight");
    await says(page, "#bandwidth .chart-readout", /^From 4 KiB: AllReduce 4 KiB in \d+ µs/);
    assert.match(await page.locator('#bandwidth [role="img"]').getAttribute("aria-label"), /AllReduce 4 KiB in/);
    await page.locator('#bandwidth [role="img"]').hover({ position: { x: 500, y: 60 } });
    await says(page, "#bandwidth .chart-readout", /^From \d+ MiB/);
  },

  async "axe-core finds nothing serious on what tells of time, nor under forced colours; all fits a telephone"({ open, faults }) {
    for (const dark of [false, true]) {
      for (const tab of ["Timeline", "Lateness", "One call"]) {
        const { page } = await open("slow", { at: "#/jobs/llm-7b-pretrain", dark });
        await page.click(`#job-timeline >> text=${tab}`);
        await faults(page, `slow, ${tab}${dark ? " dark" : ""}`);
      }
    }
    for (const [scenario, at] of [["hang", "#/"], ["slow", "#/jobs/llm-7b-pretrain"], ["empty", "#/"]]) {
      const { page } = await open(scenario, { at });
      await page.emulateMedia({ forcedColors: "active" });
      await faults(page, `${scenario} ${at} under forced colours`);
    }
    for (const scenario of ["slow", "slow-many"]) {
      const { page } = await open(scenario, { at: scenario === "slow" ? "#/jobs/llm-7b-pretrain" : "#/jobs/moe-pretrain", width: 390, height: 844 });
      for (const tab of ["Timeline", "Lateness", "One call"]) {
        await page.click(`#job-timeline >> text=${tab}`);
        await fits(page, `${scenario} ${tab}`);
      }
    }
  },

  async "under forced colours what is chosen and what is in trouble is still told"({ open }) {
    const { page } = await open("hang");
    await page.emulateMedia({ forcedColors: "active" });
    const looks = (selector) => page.locator(selector).first().evaluate((one) => { const style = getComputedStyle(one); return [style.backgroundColor, style.outlineStyle, style.outlineWidth].join(" "); });
    assert.notEqual(await looks(".themes .on"), await looks(".themes label:not(.on)"));
    assert.match(await looks('.hosts-table [data-host="host-2"]'), /solid 2px$/);
    await says(page, ".zone", /^times in/);
  },

  async "a range that is longer than the data says so, and marks say what happened"({ open }) {
    const { page } = await open("degraded", { at: "#/jobs/llm-7b-pretrain?from=-6h" });
    await says(page, "#traffic .chart-note", /Data from (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d on; the range is longer\./);
    const { page: short } = await open("degraded");
    await counts(short, "#throughput .chart-note", 0);
    await short.waitForSelector("#throughput .u-over");
    await short.locator("#throughput .u-over").scrollIntoViewIfNeeded();
    const read = await until(async () => {
      const box = await short.locator("#throughput .u-over").boundingBox();
      for (let share = 0.02; share < 0.14; share += 0.01) {
        await short.mouse.move(box.x + box.width * share, box.y + 90);
        await short.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
        const words = await short.locator("#throughput .chart-readout").innerText();
        if (/Then: host-2 found 1 channel/.test(words)) return words;
      }
      return undefined;
    });
    assert.match(read, /^\d\d:\d\d:\d\d UTC/);
  },
};
