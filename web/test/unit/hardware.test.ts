import { expect, test } from "vitest";
import type { Gpu, HostChannels, Nic, Standing } from "../../src/api";
import { about, byTrouble, closest, errorWords, explains, linkRate, nicTrouble, payloadWords } from "../../src/pure/hardware";
import { fallen } from "../../src/pure/history";
import { choose, filters } from "../../src/pure/ranks";
import { heaviest, merge } from "../../src/pure/series";
import { ringRows, seriesRows } from "../../src/pure/tables";
import { finding, operation, rank, ring } from "./fixture";

const nic = (name: string, rest: Partial<Nic> = {}): Nic => ({
  name, rdma: true, port: 1, up: true, state: "ACTIVE", rate_bytes_per_s: 50e9, link_layer: "InfiniBand", sent_bytes: 0, received_bytes: 0,
  sent_bytes_per_s: 10e9, received_bytes_per_s: 10e9, payload_bytes_per_s: 9.7e9, payload_estimated: false, link_downs: 0, errors: [], retransmits: [], failures: [],
  congestion: [], mtu_bytes: null, gids: [], reasons: [],
  channels: [], ...rest,
});

test.each([[50e9, "400 Gb/s"], [3.125e9, "25 Gb/s"], [12.5e6, "100 Mb/s"], [null, "not said"]])("a link of %s bytes per second is sold as %s", (rate, words) => {
  expect(linkRate(rate)).toBe(words);
});

test("a port is in trouble if a finding says so: one that is down by intent is not", () => {
  expect(nicTrouble(nic("a", { up: false }))).toBeNull();
  expect(nicTrouble(nic("a", { up: false, severity: "critical" }))).toBe("down");
  expect(nicTrouble(nic("a", { severity: "warning" }))).toBe("warning");
  expect(byTrouble([nic("ok"), nic("slow", { severity: "warning" }), nic("dead", { up: false, severity: "critical" })]).map((one) => one.name)).toEqual(["dead", "slow", "ok"]);
});

test("a port that is down says which shortfall it explains", () => {
  const dead = nic("mlx5_1", { up: false, severity: "critical" });
  const hardware = { read_at: "", nics: [dead, nic("mlx5_0", { channels: [{ comm: "c", channels: [0] }] })] };
  const shortfall = finding({ nic: "mlx5_1", message: "host-2 found 1 channel because mlx5_1 is down" });
  expect(explains(dead, [shortfall, finding({ finding: "nic_degraded", nic: "mlx5_1" })], hardware)).toBe("It explains: host-2 found 1 channel because mlx5_1 is down.");
  expect(explains(dead, [], hardware)).toBe("No channel goes through it; mlx5_0 carries them all.");
  expect(explains(nic("mlx5_0"), [shortfall], hardware)).toBe("");
  expect(about(nic("other"), [shortfall])).toEqual([]);
});

test("payload against what the port sends", () => {
  expect(payloadWords(nic("a"))).toBe("97 % of what it sends");
  expect(payloadWords(nic("a", { sent_bytes_per_s: 48e9, payload_bytes_per_s: 47e9 }))).toBe("98 % of what it sends, link full");
  expect(payloadWords(nic("a", { payload_bytes_per_s: 1e9 }))).toBe("only 10 % of what it sends");
  expect(payloadWords(nic("a", { payload_bytes_per_s: null }))).toBe("");
  expect(payloadWords(nic("a", { sent_bytes_per_s: 5 }))).toBe("");
});

test("errors that rise come first", () => {
  const errors = [{ name: "port_rcv_errors", value: 7, risen: 0 }, { name: "symbol_error", value: 1204, risen: 12 }];
  expect(errorWords(nic("a", { errors }))).toEqual([
    { words: "symbol_error 1\u202f204, 12 more in 10 min", rising: true },
    { words: "port_rcv_errors 7", rising: false },
  ]);
});

test("the GPUs closest to a port", () => {
  const gpu = (index: number, distance: string): Gpu => ({ index, pci: "", memory_bytes: null, nics: [{ nic: "mlx5_0", distance }] });
  expect(closest(nic("mlx5_0"), [gpu(0, "PIX"), gpu(1, "SYS"), gpu(2, "PIX")])).toBe("GPU 0, 2 (PIX)");
  expect(closest(nic("mlx5_9"), [gpu(0, "PIX")])).toBe("");
});

