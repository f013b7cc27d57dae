/** Where the ranks of a communicator stand, against each other. Pure. */

import type { Operation, Rank } from "../api";
import { adviceOnWait } from "./advice";
import { capital, duration, integer, list, plural, primitiveName, rankRanges } from "./format";

/** Ranks are sampled at slightly different times: only a wait longer than this says that somebody is behind. */
export const WAIT_S = 3;
/** All ranks in one operation for this long: no transfer takes that long, whatever its size. */
export const HANG_S = 30;

export interface Trouble {
  words: string;
  hosts: string[];
  /** What to do about it. */
  advice: string;
  /** When the longest wait began, milliseconds since the epoch. */
  sinceMs: number;
}

export interface Progress {
  /** In words, for the head of the table. */
  sentence: string;
  /** Whether ranks wait in vain: somebody is killed or behind, or the operation itself hangs. */
  stuck: boolean;
  /** If ranks wait: the same without what ticks, and where to look. */
  trouble?: Trouble;
  /** Operations by which a rank is behind the furthest, 0 if it is not known how many; only if ranks wait. */
  behind: Map<number, number>;
  /** If it ended with a rank killed: how. */
  end?: string;
}

export function progress(ranks: Rank[]): Progress {
  const waiting = ranks.filter((rank) => alive(rank) && rank.operation?.state === "in_flight");
  const longest = Math.max(0, ...waiting.map((rank) => rank.operation!.duration_s));
  const killed = ranks.filter((rank) => rank.state === "killed");
  const seen = longest >= WAIT_S ? behindOf(ranks) : new Map<number, number>();
  // Hosts report at different times: that many are behind is believed only when it lasts.
  const behind = longest < HANG_S && areMany(seen, ranks) ? new Map<number, number>() : seen;
  const held = longest >= WAIT_S && (behind.size > 0 || killed.length > 0);
  const hung = !held && longest >= HANG_S && waiting.length === ranks.filter(alive).length;
  const stuck = held || hung;

  const late = ranks.filter((rank) => behind.has(rank.rank) && rank.state !== "killed");
  const tell = (timed: boolean) => sentenceOf(ranks, { waiting, longest, killed, late, behind, hung }, timed);
  const hosts = [...new Set([...killed, ...late].map((rank) => rank.host))];
  return {
    sentence: capital(tell(true)),
    stuck,
    behind,
    ...(killed.length > 0 && !ranks.some(alive) ? { end: tell(false) } : {}),
    ...(stuck ? { trouble: { words: tell(false), hosts, advice: adviceOnWait(killed, late), sinceMs: Math.min(...waiting.map((rank) => Date.parse(rank.operation!.issued_at))) } } : {}),
  };
}

/** Hosts that one fault makes late at once, e.g. those of a switch. */
const FEW_HOSTS = 4;

function areMany(behind: Map<number, number>, ranks: Rank[]): boolean {
  const hosts = new Set(ranks.filter((rank) => behind.has(rank.rank)).map((rank) => rank.host));
  return hosts.size > FEW_HOSTS || behind.size * 2 > ranks.filter(alive).length;
}

interface Facts {
  waiting: Rank[];
  longest: number;
  killed: Rank[];
  late: Rank[];
  behind: Map<number, number>;
  hung: boolean;
}

function sentenceOf(ranks: Rank[], facts: Facts, timed: boolean): string {
  const { waiting, longest, killed, late, behind, hung } = facts;
  const parts: string[] = [];
  if (killed.length > 0) parts.push(killedWords(killed));
  if (late.length > 0) parts.push(lateWords(late, behind));
  parts.push(waitingWords(ranks, waiting, longest, killed.length, timed));
  if (hung) parts.push("none is behind, its transfers do not finish");
  return parts.filter(Boolean).join("; ");
}

function lateWords(late: Rank[], behind: Map<number, number>): string {
  const most = Math.max(...late.map((rank) => behind.get(rank.rank)!));
  if (most === 0) return `${ranksOn(late)} ${late.length === 1 ? "has" : "have"} not joined`;
  return `${ranksOn(late)} ${late.length === 1 ? "is" : "are"} behind by ${plural(most, "operation")}`;
}

function alive(rank: Rank): boolean {
  return rank.state === "running" || rank.state === "stale";
}

function waitingWords(ranks: Rank[], waiting: Rank[], longest: number, killed: number, timed: boolean): string {
  if (waiting.length > 0) {
    const front = furthest(waiting);
    const same = waiting.filter((rank) => sameOperation(rank.operation!, front)).length;
    const of = killed > 0 ? plural(same, "rank") : `${integer(same)} of ${plural(ranks.length, "rank")}`;
    const verb = longest >= WAIT_S ? (same === 1 ? "waits" : "wait") : same === 1 ? "is" : "are";
    const time = timed && longest >= WAIT_S ? ` for ${duration(longest)}` : "";
    return `${of} ${verb} in ${operationName(front)}${time}`;
  }
  const living = ranks.filter(alive);
  if (living.length === 0) return endedWords(ranks, killed);
  const issued = living.filter((rank) => rank.operation?.state === "issued");
  if (issued.length > 0) return `last issued ${operationName(furthest(issued))}; nothing tells when operations are done`;
  const done = living.filter((rank) => rank.operation?.state === "completed");
  if (done.length === 0) return "no operation yet";
  return `no operation in flight; last ${operationName(furthest(done))}`;
}

function endedWords(ranks: Rank[], killed: number): string {
  if (ranks.some((rank) => rank.state === "imported")) return "read from files, nothing runs here";
  const cut = ranks.filter((rank) => rank.state === "exited" && rank.operation?.state === "in_flight");
  if (killed > 0 && cut.length > 0) return `${plural(cut.length, "rank")} ended in ${operationName(furthest(cut))}`;
  return killed === ranks.length ? "" : "no rank runs any more";
}

function killedWords(killed: Rank[]): string {
  const first = killed[0]!;
  if (killed.length === 1) {
    const during = first.operation?.state === "in_flight" ? ` in ${operationName(first.operation)}` : "";
    return `rank ${first.rank} on ${first.host} was killed${during}`;
  }
  return `${ranksOn(killed)} were killed`;
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

function behindOf(ranks: Rank[]): Map<number, number> {
  const behind = new Map<number, number>();
  const primitives = ranks.flatMap(({ operation }) => (operation?.state === "in_flight" ? [operation.primitive] : []));
  if (primitives.length === 0) return behind;
  const primitive = commonest(primitives);
  const positions = new Map<number, number>();
  for (const { rank, operation } of ranks) {
    if (operation?.primitive === primitive) positions.set(rank, position(operation));
  }
  // Who is in nothing, and whose last was another primitive, has not joined where the others wait.
  for (const rank of ranks) {
    if (alive(rank) && !positions.has(rank.rank) && rank.operation?.state !== "in_flight") behind.set(rank.rank, 0);
  }
  const front = Math.max(...positions.values());
  for (const [rank, at] of positions) if (at < front) behind.set(rank, front - at);
  return behind;
}

/** How far a rank has come: an operation entered counts one, so that the one who never entered it is behind. */
function position(operation: Operation): number {
  return operation.seq_number + (operation.state === "queued" ? 0 : 1);
}

function commonest(values: string[]): string {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].reduce((a, b) => (b[1] > a[1] ? b : a))[0];
}
