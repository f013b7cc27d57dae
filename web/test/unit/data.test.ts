import { expect, test } from "vitest";
import { byUrgency } from "../../src/pure/choose";
import { group } from "../../src/pure/findings";
import { commonPrefix, grid } from "../../src/pure/grid";
import { append, columns, MAX_SAMPLES, type Sample } from "../../src/pure/series";
import { finding, host, job } from "./fixture";

const look = (timeMs: number, issued: number, rate: number): Sample => ({
  timeMs,
  issuedBytes: { all_reduce: issued },
  completedBytesPerS: { all_reduce: rate },
});

test("history first, then what was seen since", () => {
  const series = (values: number[]) => ({ metric: "m", unit: "u", step_s: 1, times_ms: [1000, 2000], lines: [{ primitive: "all_reduce", values }] });
  const seen = columns(series([5, 6]), series([7, 8]), [look(500, 0, 9), look(3500, 300, 10), look(4000, 700, 11)], Infinity);
  expect(seen).toEqual({
    times: [1, 2, 3.5, 4],
    primitives: ["all_reduce"],
    completed: [[5, 6, 10, 11]],
    issued: [[7, 8, 100, 200]],
  });
});

test("nothing after the end, nothing without a store", () => {
  expect(columns(null, null, [look(1000, 0, 1), look(2000, 5, 2)], 1500).times).toEqual([1]);
});

test("a counter that fell (another process) is not a rate", () => {
  expect(columns(null, null, [look(1000, 9, 1), look(4000, 5, 2)], Infinity).issued).toEqual([[null, null]]);
});

test("samples are bounded and in order", () => {
  let samples: Sample[] = [];
  for (let i = 0; i < 200; i += 1) samples = append(samples, look(i, 0, 0));
  expect(samples).toHaveLength(MAX_SAMPLES);
  expect(append(samples, look(5, 0, 0))).toBe(samples);
});

test("the same conclusion on many hosts is one line; critical ones first", () => {
  const capped = [3, 1, 10].map((i) => finding({ id: `${i}`, finding: "capped_by_peer", severity: "info", host: `host-${i}`, cause: "peer_limits" }));
  const groups = group([...capped, finding()]);
  expect(groups.map((one) => [one.first.finding, one.hosts])).toEqual([
    ["channel_shortfall", ["host-2"]],
    ["capped_by_peer", ["host-1", "host-3", "host-10"]],
  ]);
});

test("the same conclusion in many communicators of a job is one line, unless its numbers differ", () => {
  const groups = group([finding({ id: "a" }), finding({ id: "b", comm: "other" }), finding({ id: "c", comm: "third", message: "host-2 found 3 channels" })]);
  expect(groups.map((one) => one.comms)).toEqual([["c", "other"], ["third"]]);
});

test("two incidents stay two lines, however alike", () => {
  const past = (from: string, to: string, comm: string) =>
    finding({ id: comm, comm, state: "resolved", first_seen: `2026-03-01T0${from}:00Z`, resolved_at: `2026-03-01T0${to}:00Z` });
  const groups = group([past("3:10", "3:11", "c"), past("3:00", "3:01", "a"), past("3:00", "3:02", "b")]);
  expect(groups.map((one) => one.comms)).toEqual([["c"], ["a", "b"]]);
});

test("the job in trouble is shown first, ended ones last", () => {
  const jobs = [
    job({ id: "ended", state: "ended", n_killed: 3 }),
    job({ id: "newer but small", world_size: 2, first_seen: "2027-01-01T00:00:00Z" }),
    job({ id: "fine" }),
    job({ id: "bad", findings: { critical: 1, warning: 0, info: 0 } }),
  ];
  expect(jobs.sort(byUrgency).map((one) => one.id)).toEqual(["bad", "fine", "newer but small", "ended"]);
});

test("cells carry what tells names apart", () => {
  expect(commonPrefix(["gpu-r01n10", "gpu-r01n11"])).toBe("gpu-r01n");
  expect(commonPrefix(["host-10", "host-11"])).toBe("host-");
  const cells = grid([host("host-10", { completed_bytes_per_s: 4 }), host("host-11", { completed_bytes_per_s: 1 }), host("host-12")]).cells;
  expect(cells.map((cell) => [cell.short, cell.heat])).toEqual([["10", 4], ["11", 1], ["12", 0]]);
});
