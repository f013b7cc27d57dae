import { expect, test } from "vitest";
import type { CommunicatorSummary, Finding, Ring } from "../../src/api";
import { candidates, compare, way } from "../../src/pure/compare";
import { communicatorLanes, findingLanes, ticks } from "../../src/pure/lanes";
import { group } from "../../src/pure/findings";
import { thumb } from "../../src/pure/multiples";
import { communicator, finding, ring } from "./fixture";

const on = (channel: number, rest: Partial<Ring> = {}): Ring => ({ ...ring(8, 2), channel, ...rest });
const with_ = (channel: number, rank: number, change: object): Ring =>
  on(channel, { order: ring(8, 2).order.map((hop) => (hop.rank === rank ? { ...hop, ...change } : hop)) });

test("equal rings are said to be equal", () => {
  const { channels, sentence } = compare([on(0), on(1)], [on(0), on(1)]);
  expect(channels.map((one) => one.kind)).toEqual(["same", "same"]);
  expect(sentence).toBe("The same 2 rings, as far as they are known.");
});

test("channels that are only in one", () => {
  const { channels, sentence } = compare([on(0), on(1), on(2), on(3)], [on(0), on(1)]);
  expect(channels.map((one) => one.kind)).toEqual(["same", "same", "only_before", "only_before"]);
  expect(sentence).toBe("2 channels instead of 4.");
  expect(compare([on(0)], [on(0), on(1)]).channels[1]!.kind).toBe("only_after");
  expect(compare([on(0), on(1)], [on(0), on(2)]).sentence).toBe("Channels 2 instead of 1.");
});

test("a hop that fell back is named with both ways", () => {
  const { channels, sentence } = compare([with_(0, 3, { nic: "mlx5_0" })], [with_(0, 3, { transport: "NET/Socket", nic: "eth0" })]);
  expect(channels[0]!.hops).toMatchObject([{ rank: 3, parts: ["transport", "NIC"] }]);
  expect(sentence).toBe("Rank 3 on host-1 sends over NET/Socket via eth0 instead of NET/IB via mlx5_0 on channel 0.");
});

test("what the log writes into the transport's name is compared once", () => {
  const one = with_(0, 3, { transport: "NET/IB/0/GDRDMA", nic: "mlx5_0", gpu_direct: true });
  const other = with_(0, 3, { transport: "NET/IB/1", nic: "mlx5_1", gpu_direct: false });
  expect(compare([one], [other]).channels[0]!.hops[0]!.parts).toEqual(["NIC", "GPUDirect"]);
});

test("what is not known on one side is no difference", () => {
  expect(compare([with_(0, 3, { transport: null, nic: null })], [with_(0, 3, { nic: "mlx5_0" })]).channels[0]!.kind).toBe("same");
  expect(compare([], [on(0)]).sentence).toBe("The rings of one of them are not known.");
});

test("another order is told from another beginning of the same", () => {
  const { order } = ring(8, 2);
  expect(compare([on(0)], [on(0, { order: [...order.slice(2), ...order.slice(0, 2)] })]).channels[0]!.kind).toBe("same");
  const backwards = [...order].reverse().map((hop) => ({ ...hop, next: (hop.rank + 7) % 8 }));
  const { channels, sentence } = compare([on(0)], [on(0, { order: backwards })]);
  expect(channels[0]).toMatchObject({ kind: "changed", reordered: true });
  expect(sentence).toBe("The order of channel 0 is not the same.");
});

test("many hops are counted, their hosts named", () => {
  const slow = on(0, { order: ring(8, 2).order.map((hop) => ({ ...hop, transport: "NET/Socket", host: hop.host })) });
  expect(compare([on(0)], [slow]).sentence).toBe("8 hops run otherwise, on host-0, host-1 and 2 more.");
});

test("a hop in words", () => {
  expect(way({ ...ring(2, 1).order[0]!, nic: "mlx5_0", recv_nic: "mlx5_1" })).toBe("NET/IB via mlx5_0 to mlx5_1");
});

const comm = (id: string, minute: number, rest: Partial<CommunicatorSummary> = {}) =>
  communicator({ id, created: `2026-03-01T03:${String(minute).padStart(2, "0")}:00Z`, ...rest });

test("earlier communicators to compare with: of its name and shape first, the newest of them first", () => {
  const shown = comm("e", 20, { name: "world/3" });
  const all = [
    shown, comm("a", 1, { name: "world/1" }), comm("b", 10, { name: "world/2" }), comm("c", 15, { name: "data-0/1", n_ranks: 2 }),
    comm("later", 25, { name: "world/4" }), comm("other", 5, { name: "world/2", job: "another" }),
  ];
  expect(candidates(all, shown).map((one) => one.id)).toEqual(["b", "a", "c"]);
});

