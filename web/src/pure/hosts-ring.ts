/**
 * A ring as a list of slots around a circle. A slot is a rank, or, in a ring too large for that, the consecutive ranks
 * of one host as one; a host that is expanded keeps its ranks apart. Pure.
 */

import type { Ring } from "../api";

/** Up to this many ranks each is drawn for itself. */
export const MAX_SINGLE_RANKS = 64;
/** With fewer ranks to a host than this, on average, a ring by hosts would not be shorter. */
const MIN_RANKS_PER_RUN = 1.5;
/** Pixels that a rank of an expanded host takes along the circle: enough for its number. */
const EXPANDED_PX = 42;
/** Space between two hosts, in slots. */
export const HOST_GAP_SLOTS = 0.5;
/** An expanded host takes at most this share of the circle. */
const MAX_EXPANDED_SHARE = 0.5;

export interface Slot {
  host: string | null;
  /** In the order of the ring. */
  ranks: number[];
  /** Of those ranks, in the ring's order; empty if it is missing. */
  indices: number[];
  /** Whether it stands for a host's consecutive ranks. */
  collapsed: boolean;
  /** Outside of the known piece of an incomplete ring. */
  missing: boolean;
  /** How much of the circle it takes, relative to the others. */
  weight: number;
}

/** Whether the ring is drawn by hosts: it is large, and consecutive ranks share hosts. */
export function collapses(ring: Ring, nRanks: number): boolean {
  if (Math.max(nRanks, ring.order.length) <= MAX_SINGLE_RANKS) return false;
  const runs = ring.order.filter((hop, i) => hop.host !== ring.order[i - 1]?.host).length;
  return runs > 1 && runs * MIN_RANKS_PER_RUN <= ring.order.length;
}

/** `expanded`: the host whose ranks stay apart in a ring by hosts; `roundPx`: the length of the circle. */
export function slots(ring: Ring, nRanks: number, hostOf: (rank: number) => string | null, expanded: string | undefined, roundPx: number): Slot[] {
  const collapse = collapses(ring, nRanks);
  const result: Slot[] = [];
  const start = collapse && ring.complete ? boundary(ring) : 0;
  for (let i = 0; i < ring.order.length; i += 1) {
    const index = (start + i) % ring.order.length;
    const { rank, host } = ring.order[index]!;
    add(result, { host, ranks: [rank], indices: [index], collapsed: collapse && host !== expanded, missing: false, weight: 1 });
  }
  for (const rank of unplaced(ring, nRanks)) {
    const host = hostOf(rank);
    add(result, { host, ranks: [rank], indices: [], collapsed: collapse && host !== expanded, missing: true, weight: 1 });
  }
  if (collapse) widen(result, roundPx);
  return result;
}

function add(slots: Slot[], next: Slot): void {
  const last = slots.at(-1);
  if (next.collapsed && last?.collapsed && last.host === next.host && last.missing === next.missing) {
    last.ranks.push(...next.ranks);
    last.indices.push(...next.indices);
  } else slots.push(next);
}

/** Where the host of the first rank begins: its ranks may also stand at the end of the order. */
function boundary({ order }: Ring): number {
  for (let back = order.length; back > 0; back -= 1) {
    if (order[back - 1]!.host !== order[0]!.host) return back % order.length;
  }
  return 0;
}

/** Room for the numbers of the ranks of the expanded host. */
function widen(slots: Slot[], roundPx: number): void {
  const apart = slots.filter((slot) => !slot.collapsed);
  const rest = slots.length - apart.length;
  if (apart.length === 0 || rest === 0) return;
  const share = Math.min(MAX_EXPANDED_SHARE, (apart.length * EXPANDED_PX) / roundPx);
  const weight = (share / (1 - share)) * ((rest * (1 + HOST_GAP_SLOTS)) / apart.length);
  for (const slot of apart) slot.weight = Math.max(1, weight);
}

/** Ranks outside of the known piece; the one that it leads to comes first, as that much is known. */
function unplaced(ring: Ring, nRanks: number): number[] {
  if (ring.complete) return [];
  const placed = new Set(ring.order.map((hop) => hop.rank));
  const all = new Set(ring.missing_ranks);
  for (let rank = 0; rank < nRanks; rank += 1) all.add(rank);
  const next = ring.order.at(-1)?.next;
  return [...all].filter((rank) => !placed.has(rank)).sort((a, b) => Number(b === next) - Number(a === next) || a - b);
}
