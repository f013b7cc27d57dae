/**
 * Who waits for whom, as a picture: the ranks of a communicator around a circle, the culprit and those that wait for it.
 * Of many ranks those of a host are one place, of very many hosts several neighbours. Places are in pixels. Pure.
 */

import type { CommunicatorDetail, Incident } from "../api";
import { point, round, type Point } from "./circle";
import { integer, plural, rankRanges } from "./format";

/** `absent`: nothing was ever heard of it. */
export type Role = "culprit" | "waiting" | "absent" | "other";

export interface Member {
  rank: number;
  /** Absent: not known. */
  host?: string | undefined;
  role: Role;
  /** Its process is gone. */
  dead: boolean;
  /** Nothing was ever heard of it. */
  unheard: boolean;
}

/** One rank, or ranks of one role that stand together. */
export interface Place extends Point {
  ranks: number[];
  hosts: string[];
  role: Role;
  dead: boolean;
  unheard: boolean;
  /** Several ranks: how many is written in it. */
  folded: boolean;
  radius: number;
  /** Where its host's name goes. Absent: there is no room for it. */
  label?: { x: number; y: number; anchor: "start" | "middle" | "end"; words: string };
}

export interface Picture {
  widthPx: number;
  heightPx: number;
  places: Place[];
  /** From those that wait to whom they wait for. */
  links: string[];
  folded: boolean;
}

/** Up to this many ranks each is drawn for itself. */
const MAX_SINGLE = 64;
/** More places than this could not be told apart. */
const MAX_PLACES = 40;
/** Room above and below, for a disc and a name. */
const HEAD_PX = 44;
const MIN_LABELLED_PX = 560;
const MAX_NAME_CHARS = 16;
const CHAR_PX = 7.2;

/** Everybody in the communicator, by rank, with the part that each plays in the incident. */
export function membersOf(incident: Incident, { n_ranks: n, ranks }: Pick<CommunicatorDetail, "n_ranks" | "ranks">): Member[] {
  const open = incident.resolved_at == null;
  const accused = new Set(incident.culprits.flatMap(({ rank }) => (rank === undefined ? [] : [rank])));
  if (incident.rank !== undefined) accused.add(incident.rank);
  const nameless = accused.size === 0 ? incident.culprits : [];
  const hostOf = new Map(incident.culprits.map(({ rank, host }) => [rank, host]));
  const known = new Map(ranks.map((one) => [one.rank, one]));
  const size = Math.max(n, ...ranks.map((one) => one.rank + 1));
  // Processes that have no rank here yet are those of the ranks that nobody has heard of.
  const late = nameless.filter(({ pid }) => pid !== undefined && !ranks.some((one) => one.pid === pid));
  const areLate = late.length > 0 && late.length === size - known.size;
  const lateHosts = new Set(late.map(({ host }) => host));
  const isCulprit = (rank: number): boolean => {
    const one = known.get(rank);
    if (accused.has(rank)) return true;
    if (one === undefined) return areLate;
    return nameless.some(({ host, pid }) => host === one.host && (pid === undefined || pid === one.pid));
  };
  const others = ranks.filter((one) => !isCulprit(one.rank) && one.state !== "killed");
  const hung = others.filter((one) => one.standing.condition === "hung");
  // Of a wait that may be healthy nobody is said to hang, and who was told of a death has failed: where all wait, all do.
  const waiting = new Set((incident.n_victims === others.length ? others : hung).map((one) => one.rank));
  return Array.from({ length: size }, (_, rank) => {
    const one = known.get(rank);
    const host = one?.host ?? hostOf.get(rank) ?? (areLate && lateHosts.size === 1 ? late[0]!.host : undefined);
    const role = isCulprit(rank) ? "culprit" : one === undefined ? "absent" : open && waiting.has(rank) ? "waiting" : "other";
    return { rank, host, dead: one?.state === "killed", unheard: one === undefined, role };
  });
}

