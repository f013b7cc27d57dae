/** Who comes late to which call: a map of ranks by calls, and one call rank by rank. Pure. */

import { NO_CALL, ownBefore, partsOf, seconds, type JobTimeline } from "./job-timeline";

/** Columns of the map; of more calls several share one, and the latest counts. */
const MAX_COLUMNS = 600;
/** Who loses the others less than this share of the time by being late is not worth a name. */
const LEAST_SHARE = 0.01;
/** Operations times communicators that are compared, for who is late in which: a tenth of a second. */
const MAX_COMPARED = 2_000_000;

export interface LatenessMap {
  /** Numbers of the first call of each column. */
  calls: number[];
  /** Microseconds behind the mean of the other ranks, by row and column; NaN: not told. */
  late: Float32Array;
  /** The darkest shade: what the latest hundredth reaches, and the worst row on average: else one late rank of a thousand is lost in noise. */
  topUs: number;
  /** Row that is late the most, and how much on average. */
  worst: { row: number; meanUs: number };
  /** By how much times of the ranks that take part may be wrong against each other. */
  errorUs: number;
  /** What the worst row's lateness adds up to, as a share of the time that all these calls take. */
  share: number;
}

/** The communicator to look at first: that in which somebody's lateness costs the most, else the one with the most operations. */
export function firstToSee(of: JobTimeline): number {
  const all = of.communicators.map((_, i) => i);
  const costs = all.length > 1 && all.length * of.call.length <= MAX_COMPARED ? all.map((one) => cost(latenessMap(of, one))) : [];
  const most = Math.max(0, ...costs);
  return most > 0 ? costs.indexOf(most) : busiest(of);
}

/** The share that somebody's lateness costs, where it is told of: else 0. */
function cost({ worst, errorUs, share }: LatenessMap): number {
  return worst.meanUs > errorUs && share > LEAST_SHARE ? share : 0;
}

/** The communicator with the most operations. */
function busiest(of: JobTimeline): number {
  const counts = new Uint32Array(of.communicators.length);
  for (const comm of of.comm) counts[comm]! += 1;
  return counts.indexOf(Math.max(...counts));
}

export function latenessMap(of: JobTimeline, wanted: number): LatenessMap {
  const sums = new Map<number, { sum: number; n: number }>();
  const { comm, call, called } = of;
  for (let i = 0; i < call.length; i += 1) {
    if (comm[i] !== wanted || call[i] === NO_CALL) continue;
    const one = sums.get(call[i]!);
    if (one === undefined) sums.set(call[i]!, { sum: called[i]!, n: 1 });
    else {
      one.sum += called[i]!;
      one.n += 1;
    }
  }
  // What one rank alone has told has no others to be compared with.
  const all = [...sums].filter(([, { n }]) => n > 1).map(([number]) => number).sort((a, b) => a - b);
  const per = Math.max(1, Math.ceil(all.length / MAX_COLUMNS));
  const column = new Map(all.map((number, i) => [number, Math.floor(i / per)]));
  const columns = Math.ceil(all.length / per);
  const late = new Float32Array(of.ranks.length * columns).fill(NaN);
  const [total, count] = [new Float64Array(of.ranks.length), new Uint32Array(of.ranks.length)];
  let [fromUs, toUs] = [Infinity, 0];
  for (let i = 0; i < call.length; i += 1) {
    const at = comm[i] === wanted ? column.get(call[i]!) : undefined;
    if (at === undefined) continue;
    fromUs = Math.min(fromUs, called[i]!);
    toUs = Math.max(toUs, of.completed[i]!);
    const { sum, n } = sums.get(call[i]!)!;
    // Behind the mean of the others: one that is always late would draw the mean of all to itself.
    const us = Math.max(0, called[i]! - (sum - called[i]!) / (n - 1));
    const cell = of.row[i]! * columns + at;
    if (!(late[cell]! >= us)) late[cell] = us;
    total[of.row[i]!]! += us;
    count[of.row[i]!]! += 1;
  }
  const means = [...total].map((sum, row) => (count[row] === 0 ? 0 : sum / count[row]!));
  const most = Math.max(0, ...means);
  const worst = { row: Math.max(0, means.indexOf(most)), meanUs: most };
  // Of calls that were not told it is late to as many more.
  const lostUs = (total[worst.row] ?? 0) * (of.communicators[wanted]?.every ?? 1);
  return { calls: all.filter((_, i) => i % per === 0), late, topUs: Math.max(top(late), most), worst, errorUs: errorUs(of, count), share: lostUs / Math.max(1, toUs - fromUs) };
}

/** The worst clock's error among those who take part; one host has one clock. */
function errorUs({ ranks, clocks }: JobTimeline, parts: Uint32Array): number {
  const hosts = new Set(ranks.filter((_, row) => parts[row]! > 0).map(({ host }) => host));
  return hosts.size < 2 ? 0 : Math.max(0, ...clocks.filter(({ host }) => hosts.has(host)).map(({ error_s }) => error_s * 1e6));
}

/** Who is late the most, if that is more than the clocks may be wrong and costs anything. */
export function worstWords(of: JobTimeline, { worst, errorUs, share }: LatenessMap, nameOf: (host: string) => string): string {
  if (worst.meanUs <= errorUs) return errorUs > 0 ? `On average nobody is late by more than the clocks may be wrong (${seconds(errorUs)}).` : "Nobody is late.";
  if (share <= LEAST_SHARE) return `Nobody is late by more than ${LEAST_SHARE * 100} % of the time.`;
  const { rank, host } = of.ranks[worst.row]!;
  return `Rank ${rank} on ${nameOf(host)} is late the most: ${seconds(worst.meanUs)} behind the others on average.`;
}

function top(late: Float32Array): number {
  const known = late.filter((us) => us > 0).sort();
  return known.length === 0 ? 1 : Math.max(1, known[Math.min(known.length - 1, Math.floor(known.length * 0.99))]!);
}

export interface Fall {
  at: number;
  rank: number;
  host: string;
  /** All from the first rank's call on. Own time is before it, and may have begun earlier. */
  calledUs: number;
  ownUs: number | undefined;
  waitingUs: number;
  transferUs: number;
  /** Whether it is known when the last rank had called; else what is waiting and what is transfer is not. */
  isSplit: boolean;
}

/** Bars of a waterfall; the last to call are in it. */
export const MAX_FALLS = 48;

/** One call rank by rank, who called last first. */
export function waterfall(of: JobTimeline, at: number): { falls: Fall[]; hidden: number; lengthUs: number } {
  const parts = partsOf(of, at);
  const first = Math.min(...parts.map((i) => of.called[i]!));
  const falls = parts.slice(0, MAX_FALLS).map((i): Fall => ({
    at: i, rank: of.ranks[of.row[i]!]!.rank, host: of.ranks[of.row[i]!]!.host, calledUs: of.called[i]! - first, ownUs: ownBefore(of, i),
    waitingUs: of.last[i]! - of.called[i]!, transferUs: of.completed[i]! - of.last[i]!, isSplit: of.isSplit[i] === 1,
  }));
  return { falls, hidden: parts.length - falls.length, lengthUs: Math.max(...parts.map((i) => of.completed[i]! - first)) };
}
