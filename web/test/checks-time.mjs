// What a user would notice of time: what slowness costs, zones, zooming, marks on charts. Run by browser.mjs.

import { counts, says } from "./reading.mjs";

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
};
