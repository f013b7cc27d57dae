/** A summation group in words. Pure. */

import type { SummationFlow, SummationGroup, SummationGroupDetail, SummationGroupState, SummationRound, SummationService, SummationWait, SummationWorker } from "../../api";
import { bandwidth, capital, duration, integer, list, plural, size } from "../format";
import { overOptimum, waitedFor, type ServiceState, type Troubles, type WorkerState } from "./trouble";

/** "4 workers + 2 servers". */
export function membersWords({ n_workers: workers, n_servers: servers }: SummationGroup): string {
  return servers === 0 ? `${plural(workers, "worker")}, no server` : `${plural(workers, "worker")} + ${plural(servers, "server")}`;
}

export function modeWords(group: SummationGroup & Partial<SummationGroupDetail>): string {
  if (!group.asynchronous) return "synchronous";
  if (group.staleness_bound === undefined) return "asynchronous";
  return group.staleness_bound === null ? "asynchronous, no bound" : `asynchronous, at most ${plural(group.staleness_bound, "round")} behind`;
}

export const LIVE_STATES: ReadonlySet<SummationGroupState> = new Set(["starting", "running"]);

/** "server 0", or for a worker's own service "worker 0’s own". */
export function serviceName({ role, index }: Pick<SummationService, "role" | "index">): string {
  return role === "server" ? `server ${index}` : `worker ${index}’s own`;
}

export function share(fraction: number): string {
  const percent = fraction * 100;
  return `${percent >= 9.995 ? percent.toFixed(1) : percent.toFixed(2)} %`;
}

/** Of its optimum: "+24 %", "6.4 ×"; undefined where it is as it should be, and where it gets more than it owns. */
export function overWords(service: SummationService, state: ServiceState): string | undefined {
  const times = overOptimum(service);
  if (state !== "over" || times < 1.01) return undefined;
  return times < 2 ? `+${((times - 1) * 100).toFixed(0)} %` : `${times.toFixed(1)} ×`;
}

export function ns(value: number | null): string {
  return value === null ? "–" : duration(value / 1e9);
}

const WORKER_STATES: Record<WorkerState, string> = { ok: "", late: "straggler", waited: "waited for", lost: "lost" };
const SERVICE_STATES: Record<ServiceState, string> = { ok: "", over: "owns more than its optimum", lost: "lost" };

/** A worker in a sentence: where it is, what it moves, how it holds the others up. */
export function workerWords(worker: SummationWorker, group: SummationGroupDetail, state: WorkerState): string[] {
  const mine = group.flows.filter((flow) => flow.worker === worker.index);
  const waits = waitedFor(group).get(worker.index);
  return [
    `worker ${worker.index} on ${worker.host}${state === "ok" ? "" : `, ${WORKER_STATES[state]}`}`,
    flowWords(total(mine)),
    `last in ${percent(worker.last_share)} of rounds, ${ns(worker.mean_late_ns)} after the first on average`,
    ...(waits === undefined ? [] : [`${plural(waits.rounds, "round")} ${waits.rounds === 1 ? "waits" : "wait"} for it, the oldest for ${ns(waits.ageNs)}`]),
  ];
}

export function serviceWords(service: SummationService, state: ServiceState): string[] {
  return [
    `${serviceName(service)} on ${service.host}${state === "ok" ? "" : `, ${SERVICE_STATES[state]}`}`,
    `owns ${share(service.share)} of the bytes (${size(service.owned_bytes)}), optimum ${share(service.optimal_share)}`,
    `pushed ${bandwidth(service.pushed_bytes_per_s)}, pulled ${bandwidth(service.pulled_bytes_per_s)}`,
    ...(service.sum_ns_per_mib !== null && service.sum_ns_per_mib > 0 ? [`sums at ${bandwidth((1024 * 1024 * 1e9) / service.sum_ns_per_mib)}`] : []),
    ...(service.waits > 0 ? [`${plural(service.waits, "round")} ${service.waits === 1 ? "waits" : "wait"} there`] : []),
  ];
}

export function flowWords({ push_bytes_per_s: push, pull_bytes_per_s: pull, push_backlog_bytes: backlog }: Omit<SummationFlow, "worker" | "service">): string {
  return `pushes ${bandwidth(push)}, pulls ${bandwidth(pull)}${backlog > 0 ? `, ${size(backlog)} issued and not sent` : ""}`;
}

