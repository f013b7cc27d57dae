/** Lifetimes of communicators and findings as bars in lanes, over a time range. Places are shares of the width, 0 to 1. Pure. */

import type { CommunicatorSummary, Condition, Finding } from "../api";
import { byWeight } from "./choose";
import { stem } from "./compare";
import { kindName, type FindingGroup } from "./findings";
import { list } from "./format";
import { distinctNames } from "./names";

export type Tone = "ok" | "unknown" | "ended" | "broken" | "info" | "warning" | "critical";

export interface Bar {
  id: string;
  label: string;
  from: number;
  to: number;
  fromMs: number;
  /** Absent: still so. */
  toMs?: number;
  tone: Tone;
}

export interface Lane {
  label: string;
  bars: Bar[];
}

export interface Lanes {
  lanes: Lane[];
  /** What there was no lane for. */
  hidden: number;
}

export interface Range {
  fromMs: number;
  toMs: number;
}

/** A job of many groups has hundreds of communicators: the weightiest are drawn, the rest counted. */
export const MAX_LANES = 16;
/** A shorter bar could not be seen, nor pointed at. */
const MIN_SHARE = 0.004;

/** Those of one name follow each other in one lane; what overlaps gets another. */
export function communicatorLanes(communicators: CommunicatorSummary[], range: Range): Lanes {
  const names = distinctNames(communicators);
  const seen = [...communicators].sort(byWeight).filter((one) => overlaps(Date.parse(one.created), endOf(one.ended), range));
  return pack(seen.map((one) => ({
    lane: stem(one.name) || `${one.n_ranks} ranks`,
    bar: bar(one.id, names.get(one.id)!, Date.parse(one.created), endOf(one.ended), tone(one), range),
  })));
}

/** `short`: words with hosts as lists call them. */
export function findingLanes(groups: FindingGroup[], range: Range, short: (words: string) => string = (words) => words): Lanes {
  const items = groups.flatMap((group) => {
    const { first, all, hosts } = group;
    const from = Math.min(...all.map((one) => Date.parse(one.first_seen)));
    const to = first.state === "firing" ? undefined : Math.max(...all.map(lastOf));
    if (!overlaps(from, to, range)) return [];
    return [{ lane: kindName(first.finding), bar: bar(first.id, short(label(first, hosts)), from, to, first.severity, range) }];
  });
  return pack(items);
}

/** Its hosts stand before what it says, but where it names them itself. */
function label({ message }: Finding, hosts: string[]): string {
  const named = hosts.filter((one) => one !== "");
  return named.length === 0 || (named.length === 1 && message.includes(named[0]!)) ? message : `${list(named, 3)}: ${message}`;
}

function lastOf(finding: Finding): number {
  return Date.parse(finding.resolved_at ?? finding.last_seen);
}

function endOf(ended: string | undefined): number | undefined {
  return ended === undefined ? undefined : Date.parse(ended);
}

const TONES: Record<Condition, Tone> = { healthy: "ok", unknown: "unknown", degraded: "warning", hung: "critical", failed: "broken" };

function tone(one: CommunicatorSummary): Tone {
  if (one.state === "broken") return "broken";
  if (one.state === "ended") return "ended";
  return TONES[one.standing.condition];
}

function overlaps(fromMs: number, toMs: number | undefined, range: Range): boolean {
  return fromMs <= range.toMs && (toMs ?? Infinity) >= range.fromMs;
}

function bar(id: string, label: string, fromMs: number, toMs: number | undefined, tone: Tone, range: Range): Bar {
  const share = (ms: number) => Math.max(0, Math.min(1, (ms - range.fromMs) / Math.max(1, range.toMs - range.fromMs)));
  const to = Math.max(share(toMs ?? range.toMs), MIN_SHARE);
  return { id, label, from: Math.min(share(fromMs), to - MIN_SHARE), to, fromMs, ...(toMs === undefined ? {} : { toMs }), tone };
}

/** In the order given: each into the first lane of its name that has room. */
function pack(items: { lane: string; bar: Bar }[]): Lanes {
  const lanes: Lane[] = [];
  let hidden = 0;
  for (const { lane: label, bar } of items) {
    const room = lanes.find((lane) => lane.label === label && lane.bars.every((one) => bar.from >= one.to || bar.to <= one.from));
    if (room !== undefined) room.bars.push(bar);
    else if (lanes.length < MAX_LANES) lanes.push({ label, bars: [bar] });
    else hidden += 1;
  }
  for (const lane of lanes) lane.bars.sort((a, b) => a.from - b.from);
  return { lanes, hidden };
}

const STEPS_S = [1, 5, 10, 30, 60, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800];

/** Round moments of the range, at most `max` of them. */
export function ticks({ fromMs, toMs }: Range, max: number): { at: number; ms: number }[] {
  const spanMs = Math.max(1, toMs - fromMs);
  const stepMs = (STEPS_S.find((step) => Math.floor(spanMs / (step * 1000)) < max) ?? spanMs / 1000 / (max - 1)) * 1000;
  const result = [];
  for (let ms = Math.ceil(fromMs / stepMs) * stepMs; ms <= toMs; ms += stepMs) result.push({ at: (ms - fromMs) / spanMs, ms });
  return result;
}
