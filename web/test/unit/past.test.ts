import { describe, expect, it } from "vitest";
import type { ChartMark } from "../../src/pure/chart-marks";
import { asSummary, atOf, atWords, fieldMs, fieldWords, pointedMark } from "../../src/pure/past";
import { resolve, seriesQuery } from "../../src/pure/range";
import { format, parse } from "../../src/pure/route";
import { rateOf } from "../../src/pure/format";

const NOW = Date.parse("2026-03-01T12:00:00Z");
const AT = Date.parse("2026-03-01T11:30:00Z");

describe("a moment of the past", () => {
  it("stands in the address of every page, and goes through a field and back", () => {
    const route = parse("#/jobs/train?at=2026-03-01T11:30:00.250Z");
    expect(atOf(route, NOW)).toBe(AT + 250);
    expect(format(route)).toBe("#/jobs/train?at=2026-03-01T11:30:00.250Z");
    expect(atWords(AT)).toBe("2026-03-01T11:30:00Z");
    expect(fieldMs(fieldWords(AT), NOW)).toBe(AT);
  });

  it("counts as absent where it makes no sense or is still to come", () => {
    for (const at of [undefined, "", "yesterday", "2026-03-01T12:00:01Z"]) expect(atOf({ at }, NOW)).toBeUndefined();
    expect(fieldMs("", NOW)).toBeUndefined();
    expect(fieldMs(fieldWords(NOW + 60_000), NOW)).toBeUndefined();
  });

  it("lies within the time that charts span, most of which is before it", () => {
    expect(resolve({ at: atWords(AT), from: "-1h" }, NOW)).toEqual({ fromMs: AT - 2_400_000, toMs: AT + 1_200_000, live: false });
    expect(resolve({ at: atWords(AT) }, NOW)).toEqual({ fromMs: AT - 600_000, toMs: AT + 300_000, live: false });
    expect(seriesQuery({ at: atWords(AT) }, NOW)).toBe("from=2026-03-01T11:20:00.000Z&to=2026-03-01T11:35:00.000Z&step=6s");
    const drawn = { from: "2026-03-01T10:00:00Z", to: "2026-03-01T11:00:00Z" };
    expect(resolve({ ...drawn, at: atWords(AT) }, NOW)).toEqual(resolve(drawn, NOW));
  });

  it("shows what was not recorded as not known", () => {
    const host = { host: "h1", standing: { condition: "degraded" as const, reason: "slow" }, jobs: ["train"], n_processes: 2, init_channels: null, final_channels: null, completed_bytes_per_s: null };
    expect(rateOf(asSummary(host, AT))).toBe("–");
    expect(rateOf(asSummary({ ...host, completed_bytes_per_s: 0 }, AT))).toBe("0 GB/s");
  });

  it("is that of the mark that is pointed at, a finding before what is beside it", () => {
    const mark = (ms: number, kind: ChartMark["kind"]): ChartMark => ({ ms, kind, words: kind, ...(kind === "finding" ? { severity: "warning" } : {}) });
    const all = [mark(1_000, "ring"), mark(1_080, "finding"), mark(9_000, "job")];
    expect(pointedMark(all, 1_000, 100)?.kind).toBe("finding");
    expect(pointedMark(all, 950, 100)?.kind).toBe("ring");
    expect(pointedMark(all, 5_000, 100)).toBeUndefined();
  });
});
