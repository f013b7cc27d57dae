/**
 * Where the parts of a ring go on a drawing of given size. Pure: numbers and path strings, no elements.
 *
 * Ranks stand on a circle in the order of the ring, clockwise from the top; each run of ranks on one host is an arc
 * outside of them. An incomplete ring leaves the ranks outside of its known piece at the end, unconnected: their place is not known.
 */

import type { Hop, Ring } from "../api";

/** Above this many ranks the drawing is ticks instead of numbered discs. */
export const MAX_LABELLED_RANKS = 64;
/** With more arcs than this only those in trouble are labelled. */
const MAX_LABELLED_ARCS = 32;
/** The same where labels stand inside. */
const MAX_INSIDE_LABELS = 10;
/** Below this width they do. */
const MIN_OUTSIDE_WIDTH_PX = 480;
/** Space between two hosts, in slots of one rank. */
const HOST_GAP_SLOTS = 0.5;
/** Hops get their transport and NIC written beside them only where the circle leaves this much room for each. */
const MIN_HOP_LABEL_PX = 66;
/** Below this radius the middle is needed for the details. */
const MIN_HOP_LABEL_RADIUS_PX = 150;

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

export interface Point {
  x: number;
  y: number;
}

export interface Place extends Point {
  rank: number;
  host: string | null;
  /** Index in the ring's order; missing ranks come after it. */
  index: number;
  missing: boolean;
  /** Radians, 0 at the top, clockwise. */
  angle: number;
}

export interface Arc {
  host: string;
  from: number;
  to: number;
  ranks: number[];
  path: string;
  /** Where its label goes. */
  x: number;
  y: number;
  anchor: "start" | "middle" | "end";
}

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

