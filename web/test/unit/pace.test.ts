import { describe, expect, it } from "vitest";
import type { JobLevel, JobPace, RankPace } from "../../src/api";
import { more, paceRows, paceSummary } from "../../src/pure/pace";

const OLD_MS = 3_600_000;

function rank(global_rank: number, own_seconds: number, longer_share = 0): RankPace {
  return { process: `h/${global_rank}/1`, host: "h", pid: global_rank, global_rank, class: 0, step_seconds: 0.1, has_steps: true, own_seconds, usual_own_seconds: 0.04, in_operations_seconds: 0.1 - own_seconds - longer_share * 0.1, longer_share, by_device: false };
}

function pace(ranks: RankPace[], n_unknown = 0): JobPace {
  return { job: "j", step_seconds: 0.1, ranks, n_ranks: ranks.length, n_unknown, lacks: [] };
}

describe("how the ranks of a job spend their time", () => {
  it("parts a step into own time as usual, beyond that, long steps and collectives", () => {
    const [slow, usual, long] = paceRows(pace([rank(2, 0.07), rank(0, 0.04), rank(1, 0.04, 0.2)])).map((row) => row.parts);
    expect(slow!.usual).toBeCloseTo(0.4);
    expect(slow!.beyond).toBeCloseTo(0.3);
    expect(slow!.operations).toBeCloseTo(0.3);
    expect(usual!.beyond).toBe(0);
    expect(long!.longer).toBeCloseTo(0.2);
  });

  it("says it in words", () => {
    expect(paceRows(pace([rank(2, 0.07)]))[0]!.words).toBe("70 ms of its own, usual 40 ms; 30 ms in collectives");
    expect(paceSummary(pace([rank(2, 0.07)], 3), OLD_MS, undefined)).toBe("A step takes 0.10 s, on all ranks alike. Whose own time is longer makes the others wait. How 3 other ranks spend their time is not known.");
    expect(paceSummary(pace([rank(2, 0.07)], 1), OLD_MS, undefined)).toContain("How 1 other rank spends its time is not known.");
  });

  it("says how well the device's clock is known, and what the daemon says that it lacks", () => {
    const by_device = [0.000007, 0.00002].map((device_error_seconds, i) => ({ ...rank(i, 0.04), by_device: true, device_error_seconds }));
    const summary = paceSummary({ ...pace(by_device, 1), lacks: ["1 rank tells its times by calls."] }, OLD_MS, undefined);
    expect(summary).toContain("when the device begins them; its clock and the host's are aligned within 20 µs. How 1 other rank spends its time is not known. 1 rank tells its times by calls.");
    expect(paceSummary(pace([{ ...rank(0, 0.04), by_device: true }]), OLD_MS, undefined)).toContain("when the device begins them.");
  });

  it("measures the ranks it is told of by the longest step of the job, however many ranks there are", () => {
    const some = { ...pace([rank(2, 0.04)]), step_seconds: 0.2, n_ranks: 200_000 };
    expect(paceRows(some)[0]!.parts.usual).toBeCloseTo(0.2);
    expect(more(some)).toBe("and 199\u202f999 more, none slower");
    expect(more(pace([rank(2, 0.04)]))).toBe("");
    const all = pace(Array.from({ length: 200_000 }, (_, i) => rank(i, 0.04)));
    expect(paceRows(all)).toHaveLength(200_000);
  });

  it("says why it is not known: the job is young, its level is off, or else what to look at", () => {
    const level = (...levels: ("off" | "counters")[]): JobLevel => ({ job: "j", wish: null, wished_at: null, processes: levels.map((level, i) => ({ global_rank: i, host: "h", pid: i, state: "running", level })) });
    expect(paceSummary(pace([]), 5_000, level("counters"))).toContain("Not known yet");
    expect(paceSummary(pace([]), OLD_MS, level("off", "off"))).toBe("Not known: the level of this job is off, so nothing of it is recorded. `ringscope level --job j counters` switches it on.");
    for (const some of [undefined, level(), level("off", "counters")]) expect(paceSummary(pace([]), OLD_MS, some)).toContain("`ringscope doctor` on one of its hosts");
  });
});
