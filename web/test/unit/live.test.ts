import { expect, test } from "vitest";
import { backoffMs } from "../../src/pure/backoff";
import { isDue, touched } from "../../src/pure/due";
import { format, parse } from "../../src/pure/route";
import { EventParser } from "../../src/pure/sse";

test("events come out whole, however the stream is cut", () => {
  const stream = ': hello\n\nevent: changed\ndata: {"version":1}\n\ndata: a\ndata: b\r\n\r\n';
  for (const cut of [1, 3, 7, 1000]) {
    const parser = new EventParser();
    const events = [];
    for (let i = 0; i < stream.length; i += cut) events.push(...parser.push(stream.slice(i, i + cut)));
    expect(events).toEqual([
      { event: "changed", data: '{"version":1}' },
      { event: "message", data: "a\nb" },
    ]);
  }
});

test("waits grow and stay below ten seconds", () => {
  expect([1, 2, 3, 10].map((n) => backoffMs(n, 1))).toEqual([500, 1000, 2000, 10_000]);
  expect(backoffMs(1, 0)).toBe(375);
});

test("a change touches only what is shown", () => {
  expect(touched(["a"], false, "b")).toEqual(["lists"]);
  expect(touched(["a"], true, "a")).toEqual(["lists", "findings", "communicator", "rings", "series"]);
  expect(touched(Array.from({ length: 256 }, (_, i) => `${i}`), false, "not named")).toContain("communicator");
});

test("what changed is fetched at a pace, what did not now and then", () => {
  expect(isDue("lists", { dirty: false }, 8, 0)).toBe(true);
  expect(isDue("lists", { dirty: true, fetchedMs: 0 }, 8, 900)).toBe(false);
  expect(isDue("lists", { dirty: true, fetchedMs: 0 }, 8, 1_000)).toBe(true);
  expect(isDue("lists", { dirty: false, fetchedMs: 0 }, 8, 2_900)).toBe(false);
  expect(isDue("lists", { dirty: false, fetchedMs: 0 }, 8, 3_000)).toBe(true);
  expect(isDue("communicator", { dirty: true, fetchedMs: 0 }, 1024, 2_000)).toBe(false);
});

test("addresses name what is shown and come back the same", () => {
  const route = { job: "a/b c", communicator: "9f3b", channel: 2, host: "host-1" };
  expect(format(route)).toBe("#/job/a%2Fb%20c/communicator/9f3b/channel/2/host/host-1");
  expect(parse(format(route))).toEqual(route);
  expect(parse("")).toEqual({});
  expect(parse("#/channel/x/job/%E0%A4%A")).toEqual({ job: "%E0%A4%A" });
  expect(format({})).toBe("#/");
});
