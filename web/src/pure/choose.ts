/** Which job and communicator are shown when the address names none: the one an operator would open first. Pure. */

import type { CommunicatorSummary, FindingCounts, Job } from "../api";
import { byName } from "./health";

const JOB_STATES = ["running", "stale", "imported", "ended"];
const COMMUNICATOR_STATES = ["broken", "active", "forming", "ended"];

function severity(counts: FindingCounts): number {
  return counts.critical > 0 ? 2 : counts.warning > 0 ? 1 : 0;
}

function size(job: Job): number {
  return job.world_size ?? job.n_processes;
}

/** Running before ended; worse findings first; killed processes next; then the largest, so that small jobs come and go below it. */
export function byUrgency(a: Job, b: Job): number {
  return (
    Number(a.state === "ended") - Number(b.state === "ended") ||
    severity(b.findings) - severity(a.findings) ||
    b.n_killed - a.n_killed ||
    JOB_STATES.indexOf(a.state) - JOB_STATES.indexOf(b.state) ||
    Number(b.state !== "ended") * size(b) - Number(a.state !== "ended") * size(a) ||
    b.first_seen.localeCompare(a.first_seen) ||
    a.id.localeCompare(b.id)
  );
}

/** In use before ended; degraded or broken first; larger first; then by name, else oldest first, as programs make the world's first. */
export function byWeight(a: CommunicatorSummary, b: CommunicatorSummary): number {
  return (
    Number(a.state === "ended") - Number(b.state === "ended") ||
    severity(b.findings) - severity(a.findings) ||
    Number(b.degraded) - Number(a.degraded) ||
    Number(b.state === "broken") - Number(a.state === "broken") ||
    b.n_ranks - a.n_ranks ||
    COMMUNICATOR_STATES.indexOf(a.state) - COMMUNICATOR_STATES.indexOf(b.state) ||
    byName(a.name ?? "", b.name ?? "") ||
    a.created.localeCompare(b.created) ||
    a.id.localeCompare(b.id)
  );
}
