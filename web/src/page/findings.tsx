import { Findings } from "../view/findings";

/** What was found, now and before. */
export function FindingsPage() {
  return <Findings />;
}
