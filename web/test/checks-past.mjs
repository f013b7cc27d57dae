// What a user would notice of looking back: a moment that is chosen or clicked on, what is not known of it, the way to now. Run by browser.mjs.

import assert from "node:assert/strict";
import { counts, fits, goesTo, says, until } from "./reading.mjs";

const JOB = "#/jobs/llm-7b-pretrain";
const back = (minutes) => new Date(Math.floor(Date.now() / 1000 - minutes * 60) * 1000).toISOString().replace(".000", "");

export const pastChecks = {
  async "a time in the past: what held then, what is not known, and back to now"({ open }) {
    const { page, mock } = await open("degraded");
    await page.click(".look-back");
    await goesTo(page, /#\/\?at=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    await says(page, ".past-banner", /^As of .* UTC.* 5(\.\d)? min ago; updates are paused.*Back to now/);
    await says(page, ".live-state", /paused/);
    await says(page, "#incidents", /host-2 found 1 channel/);
    // Of a time before it was found it is not told; a host of which nothing was recorded is not healthy.
    await page.goto(`${mock.url}#/?at=${back(60)}`);
    await says(page, "#findings", /Nothing is kept that held then/);
    await says(page, "#hosts", /no completed bytes were recorded then/);
    await says(page, ".headline", /it is not known how 1 of/);
    const silent = await page.locator("#hosts .is-unknown").first().innerText();
    assert.match(silent, /–/, "a bandwidth that was not recorded is no number");
    // The moment goes along to other pages, and is taken back.
    await page.click("#hosts th a >> nth=0");
    await goesTo(page, /#\/hosts\/.*at=/);
    await says(page, ".past-banner", /^As of/);
    await page.click(".back-to-now");
    await goesTo(page, /#\/hosts\/[^?]*$/);
    await counts(page, ".past-banner", 0);
    await says(page, ".live-state", /live/);
  },

  async "updates stand still while the past is shown, and go on after it"({ open }) {
    const { page, mock } = await open("degraded", { at: `${JOB}?at=${back(2)}` });
    await says(page, "#ring-panel", /Channel .* of \d channels/);
    await page.waitForSelector("#ring-panel .ring [data-rank]");
    const asked = () => mock.asked().filter((path) => path.startsWith("/api/v1/health")).length;
    const before = asked();
    // The daemon's events of some seconds change nothing.
    const events = await page.evaluate(() => document.querySelector(".past-banner").innerText);
    await until(async () => (await page.evaluate(() => document.querySelector(".past-banner").innerText)) !== events, 90_000);
    assert.equal(asked(), before);
    await page.click(".back-to-now");
    assert.ok(await until(async () => asked() > before), "what is now is asked for again");
  },

  async "a click on a mark, or on a moment below the bars, shows how things stood then"({ open }) {
    const { page } = await open("degraded", { at: JOB });
    await page.waitForSelector("#traffic .u-over");
    await page.locator("#traffic .u-over").first().scrollIntoViewIfNeeded();
    const hit = await until(async () => {
      const box = await page.locator("#traffic .u-over").first().boundingBox();
      for (let px = 2; px < box.width; px += 5) {
        await page.mouse.move(box.x + px, box.y + 90);
        if (await page.locator("#traffic .u-over.on-mark").count() > 0) return page.mouse.click(box.x + px, box.y + 90).then(() => true);
      }
      return undefined;
    });
    assert.ok(hit);
    await goesTo(page, /#\/jobs\/llm-7b-pretrain\?at=/);
    await says(page, ".past-banner", /^As of/);
    await page.click(".moments summary");
    await page.click(".moments a >> nth=-1");
    await goesTo(page, /#\/jobs\/llm-7b-pretrain\?at=/);
  },

  async "a field chooses another time; one that makes no sense or is to come changes nothing"({ open }) {
    const { page } = await open("degraded", { at: `#/?at=${back(5)}` });
    const field = page.locator(".past-banner input");
    await field.waitFor();
    const was = page.url();
    await page.click("text=1 min earlier");
    await until(async () => page.url() !== was);
    assert.equal(Date.parse(new URLSearchParams(was.split("?")[1]).get("at")) - Date.parse(new URLSearchParams(page.url().split("?")[1]).get("at")), 60_000);
    const { page: other } = await open("degraded", { at: "#/?at=2999-01-01T00:00:00Z" });
    await says(other, "#incidents", /host-2/);
    await counts(other, ".past-banner", 0);
    const { page: elsewhere } = await open("degraded", { at: `#/summation?at=${back(5)}` });
    await says(elsewhere, ".past-banner", /This page shows now/);
    const { page: findings } = await open("degraded", { at: `#/findings?at=${back(5)}` });
    await says(findings, "#findings", /Findings that held then.*host-2/s);
    await counts(findings, ".past-not, #hosts", 0);
    const { page: incidents } = await open("degraded", { at: `#/incidents?at=${back(5)}` });
    await says(incidents, "#incidents", /open then.*host-2/s);
    await counts(incidents, ".past-not, #findings", 0);
  },

  async "before and after of how fast stands beside that of rings"({ open }) {
    const { page } = await open("rails", { at: "#/communicators/9f3b5c6d7e8f" });
    await page.locator(".picker select").selectOption({ index: 1 });
    await says(page, ".pace-changes", /Completed per second, all ranks.*From one call to the next.*A step of the job 0\.4\d s 0\.4\d s.*Share of a step in collectives 50 % 50 %/s);
  },

  async "axe-core finds nothing serious on the past, and it fits a telephone"({ open, faults }) {
    for (const dark of [false, true]) {
      const { page } = await open("degraded", { at: `${JOB}?at=${back(3)}`, dark });
      await page.waitForSelector("#ring-panel .ring [data-rank]");
      await faults(page, `the past${dark ? " dark" : ""}`);
    }
    for (const [scenario, at] of [["long-hosts", "#/"], ["long-hosts", JOB], ["huge", "#/hosts"]]) {
      const { page } = await open(scenario, { at: `${at}?at=${back(1)}`, width: 390, height: 844 });
      await page.waitForSelector("#hosts");
      await fits(page, `the past of ${scenario} ${at}`);
    }
  },
};
