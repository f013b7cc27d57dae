import { expect, test } from "vitest";
import group from "../../../fixtures/summation/group.json";
import groups from "../../../fixtures/summation/groups.json";
import rounds from "../../../fixtures/summation/rounds.json";
import type { SummationGroup, SummationGroupDetail, SummationRound, SummationWorker } from "../../src/api";
import { byAttention, predecessor, successor } from "../../src/pure/summation/groups";
import { matrix, under } from "../../src/pure/summation/matrix";
import { fits, picture } from "../../src/pure/summation/picture";
import { isUnused, pipeline } from "../../src/pure/summation/stages";
import { staleBars } from "../../src/pure/summation/staleness";
import { groupRows, roundRows, serviceRows, stageRows, waitRows, workerRows } from "../../src/pure/summation/tables";
import { troubles } from "../../src/pure/summation/trouble";
import { walk } from "../../src/pure/summation/walk";
import { agreement, flowWords, lostWords, modeWords, overWords, parametersWords, serviceWords, share, waitSentence, workerWords } from "../../src/pure/summation/words";
import { integer } from "../../src/pure/format";
import { finding } from "./fixture";

const DETAIL = group as SummationGroupDetail;
const ALL = groups.items as SummationGroup[];
const ROUNDS = rounds.items as SummationRound[];
const WELL = troubles(DETAIL, []);
const STUCK = finding({ finding: "sum_round_stuck" as never, host: "train-2", rank: 2 });

function made(rest: Partial<SummationGroupDetail>): SummationGroupDetail {
  return { ...DETAIL, ...rest };
}

/** `n` workers and `k` servers that own as much as each should. */
function large(n: number, k: number): SummationGroupDetail {
  const services = Array.from({ length: k + n }, (_, service) => ({
    ...DETAIL.services[0]!, service, role: service < k ? "server" as const : "worker" as const, index: service < k ? service : service - k, share: service < k ? 0.02 : 0.003, optimal_share: service < k ? 0.02 : 0.003,
  }));
  const workers = Array.from({ length: n }, (_, index) => ({ ...DETAIL.workers[0]!, index, rank: index, host: `node-${index}`, last_share: 1 / n }));
  const flows = services.flatMap(({ service, share }) => workers.map((one) => ({ worker: one.index, service, push_bytes_per_s: share * 1e9, pull_bytes_per_s: share * 1e9, push_backlog_bytes: 0 })));
  return made({ n_workers: n, n_servers: k, services, workers, flows, waits: [] });
}

test("who is waited for, comes last or owns too much is in trouble, the worst of it first", () => {
  const late = finding({ finding: "sum_straggler" as never, host: "train-2", rank: 2 });
  expect([...troubles(DETAIL, [late]).workers]).toEqual([[2, "late"]]);
  expect([...troubles(DETAIL, [STUCK, late]).workers]).toEqual([[2, "waited"]]);
  // Of a model of few kilobytes more than its optimum costs nothing.
  const services = DETAIL.services.map((one) => (one.service === 1 ? { ...one, share: 0.34 } : one));
  expect([...troubles(made({ services, waits: [] }), []).services]).toEqual([]);
  const uneven = finding({ finding: "sum_share_imbalance" as never, host: "sum-0", rank: 4 });
  expect([...troubles(DETAIL, [uneven]).services]).toEqual([[0, "over"]]);
});

test("a lost worker is lost with its own service, a lost server alone", () => {
  const gone = (role: "worker" | "server") => troubles(made({ waits: [], lost: { rank: 1, role, index: 1, host: "h", why: "" } }), []);
  expect([[...gone("worker").workers], [...gone("worker").services]]).toEqual([[[1, "lost"]], [[3, "lost"]]]);
  expect([[...gone("server").workers], [...gone("server").services]]).toEqual([[], [[1, "lost"]]]);
});

