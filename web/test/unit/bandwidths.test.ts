import { describe, expect, it } from "vitest";
import type { BandwidthCurve, Bandwidths } from "../../src/api";
import { across, bandwidthRows, drawn, likeWords, nearest, rateTicks, sizeTicks, sizeWords, summary } from "../../src/pure/bandwidths";

const KIB = 1024;
const of = (from_bytes: number, bus_bytes_per_s: number) => ({ from_bytes, bytes: from_bytes, n_operations: 8, n_by_clocks: 8, seconds: 0.001, least_seconds: 0.001, algorithm_bytes_per_s: bus_bytes_per_s / 2, bus_bytes_per_s });
const best = (from_bytes: number, bus_bytes_per_s: number) => ({ from_bytes, bytes: from_bytes, seconds: 0.001, bus_bytes_per_s, comm: "0123456789ab" });
const CURVE: BandwidthCurve = { primitive: "all_reduce", sizes: [of(4 * KIB, 1e8), of(1024 * KIB, 2e9)], best: [best(4 * KIB, 2e8), best(16 * KIB, 5e8)] };
const SHOWN: Bandwidths = { id: "ba9876543210", n_ranks: 8, n_hosts: 2, n_like: 3, curves: [CURVE], lacks: [] };

describe("bandwidth by size", () => {
  it("has an axis of powers of two for all lines", () => {
    const axes = drawn([CURVE]);
    expect(axes).toMatchObject({ fromLog2: 12, toLog2: 21, sizes: [4 * KIB, 16 * KIB, 1024 * KIB] });
    expect(axes.top).toBeCloseTo(2.2e9, -3);
    expect(across(4 * KIB, axes)).toBe(0);
    expect(across(2048 * KIB, axes)).toBe(1);
    expect(nearest(0, axes)).toBe(4 * KIB);
    expect(nearest(0.9, axes)).toBe(1024 * KIB);
    expect(sizeTicks(axes, 20)).toHaveLength(10);
    expect(sizeTicks(axes, 5)).toEqual([4, 16, 64, 256, 1024].map((kib) => kib * KIB));
    expect(rateTicks(2.2e9)).toEqual([0, 1e9, 2e9]);
  });

  it("draws one size, and none, without dividing by nothing", () => {
    for (const curves of [[], [{ ...CURVE, sizes: [of(64, 1)], best: [] }]]) {
      const axes = drawn(curves);
      expect(axes.toLog2 - axes.fromLog2).toBe(4);
      expect(axes.top).toBe(1e5);
    }
    expect(nearest(0.5, drawn([]))).toBeUndefined();
  });

  it("says what is known of a size", () => {
    expect(sizeWords([CURVE], 4 * KIB)).toBe("AllReduce 4 KiB in 1.0 ms, 0.10 GB/s, 8 operations timed; best 0.20 GB/s");
    expect(sizeWords([CURVE], 16 * KIB)).toBe("AllReduce not used here; best 0.50 GB/s");
    expect(summary(SHOWN)).toBe("AllReduce reaches 2.00 GB/s at 1 MiB");
    expect(likeWords(SHOWN)).toBe("the best seen here and on 3 other communicators of 8 ranks on 2 hosts");
    expect(likeWords({ ...SHOWN, n_like: 0 })).toBe("the best seen here");
  });

  it("is a table with a row for each size", () => {
    const rows = bandwidthRows([CURVE]);
    expect(rows.map((row) => row[1])).toEqual(["from_bytes", 4 * KIB, 16 * KIB, 1024 * KIB]);
    expect(rows[2]).toEqual(["all_reduce", 16 * KIB, null, 0, null, null, null, 5e8, "0123456789ab"]);
  });
});
