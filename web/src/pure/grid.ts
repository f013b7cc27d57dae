/** Hosts as cells: the part of the name that tells them apart, and a shade for the bandwidth. Pure. */

import type { HostSummary } from "../api";

export interface Cell {
  host: HostSummary;
  /** The name without what all names begin with. */
  short: string;
  /** 0 (idle) to 4 (as fast as the fastest). */
  heat: number;
}

/** Characters of a name that a cell holds. */
const MAX_SHORT = 7;

export function grid(hosts: HostSummary[]): { prefix: string; cells: Cell[] } {
  const prefix = commonPrefix(hosts.map((host) => host.host));
  const top = Math.max(0, ...hosts.map((host) => host.completed_bytes_per_s));
  const cells = hosts.map((host) => ({
    host,
    short: host.host.slice(prefix.length).slice(-MAX_SHORT) || host.host.slice(-MAX_SHORT),
    heat: heat(host.completed_bytes_per_s, top),
  }));
  return { prefix, cells };
}

function heat(value: number, top: number): number {
  if (value <= 0 || top <= 0) return 0;
  return Math.max(1, Math.min(4, Math.ceil((value / top) * 4)));
}

/** Never ends inside a number: host-10, host-11 have the prefix "host-", not "host-1". */
export function commonPrefix(names: string[]): string {
  if (names.length < 2) return "";
  let prefix = names[0]!;
  for (const name of names) while (!name.startsWith(prefix)) prefix = prefix.slice(0, -1);
  return prefix.replace(/\d+$/, "");
}
