/**
 * Where the parts of a ring go on a drawing of given size. Pure: numbers and path strings, no elements.
 *
 * Ranks stand on a circle in the order of the ring, clockwise from the top; each run of ranks on one host is an arc
 * outside of them. An incomplete ring leaves the ranks outside of its known piece at the end, unconnected: their place is not known.
 */

import type { Hop, Ring } from "../api";
import { arc, circle, point, round, type Point } from "./circle";
import { HOST_GAP_SLOTS, MAX_SINGLE_RANKS, slots, type Slot } from "./hosts-ring";

/** With more arcs than this only those in trouble are labelled. */
const MAX_LABELLED_ARCS = 32;
/** The same where labels stand inside. */
const MAX_INSIDE_LABELS = 10;
/** Below this width they do. */
const MIN_OUTSIDE_WIDTH_PX = 480;
/** Hops get their transport and NIC written beside them only where the circle leaves this much room for each. */
const MIN_HOP_LABEL_PX = 66;
/** Below this radius the middle is needed for the details. */
const MIN_HOP_LABEL_RADIUS_PX = 150;

/** A shorter arc shows nothing of a pattern. */
const MIN_PATTERN_PX = 24;

/** Names are cut to this many characters. */
export const MAX_NAME_CHARS = 16;
/** What a character of a name takes, roughly. */
const CHAR_PX = 7.4;
/** Names beside the ring take at most this share of the width on each side. */
const MAX_SIDE_SHARE = 0.21;
/** Room above and below for names. */
const LABEL_ROOM_PX = 32;
const MAX_HEIGHT_PX = 620;
/** Below this radius what is said in the middle does not fit there. */
const MIN_TEXT_RADIUS_PX = 130;

export type Transport = "net" | "socket" | "shm" | "p2p" | "unknown";

export interface Place extends Point {
  /** The first of `ranks`. */
  rank: number;
  /** More than one where it stands for the consecutive ranks of a host. */
  ranks: number[];
  collapsed: boolean;
  host: string | null;
  /** Index in the layout's places; missing ranks come last. */
  index: number;
  missing: boolean;
  /** Radians, 0 at the top, clockwise. */
  angle: number;
  /** Half of what it takes of the circle, radians. */
  half: number;
  /** Odd hops inside of it, which are not drawn. */
  oddInside: number;
}

export interface Arc {
  host: string;
  from: number;
  to: number;
  ranks: number[];
  path: string;
  /** Too short for a pattern. */
  short: boolean;
  /** Where its label goes. */
  x: number;
  y: number;
  anchor: "start" | "middle" | "end";
}

/** The hop that leads out of a place; `hops[i]` belongs to `places[i]`. */
export interface HopLine {
  index: number;
  hop: Hop;
  transport: Transport;
  betweenHosts: boolean;
  path: string;
  /** Middle of the hop, a little inwards, and its direction there in degrees. */
  x: number;
  y: number;
  degrees: number;
  labelX: number;
  labelY: number;
}

export interface Layout {
  widthPx: number;
  heightPx: number;
  centre: Point;
  radius: number;
  /** Radius of the hosts' band. */
  outer: number;
  discRadius: number;
  dense: boolean;
  /** Whether hosts stand for their ranks. */
  byHosts: boolean;
  rankLabels: boolean;
  hopLabels: boolean;
  /** Whether the middle has room for words. */
  roomy: boolean;
  /** With more arcs than this only those in trouble are labelled. */
  maxArcLabels: number;
  places: Place[];
  arcs: Arc[];
  hops: HopLine[];
}

