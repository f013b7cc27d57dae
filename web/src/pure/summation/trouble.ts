/**
 * Which workers and services of a summation group are in trouble, and which trouble counts most. How long a round may wait
 * depends on how long rounds take there, and what an uneven share costs on how large it is: the daemon's findings say so, not the
 * page. Pure.
 */

import type { Finding, SummationGroupDetail, SummationService } from "../../api";

export type WorkerState = "ok" | "late" | "waited" | "lost";
export type ServiceState = "ok" | "over" | "lost";

export interface Troubles {
  /** By index; those not in it are well. */
  workers: Map<number, WorkerState>;
  /** By number. */
  services: Map<number, ServiceState>;
}

export function troubles(group: SummationGroupDetail, findings: Finding[]): Troubles {
  const workers = new Map<number, WorkerState>();
  for (const rank of ranksOf(findings, "sum_straggler")) workers.set(rank, "late");
  for (const rank of ranksOf(findings, "sum_round_stuck")) workers.set(rank, "waited");
  const services = new Map<number, ServiceState>();
  const uneven = new Set(ranksOf(findings, "sum_share_imbalance"));
  for (const service of group.services) if (uneven.has(service.rank)) services.set(service.service, "over");
  for (const service of group.services) {
    if (!service.lost && !(group.lost?.role === service.role && group.lost.index === service.index)) continue;
    services.set(service.service, "lost");
    if (service.role === "worker") workers.set(service.index, "lost");
  }
  return { workers, services };
}

/** What it owns as a multiple of what it should; 0 where nothing is expected of it. */
export function overOptimum({ share, optimal_share: optimum }: SummationService): number {
  return optimum > 0 ? share / optimum : 0;
}

/** Subjects of findings of a kind, by rank in the group: workers first, so that a worker's is its index. */
function ranksOf(findings: Finding[], kind: `sum_${string}`): number[] {
  return findings.filter((one) => (one.finding as string) === kind).flatMap((one) => one.rank ?? []);
}

export interface WaitedFor {
  rounds: number;
  /** Of the oldest. */
  ageNs: number;
}

/** Workers that rounds wait for, by index. */
export function waitedFor({ waits }: SummationGroupDetail): Map<number, WaitedFor> {
  const found = new Map<number, WaitedFor>();
  for (const wait of waits) {
    for (const worker of wait.workers) {
      const { rounds, ageNs } = found.get(worker) ?? { rounds: 0, ageNs: 0 };
      found.set(worker, { rounds: rounds + 1, ageNs: Math.max(ageNs, wait.age_ns) });
    }
  }
  return found;
}
