// What a user would notice on the pages of summation groups. Run by browser.mjs.

import { counts, fits, goesTo, has, reads, says } from "./reading.mjs";

const GROUP = "#/summation/5d1c09ab77e2";

export const summationChecks = {
  async "without a summation group the page says how to get one"({ open }) {
    const { page } = await open("healthy", { at: "#/summation" });
    await says(page, ".empty", /No job sums through the summation service.*ringscope_engine.*ringscope-sumd/);
  },

  async "from the job to its summation group, to the worker that comes last, to its pipeline"({ open }) {
    const { page } = await open("sum-4-2");
    await page.click("#jobs >> text=resnet50-digits");
    await says(page, "#summation", /1 summation group.*5d1c09ab77e2 .*running.*4 workers \+ 2 servers.*synchronous/);
    await page.click("#summation >> text=5d1c09ab77e2");
    await says(page, "#findings", /worker 2 on train-2 comes last in 76 % of rounds/);
    await says(page, "#stragglers tbody tr", /▲ worker 2 straggler train-2 76 % 22 ms/);
    await page.click("#stragglers >> text=worker 2");
    await says(page, "#pipeline h2", /Pipeline of worker 2 on train-2/);
    await goesTo(page, /#\/summation\/5d1c09ab77e2\?worker=2$/);
    await says(page, ".picture-details", /worker 2 on train-2, straggler: pushes .* GB\/s, pulls .* GB\/s/);
    await page.reload();
    await says(page, ".stage.slowest", /Push .*bottleneck/);
  },

  async "the picture shows every member and flow, by pointer and by keyboard"({ open }) {
    const { page } = await open("sum-4-2", { at: GROUP });
    await counts(page, ".bands .band", 24);
    await counts(page, '.summation-picture [role="option"]', 10);
    await page.hover('.summation-picture [data-service="0"] .share-number');
    await says(page, ".picture-details", /server 0 on sum-0: owns 30\.0 % of the bytes .*optimum 30\.0 %/);
    await counts(page, ".lit .band", 4);
    await page.mouse.move(0, 0);
    await page.focus(".summation-picture");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await says(page, ".picture-details", /^worker 1 on train-1:/);
    await page.keyboard.press("ArrowRight");
    await says(page, ".picture-details", /^worker 0’s own on train-0:/);
    await page.keyboard.press("Enter");
    await goesTo(page, /\?service=2$/);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await says(page, ".picture-details", /Point at a worker/);
    await goesTo(page, /^(?!.*service)/);
    await page.click(".summation-figure + .ring-table summary");
    await page.waitForFunction(() => document.querySelectorAll(".services tbody tr").length === 6);
  },

  async "whether parameters are the same is said, and by which comparison; not where there was none"({ open }) {
    for (const [scenario, words] of [
      ["sum-differ", /Parameters.*differ.*layers\.1\.bias first, after 8.100 steps; 3 of 32 after 8.100 steps/],
      ["sum-same", /Parameters.*same.*all 32 on all workers after 8.100 steps; compared every 100 steps/],
      ["sum-4-2", /Parameters.*not compared.*RSUM_DEBUG_EVERY compares them/],
    ]) {
      const { page } = await open(scenario, { at: GROUP });
      await says(page, ".page-head .facts", words);
      if (scenario === "sum-differ") await says(page, "#findings", /parameter layers\.1\.bias of worker 2 .* is another one than that of the other 3 workers/);
    }
  },

  async "a group's history is drawn, by service and against the optimum, and can be taken away"({ open }) {
    const { page } = await open("sum-8-4", { at: GROUP });
    await page.waitForFunction(() => document.querySelectorAll("#summation-history canvas").length === 5);
    await says(page, "#summation-history", /Summed per second.*Received per second, by service.*server 1 on sum-1.*and 6 services of less\..*1 × is what the NICs make best/);
    await has(page, '[aria-label^="Worst arrival spread over time"]', "aria-label", / ms$/);
  },

  async "the search finds a group by its id, its session and the host of a server, and leads to it"({ open }) {
    for (const wanted of ["5d1c09", "41c2d7708be6", "sum-1"]) {
      const { page } = await open("sum-4-2");
      await page.fill("#search", wanted);
      await page.click('#search-hits >> text=summation group 5d1c09ab77e2');
      await page.waitForFunction((hash) => location.hash === hash, GROUP);
    }
  },

  async "a host leads to the groups that it is in"({ open }) {
    const { page } = await open("sum-4-2", { at: "#/hosts/train-2" });
    await page.click("#summation >> text=5d1c09ab77e2");
    await page.waitForFunction((hash) => location.hash === hash, GROUP);
  },

  async "a service that owns too much is marked, with how much"({ open }) {
    const { page } = await open("sum-8-4", { at: GROUP });
    await counts(page, '.member.is-over[data-service="1"]', 1);
    await says(page, ".member.is-over .share-number", /20\.2 % \+27 %/);
  },

  async "a round that is stuck names its worker, a result that differs its key"({ open }) {
    const { page } = await open("sum-stuck", { at: GROUP });
    await says(page, "#waits .stuck", /11 rounds in flight, the oldest for \d+(\.\d)? s: they wait for worker 2 on train-2\./);
    await says(page, "#waits tbody tr", /gradient\.features\.24\.weight round 8.182, key 93 server 0 worker 2 on train-2/);
    await says(page, "#results .stuck", /1 result differs between members: key 121 round 8\d+/);
    await says(page, "#results tbody tr", /^121, .* differs/);
    await counts(page, ".bands .is-waited", 2);
  },

  async "a lost server is named and crossed out, and what goes on is a click away"({ open }) {
    const { page } = await open("sum-failed", { at: GROUP });
    await says(page, ".notice.lost", /Server 1 on sum-1 \(rank 5\) was lost: .*goes on with 4 workers \+ 1 server: group a93fe07c1142, running/);
    await counts(page, ".summation-picture .is-lost[data-service='1']", 5, "the server and its flows");
    await page.click(".notice.lost a");
    await says(page, ".page-head", /Summation group a93fe07c1142 ← before \(4 workers \+ 2 servers\)/);
  },

  async "a group that starts has members and owns nothing yet"({ open }) {
    const { page } = await open("sum-starting", { at: GROUP });
    await says(page, "#summation-picture", /have not agreed on what to sum yet/);
    await says(page, "#stragglers", /No contribution yet of the workers on train-0, train-1, train-2 and train-3/);
  },

  async "asynchronous sums show their staleness and its bound"({ open }) {
    const { page } = await open("sum-4-2", { at: "#/summation/c0417d9be35a" });
    await says(page, "#staleness", /asynchronous, at most 3 rounds behind.*0 68 % 1 24 % 2 7\.4 % 3 bound 0\.9 %/);
  },

  async "a hundred workers are a matrix that marks those in trouble, and arrows walk it"({ open }) {
    const { page } = await open("sum-128-32", { at: GROUP });
    await says(page, ".matrix-marks", /▲ 77/);
    await page.focus(".summation-picture");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowRight");
    await says(page, ".picture-details", /^worker 0 on gpu-r01n01 → server 0 on cpu-00: pushes /);
    await page.click('text="Backlog"');
    await page.waitForFunction(() => location.hash.endsWith("shade=backlog"));
    await says(page, ".summation-figure .ring-legend", /11\.7 MiB issued and not sent/);
  },

  async "groups are filtered by the address"({ open }) {
    const { page } = await open("sum-failed", { at: "#/summation" });
    await says(page, "#summation h2", /2 summation groups/);
    await page.click('.filters >> text="Over"');
    await says(page, "#summation tbody", /^5d1c09ab77e2 .*failed/);
    await goesTo(page, /#\/summation\?state=over$/);
    await reads(page, "#summation h2", "1 summation group");
  },

  async "no sideways scrolling on a telephone, of any summation group"({ open }) {
    for (const scenario of ["sum-4-2", "sum-16-8", "sum-failed", "sum-128-32"]) {
      const { page } = await open(scenario, { width: 390, height: 844, at: GROUP });
      await fits(page, `${scenario}`);
    }
  },
};