/** `expanded`: the host whose ranks are drawn one by one where the ring is drawn by hosts; `nameOf`: what the drawing calls a host. */
export function layout(ring: Ring, widthPx: number, nRanks: number, hostOf: (rank: number) => string | null, expanded?: string, nameOf: (host: string) => string = (host) => host): Layout {
  const longest = Math.max(0, ...ring.order.map((hop) => Math.min(MAX_NAME_CHARS, nameOf(hop.host).length)));
  // On a telephone names go inside, where nothing else is written then.
  const inside = widthPx < MIN_OUTSIDE_WIDTH_PX;
  const sideRoom = inside ? 14 : Math.min(widthPx * MAX_SIDE_SHARE, (longest + 2) * CHAR_PX + 16);
  const labelRoom = inside ? 12 : LABEL_ROOM_PX;
  const outer = Math.min(widthPx / 2 - sideRoom, MAX_HEIGHT_PX / 2 - labelRoom);
  const heightPx = Math.ceil(2 * (outer + labelRoom));
  const centre = { x: widthPx / 2, y: heightPx / 2 };
  const large = Math.max(nRanks, ring.order.length) > MAX_SINGLE_RANKS;
  const radius = outer - (large ? 18 : 26);

  const all = slots(ring, nRanks, hostOf, expanded, 2 * Math.PI * radius);
  const { places, unit } = placesOf(all, ring, centre, radius);
  const byHosts = all.some((slot) => slot.collapsed);
  const slotPx = unit * radius;
  const dense = large && !byHosts;
  const discRadius = radiusOf(places, byHosts, dense, slotPx, radius);

  return {
    widthPx,
    heightPx,
    centre,
    radius,
    outer,
    discRadius,
    dense,
    byHosts,
    rankLabels: !dense && discRadius >= 7,
    hopLabels: !large && !inside && radius >= MIN_HOP_LABEL_RADIUS_PX && slotPx >= MIN_HOP_LABEL_PX,
    roomy: !inside && radius >= MIN_TEXT_RADIUS_PX,
    maxArcLabels: inside ? MAX_INSIDE_LABELS : MAX_LABELLED_ARCS,
    places,
    arcs: arcsOf(places, centre, outer, inside ? radius - discRadius - 9 : outer + 13),
    hops: hopsOf(ring, all, places, centre, radius),
  };
}

export function transportClass(transport: string | null): Transport {
  if (transport === null) return "unknown";
  if (/socket/i.test(transport)) return "socket";
  if (/^net/i.test(transport)) return "net";
  if (/^shm/i.test(transport)) return "shm";
  if (/^p2p/i.test(transport)) return "p2p";
  return "unknown";
}

/** The place nearest to a pointer at (x, y), or null if it is far from the circle. */
export function nearest(layout: Layout, x: number, y: number): Place | null {
  const dx = x - layout.centre.x;
  const dy = y - layout.centre.y;
  const distance = Math.hypot(dx, dy);
  if (distance < layout.radius * 0.72 || distance > layout.outer + 24) return null;
  const angle = (Math.atan2(dx, -dy) + 2 * Math.PI) % (2 * Math.PI);
  let best: Place | null = null;
  let bestGap = Infinity;
  for (const place of layout.places) {
    const raw = Math.abs(place.angle - angle) % (2 * Math.PI);
    const gap = Math.min(raw, 2 * Math.PI - raw);
    if (gap < bestGap) {
      bestGap = gap;
      best = place;
    }
  }
  return best;
}

function radiusOf(places: Place[], byHosts: boolean, dense: boolean, slotPx: number, radius: number): number {
  if (dense) return Math.max(0.7, Math.min(4, slotPx * 0.38));
  if (!byHosts) return Math.max(3.5, Math.min(15, slotPx * 0.4));
  const single = places.filter((place) => !place.collapsed).map((place) => place.half * radius);
  return single.length === 0 ? 4 : Math.max(2.5, Math.min(13, Math.min(...single) * 0.7));
}

