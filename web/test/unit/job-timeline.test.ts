import { expect, test } from "vitest";
import type { Timeline } from "../../src/api";
import { chain, clockWords, emptyWords, firstFrom, heldWords, hit, load, operationWords, ownBefore, partsOf, MAX_ROWS, NO_CALL, type JobTimeline } from "../../src/pure/job-timeline";
import { axis, heightPx, moved, namedRows, rowPx, scaled } from "../../src/pure/timeline-view";
import { NOW } from "./fixture";
import { firstToSee, latenessMap, waterfall, worstWords } from "../../src/pure/lateness";
import { coloursOf, drawsShapes, pyramid, raster, type Pyramid, type View } from "../../src/pure/timeline-raster";

/** Rank, communicator, call, called, last called, completed; milliseconds. */
type Row = [number, number, number | null, number, number | null, number];

function answer(rows: Row[], rest: Partial<Timeline> = {}): Timeline {
  const us = (at: 3 | 4 | 5) => rows.map((row) => (row[at] === null ? null : row[at]! * 1000));
  return {
    from: "2026-03-01T03:00:00Z", to: "2026-03-01T03:00:01Z", clocks: [], communicators: [{ id: "c0", name: "world", n_ranks: 4, every: 1 }, { id: "c1", name: "tp-0", n_ranks: 2, every: 1 }], lacks: [],
    ranks: [3, 1, 0, 2].map((rank) => ({ rank, host: `host-${rank >> 1}`, pid: rank })),
    operations: {
      rank: rows.map(([rank]) => [2, 1, 3, 0][rank] ?? 9), bytes: rows.map(() => 1024), communicator: rows.map(([, comm]) => comm), call_number: rows.map((row) => row[2]), primitive: rows.map(() => "all_reduce"),
      called_us: us(3) as number[], started_us: us(3), completed_us: us(5) as number[], last_called_us: us(4),
    },
    ...rest,
  };
}

// Rank 3 comes late to world #2 because it waited for rank 2 in tp-0 #1.
const NESTED: Row[] = [
  [0, 0, 1, 0, 0, 10], [1, 0, 1, 0, 0, 10], [2, 0, 1, 0, 0, 10], [3, 0, 1, 0, 0, 10],
  [3, 1, 1, 12, 80, 90], [2, 1, 1, 80, 80, 90],
  [0, 0, 2, 20, 91, 100], [1, 0, 2, 21, 91, 100], [2, 0, 2, 90.5, 91, 100], [3, 0, 2, 91, 91, 100],
];
const nested = load(answer(NESTED));
const at = (rank: number, comm: number, call: number) => {
  for (let i = 0; i < nested.call.length; i += 1) if (nested.ranks[nested.row[i]!]!.rank === rank && nested.comm[i] === comm && nested.call[i] === call) return i;
  return -1;
};

const COLOURS = coloursOf({ own: [0, 0, 0], waiting: [240, 0, 0], transfer: [0, 0, 240], nothing: [9, 9, 9] });
/** Shares of waiting and transfer of each pixel of a picture, and "-" where nothing is told. */
const picture = (of: JobTimeline, sums: Pyramid | undefined, view: View, rowPx = 1) => {
  const pixels = new Uint32Array(view.width * of.ranks.length * rowPx);
  raster(of, sums, view, COLOURS, rowPx, pixels);
  return [...pixels].map((one) => ((one & 255) === 9 ? "-" : { waiting: (one & 255) / 240, transfer: ((one >> 16) & 255) / 240 }));
};

test("rows are ranks in order, operations of a row are in order of time, what has no row is left out", () => {
  const made = load(answer([[1, 0, 7, 50, 50, 60], [1, 0, 6, 10, 20, 30], [0, 0, 6, 20, 20, 30], [9, 0, 6, 0, 0, 5]]));
  expect(made.ranks.map(({ rank }) => rank)).toEqual([0, 1, 2, 3]);
  expect([...made.start]).toEqual([0, 1, 3, 3, 3]);
  expect([...made.call]).toEqual([6, 6, 7]);
  expect([...made.last]).toEqual([20_000, 20_000, 50_000]);
});

test("who came last is not known of a call: then waiting ends where the operation started; it never ends before the call or after the end", () => {
  const one = answer([[0, 0, 1, 10, null, 30], [1, 0, 1, 10, 5, 30], [2, 0, 1, 10, 99, 30]]);
  one.operations.started_us = [14_000, null, null];
  expect([...load(one).last]).toEqual([14_000, 10_000, 30_000]);
});

