import { expect, test } from "vitest";
import { placeBeside } from "../../src/pure/place";

test("a pod, or a node that is called otherwise than its host", () => {
  expect(placeBeside("n4", { words: "pod ml/train-3, container worker", by: "kubernetes", namespace: "ml", pod: "train-3", container: "worker", node: "n4" })).toBe("train-3");
  expect(placeBeside("n3", { words: "Slurm job 7, step 0", by: "slurm", node: "n3", job_id: 7, step_id: 0 })).toBeUndefined();
  expect(placeBeside("machine", { words: "Slurm job 7, step 0, on node n3", by: "slurm", node: "n3", job_id: 7, step_id: 0 })).toBe("n3");
  expect(placeBeside("machine", undefined)).toBeUndefined();
});
