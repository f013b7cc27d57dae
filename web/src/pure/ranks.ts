/** The table of ranks: which rows, in which order. Pure. */

import type { Rank, RankState } from "../api";
import { badness } from "./condition";
import { byName } from "./names";

export type RankSort = "attention" | "rank" | "host" | "channels" | "operation";
export type RankFilter = "all" | "late" | RankState;

export interface RankChoice {
  sort: RankSort;
  descending: boolean;
  filter: RankFilter;
  host: string | undefined;
}

export function choose(ranks: Rank[], behind: ReadonlyMap<number, number>, { sort, descending, filter, host }: RankChoice): Rank[] {
  const kept = ranks.filter((rank) => (host === undefined || rank.host === host) && passes(rank, filter, behind));
  const by = (a: Rank, b: Rank) => ORDERS[sort](a, b, behind) || a.rank - b.rank;
  return [...kept].sort(descending ? (a, b) => -by(a, b) : by);
}

/** States that occur, in the order of how much they matter. */
export function filters(ranks: Rank[], behind: ReadonlyMap<number, number>): RankFilter[] {
  const states: RankState[] = ["killed", "stale", "running", "exited", "imported"];
  const occurring = states.filter((state) => ranks.some((rank) => rank.state === state));
  return ["all", ...(behind.size > 0 ? ["late" as const] : []), ...occurring];
}

function passes(rank: Rank, filter: RankFilter, behind: ReadonlyMap<number, number>): boolean {
  if (filter === "all") return true;
  return filter === "late" ? behind.has(rank.rank) : rank.state === filter;
}

const ORDERS: Record<RankSort, (a: Rank, b: Rank, behind: ReadonlyMap<number, number>) => number> = {
  attention: (a, b, behind) => weight(b, behind) - weight(a, behind),
  rank: () => 0,
  host: (a, b) => byName(a.host, b.host),
  channels: (a, b) => (a.init_channels ?? Infinity) - (b.init_channels ?? Infinity) || (a.final_channels ?? Infinity) - (b.final_channels ?? Infinity),
  operation: (a, b, behind) =>
    (behind.get(b.rank) ?? -1) - (behind.get(a.rank) ?? -1) || (b.operation?.duration_s ?? 0) - (a.operation?.duration_s ?? 0),
};

/** Gone first, then those that others wait for, then what stands worse. */
function weight(rank: Rank, behind: ReadonlyMap<number, number>): number {
  const gone = rank.state === "killed" ? 20 : 0;
  return gone + (behind.has(rank.rank) ? 10 : 0) + badness(rank.standing);
}
