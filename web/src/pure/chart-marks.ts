/** What happened while a line was drawn: findings, rings, levels and beginnings of jobs, as marks on the time axis. Pure. */

import type { CommunicatorSummary, Finding, Job, JobLevel, Severity } from "../api";
import { group } from "./findings";

export interface ChartMark {
  ms: number;
  kind: "finding" | "ring" | "level" | "job";
  severity?: Severity;
  words: string;
}

/** More marks than this are a curtain before the lines: the worst stay. */
export const MAX_MARKS = 40;
/** Marks nearer to the pointer than this share of the chart are read out. */
const NEAR_SHARE = 0.012;

/** What the API tells of a job, or of everything. */
export interface Happenings {
  findings?: Finding[];
  communicators?: CommunicatorSummary[];
  jobs?: Job[];
  level?: JobLevel | undefined;
  nameOf?: (comm: string) => string;
}

export function marks({ findings = [], communicators = [], jobs = [], level, nameOf = (id) => id }: Happenings, fromMs: number, toMs: number): ChartMark[] {
  const all: ChartMark[] = [
    ...group(findings).flatMap(({ first, all }): ChartMark[] => {
      const ms = Math.min(...all.map((one) => Date.parse(one.began_at ?? one.first_seen)));
      return [
        { ms, kind: "finding", severity: first.severity, words: first.message },
        ...(first.resolved_at == null ? [] : [{ ms: Date.parse(first.resolved_at), kind: "finding" as const, severity: "info" as const, words: `over: ${first.message}` }]),
      ];
    }),
    ...together(communicators.map((one) => ({ ms: Date.parse(one.created), id: one.id })), "made its rings", "communicators made their rings", nameOf),
    ...together(communicators.flatMap((one) => (one.ended === undefined ? [] : [{ ms: Date.parse(one.ended), id: one.id }])), "gave up its rings", "communicators gave up their rings", nameOf),
    ...jobs.map((one): ChartMark => ({ ms: Date.parse(one.first_seen), kind: "job", words: `job ${one.id} began` })),
    ...(level?.wished_at == null || level.wish == null ? [] : [{ ms: Date.parse(level.wished_at), kind: "level" as const, words: `level ${level.wish} was asked for` }]),
  ];
  const seen = all.filter(({ ms }) => ms >= fromMs && ms <= toMs);
  const kept = seen.length <= MAX_MARKS ? seen : [...seen].sort((a, b) => weight(b) - weight(a)).slice(0, MAX_MARKS);
  return kept.sort((a, b) => a.ms - b.ms);
}

/** Programs make dozens of communicators in a row: those of one second are one mark. */
function together(items: { ms: number; id: string }[], one: string, many: string, nameOf: (comm: string) => string): ChartMark[] {
  const bySecond = new Map<number, { ms: number; ids: string[] }>();
  for (const { ms, id } of items) {
    const at = bySecond.get(Math.floor(ms / 1000));
    if (at === undefined) bySecond.set(Math.floor(ms / 1000), { ms, ids: [id] });
    else at.ids.push(id);
  }
  return [...bySecond.values()].map(({ ms, ids }) => ({ ms, kind: "ring", words: ids.length === 1 ? `${nameOf(ids[0]!)} ${one}` : `${ids.length} ${many}` }));
}

function weight({ kind, severity }: ChartMark): number {
  if (kind === "finding") return severity === "critical" ? 5 : severity === "warning" ? 4 : 1;
  return kind === "level" || kind === "job" ? 3 : 2;
}

/** Those beside a moment, in words; "" where there are none. */
export function markWords(all: ChartMark[], ms: number, fromMs: number, toMs: number): string {
  return all.filter((one) => Math.abs(one.ms - ms) <= (toMs - fromMs) * NEAR_SHARE).slice(0, 3).map(({ words }) => words).join("; ");
}
