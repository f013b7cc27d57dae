// What a user would notice of hangs, incidents, unknown states and errors of what stands before the daemon. Run by browser.mjs.

import { counts, drawn, fits, goesTo, has, reads, says, titled, yields } from "./reading.mjs";

const HANG = "#/incidents/f-rank_missing";
const WORLD = "#/communicators/9f3b5c6d7e8f";
const EVERYWHERE = ["#/", "#/incidents", HANG, WORLD, "#/hosts", "#/jobs"];
const GREEN = ".mark-ok";

export const incidentChecks = {
  async "a hang: sentence, advice and true beginning from the daemon, the open incident on top, and from there to its page"({ open }) {
    const { page } = await open("hang");
    await says(page, "h1", /^Rank 5 on host-2 has not called AllReduce #1042 that 7 ranks wait in$/);
    await says(page, "#incidents .message", /7 ranks wait in: it is blocked reading \/mnt\/nfs/);
    for (const short of ["#jobs .why", '#hosts [data-host="host-2"] .why', '#hosts [data-host="host-0"] .why']) await says(page, short, /^the incident above$/);
    await says(page, "#findings", /Nothing else is firing\. 1 finding belongs to the incident above\./);
    await counts(page, "#findings .finding", 0);
    await says(page, ".advice", /Look at \/mnt\/nfs on host-2/);
    await says(page, ".facts", /Since (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d 13 min ago/);
    await titled(page, /^◆ host-2/);
    await says(page, "#incidents", /1 open incident.*Rank 5 on host-2.*since (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d, for 13 min.*7 ranks wait because of it/);
    await page.click("#incidents .message a");
    await goesTo(page, /#\/incidents\/f-rank_missing$/);
    await says(page, ".page-head", /Rank 5 on host-2.*Goes on since.*Found.*33 s after it began.*7 ranks.*host-2.*llm-7b-pretrain.*world/);
  },

  async "the culprit is told apart from those that wait, by shape and words"({ open }) {
    const { page } = await open("hang");
    await has(page, '#hosts [data-host="host-2"] .mark', "aria-label", /^hung$/);
    await has(page, '#hosts [data-host="host-0"] .mark', "aria-label", /^hung, waits$/);
    await says(page, '#jobs [data-job="llm-7b-pretrain"]', /hung.*the incident above/);
    await page.goto(new URL(WORLD, page.url()).href);
    await says(page, "#ranks .progress.stuck", /rank 5 on host-2 has not called/);
    await says(page, '#ranks tr[data-rank="5"]', /the others wait for it/);
    await counts(page, ".ring .state-late", 1);
  },

  async "what the culprit does: stacks, system call, file, kernel; and what was known when"({ open }) {
    const { page } = await open("hang", { at: HANG });
    await says(page, "#culprit", /rank 5 host-2 process 20035 in no call; .*dataloader\.py:214.*system call: read.*train-00017\.tar on nfs4.*nas-3 not responding/);
    await says(page, "#timeline", /it began rank 5 is the last.*after 2\.1 s.*after 33 s.*It goes on/);
    await has(page, "#timeline time", "title", /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d$/);
    await says(page, "#to-do", /Look at \/mnt\/nfs.*Runbook: rank missing/);
  },

  async "who waits for whom is drawn: the culprit, a line from each that waits; and as a table"({ open }) {
    const { page } = await open("hang", { at: HANG });
    await counts(page, ".waits .wait-link", 7);
    await yields(page, () => [...document.querySelectorAll(".waits .role-culprit")].map((one) => one.dataset.rank), ["5"]);
    await says(page, ".who-waits figcaption", /7 of 8 ranks wait, on 4 hosts, for rank 5 on host-2/);
    await page.click(".who-waits summary");
    await says(page, ".who-waits tbody", /^host-2 5 1 waited for host-0 0, 1 2 waits/);
  },

  async "of a thousand ranks those that wait are folded into counts, and the map shows who it is"({ open }) {
    const { page } = await open("crowd", { at: HANG });
    await yields(page, () => [...document.querySelectorAll(".waits .role-culprit")].map((one) => one.dataset.rank), ["613"]);
    await yields(page, () => [...document.querySelectorAll(".waits .wait-place")].reduce((sum, one) => sum + Number(one.dataset.ranks), 0), 1024);
    await yields(page, () => document.querySelectorAll(".waits .wait-place").length < 45, true);
    await page.goto(new URL("#/", page.url()).href);
    await counts(page, ".heat-map .cell.is-hung", 1);
    await counts(page, ".heat-map .cell.is-waits", 127);
    await says(page, "#hosts", /127 hosts wait because of it/);
  },

  async "a mismatch shows both calls side by side, and marks what differs"({ open }) {
    const { page } = await open("mismatch", { at: "#/incidents/f-call_mismatch" });
    await says(page, "#who-waits .calls", /rank 2 all_reduce ≠ 1025 \(differs\) float32 sum ranks 0, 1, 3, 4 and 3 more all_reduce 262144 float32 sum/);
    await counts(page, ".calls .differs", 3, "one in the call, two in the last calls of both");
    await says(page, "#who-waits .calls >> nth=1", /#1041 all_reduce of 262144 float32 \(sum\) all_reduce of 262144 float32 \(sum\) #1042 ≠ all_reduce of 1025/);
  },

  async "a circle is drawn with its ranks and communicators"({ open }) {
    const { page } = await open("cycle", { at: "#/incidents/f-order_deadlock" });
    await counts(page, ".waits .role-culprit", 3);
    await yields(page, () => [...document.querySelectorAll(".wait-communicator text")].map((one) => one.textContent), ["world", "tensor-0", "data-1"]);
    await says(page, ".circle-links", /rank 1 waits for rank 2, in all_reduce #1042 of world.*ranks 4 to 7 wait for rank 1/);
    await yields(page, () => [...document.querySelectorAll(".waits .wait-number")].map((one) => one.textContent), ["rank 1", "rank 2", "4 to 7"]);
    await page.click(".circle-links >> text=tensor-0 >> visible=true");
    await goesTo(page, /#\/communicators\/1a2b3c4d5e6f/);
  },

  async "an init that does not end names those that never came"({ open }) {
    const { page } = await open("init", { at: "#/incidents/f-init_stuck" });
    await says(page, ".page-head", /Ranks 6 and 7 have not called ncclCommInitRank/);
    await counts(page, ".waits .role-culprit.unheard", 2);
    await says(page, "#who-waits .ring-legend", /never heard of/);
  },

  async "who signed in is named without being asked, and another name stands beside"({ open }) {
    const { page } = await open("hang", { at: HANG, wants: { known: true, name: "ops", role: "operate" } });
    await yields(page, () => document.querySelector("#care input")?.value, "ops");
    await page.click("#care >> text=I look after it");
    await says(page, ".care-state", /^ops looks after it since/);
    await page.fill("#care input", "anna");
    await says(page, "#care", /Others see “ops \(for anna\)”\./);
    await page.click("#care >> text=I take it over");
    await says(page, ".care-state", /^ops \(for anna\) looks after it since/);
    await page.click("#care >> text=I no longer look after it");
    await page.waitForSelector("#care >> text=I look after it");
  },

  async "somebody acknowledges, silences, notes; the name is asked for once and kept"({ open }) {
    const { page } = await open("hang", { at: HANG });
    await page.click("#care >> text=I look after it");
    await says(page, "#care-problem", /Say who you are first/);
    await page.waitForSelector("#care input:focus");
    await page.keyboard.type("anna");
    await page.click("#care >> text=I look after it");
    await says(page, ".care-state", /^anna looks after it since/);
    await page.click("#care >> text=I no longer look after it");
    await page.click("#care >> text=I look after it");
    await says(page, ".care-state", /^anna looks after it since/);
    await page.selectOption("#care select", "14400");
    await page.click("#care .care-silence button");
    await says(page, ".care-state", /Nobody is told of it until/);
    await page.click("#care >> text=End the silence");
    await page.waitForSelector("#care .care-silence");
    await page.fill("#care textarea", "The filer is being restarted.");
    await page.click("#care >> text=Add the note");
    await says(page, "#care .notes", /anna.*The filer is being restarted\./);
    await page.reload();
    await yields(page, () => document.querySelector("#care input")?.value, "anna");
    await page.goto(new URL("#/", page.url()).href);
    await says(page, "#incidents", /anna looks after it.*1 note/);
  },

  async "what cannot be kept is said beside the button"({ open }) {
    const { page, mock } = await open("hang", { at: HANG });
    await page.fill("#care input", "anna");
    mock.proxy("login");
    await page.click("#care >> text=I look after it");
    await says(page, "#care-problem", /^Not kept\. Status 200: the answer is a web page.*Reload this page to sign in again/);
  },

  async "incidents are listed, open ones first, and filtered by the address"({ open }) {
    const { page } = await open("hang", { at: "#/incidents" });
    await says(page, "#open", /1 open incident.*Rank 5 on host-2/);
    await says(page, "#history", /Rank 4 on host-2 had not called.*lasted 3 min.*7 ranks waited.*anna looked after it.*1 note/);
    await page.click('.filters >> text="Over"');
    await goesTo(page, /#\/incidents\?state=resolved$/);
    await page.waitForSelector("#open", { state: "detached" });
    await page.click("#history .message a");
    await says(page, "#timeline", /It is over, lasted 3 min/);
    await counts(page, "#care .care-buttons", 0);
  },

  async "a finding leads to its incident"({ open }) {
    const { page } = await open("hang", { at: "#/findings" });
    await page.click("#firing .about >> text=incident");
    await goesTo(page, /#\/incidents\/f-rank_missing$/);
  },

  async "what is not known is grey and says what would be needed"({ open }) {
    const { page } = await open("no-nccl");
    await page.waitForSelector(".headline.level-unknown .mark-unknown");
    await says(page, ".unknown-lines", /no call of NCCL so far; ringscope doctor says whether its calls can be seen/);
    await counts(page, GREEN, 0, "nothing is green");
    await has(page, '#hosts [data-host="host-0"] .mark', "aria-label", /^unknown$/);
  },

  async "a collector that was switched off is not watched, since when and by whom"({ open }) {
    const { page } = await open("off", { at: "#/jobs/llm-7b-pretrain" });
    await says(page, ".stands", /unknown not watched since 02:11:40: its collector was switched off by anna/);
  },

  async "whatever a proxy says from the beginning: its status and what to do, never emptiness, never green"({ browserOpen }) {
    const said = {
      unauthorized: /Status 401 Unauthorized: a proxy in front of the daemon wants a login.*Reload this page to sign in again/,
      forbidden: /Status 403 Forbidden: a proxy in front of the daemon does not let you in/,
      gateway: /Status 502 Bad Gateway: the proxy in front of the daemon cannot reach it.*ringscope status/,
      login: /Status 200: the answer is a web page and not the daemon's/,
      redirect: /sends the page elsewhere: to a login/,
      torn: /Status 200: the answer is not what the daemon sends/,
    };
    for (const [proxy, words] of Object.entries(said)) {
      const { page, mock } = await browserOpen("healthy", { proxy });
      await says(page, ".unreadable", words);
      await counts(page, `${GREEN}, .empty`, 0, proxy);
      mock.proxy(undefined);
      await reads(page, "h1", "All 4 hosts healthy");
    }
  },

  async "a proxy that comes between later: what is shown is old, and says how old and why"({ open }) {
    for (const [proxy, words] of [["unauthorized", /Stale since .*Status 401 Unauthorized/], ["login", /Stale since .*Status 200: the answer is a web page/], ["gateway", /Stale since .*Status 502 Bad Gateway/]]) {
      const { page, mock } = await open("healthy");
      await reads(page, "h1", "All 4 hosts healthy");
      mock.proxy(proxy);
      await says(page, ".stale-banner", words);
      await says(page, ".as-of", /^As of \d\d:\d\d:\d\d, .* ago; how it is now is not known/);
      await page.waitForSelector(".headline.level-unknown .mark-unknown");
      await titled(page, /^\(stale\)/);
      mock.proxy(undefined);
      await page.waitForSelector(".stale-banner", { state: "detached" });
      await page.waitForSelector(".headline.level-ok");
    }
  },

  async "events that never come though answers do: what is shown is old from then on, and says so"({ open }) {
    const { page, mock } = await open("healthy");
    mock.refuse("events", 502);
    await page.reload();
    await says(page, ".stale-banner", /^Stale since (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d .*Status 502/);
    await says(page, ".as-of", /^As of \d\d:\d\d:\d\d/);
    await page.waitForSelector(".headline.level-unknown");
  },

  async "one answer that fails is said with its status, the others go on"({ open }) {
    const { page, mock } = await open("healthy");
    mock.refuse("health", 500);
    await says(page, ".stale-banner", /Not everything here is current.*Status 500/);
    await page.waitForSelector(".headline.level-unknown");
    mock.refuse(undefined);
    await page.waitForSelector(".stale-banner", { state: "detached" });
  },

  async "pages of incidents fit a telephone, also with names that nobody can remember"({ open }) {
    for (const [scenario, ats] of [["long-names", EVERYWHERE], ["long-hosts", [...EVERYWHERE, "#/jobs/llm-7b-pretrain", "#/findings?id=f-rank_missing"]], ["crowd", ["#/", HANG]], ["cycle", ["#/incidents/f-order_deadlock"]], ["mismatch", ["#/incidents/f-call_mismatch"]]]) {
      const { page, mock } = await open(scenario, { width: 390, height: 844 });
      for (const at of ats) {
        await page.goto(mock.url + at);
        await drawn(page);
        await fits(page, `${scenario} ${at}`);
      }
    }
  },

  async "hosts are called by what tells them apart; the whole name is there for who points at one, and on its page"({ open }) {
    const whole = "ip-10-128-2-17.us-west-2.compute.internal.training-cluster-blue.example.com";
    const { page, mock } = await open("long-names");
    await says(page, "h1", /^Rank 5 on ip-10-128-2-17 has not called/);
    await says(page, `#hosts [data-host="${whole}"] th`, /ip-10-128-2-17$/);
    await has(page, `#hosts [data-host="${whole}"] .host-name`, "title", new RegExp(`^${whole}$`));
    await has(page, "#incidents .message .host-name", "title", new RegExp(`^${whole}$`));
    await page.goto(`${mock.url}${HANG}`);
    await says(page, ".page-head h2", new RegExp(`Rank 5 on ${whole} has not`));
    await page.goto(`${mock.url}${WORLD}`);
    await says(page, '#ranks [data-rank="5"] .name', /^ip-10-128-2-17$/);
    await page.goto(`${mock.url}#/hosts/${whole}`);
    await says(page, ".page-head h2", new RegExp(`${whole}$`));
  },

  async "axe-core finds nothing serious on the pages of incidents, light and dark"({ open, faults }) {
    for (const dark of [false, true]) {
      for (const [scenario, at] of [["hang", HANG], ["hang", "#/incidents"], ["cycle", "#/incidents/f-order_deadlock"], ["mismatch", "#/incidents/f-call_mismatch"], ["no-nccl", "#/"], ["crowd", HANG]]) {
        const { page } = await open(scenario, { at, dark });
        await faults(page, `${scenario} ${at}${dark ? " dark" : ""}`);
      }
    }
  },
};