test("bands are as wide as their bytes and fill their nodes from top to bottom", () => {
  const drawn = picture(DETAIL, WELL, 800);
  expect(drawn.bands).toHaveLength(24);
  const of = (worker: number, service: number) => drawn.bands.find((band) => band.worker === worker && band.service === service)!;
  expect(of(0, 0).px / of(0, 3).px).toBeCloseTo(3, 1);
  expect([of(0, 2).state, of(0, 3).state, of(0, 0).state]).toEqual(["own", "flows", "flows"]);
  for (const node of [...drawn.workers, ...drawn.services]) {
    const mine = drawn.bands.filter((band) => (node.side === "worker" ? band.worker : band.service) === node.number);
    expect(node.bottom - node.top).toBeCloseTo(mine.reduce((sum, band) => sum + band.px, 0), 0);
  }
});

test("no two nodes of a side lie on each other, at any width and size", () => {
  for (const [n, k] of [[2, 0], [4, 2], [8, 4], [16, 8], [12, 12]] as const) {
    for (const width of [300, 340, 640, 1000]) {
      const drawn = picture(large(n, k), WELL, width);
      for (const side of [drawn.workers, drawn.services]) {
        for (let i = 1; i < side.length; i += 1) expect(side[i]!.top).toBeGreaterThanOrEqual(side[i - 1]!.bottom);
        expect(side.at(-1)!.bottom).toBeLessThanOrEqual(drawn.heightPx);
      }
      for (const node of drawn.services) expect(drawn.x.share + Math.max(node.sharePx, node.optimalPx)).toBeLessThanOrEqual(drawn.x.number);
    }
  }
});

test("what is waited for, lost or far behind is seen however little it moves", () => {
  const flows = DETAIL.flows.map((flow) => (flow.worker === 2 ? { ...flow, push_bytes_per_s: 0, pull_bytes_per_s: 0, push_backlog_bytes: 9e6 } : flow));
  const drawn = picture(made({ flows }), troubles(DETAIL, [STUCK]), 800);
  const mine = drawn.bands.filter((band) => band.worker === 2);
  expect(mine.map((band) => band.state)).toEqual(["waited", "behind", "behind", "behind", "behind", "behind"]);
  expect(Math.min(...mine.map((band) => band.px))).toBeGreaterThan(1.5);
});

test("many are a matrix: a line for each while there is room, neighbours together where there is none", () => {
  expect([fits(large(12, 12)), fits(large(16, 9)), fits(large(128, 32))]).toEqual([true, false, false]);
  const wide = matrix(large(128, 32), WELL, 760, "rate");
  expect([wide.rows.length, wide.columns.length]).toEqual([128, 160]);
  const narrow = matrix(large(128, 32), WELL, 330, "rate");
  expect(narrow.columns.length).toBeLessThan(90);
  expect(narrow.columns.flatMap((one) => one.members)).toEqual(Array.from({ length: 160 }, (_, i) => i));
  expect(narrow.columns.every((one) => one.members.every((service) => service < 32) || one.members.every((service) => service >= 32))).toBe(true);
  const huge = matrix(large(700, 100), WELL, 330, "rate");
  expect(huge.rows.flatMap((one) => one.members)).toHaveLength(700);
  for (const drawn of [wide, narrow, huge]) {
    expect(drawn.box.right).toBeLessThan(drawn.widthPx);
    expect(Math.max(...drawn.rows.map((row) => row.valuePx)) + drawn.box.right).toBeLessThanOrEqual(drawn.widthPx);
    expect(Math.max(...drawn.columns.map((column) => column.valuePx))).toBeLessThan(drawn.box.y);
  }
});

test("a shared line of the matrix is in as much trouble as its worst member, and the largest backlog shades its cell", () => {
  const base = large(700, 100);
  const one = made({ ...base, flows: base.flows.map((flow) => (flow.worker === 401 && flow.service === 7 ? { ...flow, push_backlog_bytes: 1e6 } : flow)) });
  const known = { workers: new Map([[401, "waited" as const]]), services: new Map([[7, "lost" as const]]) };
  const drawn = matrix(one, { ...known, services: new Map() }, 700, "backlog");
  expect(drawn.rows.filter((row) => row.state !== "ok").map((row) => [row.state, row.member, row.members.length > 1])).toEqual([["waited", 401, true]]);
  expect(drawn.cells[4]!.match(/M/g)).toHaveLength(1);
  expect(matrix(large(128, 32), known, 760, "rate").lost.match(/M/g)).toHaveLength(128);
});

