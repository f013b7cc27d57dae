/**
 * A large group as a matrix: workers down, services across, with what services own above and how often workers come last
 * beside it. Neighbours share a cell where there is no room for each. Pure.
 */

import type { SummationFlow, SummationGroupDetail } from "../../api";
import { round } from "../circle";
import type { ServiceState, Troubles, WorkerState } from "./trouble";

export const SHADES = ["rate", "backlog"] as const;
export type Shade = (typeof SHADES)[number];
export const SHADE_NAMES: Record<Shade, string> = { rate: "Bytes/s", backlog: "Backlog" };

export interface Line {
  /** Indices of workers, or numbers of services, that share it. */
  members: number[];
  /** The one that is named: in the worst trouble, else the first. */
  member: number;
  at: number;
  px: number;
  state: WorkerState | ServiceState;
  /** Rows: the largest part of rounds in which one came last. Columns: the largest share. */
  value: number;
  valuePx: number;
  /** Columns: the optimum, as high as this. */
  optimalPx: number;
}

export interface Matrix {
  widthPx: number;
  heightPx: number;
  rows: Line[];
  columns: Line[];
  /** A path of all its cells per step of shade, 0 (nothing) to 4. */
  cells: string[];
  /** Cells that mean nothing any more: of who is lost. */
  lost: string;
  /** The largest value of a cell, in the shade's unit. */
  top: number;
  /** Where cells begin and end. */
  box: { x: number; y: number; right: number; bottom: number };
  /** Rounds in which a worker comes last if all are alike, pixels from the right side of the cells. */
  fairPx: number;
  captions: { x: number; words: string }[];
  /** Numbers beside rows. */
  ticks: { y: number; words: string }[];
}

const HEAD_PX = 96;
const FOOT_PX = 22;
const MIN_CELL_PX = 3;
const MAX_CELL_PX = 13;
const GAP_PX = 8;

export function matrix(group: SummationGroupDetail, troubles: Troubles, widthPx: number, shade: Shade): Matrix {
  const narrow = widthPx < 520;
  const box = { x: narrow ? 34 : 52, y: HEAD_PX, right: widthPx - (narrow ? 44 : 96), bottom: 0 };
  const servers = group.services.filter((one) => one.role === "server");
  const own = group.services.filter((one) => one.role === "worker");
  const columns = columnsOf(group, troubles, box, [servers.map((one) => one.service), own.map((one) => one.service)]);
  const rows = rowsOf(group, troubles, box.y);
  const last = rows.at(-1);
  box.bottom = last === undefined ? HEAD_PX : last.at + last.px;
  box.right = Math.min(box.right, (columns.at(-1)?.at ?? 0) + (columns.at(-1)?.px ?? 0));
  const most = Math.max(1e-9, ...rows.map((row) => row.value));
  const room = widthPx - box.right - 12;
  return {
    widthPx, heightPx: Math.ceil(box.bottom + FOOT_PX), rows: rows.map((row) => ({ ...row, valuePx: round((row.value / most) * room) })), columns, box,
    ...cellsOf(group, troubles, rows, columns, shade),
    fairPx: round((1 / Math.max(1, group.workers.length) / most) * room),
    captions: captionsOf(columns, servers.length, own.length, narrow),
    ticks: ticksOf(rows),
  };
}

/** As many members to a line that it is wide enough to see; no line has members of two kinds. */
function perLine(kinds: number[], roomPx: number): { each: number; px: number } {
  const n = kinds.reduce((sum, one) => sum + one, 0);
  const each = Math.max(1, Math.ceil((n * MIN_CELL_PX) / Math.max(1, roomPx)));
  const lines = kinds.reduce((sum, one) => sum + Math.ceil(one / each), 0);
  return { each, px: Math.min(MAX_CELL_PX, roomPx / Math.max(1, lines)) };
}

function chunks(all: number[], each: number): number[][] {
  return Array.from({ length: Math.ceil(all.length / each) }, (_, i) => all.slice(i * each, (i + 1) * each));
}

/** Servers, a gap, the workers' own services. */
function columnsOf(group: SummationGroupDetail, troubles: Troubles, box: Matrix["box"], kinds: number[][]): Line[] {
  const gap = kinds.every((kind) => kind.length > 0) ? GAP_PX : 0;
  const { each, px } = perLine(kinds.map((kind) => kind.length), box.right - box.x - gap);
  const byNumber = new Map(group.services.map((one) => [one.service, one]));
  const widest = Math.max(1e-9, ...group.services.map((one) => Math.max(one.share, one.optimal_share)));
  const scale = (value: number) => round((value / widest) * (HEAD_PX - 46));
  let at = box.x;
  return kinds.flatMap((kind, i) => {
    if (i > 0) at += gap;
    return chunks(kind, each).map((members): Line => {
      const all = members.map((one) => byNumber.get(one)!);
      const value = Math.max(...all.map((one) => one.share));
      const line = {
        members, at: round(at), px: round(px), ...worst(members, troubles.services), value,
        valuePx: scale(value), optimalPx: scale(Math.max(...all.map((one) => one.optimal_share))),
      };
      at += px;
      return line;
    });
  });
}