/** One unit of the circle for each slot's weight, and a gap wherever the host changes. The first rank's host is centred on the top. */
function placesOf(all: Slot[], ring: Ring, centre: Point, radius: number): { places: Place[]; unit: number } {
  const n = all.length;
  const gaps = all.map((slot, i) => {
    const next = all[(i + 1) % n]!;
    return n > 1 && (slot.host !== next.host || slot.missing !== next.missing) ? HOST_GAP_SLOTS : 0;
  });
  const total = all.reduce((sum, slot, i) => sum + slot.weight + gaps[i]!, 0);
  const unit = (2 * Math.PI) / Math.max(1, total);
  // The middle of the first slot is the top.
  let cursor = -(all[0]?.weight ?? 0) / 2;
  const places = all.map((slot, index) => {
    const angle = (cursor + slot.weight / 2) * unit;
    cursor += slot.weight + gaps[index]!;
    return {
      rank: slot.ranks[0]!,
      ranks: slot.ranks,
      collapsed: slot.collapsed,
      host: slot.host,
      index,
      missing: slot.missing,
      angle,
      half: (slot.weight * unit) / 2,
      oddInside: slot.indices.slice(0, -1).filter((at) => (ring.order[at]!.odd ?? []).length > 0).length,
      ...point(centre, angle, radius),
    };
  });
  return { places, unit };
}

function arcsOf(places: Place[], centre: Point, outer: number, labelRadius: number): Arc[] {
  const runs: { host: string; first: Place; last: Place; ranks: number[] }[] = [];
  for (const place of places) {
    if (place.missing || place.host === null) continue;
    const run = runs.at(-1);
    if (run && run.host === place.host && run.last.index + 1 === place.index) {
      run.last = place;
      run.ranks.push(...place.ranks);
    } else runs.push({ host: place.host, first: place, last: place, ranks: [...place.ranks] });
  }
  // The ring closes: a run that begins at rank 0's host may have its beginning at the end of the order.
  const [head, tail] = [runs[0], runs.at(-1)];
  if (runs.length > 1 && head && tail && head.host === tail.host && tail.last.index === places.length - 1) {
    runs.pop();
    head.first = tail.first;
    head.ranks.unshift(...tail.ranks);
  }
  const whole = runs.length === 1 && places.every((place) => !place.missing);
  return runs.map((run) => {
    const from = run.first.angle - run.first.half * 0.88;
    let to = run.last.angle + run.last.half * 0.88;
    if (to < from) to += 2 * Math.PI;
    const middle = (from + to) / 2;
    const label = point(centre, middle, labelRadius);
    const side = Math.sin(middle) * (labelRadius < outer ? -1 : 1);
    return {
      host: run.host,
      from,
      to,
      ranks: run.ranks,
      short: (to - from) * outer < MIN_PATTERN_PX,
      path: whole ? circle(centre, outer) : arc(centre, outer, from, to),
      x: label.x,
      y: round(label.y + 4 - Math.cos(middle) * (labelRadius < outer ? -6 : 3)),
      anchor: Math.abs(side) < 0.25 ? "middle" : side > 0 ? "start" : "end",
    };
  });
}

function hopsOf(ring: Ring, all: Slot[], places: Place[], centre: Point, radius: number): HopLine[] {
  const placeOf = new Map(places.flatMap((place) => place.ranks.map((rank) => [rank, place])));
  return places.filter((place) => !place.missing).map((from, index) => {
    const hop = ring.order[all[index]!.indices.at(-1)!]!;
    const target = placeOf.get(hop.next);
    const following = places[(index + 1) % places.length]!;
    const known = target === following;
    const startAngle = from.angle;
    // A hop whose end is not known leaves its rank and stops.
    let endAngle = known ? target.angle : from.angle + (following.angle - from.angle || 0.3) * 0.5;
    if (endAngle <= startAngle) endAngle += 2 * Math.PI;
    const middle = (startAngle + endAngle) / 2;
    const mid = point(centre, middle, radius);
    const label = point(centre, middle, radius - 17);
    return {
      index,
      hop,
      transport: known || hop.transport !== null ? transportClass(hop.transport) : "unknown",
      betweenHosts: target !== undefined && target.host !== from.host,
      path: places.length === 1 && ring.complete ? circle(centre, radius) : arc(centre, radius, startAngle, endAngle),
      x: mid.x,
      y: mid.y,
      degrees: round((middle * 180) / Math.PI),
      labelX: label.x,
      // Two lines grow downwards: in the lower half they must begin higher to stay off the ring.
      labelY: round(label.y + (hop.nic === null ? 0 : 13 * Math.min(0, Math.cos(middle)))),
    };
  });
}
