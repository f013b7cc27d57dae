/** What a communicator is for, as people say it. Pure. */

import type { CommunicatorSummary, Dimension } from "../api";

const SHORT: Record<Dimension, string> = { world: "world", data: "DP", tensor: "TP", pipeline: "PP", expert: "EP", context: "CP" };
const LONG: Record<Dimension, string> = {
  world: "every rank of the job",
  data: "data parallel",
  tensor: "tensor parallel",
  pipeline: "pipeline parallel",
  expert: "expert parallel",
  context: "context parallel",
};

/** "DP?" where its shape lets it be guessed only. */
export function purposeBadge({ purpose }: CommunicatorSummary): string {
  return purpose == null ? "" : `${SHORT[purpose.dimension]}${purpose.named ? "" : "?"}`;
}

export function purposeWords({ purpose }: CommunicatorSummary): string {
  if (purpose == null) return "Neither its name nor its shape say what it is for.";
  return `${LONG[purpose.dimension]}, ${purpose.named ? "as its name says" : "a guess from its shape"}`;
}