const RANGE = { fromMs: Date.parse("2026-03-01T03:00:00Z"), toMs: Date.parse("2026-03-01T03:30:00Z") };

test("communicators of one name follow each other in one lane, others have their own", () => {
  const { lanes, hidden } = communicatorLanes([
    comm("a", 0, { name: "world/1", state: "ended", ended: "2026-03-01T03:15:00Z" }),
    comm("b", 15, { name: "world/2", standing: { condition: "hung", reason: "a rank is waited for" } }),
    comm("c", 6, { name: "tensor-0/1", n_ranks: 2 }),
  ], RANGE);
  expect(hidden).toBe(0);
  expect(lanes.map((lane) => [lane.label, lane.bars.map((bar) => [bar.id, bar.from, bar.to, bar.tone])])).toEqual([
    ["world", [["a", 0, 0.5, "ended"], ["b", 0.5, 1, "critical"]]],
    ["tensor-0", [["c", 0.2, 1, "ok"]]],
  ]);
  expect(lanes[0]!.bars[1]!.toMs).toBeUndefined();
});

test("what does not meet the range is left out, what overlaps gets another lane, what has no lane is counted", () => {
  const old = comm("old", 0, { state: "ended", created: "2026-03-01T01:00:00Z", ended: "2026-03-01T02:00:00Z" });
  const many = Array.from({ length: 20 }, (_, i) => comm(`c${i}`, 5));
  const { lanes, hidden } = communicatorLanes([old, ...many], RANGE);
  expect([lanes.length, hidden]).toEqual([16, 4]);
});

test("findings in lanes by kind, from the first to the last seen of a group", () => {
  const { lanes } = findingLanes(group([
    finding({ id: "x", first_seen: "2026-03-01T03:15:00Z" }),
    finding({ id: "y", state: "resolved", first_seen: "2026-03-01T03:03:00Z", resolved_at: "2026-03-01T03:06:00Z" }),
  ]), RANGE);
  expect(lanes).toHaveLength(1);
  expect(lanes[0]).toMatchObject({ label: "Channel shortfall", bars: [{ id: "y", from: 0.1, to: 0.2 }, { id: "x", from: 0.5, to: 1, tone: "critical" }] });
});

test("a moment too short to be seen is drawn all the same", () => {
  const { lanes } = communicatorLanes([comm("a", 10, { state: "ended", ended: "2026-03-01T03:10:00Z" })], RANGE);
  const bar = lanes[0]!.bars[0]!;
  expect(bar.to - bar.from).toBeGreaterThan(0.003);
});

test("ticks at round moments", () => {
  expect(ticks(RANGE, 8).map((tick) => new Date(tick.ms).getUTCMinutes())).toEqual([0, 5, 10, 15, 20, 25, 30]);
  expect(ticks(RANGE, 3).length).toBeLessThanOrEqual(3);
});

test("a ring as small as a thumb is few paths, whatever its size", () => {
  const { paths, degraded, odd, trouble } = thumb(ring(1024, 8), new Set(["host-3"]));
  expect(paths.map((one) => one.transport).sort()).toEqual(["net", "p2p"]);
  expect(degraded.match(/M/g)).toHaveLength(1);
  expect([odd.length, trouble]).toEqual([0, ""]);
});

test("what is wrong with a small ring is said in words", () => {
  const order = ring(8, 2).order.slice(0, 6).map((hop, i) => (i === 1 ? { ...hop, odd: ["fallback" as const] } : hop));
  expect(thumb({ ...ring(8, 2), complete: false, missing_ranks: [6, 7], order }, new Set()).trouble).toBe("incomplete, 1 odd");
});

test("a finding in a lane names its host once, as lists call it, and none where it is about none", () => {
  const labels = (over: Partial<Finding>) => findingLanes(group([finding({ id: "x", first_seen: "2026-03-01T03:15:00Z", ...over })]), RANGE, (words) => words.replace(".example.org", "")).lanes[0]!.bars[0]!.label;
  expect(labels({ host: "gpu-2.example.org", message: "rank 5 (gpu-2.example.org) is slow" })).toBe("rank 5 (gpu-2) is slow");
  expect(labels({ host: "gpu-2.example.org", message: "found 1 channel" })).toBe("gpu-2: found 1 channel");
  expect(labels({ host: "", message: "Collectives take 94 ms" })).toBe("Collectives take 94 ms");
});
