/** Which job and communicator are shown when the address names none: the one an operator would open first. Pure. */

import type { CommunicatorSummary, FindingCounts, Job } from "../api";
import { badness } from "./condition";
import { byName } from "./names";

const JOB_STATES = ["running", "stale", "imported", "ended"];
const COMMUNICATOR_STATES = ["broken", "active", "forming", "ended"];

function severity(counts: FindingCounts): number {
  return counts.critical > 0 ? 2 : counts.warning > 0 ? 1 : 0;
}

function size(job: Job): number {
  return job.world_size ?? job.n_processes;
}

/** Running before ended; what stands worse first, then worse findings; then the largest, so that small jobs come and go below it. */
export function byUrgency(a: Job, b: Job): number {
  return (
    Number(a.state === "ended") - Number(b.state === "ended") ||
    badness(b.standing) - badness(a.standing) ||
    severity(b.findings) - severity(a.findings) ||
    JOB_STATES.indexOf(a.state) - JOB_STATES.indexOf(b.state) ||
    Number(b.state !== "ended") * size(b) - Number(a.state !== "ended") * size(a) ||
    b.first_seen.localeCompare(a.first_seen) ||
    a.id.localeCompare(b.id)
  );
}

/** In use before ended; what stands worse first; larger first; then by name, else oldest first, as programs make the world's first. */
export function byWeight(a: CommunicatorSummary, b: CommunicatorSummary): number {
  return (
    Number(a.state === "ended") - Number(b.state === "ended") ||
    badness(b.standing) - badness(a.standing) ||
    severity(b.findings) - severity(a.findings) ||
    b.n_ranks - a.n_ranks ||
    COMMUNICATOR_STATES.indexOf(a.state) - COMMUNICATOR_STATES.indexOf(b.state) ||
    byName(a.name ?? "", b.name ?? "") ||
    a.created.localeCompare(b.created) ||
    a.id.localeCompare(b.id)
  );
}