test("a point of the matrix is a worker and a service", () => {
  const drawn = matrix(large(128, 32), WELL, 760, "rate");
  const at = under(drawn, drawn.columns[33]!.at + 0.5, drawn.rows[77]!.at + 0.5);
  expect([at.row?.members, at.column?.members]).toEqual([[77], [33]]);
  expect(under(drawn, 1, 1)).toEqual({ row: undefined, column: undefined });
});

test("arrows go along a side and across", () => {
  const go = (keys: string, matrixLike = false) => keys.split(" ").reduce((at, key) => walk(`Arrow${key}`, at, DETAIL, matrixLike)!, {});
  expect(go("Down Down")).toEqual({ worker: 1 });
  expect(go("Up")).toEqual({ worker: 3 });
  expect(go("Down Right")).toEqual({ service: 0 });
  expect(go("Up Right")).toEqual({ service: 5 });
  expect(go("Down Right Up Left")).toEqual({ worker: 3 });
  expect(go("Down Right Right", true)).toEqual({ worker: 0, service: 1 });
  expect(walk("Escape", { worker: 1 }, DETAIL, false)).toEqual({});
  expect(walk("a", {}, DETAIL, false)).toBeUndefined();
});

test("the pipeline of all weighs means by parts, and names where parts wait longest", () => {
  const all = pipeline(DETAIL.workers);
  expect(all.stages.map((one) => one.stage)).toEqual(["compress", "push", "sum", "pull", "decompress"]);
  expect(all.slowest).toBe("push");
  expect(all.stages[1]).toMatchObject({ waiting_parts: 32, running_parts: 16, longest_wait_ns: 181_000_000 });
  expect(all.stages[1]!.mean_wait_ns).toBeCloseTo((3 * 640_000 + 2_410_000) / 4);
  expect([all.creditsUsedBytes, all.creditBytes]).toEqual([53_248_000, 65_536_000]);
  expect(all.stages.filter(isUnused).map((one) => one.stage)).toEqual(["compress", "decompress"]);
  const idle: SummationWorker = { ...DETAIL.workers[0]!, stages: [] };
  expect(pipeline([idle])).toMatchObject({ stages: [], slowest: undefined });
});

test("the sentence about rounds names whom they wait for, once that is found to be too long", () => {
  expect(waitSentence(DETAIL, WELL)).toEqual({ sentence: "2 rounds in flight, the oldest for 2.3 s.", stuck: false });
  expect(waitSentence(DETAIL, troubles(DETAIL, [STUCK]))).toEqual({ sentence: "2 rounds in flight, the oldest for 2.3 s: they wait for worker 2 on train-2.", stuck: true });
  expect(waitSentence(made({ waits: [] }), WELL).sentence).toBe("No round is in flight.");
});

test("results that differ are named by key and round", () => {
  const { sentence, differ } = agreement(ROUNDS);
  const open = ROUNDS.filter((one) => one.agree === null).length;
  expect(differ).toHaveLength(ROUNDS.filter((one) => one.agree === false).length);
  expect(sentence).toContain(`${open} not compared yet`);
  const two = [{ ...ROUNDS[0]!, agree: false }, { ...ROUNDS[1]!, agree: true }];
  expect(agreement(two).sentence).toBe(`1 result differs between members: key ${two[0]!.key} round ${two[0]!.round}. 1 of the 2 newest results is the same wherever they were seen.`);
});

