import { expect, test } from "vitest";
import { health } from "../../src/pure/health";
import { finding, host, job, NOW } from "./fixture";

const HOSTS = [host("host-0"), host("host-1"), host("host-2"), host("host-3")];
const WHY = "host-2 found 1 channel, the others 2: every rank runs on 2 channels instead of 4";
const SLOW = host("host-2", { degraded: true, reasons: [WHY], findings: { critical: 1, warning: 0, info: 0 } });

test("nothing yet", () => {
  expect(health([], [], [], undefined, NOW)).toMatchObject({ level: "empty", sentence: "No job yet" });
});

test("all is well", () => {
  expect(health([job()], HOSTS, [], undefined, NOW)).toMatchObject({ level: "ok", sentence: "All 4 hosts healthy" });
});

test("a degraded host is named with its reason and since when", () => {
  const seen = health([job()], [HOSTS[0]!, HOSTS[1]!, SLOW, HOSTS[3]!], [finding()], undefined, NOW);
  expect(seen).toEqual({
    level: "critical",
    sentence: `1 of 4 hosts degraded: ${WHY}`,
    suspects: ["host-2"],
    sinceMs: NOW - 14 * 60_000,
    advice: expect.stringMatching(/a NIC or a GPU link of host-2/),
  });
});

test("several degraded hosts: the worst first, the others by name", () => {
  const other = host("host-1", { degraded: true, reasons: ["too few NICs"], findings: { critical: 0, warning: 1, info: 0 } });
  const seen = health([job()], [HOSTS[0]!, other, SLOW], [], undefined, NOW);
  expect(seen.sentence).toBe(`2 of 3 hosts degraded: ${WHY}; and host-1`);
});

test("a reason that does not name its host gets the name", () => {
  const other = host("host-1", { degraded: true, reasons: ["too few NICs."], findings: { critical: 0, warning: 1, info: 0 } });
  expect(health([job()], [HOSTS[0]!, other], [], undefined, NOW)).toMatchObject({
    level: "warning",
    sentence: "1 of 2 hosts degraded: host-1: too few NICs",
  });
});

test("findings of severity info do not say since when", () => {
  expect(health([job()], HOSTS, [finding({ severity: "info" })], undefined, NOW).sinceMs).toBeUndefined();
});

test("killed processes are critical though every host is healthy", () => {
  expect(health([job({ n_killed: 1 })], HOSTS, [], undefined, NOW)).toMatchObject({
    level: "critical",
    sentence: "1 of 8 processes of train was killed",
  });
});

test("ranks that wait say for whom", () => {
  const trouble = { words: "rank 3 on host-1 was killed", hosts: ["host-1"], advice: "Start it again.", sinceMs: NOW - 41_000 };
  expect(health([job({ n_killed: 1 })], HOSTS, [], trouble, NOW)).toEqual({
    level: "critical",
    sentence: "Rank 3 on host-1 was killed",
    suspects: ["host-1"],
    advice: "Start it again.",
    sinceMs: NOW - 41_000,
  });
});

test("a silent job", () => {
  const silent = job({ state: "stale", last_seen: "2026-03-01T03:25:28Z" });
  expect(health([silent], HOSTS, [], undefined, NOW)).toMatchObject({
    level: "warning",
    sentence: "Nothing heard of train for 40 s",
  });
});

test("ended jobs", () => {
  const seen = health([job({ state: "ended" })], HOSTS, [], undefined, NOW);
  expect(seen.level).toBe("idle");
  expect(seen.sentence).toMatch(/^No job is running; the last, train, ended at \d\d:\d\d:\d\d$/);
});
