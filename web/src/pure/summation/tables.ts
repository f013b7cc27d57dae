/** Rows of the tables of a summation group, to be taken into a spreadsheet. Their heads are the API's words. Pure. */

import type { SummationGroup, SummationGroupDetail, SummationRound, SummationService, SummationWorker } from "../../api";
import type { CsvValue } from "../csv";

type Rows = CsvValue[][];

function rows<T>(head: readonly (keyof T & string)[], all: T[]): Rows {
  return [[...head], ...all.map((one) => head.map((name) => one[name] as CsvValue))];
}

export function groupRows(all: SummationGroup[]): Rows {
  return rows(["id", "session", "job", "membership_epoch", "placement_epoch", "state", "n_workers", "n_servers", "asynchronous", "model_bytes", "started_at", "push_bytes_per_s", "pull_bytes_per_s", "rounds_per_s", "n_findings"], all);
}

export function serviceRows(all: SummationService[]): Rows {
  return rows(["service", "role", "index", "rank", "host", "optimal_share", "share", "owned_bytes", "predicted_sent_bytes", "predicted_received_bytes", "pushed_bytes_per_s", "pulled_bytes_per_s", "summed_bytes_per_s", "sum_ns_per_mib", "finished_rounds", "waits", "loopback_bytes", "lost"], all);
}

export function workerRows(all: SummationWorker[]): Rows {
  return rows(["index", "rank", "host", "global_rank", "last_arrivals", "last_share", "mean_late_ns", "contributions", "unanswered", "credits_used_bytes", "credit_bytes"], all);
}

export function stageRows(all: SummationWorker[]): Rows {
  const head = ["stage", "waiting_parts", "running_parts", "parts_per_s", "mean_wait_ns", "mean_work_ns", "longest_wait_ns"] as const;
  return [["worker", ...head], ...all.flatMap((worker) => worker.stages.map((stage) => [worker.index, ...head.map((name) => stage[name])]))];
}

export function waitRows({ waits }: SummationGroupDetail): Rows {
  const head = ["service", "key", "tensor", "round", "for_push", "age_ns"] as const;
  return [[...head, "workers"], ...waits.map((wait) => [...head.map((name) => wait[name]), wait.workers.join(" ")])];
}

export function roundRows(all: SummationRound[]): Rows {
  return rows(["key", "round", "fingerprint", "at", "made_by", "contributors", "last_arriver", "spread_ns", "took_ns", "agree"], all);
}