test("a send has no number: it is a part of no call of others, and nobody is late to it", () => {
  const of = load(answer([[0, 0, null, 10, null, 30], [1, 0, null, 12, null, 30]]));
  expect(of.call[0]).toBe(NO_CALL);
  expect(partsOf(of, 0)).toEqual([0]);
  expect(chain(of, 0)).toEqual([0]);
  expect(latenessMap(of, 0).calls).toEqual([]);
  expect(operationWords(of, 0, (host) => host)).toMatch(/^rank 0 on host-0: AllReduce of world: /);
});

test("a call long before the answer begins, of what hung for an hour, is as long ago as it was", () => {
  const hourMs = 3_600_000;
  const of = load(answer([[0, 0, 1, -hourMs, -hourMs + 1, 100], [1, 0, 1, 0, 0, hourMs]]));
  expect([of.called[0], of.last[0], of.completed[0]]).toEqual([-3.6e9, -3.6e9 + 1000, 100_000]);
  expect(of.completed[1]).toBe(3.6e9);
  expect(operationWords(of, 0, (host) => host)).toContain("60 min of transfer");
});

test("ranks for which there is no row are counted", () => {
  const ranks = (n: number) => Array.from({ length: n }, (_, rank) => ({ rank: n - 1 - rank, host: "h", pid: rank }));
  const of = load(answer([], { ranks: ranks(MAX_ROWS + 104) }));
  expect([of.ranks.length, of.ranks[0]!.rank, of.hiddenRanks]).toEqual([MAX_ROWS, 0, 104]);
  expect(heldWords(of)).toMatch(/ of 4\u202f096 ranks in .*; 104 ranks with higher numbers are not shown$/);
  expect(heldWords(load(answer([], { ranks: ranks(MAX_ROWS) })))).not.toContain("not shown");
});

test("an operation is found under the pointer, or beside it within the slack, and only in its row", () => {
  expect(hit(nested, 0, 5_000, 0)).toBe(at(0, 0, 1));
  expect(hit(nested, 0, 15_000, 0)).toBe(-1);
  expect(hit(nested, 0, 18_500, 2_000)).toBe(at(0, 0, 2));
  expect(hit(nested, 3, 40_000, 0)).toBe(at(3, 1, 1));
  expect(hit(nested, 4, 40_000, 0)).toBe(-1);
  expect(firstFrom(nested, 0, 10_000)).toBe(1);
});

test("where streams overlap a long operation is under way beneath short ones, and own time begins when all are over", () => {
  const of = load(answer([[0, 0, 1, 0, 5, 100], [0, 1, 1, 10, 10, 12], [0, 1, 2, 50, 50, 52], [0, 1, 3, 120, 120, 122]]));
  expect(firstFrom(of, 0, 95_000)).toBe(0);
  expect(hit(of, 0, 95_000, 0)).toBe(0);
  expect([0, 1, 2, 3].map((at) => ownBefore(of, at))).toEqual([undefined, 0, 0, 20_000]);
  const long = load(answer([[0, 0, 1, 0, 0, 100], [0, 1, 1, 10, 10, 12]]));
  expect(picture(long, undefined, { fromUs: 90_000, toUs: 110_000, width: 2 })[0]).toEqual({ waiting: 0, transfer: 1 });
});

test("how long a call waited is said only where it is known who called last", () => {
  const of = load(answer([[0, 0, 1, 10, null, 30], [1, 0, 1, 12, null, 30]]));
  expect(operationWords(of, 0, (host) => host)).toMatch(/: 20 ms in it, of which nobody knows how much it waited$/);
  expect(waterfall(of, 0).falls.map(({ isSplit }) => isSplit)).toEqual([false, false]);
});

test("the chain follows lateness through communicators to where it arose", () => {
  expect(partsOf(nested, at(0, 0, 2)).map((i) => nested.ranks[nested.row[i]!]!.rank)).toEqual([3, 2, 1, 0]);
  expect(chain(nested, at(0, 0, 2))).toEqual([at(0, 0, 2), at(3, 0, 2), at(3, 1, 1), at(2, 1, 1)]);
  expect(chain(nested, at(3, 0, 1)).length).toBeLessThanOrEqual(2);
});

test("words of an operation: own time, waiting, transfer; own time is not told where calls between were not", () => {
  expect(operationWords(nested, at(0, 0, 2), (host) => host)).toBe("rank 0 on host-0: AllReduce #2 of world: 10 ms of its own before, waited 71 ms for others, 9.0 ms of transfer");
  const some = answer([[0, 0, 16, 0, 0, 5], [0, 0, 32, 50, 50, 60], [1, 0, 16, 0, 0, 5]]);
  some.communicators[0]!.every = 16;
  const sampled = load(some);
  expect(ownBefore(sampled, 1)).toBeUndefined();
  expect(heldWords(sampled)).toBe("3 operations of 4 ranks in world and tp-0, one of 16 calls");
});

