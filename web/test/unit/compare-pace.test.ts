import { describe, expect, it } from "vitest";
import type { PaceSeries, Series } from "../../src/api";
import { meanKnown, meanOf, paceRows, windowOf } from "../../src/pure/compare-pace";

const NOW = Date.parse("2026-03-01T12:00:00Z");
const series = (...lines: (number | null)[][]): Series => ({
  metric: "completed_bytes", unit: "bytes_per_second", step_s: 10, times_ms: [0, 10_000, 20_000], lines: lines.map((values) => ({ primitive: "all_reduce", values })),
});

describe("how fast, before and after", () => {
  it("is the mean from the first bucket in which anything happened to the last, over all primitives", () => {
    expect(meanOf(series([4, null, 8], [2, null, 1]))).toBe(5);
    expect(meanOf(series([0, null, 0]))).toBeUndefined();
    expect(meanOf(series())).toBeUndefined();
    expect(meanOf(undefined)).toBeUndefined();
  });

  it("is of the last minutes of a communicator, by whole steps", () => {
    expect(windowOf({ created: "2026-03-01T10:00:00Z", ended: "2026-03-01T11:00:00Z" }, NOW)).toBe("from=2026-03-01T10:55:00.000Z&to=2026-03-01T11:00:00.000Z&step=10s");
    expect(windowOf({ created: "2026-03-01T11:59:30Z" }, NOW)).toBe("from=2026-03-01T11:59:30.000Z&to=2026-03-01T12:00:00.000Z&step=5s");
    expect(windowOf({ created: "2026-03-01T11:59:58Z" }, NOW)).toBeUndefined();
  });

  it("tells the difference in percent, and what got worse", () => {
    const [bytes, calls] = paceRows({ bytesPerS: 60e6, callsPerS: 400, nRanks: 4, pace: undefined }, { bytesPerS: 24e6, callsPerS: 160, nRanks: 4, pace: undefined });
    expect(bytes).toMatchObject({ difference: "−60 %", worse: true, why: "" });
    expect(calls).toMatchObject({ before: "10 ms", after: "25 ms", difference: "+150 %", worse: true });
    expect(paceRows({ bytesPerS: 100, callsPerS: 1, nRanks: 1, pace: undefined }, { bytesPerS: 103, callsPerS: 1, nRanks: 1, pace: undefined }).map((one) => [one.difference, one.worse]).slice(0, 2)).toEqual([["+3 %", false], ["the same", false]]);
  });

  it("tells the steps of the job at either time, by what is known of them", () => {
    const [, , step, own, busy, waiting] = paceRows(side(pace([null, 0.4, 0.6], 0.3, 0.4, 0.1)), side(pace([1, null, null], 0.3, 0.7, 0.4)));
    expect(step).toMatchObject({ before: "0.50 s", after: "1.00 s", difference: "+100 %", worse: true, why: "" });
    expect(own).toMatchObject({ before: "0.30 s", after: "0.30 s", difference: "the same", worse: false });
    expect([busy?.before, busy?.after, waiting?.before, waiting?.after]).toEqual(["40 %", "70 %", "10 %", "40 %"]);
    expect(meanKnown([null, null])).toBeUndefined();
  });

  it("says what is not known and why, and never makes a difference of it", () => {
    const rows = paceRows(side(undefined), { ...side(pace([0.5], 0.4, 0.5, 0)), bytesPerS: 5e6, callsPerS: 10 });
    expect(rows[0]).toMatchObject({ before: "not known", difference: "", worse: false, why: "no samples of it are kept" });
    expect(rows.slice(2, 5).map((one) => [one.before, one.after])).toEqual([["not known", "0.50 s"], ["not known", "0.40 s"], ["not known", "50 %"]]);
    expect(rows.slice(2).every((one) => one.difference === "" && one.why.includes("are kept of then"))).toBe(true);
  });
});

/** A side of which only the steps are known, if at all. */
function side(of: PaceSeries | undefined) {
  return { bytesPerS: undefined, callsPerS: undefined, nRanks: 4, pace: of };
}

function pace(steps: (number | null)[], own: number, busy: number, waiting: number): PaceSeries {
  const each = (value: number) => steps.map((one) => (one === null ? null : value));
  return { job: "train", step_s: 10, times_ms: steps.map((_, i) => i * 10_000), step_seconds: steps, own_seconds: each(own), in_operations_share: each(busy), waiting_share: each(waiting) };
}
