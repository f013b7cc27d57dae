import { expect, test } from "vitest";
import { positions } from "../../src/pure/positions";
import { operation, rank } from "./fixture";

const brief = { duration_s: 0.02 };
const done = operation({ state: "completed", duration_s: 0.01 });

test("ranks that run are counted, and nothing is judged", () => {
  const ranks = [rank(0, { operation: operation(brief) }), rank(1, { operation: { ...done, seq_number: 6 } })];
  expect(positions(ranks)).toBe("1 of 2 ranks is in AllReduce #7");
});

test("who was killed is a fact, and what the others are in", () => {
  const ranks = [rank(0), rank(1), rank(2), rank(3, { state: "killed", operation: operation({ seq_number: 6, duration_s: 0.01 }) })];
  expect(positions(ranks)).toBe("Rank 3 on host-1 was killed in AllReduce #6; 3 of 4 ranks are in AllReduce #7, the longest for 41 s");
});

test("no rank, no operation, no rank left, files", () => {
  expect(positions([])).toBe("");
  expect(positions([{ ...rank(0), operation: undefined } as never])).toBe("No operation yet");
  expect(positions([rank(0, { state: "exited" })])).toBe("No rank runs any more");
  expect(positions([rank(0, { state: "imported" })])).toBe("Read from files, nothing runs here");
});

test("where nothing tells that operations complete, that is said", () => {
  const open = { operation: operation({ state: "issued", duration_s: 0 }) };
  expect(positions([rank(0, open), rank(1, { operation: operation({ state: "issued", seq_number: 9, duration_s: 0 }) })])).toBe("Last issued AllReduce #9; nothing tells when operations are done");
});

test("after the end it says who was killed and what the others were in", () => {
  const ranks = [rank(0, { state: "exited" }), rank(1, { state: "exited" }), rank(2, { state: "killed", operation: done })];
  expect(positions(ranks)).toBe("Rank 2 on host-1 was killed; 2 ranks ended in AllReduce #7");
});
