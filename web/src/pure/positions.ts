/** Where the ranks of a communicator stand, against each other: facts. Whether that is bad, the daemon says. Pure. */

import type { Operation, Rank } from "../api";
import { capital, duration, integer, list, plural, primitiveName, rankRanges } from "./format";

/** What a sample takes: nobody is told of operations that are over sooner. */
const LONG_S = 1;

/** In words, for the head of the table. */
export function positions(ranks: Rank[]): string {
  const killed = ranks.filter((rank) => rank.state === "killed");
  const parts = [killed.length > 0 ? killedWords(killed) : "", inWords(ranks, killed.length)];
  return capital(parts.filter(Boolean).join("; "));
}

export function alive(rank: Rank): boolean {
  return rank.state === "running" || rank.state === "stale";
}

function inWords(ranks: Rank[], killed: number): string {
  const living = ranks.filter(alive);
  const open = living.filter((rank) => rank.operation?.state === "in_flight");
  if (open.length > 0) {
    const front = furthest(open);
    const same = open.filter((rank) => sameOperation(rank.operation!, front)).length;
    const longestS = Math.max(...open.map((rank) => rank.operation!.duration_s));
    const time = longestS >= LONG_S ? `, the longest for ${duration(longestS)}` : "";
    return `${integer(same)} of ${plural(ranks.length, "rank")} ${same === 1 ? "is" : "are"} in ${operationName(front)}${time}`;
  }
  if (living.length === 0) return endedWords(ranks, killed);
  const issued = living.filter((rank) => rank.operation?.state === "issued");
  if (issued.length > 0) return `last issued ${operationName(furthest(issued))}; nothing tells when operations are done`;
  const done = living.filter((rank) => rank.operation?.state === "completed");
  if (done.length === 0) return "no operation yet";
  return `no operation in flight; last ${operationName(furthest(done))}`;
}

function endedWords(ranks: Rank[], killed: number): string {
  if (ranks.length === 0) return "";
  if (ranks.some((rank) => rank.state === "imported")) return "read from files, nothing runs here";
  const cut = ranks.filter((rank) => (rank.state === "exited" || rank.state === "gone") && rank.operation?.state === "in_flight");
  if (killed > 0 && cut.length > 0) return `${plural(cut.length, "rank")} ended in ${operationName(furthest(cut))}`;
  return killed === ranks.length ? "" : "no rank runs any more";
}

function killedWords(killed: Rank[]): string {
  const first = killed[0]!;
  if (killed.length > 1) return `${ranksOn(killed)} were killed`;
  const during = first.operation?.state === "in_flight" ? ` in ${operationName(first.operation)}` : "";
  return `rank ${first.rank} on ${first.host} was killed${during}`;
}

/** More ranks are counted, not listed. */
const MAX_RANGED = 16;

function ranksOn(ranks: Rank[]): string {
  const hosts = list([...new Set(ranks.map((rank) => rank.host))], 3);
  if (ranks.length > MAX_RANGED) return `${plural(ranks.length, "rank")} on ${hosts}`;
  return `${ranks.length === 1 ? "rank" : "ranks"} ${rankRanges(ranks.map((rank) => rank.rank), 4)} on ${hosts}`;
}

export function operationName(operation: Operation): string {
  return `${primitiveName(operation.primitive)} #${operation.seq_number}`;
}

function sameOperation(a: Operation, b: Operation): boolean {
  return a.primitive === b.primitive && a.seq_number === b.seq_number;
}

/** Of the primitive that most ranks are in, the highest number. */
function furthest(ranks: Rank[]): Operation {
  const primitive = commonest(ranks.map((rank) => rank.operation!.primitive));
  const peers = ranks.map((rank) => rank.operation!).filter((operation) => operation.primitive === primitive);
  return peers.reduce((a, b) => (b.seq_number > a.seq_number ? b : a));
}

function commonest(values: string[]): string {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].reduce((a, b) => (b[1] > a[1] ? b : a))[0];
}
