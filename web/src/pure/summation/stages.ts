/** The pipeline of a worker, or of all of them as one. Pure. */

import type { SummationStage, SummationWorker } from "../../api";

export interface Pipeline {
  stages: SummationStage[];
  /** Of those that do something, where parts wait longest to begin; undefined where none waits. */
  slowest: string | undefined;
  creditsUsedBytes: number;
  creditBytes: number;
}

/** Means are weighted by the parts that pass, the longest wait is the longest of any. Stages keep their order. */
export function pipeline(workers: SummationWorker[]): Pipeline {
  const names = [...new Set(workers.flatMap((worker) => worker.stages.map((one) => one.stage)))];
  const stages = names.map((name) => merged(name, workers.flatMap((worker) => worker.stages.filter((one) => one.stage === name))));
  const waiting = stages.filter((one) => one.mean_wait_ns > 0 && one.parts_per_s > 0);
  const slowest = waiting.length === 0 ? undefined : waiting.reduce((a, b) => (b.mean_wait_ns > a.mean_wait_ns ? b : a)).stage;
  const sum = (of: (worker: SummationWorker) => number) => workers.reduce((all, worker) => all + of(worker), 0);
  return { stages, slowest, creditsUsedBytes: sum((one) => one.credits_used_bytes), creditBytes: sum((one) => one.credit_bytes) };
}

function merged(stage: string, all: SummationStage[]): SummationStage {
  const sum = (of: (one: SummationStage) => number) => all.reduce((total, one) => total + of(one), 0);
  const parts = sum((one) => one.parts_per_s);
  const mean = (of: (one: SummationStage) => number) => (parts > 0 ? sum((one) => of(one) * one.parts_per_s) / parts : sum(of) / Math.max(1, all.length));
  return {
    stage,
    waiting_parts: sum((one) => one.waiting_parts),
    running_parts: sum((one) => one.running_parts),
    parts_per_s: parts,
    mean_wait_ns: mean((one) => one.mean_wait_ns),
    mean_work_ns: mean((one) => one.mean_work_ns),
    longest_wait_ns: Math.max(0, ...all.map((one) => one.longest_wait_ns)),
  };
}

/** Whether nothing ever passed a stage: no codec is in use, say. */
export function isUnused(stage: SummationStage): boolean {
  return [stage.parts_per_s, stage.waiting_parts, stage.running_parts, stage.mean_work_ns, stage.longest_wait_ns].every((one) => one === 0);
}
