import { expect, test } from "vitest";
import { backoffMs } from "../../src/pure/backoff";
import type { Changed } from "../../src/api";
import { isDue, touches } from "../../src/pure/due";
import { resolve, seriesQuery } from "../../src/pure/range";
import { format, parse, type Route, type Span } from "../../src/pure/route";
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

const change = (communicators: string[], findings: boolean) => ({ version: 1, communicators, findings });

test("a change touches only what it names", () => {
  const touched = (changed: Changed) => ["lists", "hosts", "findings", "never", "a", "b"].filter((on) => touches(on, changed));
  expect(touched(change([], false))).toEqual(["lists", "hosts"]);
  expect(touched(change(["a"], true))).toEqual(["lists", "hosts", "findings", "a"]);
  expect(touched(change(Array.from({ length: 256 }, (_, i) => `${i}`), false))).toEqual(["lists", "hosts", "a", "b"]);
});

test("what changed is fetched at a pace, what did not now and then", () => {
  const due = (on: string, dirty: boolean, nowMs: number, size = 1000) => isDue(on, { dirty, fetchedMs: 0, size }, nowMs);
  expect(isDue("lists", { dirty: false, size: 0 }, 0)).toBe(true);
  expect([due("lists", true, 900), due("lists", true, 1_000)]).toEqual([false, true]);
  expect([due("lists", false, 2_900), due("lists", false, 3_000)]).toEqual([false, true]);
  expect([due("summation", false, 1_900), due("summation", false, 2_000)]).toEqual([false, true]);
  expect([due("some-id", true, 2_900, 300_000), due("some-id", true, 3_000, 300_000)]).toEqual([false, true]);
  expect(isDue("never", { dirty: false, fetchedMs: 0, size: 1 }, 5_000, 5_000)).toBe(true);
});

test("addresses name what is shown and come back the same", () => {
  const routes: [string, Route][] = [
    ["#/audit", { page: "audit" }],
    ["#/audit?who=ann&action=token_create&before=120", { page: "audit", who: "ann", action: "token_create", before: "120" }],
    ["#/", { page: "overview" }],
    ["#/jobs", { page: "jobs" }],
    ["#/jobs/a%2Fb%20c?from=-1h", { page: "job", job: "a/b c", from: "-1h" }],
    ["#/communicators/9f3b?channel=2&host=host-1&view=rings", { page: "communicator", comm: "9f3b", channel: 2, host: "host-1", view: "rings" }],
    ["#/hosts", { page: "hosts" }],
    ["#/hosts/host-2?nic=mlx5_3", { page: "host", host: "host-2", nic: "mlx5_3" }],
    ["#/findings?severity=critical&id=f-1", { page: "findings", severity: "critical", id: "f-1" }],
    ["#/summation?job=a&state=live", { page: "summation", job: "a", state: "live" }],
    ["#/summation/5d1c?worker=2&shade=backlog", { page: "summation-group", group: "5d1c", worker: 2, shade: "backlog" }],
    ["#/runbook", { page: "runbook" }],
    ["#/runbook/nic_degraded", { page: "runbook", kind: "nic_degraded" }],
    ["#/?from=2026-01-31T12:00:00Z&to=2026-01-31T13:00:00Z", { page: "overview", from: "2026-01-31T12:00:00Z", to: "2026-01-31T13:00:00Z" }],
  ];
  for (const [hash, route] of routes) {
    expect(format(route)).toBe(hash);
    expect(parse(hash)).toEqual(route);
  }
});

test("an address that makes no sense shows what it can, or says that there is no such page", () => {
  expect(parse("")).toEqual({ page: "overview" });
  expect(parse("#/nowhere/at/all?from=-1h")).toEqual({ page: "nowhere", address: "nowhere/at/all?from=-1h" });
  expect(format(parse("#/nowhere/at/all"))).toBe("#/nowhere/at/all");
  expect(parse("#/jobs/%E0%A4%A")).toEqual({ page: "job", job: "%E0%A4%A" });
  expect(parse("#/communicators/9f3b?channel=x&rank=-1&view=none")).toEqual({ page: "communicator", comm: "9f3b" });
});

test("links of before there were pages still lead to the place", () => {
  expect(parse("#/job/J/communicator/C/channel/2/host/H")).toEqual({ page: "communicator", comm: "C", channel: 2, host: "H" });
  expect(parse("#/job/J/host/H")).toEqual({ page: "host", host: "H" });
  expect(parse("#/job/J")).toEqual({ page: "job", job: "J" });
});

test("a time range follows the clock or stands still, and nonsense is the last 15 minutes", () => {
  const now = Date.parse("2026-01-31T12:00:00Z");
  const words = (span: Span) => {
    const { fromMs, toMs, live } = resolve(span, now);
    return [(toMs - fromMs) / 1000, live];
  };
  expect(words({})).toEqual([900, true]);
  expect(words({ from: "-6h" })).toEqual([21_600, true]);
  expect(words({ from: "2026-01-31T11:00:00Z", to: "2026-01-31T11:30:00Z" })).toEqual([1800, false]);
  expect(words({ from: "2026-01-31T11:00:00Z" })).toEqual([3600, true]);
  for (const from of ["-", "-0m", "-99999999d", "yesterday", "2027-01-01T00:00:00Z"]) expect(words({ from })).toEqual([900, true]);
  expect(seriesQuery({}, now)).toBe("step=6s");
  expect(seriesQuery({ from: "-1h" }, now + 7)).toBe(seriesQuery({ from: "-1h" }, now + 23_000));
  expect(seriesQuery({ from: "2026-01-31T11:00:00Z", to: "2026-01-31T11:30:00Z" }, now)).toBe(
    "from=2026-01-31T11:00:00.000Z&to=2026-01-31T11:30:00.000Z&step=12s",
  );
});

test("who is refused is asked less and less often, and as always once it answers", () => {
  const at = (failures: number, ageMs: number) => isDue("lists", { fetchedMs: 0, dirty: true, size: 10, failures }, ageMs);
  expect([at(1, 900), at(1, 1_000), at(3, 3_900), at(3, 4_000), at(30, 14_900), at(30, 15_000), at(0, 1_000)]).toEqual([false, true, false, true, false, true, true]);
});

test("whatever changes, health and incidents are asked for again", () => {
  const changed = { version: 7, communicators: [], findings: false, incidents: true };
  expect(["health", "incidents", "findings", "never"].map((topic) => touches(topic, changed))).toEqual([true, true, false, false]);
});