test("that there is no operation is said once", () => {
  const told = "No operation that ran in this time was told. Ask for another time.";
  expect(emptyWords({ lacks: [told] })).toBe(told);
  expect(emptyWords({ lacks: [] })).toBe("No operation that ran in this time was told.");
});

test("how far clocks are trusted is said", () => {
  expect(clockWords({ clocks: [{ host: "a", offset_s: 0, error_s: 0.0002, basis: "collectives" }, { host: "b", offset_s: -30.2, error_s: 0.0004, basis: "collectives" }] })).toBe("hosts aligned within 400 µs; 1 clock moved, by up to 30 s");
  expect(clockWords({ clocks: [] })).toBe("");
});

test("pixels have the share of waiting and of transfer, and where a rank has told nothing there is nothing", () => {
  const view: View = { fromUs: 0, toUs: 200_000, width: 20 };
  const all = picture(nested, undefined, view, 2);
  expect(all[0]).toEqual({ waiting: 0, transfer: 1 });
  expect(all[1]).toEqual({ waiting: 0, transfer: 0 });
  expect(all[4]).toEqual({ waiting: 1, transfer: 0 });
  expect(all[15]).toBe("-");
  expect((all[3 * 40 + 1] as { waiting: number }).waiting).toBeCloseTo(0.8, 1);
  expect(all.slice(20, 40)).toEqual(all.slice(0, 20));
  expect(drawsShapes(nested, view)).toBe(true);
});

test("of very many operations bins are read, and they say the same as laying down each; before they are made some stand for all", () => {
  const rows: Row[] = [];
  for (let call = 0; call < 20_000; call += 1) for (let rank = 0; rank < 2; rank += 1) rows.push([rank, 0, call, call * 0.05, call * 0.05 + 0.02, call * 0.05 + 0.045]);
  const many = load(answer(rows, { ranks: [2, 1, 3, 0].map((rank) => ({ rank, host: "h", pid: rank })) }));
  expect(pyramid(many)).toBeUndefined();
  const making = pyramid(many, 5_000)!;
  while (!making.isDone()) making.step(1);
  const mean = (sums: Pyramid | undefined, fromUs: number, toUs: number, of: "waiting" | "transfer") => {
    const told = picture(many, sums, { fromUs, toUs, width: 500 }).filter((one) => typeof one !== "string");
    return told.reduce((sum, one) => sum + one[of], 0) / told.length;
  };
  for (const [fromUs, toUs] of [[0, 1_000_000], [200_000, 600_000], [100_000, 100_500]] as const) {
    expect(mean(making.made, fromUs, toUs, "waiting")).toBeCloseTo(20 / 50, 1);
    expect(mean(undefined, fromUs, toUs, "waiting")).toBeCloseTo(20 / 50, 1);
    expect(mean(making.made, fromUs, toUs, "transfer")).toBeCloseTo(25 / 50, 1);
  }
});

test("who is late to most calls stands out of the map, and one call is told rank by rank", () => {
  const rows: Row[] = [];
  for (let call = 0; call < 50; call += 1) for (let rank = 0; rank < 4; rank += 1) rows.push([rank, 0, call, call * 10 + (rank === 2 ? 4 : 0), call * 10 + 4, call * 10 + 6]);
  const of = load(answer(rows));
  const map = latenessMap(of, firstToSee(of));
  expect(map.calls).toHaveLength(50);
  expect(map.worst).toEqual({ row: 2, meanUs: 4000 });
  expect(map.late[2 * 50 + 7]).toBe(4000);
  expect(map.late[7]).toBe(0);
  expect(map.topUs).toBe(4000);
  const { falls, hidden, lengthUs } = waterfall(of, 3);
  expect(falls.map(({ rank, calledUs, waitingUs, transferUs }) => [rank, calledUs, waitingUs, transferUs])).toEqual([[2, 4000, 0, 2000], [0, 0, 4000, 2000], [1, 0, 4000, 2000], [3, 0, 4000, 2000]]);
  expect([hidden, lengthUs]).toEqual([0, 6000]);
});

test("one late rank among a thousand stands out of their noise", () => {
  const rows: Row[] = [];
  for (let call = 0; call < 5; call += 1) for (let rank = 0; rank < 1000; rank += 1) rows.push([rank, 0, call, call * 40 + (rank === 613 ? 12 : (rank % 7) * 0.2), call * 40 + 14, call * 40 + 20]);
  const { operations, ...rest } = answer(rows);
  const ranks = Array.from({ length: 1000 }, (_, rank) => ({ rank, host: `host-${rank >> 3}`, pid: rank }));
  const map = latenessMap(load({ ...rest, ranks, operations: { ...operations, rank: rows.map(([rank]) => rank) } }), 0);
  expect(map.worst.row).toBe(613);
  expect(map.topUs).toBeGreaterThanOrEqual(map.worst.meanUs);
  // All others lie in the palest shades.
  expect(Math.max(...map.late.filter((_, i) => Math.floor(i / 5) !== 613))).toBeLessThan(map.topUs / 6);
});