export function picture(members: Member[], widthPx: number): Picture {
  const runs = members.length <= MAX_SINGLE ? members.map((one) => [one]) : fold(members);
  const folded = runs.some((run) => run.length > 1);
  const labelled = widthPx >= MIN_LABELLED_PX;
  const longest = Math.min(MAX_NAME_CHARS, Math.max(4, ...members.map((one) => one.host?.length ?? 0)));
  const side = labelled ? longest * CHAR_PX + 28 : 22;
  const radius = Math.max(60, Math.min(widthPx / 2 - side, 90 + runs.length * 6, 210));
  const centre = { x: widthPx / 2, y: radius + HEAD_PX };
  const step = (2 * Math.PI) / Math.max(1, runs.length);
  const room = (step * radius) / 2;
  const places = runs.map((run, i) => placeOf(run, i * step, centre, radius, Math.max(4, Math.min(17, room * 0.82))));
  if (labelled) label(places, centre, radius);
  return { widthPx, heightPx: 2 * (radius + HEAD_PX), places, links: linksOf(places, centre), folded };
}

/** Few culprits stand alone; more are folded as all others. */
const MAX_ALONE = 8;

/** Neighbours of one role on one host; then, of too many such, so many neighbours of one role that all have a place. */
function fold(members: Member[]): Member[][] {
  const apart = members.filter((one) => one.role === "culprit").length <= MAX_ALONE;
  const alike = (a: Member, b: Member) => a.role === b.role && a.dead === b.dead && a.unheard === b.unheard && !(apart && a.role === "culprit");
  const runs = merged(members.map((one) => [one]), Infinity, (a, b) => alike(a, b) && a.host === b.host);
  let result = runs;
  for (let most = 2; result.length > MAX_PLACES && most <= runs.length; most += 1) result = merged(runs, most, alike);
  return result;
}

/** Joins neighbours that belong together, at most so many runs into one. */
function merged(runs: Member[][], most: number, belongs: (a: Member, b: Member) => boolean): Member[][] {
  const result: Member[][] = [];
  let taken = 0;
  for (const run of runs) {
    const last = result.at(-1);
    if (last !== undefined && taken < most && belongs(last[0]!, run[0]!)) {
      last.push(...run);
      taken += 1;
    } else {
      result.push([...run]);
      taken = 1;
    }
  }
  return result;
}

function placeOf(run: Member[], angle: number, centre: Point, radius: number, discPx: number): Place {
  const first = run[0]!;
  return {
    ...point(centre, angle, radius),
    ranks: run.map((one) => one.rank),
    hosts: [...new Set(run.flatMap((one) => (one.host === undefined ? [] : [one.host])))],
    role: first.role,
    dead: first.dead,
    unheard: first.unheard,
    folded: run.length > 1,
    radius: round(first.role === "culprit" ? Math.max(12, discPx * 1.25) : discPx),
  };
}

/** Each host's name once, beside its first place, where it does not cover another; a culprit's always. */
function label(places: Place[], centre: Point, radius: number): void {
  const taken: { left: number; right: number; y: number }[] = [];
  const named = new Set<string>();
  const first = places.filter((place) => place.role === "culprit");
  for (const place of [...first, ...places.filter((one) => one.role !== "culprit")]) {
    const name = place.hosts.length > 1 ? `${place.hosts[0]} …` : (place.hosts[0] ?? "");
    if (name === "" || named.has(name)) continue;
    const words = name.length > MAX_NAME_CHARS ? `…${name.slice(1 - MAX_NAME_CHARS)}` : name;
    const [sin, cos] = [(place.x - centre.x) / radius, (centre.y - place.y) / radius];
    const out = radius + place.radius + 10;
    const at = { x: round(centre.x + sin * out), y: round(centre.y - cos * out + 4 - cos * 4) };
    const anchor = Math.abs(sin) < 0.2 ? "middle" : sin > 0 ? "start" : "end";
    const widthPx = (words.length + 2) * CHAR_PX;
    const left = at.x - (anchor === "middle" ? widthPx / 2 : anchor === "end" ? widthPx : 0);
    const box = { left, right: left + widthPx, y: at.y };
    if (taken.some((one) => Math.abs(one.y - box.y) < LINE_PX && one.left < box.right && box.left < one.right)) continue;
    taken.push(box);
    named.add(name);
    place.label = { ...at, anchor, words };
  }
}
const LINE_PX = 14;

