import { expect, test } from "vitest";
import group from "../../../fixtures/summation/group.json";
import type { SummationGroupDetail, SummationSeries } from "../../src/api";
import { againstOptimum, historyRows, multiple, named, perSecond } from "../../src/pure/summation/history";

const DETAIL = group as SummationGroupDetail;

function series(lines: SummationSeries["lines"], times_ms = [1000, 2000, 3000]): SummationSeries {
  return { metric: "m", unit: "u", step_s: 1, times_ms, lines };
}

test("lines are called as the services are, with their hosts", () => {
  const lines = [{ service: 0, host: "sum-0", values: [1] }, { service: 2, host: "", values: [2] }, { service: 99, host: "gone", values: [3] }, { values: [4] }];
  expect(named(lines, DETAIL, "all services").map((one) => one.key)).toEqual(["server 0 on sum-0", "worker 0’s own", "service 99 on gone", "all services"]);
});

test("what services received is held against what is best for each", () => {
  const received = series([{ service: 0, host: "a", values: [60, 0, 50] }, { service: 1, host: "b", values: [40, 0, null] }]);
  const optimum = series([{ service: 0, host: "a", values: [500_000, 500_000, 500_000, 250_000] }, { service: 1, host: "b", values: [500_000, 500_000, 500_000, 0] }], [0, 1000, 2000, 3000]);
  const against = againstOptimum(received, optimum);
  // Where nothing moves nothing is known; where a line has a gap the rest is all.
  expect(against.map((one) => one.values)).toEqual([[1.2, null, 4], [0.8, null, null]]);
  expect(againstOptimum(received, undefined).flatMap((one) => one.values).every((value) => value === null)).toBe(true);
});

test("figures in words and as rows", () => {
  expect([multiple(1.267), perSecond(1312.2), perSecond(0.42), perSecond(0)]).toEqual(["1.27 ×", "1\u202f312 /s", "0.4 /s", "0 /s"]);
  expect(historyRows([0], [{ key: "server 0", values: [null] }])).toEqual([["time", "server 0"], ["1970-01-01T00:00:00.000Z", null]]);
});
