import { describe, expect, it } from "vitest";
import type { JobPace, Series } from "../../src/api";
import { meanOf, paceRows, windowOf } from "../../src/pure/compare-pace";

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
    const [bytes, calls] = paceRows({ bytesPerS: 60e6, callsPerS: 400, nRanks: 4 }, { bytesPerS: 24e6, callsPerS: 160, nRanks: 4 }, undefined);
    expect(bytes).toMatchObject({ difference: "−60 %", worse: true, why: "" });
    expect(calls).toMatchObject({ before: "10 ms", after: "25 ms", difference: "+150 %", worse: true });
    expect(paceRows({ bytesPerS: 100, callsPerS: 1, nRanks: 1 }, { bytesPerS: 103, callsPerS: 1, nRanks: 1 }, undefined).map((one) => [one.difference, one.worse]).slice(0, 2)).toEqual([["+3 %", false], ["the same", false]]);
  });

  it("says what is not known and why, and never makes a difference of it", () => {
    const pace = { step_seconds: 0.5, ranks: [{ own_seconds: 0.4, in_operations_seconds: 0.1, step_seconds: 0.5 }, { own_seconds: 0.1, in_operations_seconds: 0.4, step_seconds: 0.5 }] } as JobPace;
    const rows = paceRows({ bytesPerS: undefined, callsPerS: undefined, nRanks: 4 }, { bytesPerS: 5e6, callsPerS: 10, nRanks: 4 }, pace);
    expect(rows[0]).toMatchObject({ before: "not known", difference: "", worse: false, why: "no samples of it are kept" });
    expect(rows.slice(2).map((one) => [one.before, one.after])).toEqual([["not known", "0.50 s"], ["not known", "0.40 s"], ["not known", "50 %"]]);
    expect(rows.slice(2).every((one) => one.why.includes("not kept"))).toBe(true);
  });
});
