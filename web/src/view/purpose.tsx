import type { CommunicatorSummary } from "../api";
import { purposeBadge, purposeWords } from "../pure/purpose";

/** DP, TP, …; dashed and with a question mark where it is a guess. */
export function Purpose({ of }: { of: CommunicatorSummary }) {
  if (of.purpose == null) return null;
  return (
    <span class={`badge${of.purpose.named ? "" : " guessed"}`} title={purposeWords(of)}>
      {purposeBadge(of)}
      <span class="unseen">, {purposeWords(of)}</span>
    </span>
  );
}