const found = (comm: string, minute: number, init: number | null, rest: Partial<HostChannels> = {}): HostChannels => ({
  comm, name: `world/${comm}`, job: "train", created: `2026-03-01T03:${String(minute).padStart(2, "0")}:00Z`, n_ranks: 8, n_ranks_here: 2,
  init_channels: init, base: init, final_channels: 4, cause: "doubled", ...rest,
});

test("a host fell where it found fewer than the last time in the like", () => {
  const items = [found("3", 30, 1), found("1", 10, 2), found("2", 20, null), found("4", 40, 1), found("9", 35, 1, { name: "tensor-0/1" })];
  expect([...fallen(items)]).toEqual(["3"]);
});

const ranks = [rank(0), rank(1, { state: "killed" }), rank(2, { host: "host-10", init_channels: 1 }), rank(3, { host: "host-9", operation: operation({ duration_s: 99 }) })];
const order = (sort: Parameters<typeof choose>[2]["sort"], descending = false) =>
  choose(ranks, new Set([2]), { sort, descending, filter: "all", host: undefined }).map((one) => one.rank);

test("ranks in the order asked for", () => {
  expect(order("attention")).toEqual([1, 2, 0, 3]);
  expect(order("rank", true)).toEqual([3, 2, 1, 0]);
  expect(order("host")).toEqual([0, 1, 3, 2]);
  expect(order("channels")).toEqual([2, 0, 1, 3]);
  expect(order("operation")).toEqual([3, 0, 1, 2]);
});

test("of ranks those come first that need a look: failed, hung, degraded; who only waits comes after them, and of equals the lower rank", () => {
  const stands = (number: number, condition: Standing["condition"], waits = false) => rank(number, { standing: { condition, reason: "", ...(waits ? { waits } : {}) } });
  const all = [stands(0, "healthy"), stands(1, "hung", true), stands(2, "degraded"), stands(3, "unknown"), stands(4, "failed"), stands(5, "hung"), stands(6, "healthy"), stands(7, "degraded")];
  const chosen = (accused: number[]) => choose(all, new Set(accused), { sort: "attention", descending: false, filter: "all", host: undefined }).map((one) => one.rank);
  expect(chosen([])).toEqual([4, 5, 2, 7, 1, 3, 0, 6]);
  expect(chosen([6])).toEqual([6, 4, 5, 2, 7, 1, 3, 0]);
});

test("only the ranks asked for; what does not occur is not offered", () => {
  expect(choose(ranks, new Set([2]), { sort: "rank", descending: false, filter: "accused", host: undefined }).map((one) => one.rank)).toEqual([2]);
  expect(choose(ranks, new Set(), { sort: "rank", descending: false, filter: "running", host: "host-0" }).map((one) => one.rank)).toEqual([0]);
  expect(filters(ranks, new Set())).toEqual(["all", "killed", "running"]);
  expect(filters(ranks, new Set([2]))).toEqual(["all", "accused", "killed", "running"]);
});

test("lines of one host are added up, the heaviest kept and the rest counted", () => {
  const lines = merge([
    { primitive: "all_reduce", host: "a", values: [1, null, null] },
    { primitive: "all_gather", host: "a", values: [2, 3, null] },
    { primitive: "all_reduce", host: "b", values: [9, 9, 9] },
    { primitive: "all_reduce", host: "c", values: [0, 0, 0] },
  ], (line) => line.host!);
  expect(lines[0]).toEqual({ key: "a", values: [3, 3, null] });
  expect(heaviest(lines, 2)).toEqual({ lines: [lines[0], lines[1]], hidden: 1 });
});

test("rows for a spreadsheet: one a hop, and one a moment", () => {
  const rows = ringRows([ring(4, 2)]);
  expect(rows).toHaveLength(5);
  expect(rows[2]!.slice(0, 6)).toEqual([0, 1, "host-0", undefined, "NET/IB", null]);
  expect(seriesRows([0, 5000], [{ primitive: "all_reduce", host: "a", values: [1, null] }])).toEqual([
    ["time", "all_reduce a"], ["1970-01-01T00:00:00.000Z", 1], ["1970-01-01T00:00:05.000Z", null],
  ]);
});