/** Rows of a group of many are as low as a cell may be: the whole of it fits on a screen. */
const MAX_HEIGHT_PX = 420;

function rowsOf(group: SummationGroupDetail, troubles: Troubles, topPx: number): Line[] {
  const { each, px } = perLine([group.workers.length], MAX_HEIGHT_PX);
  const byIndex = new Map(group.workers.map((one) => [one.index, one]));
  return chunks(group.workers.map((one) => one.index), each).map((members, i) => ({
    members, at: round(topPx + i * px), px: round(px), ...worst(members, troubles.workers),
    value: Math.max(...members.map((one) => byIndex.get(one)!.last_share)), valuePx: 0, optimalPx: 0,
  }));
}

const STATES: (WorkerState | ServiceState)[] = ["lost", "waited", "over", "late", "ok"];

function worst(members: number[], troubles: Map<number, WorkerState | ServiceState>): Pick<Line, "member" | "state"> {
  const state = STATES.find((one) => members.some((member) => troubles.get(member) === one)) ?? "ok";
  return { state, member: members.find((member) => (troubles.get(member) ?? "ok") === state) ?? members[0]! };
}

export function valueOf(flow: SummationFlow, shade: Shade): number {
  return shade === "backlog" ? flow.push_backlog_bytes : flow.push_bytes_per_s + flow.pull_bytes_per_s;
}

/** A cell of several is as dark as their mean rate, or as their largest backlog: one that lags must not vanish among others. */
function cellsOf(group: SummationGroupDetail, troubles: Troubles, rows: Line[], columns: Line[], shade: Shade): Pick<Matrix, "cells" | "lost" | "top"> {
  const rowOf = placeOf(rows);
  const columnOf = placeOf(columns);
  const sums = new Float64Array(rows.length * columns.length);
  const counts = new Uint32Array(sums.length);
  for (const flow of group.flows) {
    const row = rowOf.get(flow.worker);
    const column = columnOf.get(flow.service);
    if (row === undefined || column === undefined) continue;
    const cell = row * columns.length + column;
    const value = valueOf(flow, shade);
    counts[cell]! += 1;
    sums[cell] = shade === "backlog" ? Math.max(sums[cell]!, value) : sums[cell]! + value;
  }
  const valueAt = (cell: number) => (shade === "backlog" ? sums[cell]! : sums[cell]! / Math.max(1, counts[cell]!));
  let top = 0;
  for (let cell = 0; cell < sums.length; cell += 1) top = Math.max(top, valueAt(cell));
  const cells = ["", "", "", "", ""];
  let lost = "";
  rows.forEach((row, i) => {
    columns.forEach((column, j) => {
      const square = `M${column.at} ${row.at}h${round(column.px - gapOf(column.px))}v${round(row.px - gapOf(row.px))}h${round(gapOf(column.px) - column.px)}z`;
      if (wholly(row, troubles.workers) || wholly(column, troubles.services)) lost += square;
      else cells[step(valueAt(i * columns.length + j), top)] += square;
    });
  });
  return { cells, lost, top };
}

function gapOf(px: number): number {
  return px >= 6 ? 1 : px >= 3 ? 0.5 : 0;
}

function wholly(line: Line, states: Map<number, WorkerState | ServiceState>): boolean {
  return line.members.every((one) => states.get(one) === "lost");
}

function placeOf(lines: Line[]): Map<number, number> {
  return new Map(lines.flatMap((line, i) => line.members.map((one) => [one, i] as const)));
}

function step(value: number, top: number): number {
  return value <= 0 || top <= 0 ? 0 : Math.max(1, Math.min(4, Math.ceil((value / top) * 4)));
}

function captionsOf(columns: Line[], servers: number, own: number, narrow: boolean): Matrix["captions"] {
  const firstOwn = columns.find((column) => (column.members[0] ?? 0) >= servers);
  return [
    ...(servers > 0 ? [{ x: columns[0]!.at, words: narrow ? `${servers} srv` : `${servers} servers` }] : []),
    ...(own > 0 && firstOwn !== undefined ? [{ x: firstOwn.at, words: `${own} workers’ own` }] : []),
  ];
}

/** A number so often that it has room. */
const TICK_PX = 30;

function ticksOf(rows: Line[]): Matrix["ticks"] {
  const px = rows[0]?.px ?? 1;
  const every = [1, 2, 4, 8, 16, 32, 64, 128, 256].find((n) => n * px >= TICK_PX) ?? 512;
  const marked = rows.filter((row) => row.state !== "ok");
  const free = (row: Line) => marked.every((one) => Math.abs(one.at - row.at) > TICK_PX / 2);
  return rows.flatMap((row, i) => (i % every === 0 && free(row) ? [{ y: round(row.at + Math.max(px, 8) / 2 + 3), words: String(row.members[0]) }] : []));
}

/** What lies under a point: members of a row and of a column. */
export function under(drawn: Matrix, x: number, y: number): { row: Line | undefined; column: Line | undefined } {
  const hit = (lines: Line[], at: number) => lines.find((line) => at >= line.at && at < line.at + line.px);
  return { row: hit(drawn.rows, y), column: hit(drawn.columns, x) };
}
