import { expect, test } from "vitest";
import { costWords, highestCost } from "../../src/pure/cost";
import { finding } from "./fixture";

test.each([
  [undefined, ""],
  [{ seconds_per_step: 0.31, percent: 18, rank_hours: 4.2 }, "costs 0.31 s per step, 18 % of the time, 4.2 rank hours so far"],
  [{ seconds_per_step: 0.0042, percent: 1.25, rank_hours: 0.01 }, "costs 4.2 ms per step, 1.3 % of the time, less than 0.1 rank hours so far"],
  [{ seconds_per_step: 12.4, percent: 3, rank_hours: 1024 }, "costs 12 s per step, 3 % of the time, 1024 rank hours so far"],
  [{ seconds_per_step: 0.4, percent: 5, rank_hours: 0 }, "costs 0.40 s per step, 5 % of the time"],
  [{ seconds_per_step: 0.035, percent: 10, rank_hours: 0, alone_seconds_per_step: 0.000469 }, "costs 35 ms per step (nothing of it by itself, for others are slow too), 10 % of the time"],
  [{ seconds_per_step: 0.4, percent: 5, rank_hours: 0, alone_seconds_per_step: 0.021 }, "costs 0.40 s per step (21 ms of it by itself, for others are slow too), 5 % of the time"],
  [{ seconds_per_step: 0.4, percent: 5, rank_hours: 0, alone_seconds_per_step: 0 }, "costs 0.40 s per step (nothing of it by itself, for others are slow too), 5 % of the time"],
  [{ seconds_per_step: 0, percent: 0, rank_hours: 0 }, ""],
])("cost %#", (cost, words) => expect(costWords(cost)).toBe(words));

test("what is over costs nothing any more", () => {
  expect(costWords({ seconds_per_step: 0.31, percent: 18, rank_hours: 4.2 }, true)).toBe("cost 0.31 s per step, 18 % of the time, 4.2 rank hours");
});

test("an incident costs what the dearest of its findings costs, and not the sum: they tell of the same lost time", () => {
  const slow = { seconds_per_step: 0.3, percent: 18, rank_hours: 4 };
  expect(highestCost([finding(), finding({ cost: { ...slow, rank_hours: 1 } }), finding({ cost: slow })])).toBe(slow);
  expect(highestCost([finding()])).toBeUndefined();
});
