import { expect, test } from "vitest";
import { layout, nearest, transportClass } from "../../src/pure/ring";
import { ring } from "./fixture";

const none = () => null;

test("ranks stand clockwise from the top at one distance from the middle", () => {
  const { places, centre, radius } = layout(ring(8, 2), 600, 8, none);
  expect(places.map((place) => place.rank)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  expect(places[0]).toMatchObject({ x: centre.x, angle: 0 });
  for (const place of places) expect(Math.hypot(place.x - centre.x, place.y - centre.y)).toBeCloseTo(radius, 1);
  const angles = places.map((place) => place.angle);
  expect(angles).toEqual([...angles].sort((a, b) => a - b));
});

test("each run of ranks on one host is an arc, with a gap to the next", () => {
  const { arcs } = layout(ring(8, 2), 600, 8, none);
  expect(arcs.map((arc) => [arc.host, arc.ranks])).toEqual([
    ["host-0", [0, 1]], ["host-1", [2, 3]], ["host-2", [4, 5]], ["host-3", [6, 7]],
  ]);
  for (let i = 1; i < arcs.length; i += 1) expect(arcs[i]!.from).toBeGreaterThan(arcs[i - 1]!.to);
});

test("a host at both ends of the order is one arc over the top", () => {
  const order = ring(4, 2).order.map((hop, i) => ({ ...hop, host: i === 0 || i === 3 ? "a" : "b" }));
  expect(layout(ring(4, 2, { order }), 600, 4, none).arcs.map((arc) => arc.ranks)).toEqual([[3, 0], [1, 2]]);
});

test("one host is a whole circle, and one rank too", () => {
  expect(layout(ring(4, 4), 600, 4, none).arcs[0]!.path.match(/A/g)).toHaveLength(2);
  expect(layout(ring(1, 1), 600, 1, none).hops[0]!.path.match(/A/g)).toHaveLength(2);
});

test("hops between hosts are told apart", () => {
  const { hops } = layout(ring(4, 2), 600, 4, none);
  expect(hops.map((hop) => [hop.betweenHosts, hop.transport])).toEqual([
    [false, "p2p"], [true, "net"], [false, "p2p"], [true, "net"],
  ]);
});

test("what is outside of the known piece stands at the end, the rank that the known piece leads to first", () => {
  const whole = ring(6, 2);
  const part = { ...whole, complete: false, missing_ranks: [2, 4], order: [whole.order[5]!, whole.order[0]!, { ...whole.order[1]!, next: 4 }] };
  const { places, hops } = layout(part, 600, 6, none);
  expect(places.map((place) => [place.rank, place.missing])).toEqual([[5, false], [0, false], [1, false], [4, true], [2, true], [3, true]]);
  expect(hops).toHaveLength(3);
});

test("many ranks on one host lose their numbers, not their places", () => {
  const { dense, rankLabels, places } = layout(ring(72, 72), 700, 72, none);
  expect({ dense, rankLabels, places: places.length }).toEqual({ dense: true, rankLabels: false, places: 72 });
});

test("many ranks on many hosts stand together by host", () => {
  const { byHosts, places, hops, arcs } = layout(ring(1024, 8), 700, 1024, none);
  expect({ byHosts, places: places.length, hops: hops.length, arcs: arcs.length }).toEqual({ byHosts: true, places: 128, hops: 128, arcs: 128 });
  expect(places[1]).toMatchObject({ host: "host-1", ranks: [8, 9, 10, 11, 12, 13, 14, 15], collapsed: true });
  expect(hops.every((hop) => hop.betweenHosts)).toBe(true);
  expect(hops[1]!.hop).toMatchObject({ rank: 15, next: 16 });
});

test("one host is expanded: its ranks stand apart, with room for their numbers, the others stay", () => {
  const { places, rankLabels, hops, radius } = layout(ring(1024, 8), 700, 1024, none, "host-3");
  expect(places).toHaveLength(127 + 8);
  expect(places.filter((place) => !place.collapsed).map((place) => place.rank)).toEqual([24, 25, 26, 27, 28, 29, 30, 31]);
  expect(rankLabels).toBe(true);
  const single = places.find((place) => !place.collapsed)!;
  expect(2 * single.half * radius).toBeGreaterThan(22);
  expect(hops.filter((hop) => hop.hop.host === "host-3").map((hop) => hop.betweenHosts)).toEqual([false, false, false, false, false, false, false, true]);
});

test("a host at both ends of a large order is one place", () => {
  const order = ring(128, 4).order;
  const turned = { ...ring(128, 4), order: [...order.slice(2), ...order.slice(0, 2)] };
  expect(layout(turned, 700, 128, none).places.map((place) => place.ranks.length)).toEqual(Array(32).fill(4));
});

test("a collapsed host says what is odd inside of it; its own hop keeps its mark", () => {
  const whole = ring(128, 4);
  const order = whole.order.map((hop) => (hop.rank === 5 || hop.rank === 7 ? { ...hop, odd: ["fallback" as const] } : hop));
  const { places, hops } = layout({ ...whole, order }, 700, 128, none);
  expect(places.map((place) => place.oddInside).filter(Boolean)).toEqual([1]);
  expect(hops[1]!.hop.odd).toEqual(["fallback"]);
});

test("missing ranks of a large ring stand together at the end", () => {
  const whole = ring(128, 4);
  const part = { ...whole, complete: false, missing_ranks: [126, 127], order: whole.order.slice(0, 126) };
  const { places, hops } = layout(part, 700, 128, () => "host-31");
  expect(places.at(-1)).toMatchObject({ ranks: [126, 127], missing: true, host: "host-31" });
  expect(hops).toHaveLength(places.length - 1);
});

test("all of it stays inside the drawing on a telephone", () => {
  const { places, heightPx } = layout(ring(64, 8), 320, 64, none);
  for (const { x, y } of places) expect(x > 0 && x < 320 && y > 0 && y < heightPx).toBe(true);
});

test("the nearest place to a pointer; none in the middle", () => {
  const drawn = layout(ring(8, 2), 600, 8, none);
  const third = drawn.places[3]!;
  expect(nearest(drawn, third.x + 2, third.y - 2)?.rank).toBe(3);
  expect(nearest(drawn, drawn.centre.x, drawn.centre.y)).toBeNull();
});

test.each([
  ["NET/IB/0/GDRDMA", "net"], ["NET/Socket/0", "socket"], ["SHM/direct/direct", "shm"], ["P2P/CUMEM", "p2p"], [null, "unknown"],
  ["CollNet", "unknown"],
])("%s is %s", (name, kind) => expect(transportClass(name)).toBe(kind));
