/**
 * A ring as small as a thumb: one path for all hops of a kind, so that 64 rings of 1 024 ranks are a few hundred elements.
 * Hosts that are in trouble and odd hops stand out; names do not fit. Pure.
 */

import type { Ring } from "../api";
import { arc, point, type Point } from "./circle";
import { transportClass, type Transport } from "./ring";

export interface Thumb {
  channel: number;
  /** Within a square of 100 by 100. */
  paths: { transport: Transport; path: string }[];
  /** Hosts to look at. */
  degraded: string;
  /** Where hops are odd. */
  odd: Point[];
  /** In words: what is to be said of it, empty if nothing is. */
  trouble: string;
}

const CENTRE = { x: 50, y: 50 };
const HOPS_R = 36;
const HOSTS_R = 45;
/** Share of the circle that is left open where a ring is not known to its end. */
const OPEN_SHARE = 0.12;
/** Marks of odd hops drawn; the number of all is said in words. */
const MAX_MARKS = 8;

export function thumb(ring: Ring, degraded: ReadonlySet<string>): Thumb {
  const n = Math.max(1, ring.order.length);
  const turn = 2 * Math.PI * (ring.complete ? 1 : 1 - OPEN_SHARE);
  const step = turn / n;
  const paths = new Map<Transport, string>();
  let marked = "";
  const odd: Point[] = [];
  for (let i = 0; i < ring.order.length; ) {
    const transport = transportClass(ring.order[i]!.transport);
    const end = endOf(ring, i, (hop) => transportClass(hop.transport) === transport);
    paths.set(transport, (paths.get(transport) ?? "") + arc(CENTRE, HOPS_R, i * step, shorten(end * step, turn)));
    i = end;
  }
  for (let i = 0; i < ring.order.length; ) {
    const { host } = ring.order[i]!;
    const end = endOf(ring, i, (hop) => hop.host === host);
    // At least wide enough to be seen.
    const from = (i - 0.5) * step;
    if (degraded.has(host)) marked += arc(CENTRE, HOSTS_R, from, Math.max(shorten((end - 0.5) * step, from + turn), from + 0.12));
    i = end;
  }
  let count = 0;
  ring.order.forEach((hop, i) => {
    if ((hop.odd ?? []).length === 0) return;
    count += 1;
    if (odd.length < MAX_MARKS) odd.push(point(CENTRE, (i + 0.5) * step, HOPS_R));
  });
  const words = [ring.complete ? "" : "incomplete", count === 0 ? "" : `${count} odd`].filter(Boolean);
  return { channel: ring.channel, paths: [...paths].map(([transport, path]) => ({ transport, path })), degraded: marked, odd, trouble: words.join(", ") };
}

function endOf(ring: Ring, start: number, same: (hop: Ring["order"][number]) => boolean): number {
  let end = start + 1;
  while (end < ring.order.length && same(ring.order[end]!)) end += 1;
  return end;
}

/** An arc that comes back to where it began would have no length. */
function shorten(to: number, full: number): number {
  return to >= full ? full - 0.001 : to;
}
