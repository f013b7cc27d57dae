import { expect, test } from "vitest";
import { progress } from "../../src/pure/progress";
import { operation, rank } from "./fixture";

const brief = { duration_s: 0.02 };

test("a running job is not stuck", () => {
  const ranks = [rank(0, { operation: operation(brief) }), rank(1, { operation: operation({ ...brief, state: "completed" }) })];
  expect(progress(ranks)).toMatchObject({ sentence: "1 of 2 ranks is in AllReduce #7", stuck: false });
});

test("one sample behind is no news while nobody waits", () => {
  const ranks = [rank(0, { operation: operation(brief) }), rank(1, { operation: operation({ ...brief, seq_number: 6 }) })];
  expect(progress(ranks).behind.size).toBe(0);
});

test("a killed rank holds the others", () => {
  const ranks = [rank(0), rank(1), rank(2), rank(3, { state: "killed", operation: operation({ seq_number: 6, duration_s: 0.01 }) })];
  const seen = progress(ranks);
  expect(seen.sentence).toBe("Rank 3 on host-1 was killed in AllReduce #6; 3 ranks wait in AllReduce #7 for 41 s");
  expect(seen.stuck).toBe(true);
  expect(seen.trouble).toEqual({
    words: "rank 3 on host-1 was killed in AllReduce #6; 3 ranks wait in AllReduce #7",
    hosts: ["host-1"],
    advice: expect.stringMatching(/`dmesg -T` on host-1/),
    sinceMs: Date.parse("2026-03-01T03:25:27Z"),
  });
});

test("a rank that never entered the operation is named", () => {
  const ranks = [rank(0), rank(1), rank(2), rank(3, { operation: operation({ seq_number: 6, state: "completed", duration_s: 0.01 }) })];
  const seen = progress(ranks);
  expect(seen.sentence).toBe("Rank 3 on host-1 is behind by 1 operation; 3 of 4 ranks wait in AllReduce #7 for 41 s");
  expect([...seen.behind]).toEqual([[3, 1]]);
});

test("a rank whose last operation was another one is named too", () => {
  const ranks = [rank(0), rank(1), rank(2), rank(3, { operation: operation({ primitive: "recv", seq_number: 2, state: "completed" }) })];
  const seen = progress(ranks);
  expect(seen.sentence).toBe("Rank 3 on host-1 has not joined; 3 of 4 ranks wait in AllReduce #7 for 41 s");
  expect(seen.trouble?.hosts).toEqual(["host-1"]);
});

test("after the end it says who was killed and what the others were in", () => {
  const ranks = [rank(0, { state: "exited" }), rank(1, { state: "exited" }), rank(2, { state: "killed", operation: operation({ state: "completed" }) })];
  expect(progress(ranks).end).toBe("rank 2 on host-1 was killed; 2 ranks ended in AllReduce #7");
});

test("all waiting in the same operation for long: nobody is behind, the transfers themselves do not finish", () => {
  const seen = progress([rank(0), rank(1)]);
  expect(seen.sentence).toBe("2 of 2 ranks wait in AllReduce #7 for 41 s; none is behind, its transfers do not finish");
  expect(seen.trouble).toMatchObject({ hosts: [] });
});

test("all in the same operation for a while is not yet a hang", () => {
  const slow = { operation: operation({ duration_s: 12 }) };
  expect(progress([rank(0, slow), rank(1, slow)])).toMatchObject({ sentence: "2 of 2 ranks wait in AllReduce #7 for 12 s", stuck: false });
});

test("no rank, no operation, no rank left", () => {
  expect(progress([]).sentence).toBe("");
  expect(progress([{ ...rank(0), operation: undefined } as never]).sentence).toBe("No operation yet");
  expect(progress([rank(0, { state: "exited" })]).sentence).toBe("No rank runs any more");
});

test("where nothing tells that operations complete, nobody is stuck, however long ago they were issued", () => {
  const open = { operation: operation({ state: "issued", duration_s: 0 }) };
  const seen = progress([rank(0, open), rank(1, { operation: operation({ state: "issued", seq_number: 9, duration_s: 0 }) })]);
  expect(seen).toMatchObject({ sentence: "Last issued AllReduce #9; nothing tells when operations are done", stuck: false });
  expect(seen.behind.size).toBe(0);
});

test("a rank that only issues does not make a hang of what others wait in, unless it has not issued it", () => {
  const level = rank(1, { operation: operation({ state: "issued", duration_s: 0 }) });
  expect(progress([rank(0), level]).stuck).toBe(false);
  const late = rank(1, { operation: operation({ state: "issued", seq_number: 5, duration_s: 0 }) });
  expect([...progress([rank(0), late]).behind]).toEqual([[1, 2]]);
});

test("what was imported waits for nobody", () => {
  const imported = { state: "imported" as const };
  expect(progress([rank(0, imported), rank(1, imported)])).toMatchObject({ sentence: "Read from files, nothing runs here", stuck: false });
});

test("that most are behind a few is believed only when it lasts: hosts report at different times", () => {
  const skewed = (duration_s: number) =>
    progress([rank(0, { operation: operation({ duration_s }) }), ...[1, 2, 3].map((one) => rank(one, { operation: operation({ duration_s, seq_number: 6 }) }))]);
  expect(skewed(8)).toMatchObject({ stuck: false, sentence: "1 of 4 ranks waits in AllReduce #7 for 8.0 s" });
  expect([...skewed(41).behind.keys()]).toEqual([1, 2, 3]);
});

test("so is that ranks of many hosts are, though most have come; those of one switch are believed at once", () => {
  const skewed = (duration_s: number, hosts: number) => {
    const late = Array.from({ length: 2 * hosts }, (_, i) => rank(i, { operation: operation({ duration_s, seq_number: 6 }) }));
    const waiting = Array.from({ length: 30 }, (_, i) => rank(2 * hosts + i, { operation: operation({ duration_s }) }));
    return progress([...late, ...waiting]).behind.size;
  };
  expect(skewed(8, 5)).toBe(0);
  expect(skewed(41, 5)).toBe(10);
  expect(skewed(8, 4)).toBe(8);
});

test("many late ranks are counted, not listed", () => {
  const late = Array.from({ length: 20 }, (_, i) => rank(i, { operation: operation({ seq_number: 6 }) }));
  const waiting = Array.from({ length: 30 }, (_, i) => rank(20 + i));
  expect(progress([...late, ...waiting]).trouble?.words).toMatch(/^20 ranks on .* are behind by 1 operation; 30 of 50 ranks wait in AllReduce #7$/);
});
