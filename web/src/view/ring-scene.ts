/** What a drawn ring needs to know besides its hops. */

import type { Rank } from "../api";

export interface Scene {
  nRanks: number;
  byRank: ReadonlyMap<number, Rank>;
  /** Hosts that are degraded, hung or failed. */
  degraded: ReadonlySet<string>;
  /** Ranks that the others wait for, or that differ, as an open incident says. */
  late: ReadonlySet<number>;
  /** Ranks whose hop is not as in the ring that this one is compared with. */
  changed: ReadonlySet<number>;
  /** Host to look at: the others are faint, and in a ring by hosts its ranks stand apart. */
  host?: string | undefined;
  /** Rank whose hop is pinned. */
  rank?: number | undefined;
  /** Pins a rank, expands a host; undefined: nothing any more. */
  choose: (what: { host?: string | undefined; rank?: number | undefined }) => void;
}