export function layout(ring: Ring, widthPx: number, nRanks: number, hostOf: (rank: number) => string | null): Layout {
  const missingRanks = unplaced(ring, nRanks);
  const n = ring.order.length + missingRanks.length;
  const longest = Math.max(0, ...ring.order.map((hop) => Math.min(MAX_NAME_CHARS, hop.host.length)));
  // On a telephone names go inside, where nothing else is written then.
  const inside = widthPx < MIN_OUTSIDE_WIDTH_PX;
  const sideRoom = inside ? 14 : Math.min(widthPx * MAX_SIDE_SHARE, (longest + 2) * CHAR_PX + 16);
  const labelRoom = inside ? 12 : LABEL_ROOM_PX;
  const outer = Math.min(widthPx / 2 - sideRoom, MAX_HEIGHT_PX / 2 - labelRoom);
  const heightPx = Math.ceil(2 * (outer + labelRoom));
  const centre = { x: widthPx / 2, y: heightPx / 2 };
  const radius = outer - (n > MAX_LABELLED_RANKS ? 16 : 26);

  const hosts = [...ring.order.map((hop) => hop.host as string | null), ...missingRanks.map(hostOf)];
  const angles = slotAngles(hosts, ring.order.length);
  const slotPx = angles.step * radius;
  const dense = n > MAX_LABELLED_RANKS;
  const discRadius = dense ? Math.max(0.7, Math.min(4, slotPx * 0.38)) : Math.max(3.5, Math.min(15, slotPx * 0.4));

  const at = (angle: number, r: number) => point(centre, angle, r);
  const places: Place[] = hosts.map((host, index) => {
    const missing = index >= ring.order.length;
    const rank = missing ? missingRanks[index - ring.order.length]! : ring.order[index]!.rank;
    const angle = angles.of[index]!;
    return { rank, host, index, missing, angle, ...at(angle, radius) };
  });

  return {
    widthPx,
    heightPx,
    centre,
    radius,
    outer,
    discRadius,
    dense,
    rankLabels: !dense && discRadius >= 7,
    hopLabels: !dense && !inside && radius >= MIN_HOP_LABEL_RADIUS_PX && slotPx >= MIN_HOP_LABEL_PX,
    roomy: !inside && radius >= MIN_TEXT_RADIUS_PX,
    maxArcLabels: inside ? MAX_INSIDE_LABELS : MAX_LABELLED_ARCS,
    places,
    arcs: arcsOf(places, angles.step, centre, outer, inside ? radius - discRadius - 9 : outer + 13),
    hops: hopsOf(ring, places, centre, radius),
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

/** Ranks outside of the known piece; the one that it leads to comes first, as that much is known. */
function unplaced(ring: Ring, nRanks: number): number[] {
  if (ring.complete) return [];
  const placed = new Set(ring.order.map((hop) => hop.rank));
  const all = new Set(ring.missing_ranks);
  for (let rank = 0; rank < nRanks; rank += 1) all.add(rank);
  const next = ring.order.at(-1)?.next;
  return [...all].filter((rank) => !placed.has(rank)).sort((a, b) => Number(b === next) - Number(a === next) || a - b);
}

/** Angles of n slots: one unit each, and a gap wherever the host changes. The first rank's host is centred on the top. */
function slotAngles(hosts: (string | null)[], known: number): { of: number[]; step: number } {
  const n = hosts.length;
  let total = n;
  const starts: number[] = [];
  let cursor = 0;
  for (let i = 0; i < n; i += 1) {
    starts.push(cursor);
    cursor += 1;
    const next = (i + 1) % n;
    if (n > 1 && (hosts[i] !== hosts[next] || i + 1 === known)) {
      cursor += HOST_GAP_SLOTS;
      total += HOST_GAP_SLOTS;
    }
  }
  const step = (2 * Math.PI) / Math.max(1, total);
  return { of: starts.map((start) => start * step), step };
}

function point(centre: Point, angle: number, r: number): Point {
  return { x: round(centre.x + r * Math.sin(angle)), y: round(centre.y - r * Math.cos(angle)) };
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

function arcsOf(places: Place[], step: number, centre: Point, outer: number, labelRadius: number): Arc[] {
  const runs: { host: string; first: Place; last: Place; ranks: number[] }[] = [];
  for (const place of places) {
    if (place.missing || place.host === null) continue;
    const run = runs.at(-1);
    if (run && run.host === place.host && run.last.index + 1 === place.index) {
      run.last = place;
      run.ranks.push(place.rank);
    } else runs.push({ host: place.host, first: place, last: place, ranks: [place.rank] });
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
    const from = run.first.angle - step * 0.44;
    let to = run.last.angle + step * 0.44;
    if (to < from) to += 2 * Math.PI;
    const middle = (from + to) / 2;
    const label = point(centre, middle, labelRadius);
    const side = Math.sin(middle) * (labelRadius < outer ? -1 : 1);
    return {
      host: run.host,
      from,
      to,
      ranks: run.ranks,
      path: whole ? circle(centre, outer) : arc(centre, outer, from, to),
      x: label.x,
      y: round(label.y + 4 - Math.cos(middle) * (labelRadius < outer ? -6 : 3)),
      anchor: Math.abs(side) < 0.25 ? "middle" : side > 0 ? "start" : "end",
    };
  });
}

function hopsOf(ring: Ring, places: Place[], centre: Point, radius: number): HopLine[] {
  const byRank = new Map(places.map((place) => [place.rank, place]));
  return ring.order.map((hop, index) => {
    const from = places[index]!;
    const target = byRank.get(hop.next);
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
      path: ring.order.length === 1 && ring.complete ? circle(centre, radius) : arc(centre, radius, startAngle, endAngle),
      x: mid.x,
      y: mid.y,
      degrees: round((middle * 180) / Math.PI),
      labelX: label.x,
      // Two lines grow downwards: in the lower half they must begin higher to stay off the ring.
      labelY: round(label.y + (hop.nic === null ? 0 : 13 * Math.min(0, Math.cos(middle)))),
    };
  });
}

function arc(centre: Point, r: number, from: number, to: number): string {
  const a = point(centre, from, r);
  const b = point(centre, to, r);
  const large = to - from > Math.PI ? 1 : 0;
  return `M${a.x} ${a.y}A${round(r)} ${round(r)} 0 ${large} 1 ${b.x} ${b.y}`;
}

function circle(centre: Point, r: number): string {
  const radius = round(r);
  const top = `${centre.x} ${round(centre.y - r)}`;
  return `M${top}A${radius} ${radius} 0 1 1 ${centre.x} ${round(centre.y + r)}A${radius} ${radius} 0 1 1 ${top}`;
}