/** With more lines than this each waits for the nearest culprit only. */
const MAX_LINKS = 60;

/** Bent towards the middle, so that they run together. */
function linksOf(places: Place[], centre: Point): string[] {
  const culprits = places.filter((place) => place.role === "culprit");
  const waiting = places.filter((place) => place.role === "waiting");
  if (culprits.length === 0) return [];
  const far = (a: Point, b: Point) => Math.hypot(a.x - b.x, a.y - b.y);
  const few = waiting.length * culprits.length <= MAX_LINKS;
  return waiting.flatMap((from) => {
    const nearest = culprits.reduce((best, one) => (far(one, from) < far(best, from) ? one : best));
    return (few ? culprits : [nearest]).map((to) => {
      const middle = { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 };
      const bend = { x: middle.x + (centre.x - middle.x) * 0.55, y: middle.y + (centre.y - middle.y) * 0.55 };
      const [a, b] = [inward(from, bend, from.radius + 2), inward(to, bend, to.radius + 9)];
      return `M${a.x} ${a.y}Q${round(bend.x)} ${round(bend.y)} ${b.x} ${b.y}`;
    });
  });
}

/** On the way from a place to somewhere, so far out of it. */
function inward(from: Point, to: Point, outPx: number): Point {
  const length = Math.max(1, Math.hypot(to.x - from.x, to.y - from.y));
  return { x: round(from.x + ((to.x - from.x) / length) * outPx), y: round(from.y + ((to.y - from.y) / length) * outPx) };
}

export interface HostRow {
  host: string;
  role: Role;
  ranks: number[];
}

/** The same as a table: ranks by host and role, culprits first. */
export function hostRows(members: Member[]): HostRow[] {
  const rows = new Map<string, HostRow>();
  for (const { rank, host = "", role } of members) {
    const key = `${role} ${host}`;
    const row = rows.get(key) ?? { host, role, ranks: [] };
    row.ranks.push(rank);
    rows.set(key, row);
  }
  return [...rows.values()].sort((a, b) => ROLES.indexOf(a.role) - ROLES.indexOf(b.role) || a.ranks[0]! - b.ranks[0]!);
}
const ROLES: Role[] = ["culprit", "absent", "waiting", "other"];

/** "31 of 32 ranks wait, on 8 hosts". */
export function waitingSentence(members: Member[]): string {
  const waiting = members.filter((one) => one.role === "waiting");
  if (waiting.length === 0) return "";
  const hosts = new Set(waiting.map((one) => one.host)).size;
  return `${integer(waiting.length)} of ${plural(members.length, "rank")} ${waiting.length === 1 ? "waits" : "wait"}, on ${plural(hosts, "host")}`;
}

/** What a place stands for, for a pointer or a reader. */
export function placeWords({ ranks, hosts, role, dead, unheard }: Place): string {
  const who = `${ranks.length === 1 ? "rank" : "ranks"} ${rankRanges(ranks, 6)}`;
  const where = hosts.length === 0 ? "" : hosts.length === 1 ? ` on ${hosts[0]}` : ` on ${plural(hosts.length, "host")}, ${hosts[0]} to ${hosts.at(-1)}`;
  return `${who}${where}: ${dead ? "gone" : unheard ? ROLE_WORDS.absent : ROLE_WORDS[role]}`;
}

export const ROLE_WORDS: Record<Role, string> = {
  culprit: "waited for",
  waiting: "waits",
  absent: "never heard of",
  other: "takes no part in it",
};
