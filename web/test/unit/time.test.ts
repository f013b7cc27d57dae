import { expect, test } from "vitest";
import { markWords, marks, MAX_MARKS } from "../../src/pure/chart-marks";
import { iso, zone } from "../../src/pure/format";
import { dataFrom, drawnSpan } from "../../src/pure/range";
import { communicator, finding, job, NOW } from "./fixture";

const MIN = 60_000;

test("a moment is told with the offset of its zone, whatever zone that is", () => {
  const text = iso(NOW);
  expect(text).toMatch(/^2026-0[23]-\d\dT\d\d:\d\d:08[+-]\d\d:\d\d$/);
  expect(Date.parse(text)).toBe(NOW);
  expect(zone(NOW)).toMatch(/^UTC([+−]\d{1,2}(:\d\d)?)?$/);
});

test("a drawn range is told to whole seconds, holds a few points at least, and does not end in the future", () => {
  expect(drawnSpan(NOW - 10 * MIN, NOW - 4 * MIN, NOW)).toEqual({ from: "2026-03-01T03:16:08Z", to: "2026-03-01T03:22:08Z" });
  expect(drawnSpan(NOW - 5 * MIN, NOW - 5 * MIN + 2_000, NOW)).toEqual({ from: "2026-03-01T03:20:59Z", to: "2026-03-01T03:21:19Z" });
  expect(drawnSpan(NOW - 2_000, NOW, NOW)).toEqual({ from: "2026-03-01T03:25:48Z", to: "2026-03-01T03:26:08Z" });
});

test("a range that is longer than the data says where they begin", () => {
  const times = Array.from({ length: 90 }, (_, i) => (NOW - 15 * MIN) / 1000 + i * 10);
  const from = (first: number) => dataFrom(times, [{ values: times.map((_, i) => (i < first ? null : 7)) }, { values: times.map(() => null) }], NOW - 15 * MIN, NOW);
  expect(from(0)).toBeUndefined();
  expect(from(2)).toBeUndefined();
  expect(from(30)).toBe(NOW - 10 * MIN);
  expect(dataFrom(times, [{ values: times.map(() => null) }], NOW - 15 * MIN, NOW)).toBeUndefined();
  expect(dataFrom([], [], NOW - 15 * MIN, NOW)).toBeUndefined();
});

test("what happened meanwhile: findings once, rings made in one second once, jobs and levels; what was before or after is not in it", () => {
  const all = marks({
    findings: [finding(), finding({ id: "g", host: "host-1", message: "host-1 found 1 channel" }), finding({ id: "old", state: "resolved", first_seen: "2026-03-01T01:00:00Z", resolved_at: "2026-03-01T03:20:00Z", message: "gone" })],
    communicators: [communicator({ id: "a", created: "2026-03-01T03:15:00.100Z" }), communicator({ id: "b", created: "2026-03-01T03:15:00.700Z" }), communicator({ id: "c", created: "2026-03-01T03:16:00Z", ended: "2026-03-01T03:19:00Z" })],
    jobs: [job({ first_seen: "2026-03-01T02:00:00Z" }), job({ id: "new", first_seen: "2026-03-01T03:14:59Z" })],
    level: { job: "train", processes: [], wish: "steps", wished_at: "2026-03-01T03:18:00Z" },
    nameOf: (id) => `world-${id}`,
  }, NOW - 15 * MIN, NOW);
  expect(all.map(({ kind, words }) => `${kind}: ${words}`)).toEqual([
    "finding: host-1 found 1 channel", "job: job new began", "ring: 2 communicators made their rings", "ring: world-c made its rings", "level: level steps was asked for",
    "ring: world-c gave up its rings", "finding: over: gone",
  ]);
  expect(markWords(all, Date.parse("2026-03-01T03:18:02Z"), NOW - 15 * MIN, NOW)).toBe("level steps was asked for");
  expect(markWords(all, Date.parse("2026-03-01T03:23:00Z"), NOW - 15 * MIN, NOW)).toBe("");
});

test("of very many marks the worst stay", () => {
  const rings = Array.from({ length: 100 }, (_, i) => communicator({ id: `c${i}`, created: new Date(NOW - 14 * MIN + i * 2_000).toISOString() }));
  const all = marks({ communicators: rings, findings: [finding()] }, NOW - 15 * MIN, NOW);
  expect(all).toHaveLength(MAX_MARKS);
  expect(all.filter(({ kind }) => kind === "finding")).toHaveLength(1);
});