test("who is late the most is named only where that is more than the clocks may be wrong, and more than a hundredth of the time", () => {
  const words = (lateMs: number, errorS: number, every = 1, lateRank = 2) => {
    const rows: Row[] = [];
    for (let call = 0; call < 50; call += 1) for (let rank = 0; rank < 4; rank += 1) rows.push([rank, 0, call, call * 10 + (rank === lateRank ? lateMs : 0), call * 10 + 4, call * 10 + 6]);
    const some = answer(rows, { clocks: ["host-0", "host-1"].map((host) => ({ host, offset_s: 0, error_s: errorS, basis: "collectives" as const })) });
    some.communicators[0]!.every = every;
    const of = load(some);
    return worstWords(of, latenessMap(of, 0), (host) => host);
  };
  expect(words(4, 0.001)).toBe("Rank 2 on host-1 is late the most: 4.0 ms behind the others on average.");
  expect(words(4, 0.005)).toBe("On average nobody is late by more than the clocks may be wrong (5.0 ms).");
  expect(words(0.05, 0)).toBe("Nobody is late by more than 1 % of the time.");
  expect(words(0.05, 0, 16)).toMatch(/^Rank 2 /);
  expect(words(0, 0)).toBe("Nobody is late.");
});

test("the communicator in which somebody is late is the one to look at first, and not the one with the most calls", () => {
  const rows: Row[] = [];
  for (let call = 0; call < 50; call += 1) for (let rank = 0; rank < 4; rank += 1) rows.push([rank, 0, call, call * 20, call * 20, call * 20 + 1]);
  for (let call = 0; call < 25; call += 1) for (const rank of [2, 3]) rows.push([rank, 1, call, call * 20 + (rank === 3 ? 8 : 0), call * 20 + 8, call * 20 + 9]);
  expect(firstToSee(load(answer(rows)))).toBe(1);
  expect(firstToSee(load(answer(rows.slice(0, 200))))).toBe(0);
});

test("ranks of one host have one clock, so that its error says nothing of who is late among them", () => {
  const rows: Row[] = [];
  for (let call = 0; call < 50; call += 1) for (const rank of [2, 3]) rows.push([rank, 1, call, call * 10 + (rank === 3 ? 4 : 0), call * 10 + 4, call * 10 + 6]);
  const of = load(answer(rows, { clocks: [{ host: "host-0", offset_s: 0, error_s: 2, basis: "agent" }, { host: "host-1", offset_s: 0, error_s: 2, basis: "agent" }] }));
  expect(worstWords(of, latenessMap(of, 1), (host) => host)).toMatch(/^Rank 3 on host-1 is late the most: 4.0 ms/);
});

test("a view moves and grows within what there is, and what is under the pointer stays there", () => {
  const view = { fromUs: 100, toUs: 300 };
  expect(scaled(view, 0.5, 0.25, 1000)).toEqual({ fromUs: 125, toUs: 225 });
  expect(scaled(view, 100, 0.5, 1000)).toEqual({ fromUs: 0, toUs: 1000 });
  expect(scaled(view, 0.0001, 0.5, 1000)).toEqual({ fromUs: 190, toUs: 210 });
  expect(moved(view, -500, 1000)).toEqual({ fromUs: 0, toUs: 200 });
  expect(moved(view, 5000, 1000)).toEqual({ fromUs: 800, toUs: 1000 });
});

test("a thousand rows are a pixel each and some are named; a few are high and all are", () => {
  expect([rowPx(8), heightPx(8), namedRows(8).length]).toEqual([18, 144, 8]);
  expect([rowPx(1024), heightPx(1024), namedRows(1024)[1]]).toEqual([1, 1024, 16]);
});

test("the axis has moments where they are seconds apart, else what has passed since the last whole second", () => {
  expect(axis({ fromUs: 0, toUs: 60e6 }, NOW, 7).map(({ afterUs }) => afterUs).filter((us) => us !== undefined)).toEqual([]);
  expect(axis({ fromUs: 3_000_100, toUs: 3_000_900 }, NOW, 8).map(({ afterUs }) => afterUs)).toEqual([100, 200, 300, 400, 500, 600, 700, 800, 900]);
});
