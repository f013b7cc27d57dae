/** The table of ranks: which rows, in which order. `accused`: those that the others wait for, or that differ. Pure. */

import type { Rank, RankState } from "../api";
import { badness } from "./condition";
import { byName } from "./names";

export type RankSort = "attention" | "rank" | "host" | "channels" | "operation";
export type RankFilter = "all" | "accused" | RankState;

export interface RankChoice {
  sort: RankSort;
  descending: boolean;
  filter: RankFilter;
  host: string | undefined;
}

export function choose(ranks: Rank[], accused: ReadonlySet<number>, { sort, descending, filter, host }: RankChoice): Rank[] {
  const kept = ranks.filter((rank) => (host === undefined || rank.host === host) && passes(rank, filter, accused));
  const by = (a: Rank, b: Rank) => ORDERS[sort](a, b, accused) || a.rank - b.rank;
  return [...kept].sort(descending ? (a, b) => -by(a, b) : by);
}

/** States that occur, in the order of how much they matter. */
export function filters(ranks: Rank[], accused: ReadonlySet<number>): RankFilter[] {
  const states: RankState[] = ["killed", "stale", "running", "gone", "exited", "imported"];
  const occurring = states.filter((state) => ranks.some((rank) => rank.state === state));
  return ["all", ...(accused.size > 0 ? ["accused" as const] : []), ...occurring];
}

function passes(rank: Rank, filter: RankFilter, accused: ReadonlySet<number>): boolean {
  if (filter === "all") return true;
  return filter === "accused" ? accused.has(rank.rank) : rank.state === filter;
}

const ORDERS: Record<RankSort, (a: Rank, b: Rank, accused: ReadonlySet<number>) => number> = {
  attention: (a, b, accused) => weight(b, accused) - weight(a, accused),
  rank: () => 0,
  host: (a, b) => byName(a.host, b.host),
  channels: (a, b) => (a.init_channels ?? Infinity) - (b.init_channels ?? Infinity) || (a.final_channels ?? Infinity) - (b.final_channels ?? Infinity),
  operation: (a, b) => (b.operation?.duration_s ?? 0) - (a.operation?.duration_s ?? 0),
};

/** Gone first, then those that are accused, then what stands worse; who only waits needs no look, but before who is well. */
function weight(rank: Rank, accused: ReadonlySet<number>): number {
  const gone = rank.state === "killed" ? 20 : 0;
  return gone + (accused.has(rank.rank) ? 10 : 0) + (rank.standing.waits === true ? WAITS : badness(rank.standing));
}
/** Between what is not known and what is degraded. */
const WAITS = 1.5;
