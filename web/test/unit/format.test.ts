import { expect, test } from "vitest";
import { bandwidth, bandwidthTicks, duration, integer, list, plural, primitiveName, rankRanges, rateOf, size, stepDuration } from "../../src/pure/format";

test.each([
  [0, "0 B"], [1023, "1023 B"], [1024, "1 KiB"], [1536, "1.5 KiB"], [64 * 1024 ** 2, "64 MiB"], [1024 ** 3 - 1, "1 GiB"],
  [5.14 * 1024 ** 5, "5.14 PiB"],
])("size of %d bytes is %s", (bytes, words) => expect(size(bytes)).toBe(words));

test.each([
  [0, "0 GB/s"], [12.4e9, "12.4 GB/s"], [1e9, "1.00 GB/s"], [2.1e7, "21.0 MB/s"], [1.2e8, "0.12 GB/s"], [3.2e6, "3.20 MB/s"], [900, "0.90 kB/s"],
  [1.629e12, "1.63 TB/s"], [1.629e13, "16.3 TB/s"], [4e14, "400 TB/s"],
])("%d bytes per second is %s", (bytes, words) => expect(bandwidth(bytes)).toBe(words));

test("a rate that nobody knows is not none", () => {
  const rate = (condition: string, bytes: number) => rateOf({ standing: { condition }, completed_bytes_per_s: bytes });
  expect([rate("unknown", 0), rate("healthy", 0), rate("unknown", 2e9)]).toEqual(["–", "0 GB/s", "2.00 GB/s"]);
});

test("the ticks of an axis share a unit", () => {
  expect(bandwidthTicks([0, 4e7, 1.2e8])).toEqual(["0 GB/s", "0.04 GB/s", "0.12 GB/s"]);
  expect(bandwidthTicks([0, 5e12, 1.25e13])).toEqual(["0 TB/s", "5 TB/s", "12.5 TB/s"]);
  expect(bandwidthTicks([0, 2.5e6])).toEqual(["0 MB/s", "2.5 MB/s"]);
});

test.each([
  [0, "0 s"], [0.000032, "32 µs"], [0.0004, "400 µs"], [0.0042, "4.2 ms"], [0.0184, "18 ms"], [0.42, "0.4 s"], [41.3, "41 s"], [840, "14 min"],
  [11_100, "3 h 05 min"], [187_200, "2 d 4 h"],
])("%d s is %s", (seconds, words) => expect(duration(seconds)).toBe(words));

test.each([
  [0, "0 s"], [0.00004, "40 µs"], [0.0021, "2.1 ms"], [0.07, "70 ms"], [0.0996, "0.10 s"], [0.31, "0.31 s"], [0.34, "0.34 s"], [4.2, "4.20 s"], [12.4, "12 s"], [600, "10 min"],
])("%d s of a step are %s", (seconds, words) => expect(stepDuration(seconds)).toBe(words));

test("ranks are named by ranges", () => {
  expect(rankRanges([5])).toBe("5");
  expect(rankRanges([6, 5])).toBe("5, 6");
  expect(rankRanges([0, 1, 2, 5, 9, 8, 7])).toBe("0–2, 5, 7–9");
  expect(rankRanges([0, 2, 4, 6], 2)).toBe("0, 2 and more");
});

test("lists are cut and say by how many", () => {
  expect(list(["a", "b"])).toBe("a and b");
  expect(list(["a", "b", "c", "d", "e"], 3)).toBe("a, b and 3 more");
});

test("counts and names", () => {
  expect(plural(1, "host")).toBe("1 host");
  expect(plural(2, "host")).toBe("2 hosts");
  expect(integer(1234567)).toBe("1\u202f234\u202f567");
  expect(primitiveName("reduce_scatter")).toBe("ReduceScatter");
});
