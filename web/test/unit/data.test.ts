import { expect, test } from "vitest";
import { byUrgency } from "../../src/pure/choose";
import { group } from "../../src/pure/findings";
import { csv, curl } from "../../src/pure/csv";
import { racks, scale, shadeWords, type Shade } from "../../src/pure/heat";
import { placeOf, step } from "../../src/pure/search";
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

test("the map groups hosts by rack, as their names say", () => {
  const shape = (names: string[]) => racks(names.map((name) => host(name))).map((rack) => [rack.label, rack.cells.map((cell) => cell.short).join(" ")]);
  expect(shape(["gpu-r02n01", "gpu-r01n10", "gpu-r01n9", "gpu-r02n02"])).toEqual([["gpu-r01", "9 10"], ["gpu-r02", "01 02"]]);
  expect(shape(["host-2.rack.example", "host-10.rack.example"])).toEqual([["host", "2 10"]]);
  expect(shape(["login", "gpu1", "gpu2"])).toEqual([["gpu", "1 2"], ["", "login"]]);
  expect(shape(["gpu-node-17", "vm", "pod-7", "a-node17", "nodehundred"])).toEqual([["", "node17 17 undred pod-7 vm"]]);
  const many = racks(Array.from({ length: 1000 }, (_, i) => host(`host-${i}`)));
  expect(many.map((rack) => rack.cells.length)).toEqual(Array.from({ length: 50 }, () => 20));
  expect(many[1]!.label).toBe("host-20…");
});

test("a shade tells what it is asked to, and what is not known", () => {
  const hosts = [
    host("a", { completed_bytes_per_s: 4, init_channels: 8, n_nics: 8, n_nics_down: 1 }),
    host("b", { completed_bytes_per_s: 1, init_channels: 2, n_nics: 8, n_nics_down: 0 }),
    host("c", { completed_bytes_per_s: 0, init_channels: null }),
  ];
  const heats = (shade: Shade) => hosts.map(scale(hosts, shade).heat);
  expect(heats("bandwidth")).toEqual([4, 1, 0]);
  expect(heats("channels")).toEqual([4, 1, null]);
  expect(heats("nics")).toEqual([4, 0, null]);
  expect(hosts.map((one) => shadeWords(one, "nics"))).toEqual(["1 of 8 NICs down", "0 of 8 NICs down", "NICs not known"]);
});

test("a CSV holds quotes, unknowns and no formulas; a command holds no quote of its own", () => {
  expect(csv([["a", 'say "x", y'], [null, "=1+1"], [1.5, true]])).toBe('a,"say ""x"", y"\r\n,\'=1+1\r\n1.5,true\r\n');
  expect(curl("http://d:9440/ui/#/hosts", "nodes?q=it's")).toBe("curl -sS --compressed 'http://d:9440/ui/api/v1/nodes?q=it%27s'");
});

test("a search hit leads to its place", () => {
  const hit = { title: "", detail: "" };
  expect(placeOf({ ...hit, kind: "nic", host: "host-1", nic: "mlx5_3" })).toEqual({ page: "host", host: "host-1", nic: "mlx5_3" });
  expect(placeOf({ ...hit, kind: "rank", job: "j", comm: "c", host: "host-1", rank: 12 })).toEqual({ page: "communicator", comm: "c", rank: 12, view: "ranks" });
  expect(placeOf({ ...hit, kind: "job", job: "j" })).toEqual({ page: "job", job: "j" });
  expect(placeOf({ ...hit, kind: "summation", job: "j", group: "g" })).toEqual({ page: "summation-group", group: "g" });
  expect([step(-1, 1, 3), step(-1, -1, 3), step(2, 1, 3), step(0, -1, 3), step(0, 1, 0)]).toEqual([0, 2, 0, 2, -1]);
});
