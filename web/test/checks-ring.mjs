// What a user would notice on the pages of a job, a communicator and a host. Run by browser.mjs.

import { counts, fits, goesTo, has, reads, says } from "./reading.mjs";

const RAILS = "#/communicators/9f3b5c6d7e8f";
const LARGE = "#/communicators/aaaabbbbcccc";

export const ringChecks = {
  async "from the degraded host to the ring, to the NIC, to the evidence"({ open }) {
    const { page } = await open("rails");
    await page.click('.facts >> text="host-2"');
    await says(page, "#host", /because mlx5_1 is down/);
    await page.click("#host-ranks >> text=world/2");
    await says(page, "#ranks", /only host-2/);
    await says(page, ".host-hops", /Out of host-2 on channel 0: 5 → 6 over NET\/IB via mlx5_0/);
    await page.focus(".ring");
    for (let i = 0; i < 6; i += 1) await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Enter");
    await goesTo(page, /rank=5/);
    await page.click(".ring-details >> text=host-2");
    await page.waitForSelector("#nics");
    const row = '[data-nic="mlx5_1"]';
    await says(page, row, /down DOWN, Polling/i);
    await says(page, row, /It explains: host-2 found 1 channel because mlx5_1 is down/);
    await says(page, row, /↑ symbol_error 18.204, 1.912 more in 10 min/);
    await counts(page, `${row}.nic-down`, 1);
    await has(page, `${row} .why a >> text=Channel shortfall`, "href", /#\/findings\?host=host-2&id=f-1/);
  },

  async "a host's RDMA connections show both ends, and those that failed stand first with the verbs' words"({ open }) {
    const { page } = await open("rails", { at: "#/hosts/host-2" });
    await says(page, "#connections h2", /RDMA connections, 5 failed/);
    await says(page, "#connections tbody tr:first-child", /rank 4 sends mlx5_1 .*failed transport retry counter exceeded host-3 rank 6 mlx5_1 RoCE v2, index 3 MTU 4096 .* ERR/);
    await says(page, "#connections tbody tr:nth-child(5)", /rank 4 sends mlx5_3 .*failed make a queue pair: .* not met – MTU – – /);
    await says(page, "#connections tbody tr:nth-child(6)", /open .* RTS .*11.1 GB\/s .*311 ×, 1.4 s in all/);
    await says(page, '[data-nic="mlx5_1"]', /2 GIDs \(InfiniBand, RoCE v2\), MTU 4096/);
    await page.click("#connections tbody tr:first-child >> text=host-3");
    await goesTo(page, /#\/hosts\/host-3$/);
  },

  async "a host with RDMA devices says why no connection of them is shown"({ open }) {
    const { page } = await open("single", { at: "#/hosts/host-0" });
    await says(page, "#connections", /RDMA connections No process here tells of any\. Those do that run under ringscope run with the network plugin libnccl-net-ringscope\.so/);
  },

  async "a hop leads to the NIC that it uses, which is marked"({ open }) {
    const { page } = await open("rails", { at: `${RAILS}?rank=1` });
    await says(page, ".ring-details", /1\s*→\s*to\s*2 host-0 → host-1 NET\/IB via mlx5_0/);
    await page.click(".ring-details >> text=mlx5_0");
    await page.waitForSelector('[data-nic="mlx5_0"].named');
    await goesTo(page, /#\/hosts\/host-0\?nic=mlx5_0/);
    await says(page, '[data-nic="mlx5_0"]', /400 Gb\/s.*97 % of what it sends.*world\/2: 0/);
  },

  async "a job shows its communicators with what they are for, its history and its timeline"({ open }) {
    const { page } = await open("rails", { at: "#/jobs/llm-7b-pretrain?from=-6h" });
    await says(page, '[data-comm="9f3b5c6d7e8f"]', /world\/2.*every rank of the job, as its name says.*active.*1 → 2.*host-2/);
    await says(page, '[data-comm="77aa88bb99cc"]', /PP\?.*pipeline parallel, a guess from its shape/);
    await page.waitForFunction(() => document.querySelectorAll("#traffic canvas").length === 2);
    await page.click("text=by communicator");
    await page.waitForFunction(() => document.querySelector("#traffic .chart-readout")?.innerText.includes("world/2"));
    await page.click('.timeline a:has(title:text("world/1"))');
    await says(page, ".page-head", /world\/1 .*ended/);
  },

  async "an earlier communicator is compared, ring beside ring, and what changed is named"({ open }) {
    const { page } = await open("rails", { at: RAILS });
    await page.selectOption("#ring-panel .picker select", { index: 1 });
    await says(page, ".comparison", /^2 channels instead of 4; rank 3 on host-1 sends over NET\/Socket via eno1 instead of NET\/IB via mlx5_0 on channel 0/);
    await goesTo(page, /compare=0a1b2c3d4e5f/);
    await page.waitForFunction(() => document.querySelectorAll(".ring").length === 2);
    await counts(page, ".ring .hop.changed", 2, "the hop is marked in both rings");
    await says(page, ".changes", /3 host-1 transport, NIC NET\/IB via mlx5_0 NET\/Socket via eno1/);
    await page.selectOption("#ring-panel .picker select", "");
    await page.waitForFunction(() => document.querySelectorAll(".ring").length === 1);
  },

  async "every channel is a small ring, and those to look at say why"({ open }) {
    const { page } = await open("rails", { at: RAILS });
    await counts(page, ".ring-thumbs a", 2);
    await counts(page, '.ring-thumbs [aria-label="Channel 1, 1 odd"]', 1);
    await page.click('.ring-thumbs [aria-label^="Channel 1"]');
    await says(page, ".ring-details", /Channel 1/);
  },

  async "a large ring stands by hosts; one is expanded by pointer or keyboard, and has an address"({ open }) {
    const { page } = await open("large", { at: LARGE });
    await page.focus(".ring");
    await page.keyboard.press("ArrowRight");
    await says(page, ".ring-details", /gpu-r01n01.*8 ranks: 0–7/);
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelectorAll(".ring [data-rank]").length === 8);
    await goesTo(page, /host=gpu-r01n01/);
    // First the place, then the host is let go.
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => document.querySelectorAll(".ring [data-rank]").length === 0);
    await page.locator('.ring [data-host="gpu-r05n14"] circle').click();
    await page.waitForFunction(() => document.querySelectorAll(".ring [data-rank]").length === 8);
    await says(page, "#ranks", /only gpu-r05n14/);
  },

  async "ranks are sorted and filtered"({ open }) {
    const { page } = await open("killed", { at: `${RAILS}?view=ranks` });
    await reads(page, "#ranks tbody th", "3");
    await says(page, '#ranks th[aria-sort="ascending"]', /^State/);
    await page.click("#ranks thead >> text=Rank");
    await says(page, '#ranks th[aria-sort="ascending"]', /^Rank/);
    await reads(page, "#ranks tbody th", "0");
    await page.click("#ranks thead >> text=Rank");
    await reads(page, "#ranks tbody th", "7");
    await counts(page, '#ranks th[aria-sort="descending"]', 1);
    await page.selectOption("#ranks .picker select", "killed");
    await page.waitForFunction(() => document.querySelectorAll("#ranks tbody tr").length === 1);
    await reads(page, "#ranks tbody th", "3");
    await counts(page, ".ring", 0, "this part alone");
  },

  async "a trace of the time range is offered for download, and nothing is sent elsewhere"({ open }) {
    const { page } = await open("rails", { at: RAILS });
    await page.click(".trace summary");
    await has(page, ".trace a", "href", /^api\/v1\/communicators\/9f3b5c6d7e8f\/trace\?from=\d{4}-.*Z&to=\d{4}-.*Z$/);
    await says(page, ".trace .pop", /ui\.perfetto\.dev/);
  },

  async "what a host found each time is drawn and listed, and where it fell is marked"({ open }) {
    const { page } = await open("rails", { at: "#/hosts/host-2" });
    await page.waitForSelector(".channel-history .stem.short");
    await counts(page, '.history-table [aria-label="fewer than the last time"]', 1);
    await says(page, ".history-table tbody", /world\/1 llm-7b-pretrain 2 of 8 2 2 4 doubled/);
  },

  async "pages of a job, a communicator and a host fit a telephone"({ open }) {
    for (const at of ["#/jobs/llm-7b-pretrain", `${RAILS}?compare=0a1b2c3d4e5f`, "#/hosts/host-2?nic=mlx5_1"]) {
      const { page } = await open("rails", { at, width: 390, height: 844 });
      await fits(page, `${at}`);
    }
  },
};
