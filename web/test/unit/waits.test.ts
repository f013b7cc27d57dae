import { expect, test } from "vitest";
import type { Condition } from "../../src/api";
import { hostRows, membersOf, picture, waitingSentence } from "../../src/pure/waits";
import { incident, rank } from "./fixture";

const of = (n: number, perHost: number, rest: (r: number) => Parameters<typeof rank>[1] = () => ({})) =>
  Array.from({ length: n }, (_, r) => rank(r, { host: `host-${Math.floor(r / perHost)}`, standing: { condition: "hung" as Condition, reason: "it waits" }, ...rest(r) }));
const culprit = (r: number, host: string) => incident({ rank: r, culprits: [{ host, rank: r, doing: "stopped" }], n_victims: 7 });

test("the culprit is told apart from those that wait, and from those never heard of", () => {
  const members = membersOf(culprit(5, "host-2"), { n_ranks: 8, ranks: of(8, 2).filter((one) => one.rank !== 7) });
  expect(members.map((one) => one.role)).toEqual(["waiting", "waiting", "waiting", "waiting", "waiting", "culprit", "waiting", "absent"]);
  expect(waitingSentence(members)).toBe("6 of 8 ranks wait, on 4 hosts");
});

test("of a host that is lost all ranks are culprits; who is dead waits no more", () => {
  const lost = incident({ rank: undefined as never, culprits: [{ host: "host-1", doing: "not heard of for 20 s" }] });
  const members = membersOf(lost, { n_ranks: 6, ranks: of(6, 2, (r) => (r === 0 ? { state: "killed" } : {})) });
  expect(members.map((one) => one.role)).toEqual(["other", "waiting", "culprit", "culprit", "waiting", "waiting"]);
});

test("a process that has no rank yet is the rank that nobody has heard of, and no other of its host; the others wait, though none hangs", () => {
  const well = { condition: "healthy" as Condition, reason: "in the init" };
  const late = incident({ rank: undefined as never, culprits: [{ host: "host-1", pid: 99, global_rank: 3, doing: "asleep" }], n_victims: 3 });
  const members = membersOf(late, { n_ranks: 4, ranks: of(3, 2, () => ({ standing: well })) });
  expect(members.map((one) => one.role)).toEqual(["waiting", "waiting", "waiting", "culprit"]);
  expect(members[3]).toMatchObject({ unheard: true, host: "host-1" });
});

test("what is over is not drawn as if it went on", () => {
  const over = { ...culprit(5, "host-2"), resolved_at: "2026-03-01T03:20:00Z" };
  expect(membersOf(over, { n_ranks: 8, ranks: of(8, 2) }).filter((one) => one.role === "waiting")).toEqual([]);
});

test("few ranks stand alone, each that waits with a line to the culprit", () => {
  const drawn = picture(membersOf(culprit(5, "host-2"), { n_ranks: 8, ranks: of(8, 2) }), 700);
  expect([drawn.places.length, drawn.links.length, drawn.folded]).toEqual([8, 7, false]);
  expect(drawn.places.filter((place) => place.label).map((place) => place.label!.words).sort()).toEqual(["host-0", "host-1", "host-2", "host-3"]);
});

test("a thousand ranks are folded by host and then further; nobody is lost, the culprit stands alone", () => {
  for (const [hosts, perHost] of [[20, 8], [128, 8], [1250, 8]] as const) {
    const n = hosts * perHost;
    const drawn = picture(membersOf(culprit(77, `host-${Math.floor(77 / perHost)}`), { n_ranks: n, ranks: of(n, perHost) }), 700);
    expect(drawn.places.length).toBeLessThanOrEqual(42);
    expect(drawn.places.reduce((sum, place) => sum + place.ranks.length, 0)).toBe(n);
    expect(drawn.places.filter((place) => place.role === "culprit").map((place) => place.ranks)).toEqual([[77]]);
  }
});

test("names do not cover each other, and everything stays inside of the picture", () => {
  const drawn = picture(membersOf(culprit(77, "a-host-with-a-name-that-is-too-long.example.com"), { n_ranks: 320, ranks: of(320, 8) }), 700);
  for (const { x, y, radius } of drawn.places) {
    expect(Math.min(x - radius, y - radius, drawn.widthPx - x - radius, drawn.heightPx - y - radius)).toBeGreaterThan(0);
  }
  const labels = drawn.places.flatMap((place) => (place.label === undefined ? [] : [place.label]));
  expect(labels.every((one) => one.words.length <= 18)).toBe(true);
  expect(picture(membersOf(culprit(5, "host-2"), { n_ranks: 8, ranks: of(8, 2) }), 340).places.some((place) => place.label)).toBe(false);
});

test("as a table: culprits first, ranks by host", () => {
  expect(hostRows(membersOf(culprit(2, "host-1"), { n_ranks: 4, ranks: of(4, 2) }))).toEqual([
    { host: "host-1", role: "culprit", ranks: [2] }, { host: "host-0", role: "waiting", ranks: [0, 1] }, { host: "host-1", role: "waiting", ranks: [3] },
  ]);
});
