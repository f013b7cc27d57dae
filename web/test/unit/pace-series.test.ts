import { describe, expect, it } from "vitest";
import { isKnown, pointWords } from "../../src/pure/pace-series";

const series = { job: "train", step_s: 10, times_ms: [0, 10_000], step_seconds: [0.25, null], own_seconds: [0.1, null], in_operations_share: [0.6, null], waiting_share: [0.05, null] };

describe("the pace over time, in words", () => {
  it("tells what is known of a point, and says where nothing is", () => {
    expect(pointWords(series, 0)).toBe("0.25 s a step, own time of the slowest rank 0.10 s, 60 % in collectives, 5 % waiting there for the last rank");
    expect(pointWords(series, 1)).toBe("not known");
    expect(pointWords(series, 7)).toBe("not known");
  });

  it("knows whether there is anything to draw", () => {
    expect(isKnown(series)).toBe(true);
    expect(isKnown({ ...series, step_seconds: [null, null] })).toBe(false);
  });
});
