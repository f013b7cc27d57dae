/** Where a search hit leads. Pure. */

import type { SearchHit } from "../api";
import type { Place } from "./route";

export function placeOf(hit: SearchHit): Place {
  if (hit.kind === "nic" && hit.host != null) return { page: "host", host: hit.host, nic: hit.nic ?? undefined };
  if (hit.kind === "host" && hit.host != null) return { page: "host", host: hit.host };
  if (hit.kind === "summation" && hit.group != null) return { page: "summation-group", group: hit.group };
  if (hit.comm != null) {
    return { page: "communicator", comm: hit.comm, ...(hit.rank == null ? {} : { rank: hit.rank, view: "ranks" as const }) };
  }
  return hit.job == null ? { page: "overview" } : { page: "job", job: hit.job };
}

/** The next of `n` places from `at` on (-1: none), round and round. */
export function step(at: number, by: number, n: number): number {
  return n === 0 ? -1 : at < 0 ? (by > 0 ? 0 : n - 1) : (at + by + n) % n;
}
