import { expect, test } from "vitest";
import type { Connection, ConnectionEnd } from "../../src/api";
import { MAX_ROWS, gidLines, gidWords, hasMet, isBad, movedWords, mtuWords, pairWords, peerWords, portWords, shown, tableWords, title, waitWords } from "../../src/pure/connections";
import { connectionRows } from "../../src/pure/tables";

const end = (rest: Partial<ConnectionEnd> = {}): ConnectionEnd => ({
  host: "host-1", pid: 4712, global_rank: 1, device: "mlx5_0", port: 1, gid: "fe80::1", gid_index: 3, gid_kind: "roce_v2", mtu_bytes: 4096, ...rest,
});

const link = (id: string, rest: Partial<Connection> = {}): Connection => ({
  id, job: "train", pid: 4711, global_rank: 0, is_send: true, state: "open", since: "2026-03-01T03:12:08Z", local: end({ host: "host-0" }), remote: end(),
  path_mtu_bytes: 4096, traffic_class: 106, service_level: 0, queue_pairs: [{ number: 17, remote_number: 18, state: "RTS" }], bytes: 5 << 20, bytes_per_s: 1e9,
  requests: 12, completed_requests: 10, work_requests: 20, waits: 0, wait_s: 0, registrations: 2, cached_registrations: 1, ...rest,
});

test("what failed comes first, what was closed last, and what does not fit is counted", () => {
  const all = [link("closed", { state: "closed" }), link("open"), link("broken", { state: "broken" }), link("failed", { state: "failed" })];
  expect(shown(all).rows.map((one) => one.id)).toEqual(["broken", "failed", "open", "closed"]);
  expect(all.map(isBad)).toEqual([false, false, true, true]);
  const many = Array.from({ length: MAX_ROWS + 7 }, (_, i) => link(`l${i}`));
  expect(shown(many)).toMatchObject({ left: 7 });
  expect(shown([])).toEqual({ rows: [], left: 0 });
});

test("how many links there are, and how many of them failed", () => {
  expect(title([link("a")])).toBe("1 RDMA connection");
  expect(title([link("a"), link("b", { state: "failed" }), link("c", { state: "closed" })])).toBe("2 RDMA connections, 1 failed");
});

test("ends in words", () => {
  expect(portWords(end({ port: 2 }))).toBe("mlx5_0 port 2");
  expect(portWords(end({ port: null }))).toBe("mlx5_0");
  expect(peerWords(end())).toBe("rank 1");
  expect(peerWords(end({ global_rank: null }))).toBe("process 4712");
  expect(peerWords(end({ global_rank: null, pid: null }))).toBe("");
});

test("GIDs and sizes of packets that differ are said of both ends", () => {
  expect(gidWords(link("a"))).toEqual({ words: "RoCE v2, index 3", differs: false });
  expect(gidWords(link("a", { remote: end({ gid_kind: "roce_v1" }) }))).toEqual({ words: "RoCE v2, index 3; the other end RoCE v1", differs: true });
  expect(gidWords(link("a", { remote: end({ gid_kind: null }) })).differs).toBe(false);
  expect(mtuWords(link("a"))).toEqual({ words: "4096", differs: false });
  expect(mtuWords(link("a", { path_mtu_bytes: 1024, remote: end({ mtu_bytes: 1024 }) }))).toEqual({ words: "1024: here 4096, there 1024", differs: true });
  expect(mtuWords(link("a", { path_mtu_bytes: null }))).toEqual({ words: "–", differs: false });
});

test("a connection that could not begin has no other end", () => {
  const nobody = end({ host: "", pid: null, global_rank: null, device: "", port: null, gid: null, gid_kind: null, gid_index: null, mtu_bytes: null });
  const one = link("a", { state: "failed", local: end({ gid: null, gid_kind: null, gid_index: null }), remote: nobody, path_mtu_bytes: null, queue_pairs: [] });
  expect([hasMet(one), hasMet(link("b"))]).toEqual([false, true]);
  expect([gidWords(one).words, mtuWords(one).words, peerWords(one.remote), portWords(one.remote)]).toEqual(["–", "–", "", ""]);
});

test("queue pairs, bytes and waits", () => {
  const pairs = Array.from({ length: 8 }, (_, i) => ({ number: i, remote_number: i + 100, state: i === 0 ? "ERR" : null }));
  expect(pairWords(link("a", { queue_pairs: pairs }))).toBe("0 → 100 ERR, 1 → 101, 2 → 102 and 5 more");
  expect(pairWords(link("a", { queue_pairs: [] }))).toBe("");
  expect(movedWords(link("a"))).toBe("5 MiB in 10 requests");
  expect(waitWords(link("a"))).toBe("");
  expect(waitWords(link("a", { waits: 12, wait_s: 1.5 }))).toBe("12 ×, 1.5 s in all");
});

test("a port's table of GIDs", () => {
  const gids = [
    { index: 0, gid: "fe80::1", kind: "roce_v1" as const },
    { index: 1, gid: "fe80::1", kind: "roce_v2" as const, interface: "eth0" },
    { index: 2, gid: "::ffff:10.9.0.1", kind: null },
  ];
  expect(tableWords({ gids, mtu_bytes: 4096 })).toBe("3 GIDs (RoCE v1, RoCE v2), MTU 4096");
  expect(tableWords({ gids: [], mtu_bytes: null })).toBe("");
  expect(gidLines(gids)).toBe("0: fe80::1 RoCE v1\n1: fe80::1 RoCE v2 eth0\n2: ::ffff:10.9.0.1 kind not known");
});

test("the export has both ends and every queue pair", () => {
  const [head, row] = connectionRows([link("a")]);
  const cell = (name: string) => row![head!.indexOf(name)];
  expect([cell("local_host"), cell("remote_host"), cell("queue_pairs"), cell("waits")]).toEqual(["host-0", "host-1", "17:18:RTS", 0]);
});
