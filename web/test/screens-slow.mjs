// What slowness looks like: a real job of eight ranks on hosts with long names, of which one computes longer from some step on, and
// the pages that somebody would open, now and as of the time before.

import { incidentOf, startFault, startStage } from "./hangs.mjs";
import { pagesOf } from "./pages.mjs";

const JOB = "llm-70b-pretrain-2026-03-lr3e-4-seq8192";
/** For who looks back: before anything was slow, and when it was. */
const BEFORE_MS = 20_000;
const LATER_MS = 20_000;
const HISTORY_MS = 45_000;

export const SLOW = { start, historyMs: HISTORY_MS };

async function start() {
  const stage = await startStage({ hostName: (i) => `gpu-node-${i}.train-west-2.cluster.example.internal` });
  try {
    startFault(stage, { job: JOB, fault: "slow_steady", victim: 5, ranks: 8, more: ["--at", 150, "--layers", 4, "--spread-percent", 5, "--percent", 150] });
    const incident = await incidentOf(stage, JOB, (one) => one.finding === "compute_straggler");
    const pages = await pagesOf(stage.url);
    const at = (ms) => new Date(ms).toISOString().replace(/\.\d+/, "");
    const began = Date.parse(incident.began_at);
    const then = (hash, ms) => `${hash}?at=${at(ms)}`;
    const past = {
      "past-overview": then(pages.overview, began + LATER_MS), "past-job": then(pages.job, began + LATER_MS), "past-job-before": then(pages.job, began - BEFORE_MS),
      "past-host": then(pages.host, began + LATER_MS), "past-early": then(pages.overview, began - 86_400_000),
    };
    return { url: stage.url, stop: () => stage.end(), pages: { ...pages, ...past } };
  } catch (error) {
    await stage.end();
    throw error;
  }
}