function total(flows: SummationFlow[]): Omit<SummationFlow, "worker" | "service"> {
  const sum = (of: (flow: SummationFlow) => number) => flows.reduce((all, flow) => all + of(flow), 0);
  return { push_bytes_per_s: sum((one) => one.push_bytes_per_s), pull_bytes_per_s: sum((one) => one.pull_bytes_per_s), push_backlog_bytes: sum((one) => one.push_backlog_bytes) };
}

/** "76 %", with a digit more where it is small. */
export function percent(fraction: number): string {
  const value = fraction * 100;
  return `${value > 0 && value < 9.5 ? value.toFixed(1) : value.toFixed(0)} %`;
}

/** What an operator asks when training stands still: how many rounds wait, how long, for whom. */
export function waitSentence(group: SummationGroupDetail, known: Troubles): { sentence: string; stuck: boolean } {
  const { waits } = group;
  if (waits.length === 0) return { sentence: "No round is in flight.", stuck: false };
  const oldest = Math.max(...waits.map((wait) => wait.age_ns));
  const late = [...waitedFor(group)].filter(([index]) => known.workers.get(index) === "waited").sort(([, a], [, b]) => b.ageNs - a.ageNs);
  const stuck = late.length > 0;
  const rounds = `${plural(waits.length, "round")} in flight`;
  if (!stuck) return { sentence: `${rounds}, the oldest for ${ns(oldest)}.`, stuck };
  return { sentence: capital(`${rounds}, the oldest for ${ns(oldest)}: they wait for ${list(late.map(([index]) => workerAt(group, index)), 3)}.`), stuck };
}

/** "worker 2 on train-2". */
export function workerAt(group: SummationGroupDetail, index: number): string {
  const host = group.workers.find((one) => one.index === index)?.host;
  return host === undefined ? `worker ${index}` : `worker ${index} on ${host}`;
}

export function waitingFor(group: SummationGroupDetail, wait: SummationWait): string {
  const who = list(wait.workers.map((index) => workerAt(group, index)), 3);
  return wait.for_push ? who : `${who} to take ${wait.workers.length === 1 ? "its answer" : "their answers"}`;
}

/** What the newest results say of each other. */
export function agreement(rounds: SummationRound[]): { sentence: string; differ: SummationRound[] } {
  const differ = rounds.filter((round) => round.agree === false);
  const same = rounds.filter((round) => round.agree === true).length;
  const open = rounds.length - same - differ.length;
  const parts = [`${integer(same)} of the ${plural(rounds.length, "newest result")} ${same === 1 ? "is" : "are"} the same wherever they were seen`];
  if (open > 0) parts.push(`${integer(open)} not compared yet`);
  if (differ.length === 0) return { sentence: `${parts.join(", ")}.`, differ };
  const keys = list([...new Set(differ.map((round) => `key ${round.key} round ${round.round}`))], 3);
  return { sentence: `${plural(differ.length, "result")} ${differ.length === 1 ? "differs" : "differ"} between members: ${keys}. ${parts.join(", ")}.`, differ };
}

/** Whether all workers have the same parameters, and how that is known. */
export function parametersWords({ comparison }: Pick<SummationGroupDetail, "comparison">): { state: "same" | "differ" | "not compared"; how: string } {
  if (comparison === null) return { state: "not compared", how: "RSUM_DEBUG_EVERY compares them" };
  const { difference, steps, every, n_parameters: n, n_different: differ } = comparison;
  if (difference === null) return { state: "same", how: `all ${integer(n)} on all workers after ${plural(steps, "step")}; compared every ${every === 1 ? "step" : plural(every, "step")}` };
  return { state: "differ", how: `${difference.parameter} first, after ${plural(difference.steps, "step")}; ${integer(differ)} of ${integer(n)} after ${plural(steps, "step")}` };
}

/** What ended it, and what its members say of why. */
export function lostWords(group: SummationGroupDetail): string | undefined {
  if (group.lost === null) return undefined;
  const { role, index, host, rank, why } = group.lost;
  return `${capital(role)} ${index} on ${host} (rank ${rank}) was lost${why === "" ? "." : `: ${why}${/[.!]$/.test(why) ? "" : "."}`}`;
}
