import { describe, expect, it } from "vitest";
import type { JobPace, RankPace } from "../../src/api";
import { paceRows, paceSummary } from "../../src/pure/pace";

function rank(global_rank: number, own_seconds: number, longer_share = 0): RankPace {
  return { process: `h/${global_rank}/1`, host: "h", pid: global_rank, global_rank, class: 0, step_seconds: 0.1, has_steps: true, own_seconds, usual_own_seconds: 0.04, in_operations_seconds: 0.1 - own_seconds - longer_share * 0.1, longer_share, by_device: false };
}

function pace(ranks: RankPace[], n_unknown = 0): JobPace {
  return { job: "j", step_seconds: 0.1, ranks, n_unknown };
}

describe("how the ranks of a job spend their time", () => {
  it("parts a step into own time as usual, beyond that, long steps and collectives", () => {
    const [slow, usual, long] = paceRows(pace([rank(2, 0.07), rank(0, 0.04), rank(1, 0.04, 0.2)]), 16).map((row) => row.parts);
    expect(slow!.usual).toBeCloseTo(0.4);
    expect(slow!.beyond).toBeCloseTo(0.3);
    expect(slow!.operations).toBeCloseTo(0.3);
    expect(usual!.beyond).toBe(0);
    expect(long!.longer).toBeCloseTo(0.2);
  });

  it("says it in words", () => {
    expect(paceRows(pace([rank(2, 0.07)]), 16)[0]!.words).toBe("70 ms of its own, usual 40 ms; 30 ms in collectives");
    expect(paceSummary(pace([rank(2, 0.07)], 3))).toBe("A step takes 0.10 s, on all ranks alike. Whose own time is longer makes the others wait. Of 3 other ranks it is not known.");
    expect(paceSummary(pace([]))).toContain("Not known yet");
  });
});
