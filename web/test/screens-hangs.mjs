// What hangs look like: a real job for each, what is known of it, and then the pages that somebody on call would open.

import { incidentOf, startFault, startLoader, startProxy, startSilent, startStage } from "./hangs.mjs";
import { eventually, json } from "./real.mjs";

const critical = (one) => one.severity === "critical";

/** Name of the stage: what starts it, and yields its incident, if it comes to one. */
const JOBS = {
  /** A rank of a Python job waits in its data loader. */
  async hang(stage) {
    startLoader(stage, "llm-7b");
    return incidentOf(stage, "llm-7b", (one) => critical(one) && one.sentence.includes("loader.py"));
  },
  /** A rank is stopped. */
  async stopped(stage) {
    startFault(stage, { job: "vision", fault: "stop", victim: 2 });
    return incidentOf(stage, "vision", critical);
  },
  /** A rank calls with half of the elements. */
  async mismatch(stage) {
    startFault(stage, { job: "speech", fault: "other_count", victim: 1 });
    return incidentOf(stage, "speech", (one) => critical(one) && one.finding === "call_mismatch");
  },
  /** Two ranks call on two communicators in different orders. */
  async cycle(stage) {
    startFault(stage, { job: "moe-8x7b", fault: "swapped_order", victim: 5, ranks: 8, shape: "2d" });
    return incidentOf(stage, "moe-8x7b", (one) => critical(one) && ["order_deadlock", "call_mismatch"].includes(one.finding));
  },
  /** A rank does not come to the making of the first communicator. */
  async init(stage) {
    startFault(stage, { job: "diffusion", fault: "never_comes", victim: 3 });
    return incidentOf(stage, "diffusion", (one) => one.finding === "init_stuck");
  },
  /** A rank is killed. */
  async killed(stage) {
    startFault(stage, { job: "ranker", fault: "kill", victim: 1 });
    return incidentOf(stage, "ranker", critical);
  },
  /** A job that has not called the library so far. */
  async unknown(stage) {
    startSilent(stage, "evaluation");
    await eventually("the job is known", async () => (await json(stage.url, "/api/v1/jobs")).items.length > 0);
    return undefined;
  },
};

/** For the curves to show the end of what they show. */
const HISTORY_MS = 8_000;

export const HANGS = Object.fromEntries(Object.entries(JOBS).map(([name, start]) => [name, { start: () => run(start), historyMs: HISTORY_MS }]));

/** A proxy in front of a daemon answers in its place: from the beginning, and while the page is open. */
export const PROXIES = { "proxy-401": { start: () => between(401), historyMs: 0 }, "proxy-502": { start: () => between(502), historyMs: 0 } };

/** A daemon that has ended while the page is open. */
export const AWAY = { start: away, historyMs: 0 };

async function run(start) {
  const stage = await startStage();
  try {
    const incident = await start(stage);
    return { url: stage.url, stop: () => stage.end(), pages: await pages(stage.url, incident) };
  } catch (error) {
    await stage.end();
    throw error;
  }
}

async function pages(url, incident) {
  const [job, host] = await Promise.all(["jobs", "nodes"].map(async (what) => (await json(url, `/api/v1/${what}`)).items[0]));
  const of = { overview: "#/", job: `#/jobs/${encodeURIComponent(job.id)}`, host: `#/hosts/${encodeURIComponent(incident?.host || host.host)}` };
  if (incident === undefined) return { ...of, hosts: "#/hosts" };
  const comm = incident.comm === "" ? {} : { communicator: `#/communicators/${incident.comm}` };
  return { overview: of.overview, incident: `#/incidents/${encodeURIComponent(incident.id)}`, incidents: "#/incidents", job: of.job, ...comm, host: of.host };
}

async function healthy() {
  const stage = await startStage();
  startFault(stage, { job: "llm-7b", fault: "none", victim: 0 });
  await eventually("all ranks work", async () => (await json(stage.url, "/api/v1/health")).level === "ok");
  return stage;
}

async function away() {
  const stage = await healthy();
  const before = async (page) => {
    await page.goto(`${stage.url}/#/`);
    await page.waitForSelector(".headline");
    await stage.daemon.stop();
    await page.waitForSelector(".stale-banner");
  };
  return { url: stage.url, stop: () => stage.end(), pages: { later: "#/" }, before, after: () => stage.daemon.again() };
}

async function between(status) {
  const stage = await healthy();
  const proxy = await startProxy(stage.url);
  const stop = async () => {
    await proxy.end();
    await stage.end();
  };
  /** `first`: on a page that was open before. */
  const before = async (page, name) => {
    proxy.answer(name === "first" ? status : undefined);
    await page.goto("about:blank");
    await page.goto(`${proxy.url}/#/`);
    if (name === "first") return page.waitForSelector(".unreadable");
    await page.waitForSelector(".headline");
    proxy.answer(status);
    return page.waitForSelector(".stale-banner");
  };
  return { url: proxy.url, stop, pages: { first: "#/", later: "#/" }, before, after: () => proxy.answer(undefined) };
}
