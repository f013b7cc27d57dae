/** Groups in the order in which an operator would open them, and which of them follow each other. Pure. */

import type { SummationGroup } from "../../api";
import { LIVE_STATES } from "./words";

/** In use before over; with findings first; failed before what ended in order; the newest first. */
export function byAttention(a: SummationGroup, b: SummationGroup): number {
  const over = (one: SummationGroup) => Number(!LIVE_STATES.has(one.state));
  return (
    over(a) - over(b) ||
    Number(b.n_findings > 0) - Number(a.n_findings > 0) ||
    Number(b.state === "failed") - Number(a.state === "failed") ||
    b.started_at.localeCompare(a.started_at) ||
    a.id.localeCompare(b.id)
  );
}

/** The newest group of the same session, if it is not this one. */
export function successor(group: SummationGroup, all: SummationGroup[]): SummationGroup | undefined {
  const later = all.filter((one) => one.session === group.session && one.membership_epoch > group.membership_epoch);
  return later.sort((a, b) => b.membership_epoch - a.membership_epoch)[0];
}

/** The one before it in its session. */
export function predecessor(group: SummationGroup, all: SummationGroup[]): SummationGroup | undefined {
  const earlier = all.filter((one) => one.session === group.session && one.membership_epoch < group.membership_epoch);
  return earlier.sort((a, b) => b.membership_epoch - a.membership_epoch)[0];
}