test("what a service owns beyond its optimum is short enough to stand beside its share", () => {
  const owning = (share: number) => overWords({ ...DETAIL.services[0]!, share, optimal_share: 0.1 }, "over");
  expect(overWords({ ...DETAIL.services[0]!, share: 0.9 }, "ok")).toBeUndefined();
  expect([0.1, 0.13, 0.643].map(owning)).toEqual([undefined, "+30 %", "6.4 ×"]);
});

test("members, shares and losses are words", () => {
  expect(workerWords(DETAIL.workers[2]!, DETAIL, "late")).toEqual([
    "worker 2 on train-2, straggler", "pushes 4.48 GB/s, pulls 4.48 GB/s, 11.7 MiB issued and not sent", "last in 76 % of rounds, 22 ms after the first on average",
    "2 rounds wait for it, the oldest for 2.3 s",
  ]);
  expect(serviceWords(DETAIL.services[5]!, "ok")[0]).toBe("worker 3’s own on train-3");
  expect(flowWords(DETAIL.flows[0]!)).toBe("pushes 1.34 GB/s, pulls 1.34 GB/s");
  expect([share(0.3), share(0.0212), share(1)]).toEqual(["30.0 %", "2.12 %", "100.0 %"]);
  expect(["no", "a", "b"].map((_, i) => modeWords(made([{}, { asynchronous: true }, { asynchronous: true, staleness_bound: 1 }][i]!)))).toEqual(["synchronous", "asynchronous, no bound", "asynchronous, at most 1 round behind"]);
  expect(lostWords(made({ lost: { rank: 5, role: "server", index: 1, host: "sum-1", why: "connection reset" } }))).toBe("Server 1 on sum-1 (rank 5) was lost: connection reset.");
  expect(lostWords(DETAIL)).toBeUndefined();
});

test("groups to look at come first, and a session is followed from group to group", () => {
  expect([...ALL].sort(byAttention).map((one) => one.state)).toEqual(["running", "running", "failed", "suspended"]);
  const [now, before] = ALL as [SummationGroup, SummationGroup];
  expect([successor(before, ALL)?.id, successor(now, ALL), predecessor(now, ALL)?.id]).toEqual([now.id, undefined, before.id]);
});

test("staleness is bars up to the bound, and what is beyond it is marked", () => {
  expect(staleBars([6, 3, 1, 0, 0], 3).map((bar) => [bar.words, bar.part])).toEqual([["0", 0.6], ["1", 0.3], ["2", 0.1], ["3", 0]]);
  expect(staleBars([1, 0, 2], 1).map((bar) => bar.beyond)).toEqual([false, false, true]);
  expect(staleBars(Array(40).fill(1), null).at(-1)).toMatchObject({ words: "11+", count: 29 });
  expect(staleBars([3, 0, 2], null).map((bar) => bar.words)).toEqual(["0", "1", "2+"]);
  expect(staleBars([], null)).toEqual([]);
});

test("every table can be taken elsewhere, a column for each head", () => {
  for (const rows of [groupRows(ALL), serviceRows(DETAIL.services), workerRows(DETAIL.workers), stageRows(DETAIL.workers), waitRows(DETAIL), roundRows(ROUNDS)]) {
    expect(rows.length).toBeGreaterThan(1);
    for (const row of rows) expect(row).toHaveLength(rows[0]!.length);
    expect(rows[1]!.some((value) => value === undefined)).toBe(false);
  }
});

test("parameters are the same only where they were compared", () => {
  expect(parametersWords(DETAIL)).toEqual({ state: "same", how: "all 32 on all workers after 8 100 steps; compared every 100 steps".replace("8 100", integer(8100)) });
  expect(parametersWords(made({ comparison: null })).state).toBe("not compared");
  const difference = { steps: 8000, at: "2026-11-22T02:15:21.300Z", parameter: "fc.bias", parties: [] };
  const differ = parametersWords(made({ comparison: { ...DETAIL.comparison!, n_different: 3, difference } }));
  expect(differ).toEqual({ state: "differ", how: `fc.bias first, after ${integer(8000)} steps; 3 of 32 after ${integer(8100)} steps` });
});
