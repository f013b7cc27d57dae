/**
 * Workers on the left, services on the right, and what flows between them as bands: as wide as their bytes per second, one
 * above the other where they meet, so that a node is as high as all that it moves. Pure.
 */

import type { SummationFlow, SummationGroupDetail } from "../../api";
import { round } from "../circle";
import { serviceName } from "./words";
import type { ServiceState, Troubles, WorkerState } from "./trouble";

/** More on a side are a matrix: bands that thin tell nothing. */
export const MAX_A_SIDE = 24;

export function fits(group: SummationGroupDetail): boolean {
  return group.workers.length <= MAX_A_SIDE && group.services.length <= MAX_A_SIDE;
}

export interface Node {
  side: "worker" | "service";
  /** Index of a worker, number of a service. */
  number: number;
  /** Middle, and where its bar begins and ends. */
  y: number;
  top: number;
  bottom: number;
  name: string;
  /** Without its domain, and cut at its beginning where it is long. */
  host: string;
  state: WorkerState | ServiceState;
}

export interface ServiceNode extends Node {
  side: "service";
  role: "server" | "worker";
  share: number;
  optimal: number;
  /** Pixels from where share bars begin. */
  sharePx: number;
  optimalPx: number;
}

export type BandState = "flows" | "idle" | "behind" | "waited" | "lost" | "own";

export interface Band {
  worker: number;
  service: number;
  path: string;
  px: number;
  state: BandState;
}

export interface Picture {
  widthPx: number;
  heightPx: number;
  /** Names in one line: rows are close. */
  dense: boolean;
  /** Share bars stand below their names: a telephone. */
  narrow: boolean;
  workers: Node[];
  services: ServiceNode[];
  bands: Band[];
  /** Where bars of workers and services stand, and where share bars and their numbers begin. */
  x: { worker: number; service: number; share: number; number: number };
  /** Where a caption stands above the servers, and above the workers' own services. */
  captions: { y: number; words: string }[];
}

const NARROW_PX = 620;
const HEAD_PX = 26;
const CAPTION_PX = 24;
/** Of a row, what its bar may fill. */
const FILL = 0.78;
/** A flow of nothing is a line all the same. */
const MIN_BAND_PX = 0.7;
/** What holds the others up is seen however little it moves. */
const MIN_TROUBLED_PX = 1.8;
const TROUBLED: ReadonlySet<BandState> = new Set(["behind", "waited", "lost"]);
export const BAR_PX = 7;

export function picture(group: SummationGroupDetail, troubles: Troubles, widthPx: number): Picture {
  const narrow = widthPx < NARROW_PX;
  const { services, workers } = group;
  const servers = services.filter((one) => one.role === "server").length;
  const captions = Number(servers > 0) + Number(services.length > servers);
  const step = rowPx(services.length, narrow);
  const heightPx = Math.round(HEAD_PX + captions * CAPTION_PX + step * services.length + 4);
  const x = columns(widthPx, narrow);
  const perByte = scale(group, (heightPx - HEAD_PX) / Math.max(1, workers.length), step);

  const flowsOf = { worker: by(group.flows, (one) => one.worker), service: by(group.flows, (one) => one.service) };
  const heightOf = (flows: SummationFlow[]) => Math.max(3, flows.reduce((sum, one) => sum + bandPx(one, perByte), 0));
  const widest = Math.max(1e-9, ...services.map((one) => Math.max(one.share, one.optimal_share)));
  const shareRoom = x.number - x.share - 8;
  const hostChars = narrow ? 11 : 16;
  const dense = step < 34;

  const workerStep = (heightPx - HEAD_PX) / Math.max(1, workers.length);
  const left = workers.map((worker, i): Node => ({
    side: "worker", number: worker.index, ...span(HEAD_PX + workerStep * (i + 0.5), heightOf(flowsOf.worker.get(worker.index) ?? [])),
    name: narrow ? `w ${worker.index}` : `worker ${worker.index}`, host: cut(worker.host, hostChars), state: troubles.workers.get(worker.index) ?? "ok",
  }));
  const places: Picture["captions"] = [];
  let y = HEAD_PX;
  const right = services.map((service, i): ServiceNode => {
    if (i === 0 || service.role !== services[i - 1]!.role) {
      places.push({ y: y + CAPTION_PX - 8, words: service.role === "server" ? "Servers" : "The workers’ own services" });
      y += CAPTION_PX;
    }
    y += step;
    return {
      side: "service", number: service.service, role: service.role, ...span(y - step / 2, heightOf(flowsOf.service.get(service.service) ?? [])),
      name: service.role === "server" ? serviceName(service) : `of worker ${service.index}`, // A worker's host stands on the other side.
      host: dense && service.role === "worker" ? "" : cut(service.host, hostChars), state: troubles.services.get(service.service) ?? "ok",
      share: service.share, optimal: service.optimal_share,
      sharePx: round((service.share / widest) * shareRoom), optimalPx: round((service.optimal_share / widest) * shareRoom),
    };
  });
  return {
    widthPx, heightPx, narrow, dense, workers: left, services: right, x, captions: places,
    bands: bands({ group, troubles, left, right, x, perByte }),
  };
}

/** Few rows are high, so that the picture of a small group is no strip. */
function rowPx(n: number, narrow: boolean): number {
  const least = narrow ? 36 : 24;
  return Math.max(least, Math.min(56, 400 / Math.max(1, n)));
}

function columns(widthPx: number, narrow: boolean): Picture["x"] {
  if (narrow) {
    const share = widthPx - 118;
    return { worker: 76, service: share - 16, share, number: widthPx - 46 };
  }
  const share = widthPx - 220;
  return { worker: 128, service: share - 150, share, number: widthPx - 92 };
}

/** Pixels per byte per second at which the highest node still fits in its row. */
function scale(group: SummationGroupDetail, workerStep: number, serviceStep: number): number {
  const room = (flows: Map<number, SummationFlow[]>, step: number) =>
    Math.min(...[...flows.values()].map((all) => (step * FILL) / Math.max(1e-9, all.reduce((sum, one) => sum + rate(one), 0))));
  return Math.min(room(by(group.flows, (one) => one.worker), workerStep), room(by(group.flows, (one) => one.service), serviceStep));
}

function rate(flow: SummationFlow): number {
  return flow.push_bytes_per_s + flow.pull_bytes_per_s;
}

function bandPx(flow: SummationFlow, perByte: number): number {
  return Math.max(MIN_BAND_PX, rate(flow) > 0 ? rate(flow) * perByte : 0);
}

function by(flows: SummationFlow[], of: (flow: SummationFlow) => number): Map<number, SummationFlow[]> {
  const found = new Map<number, SummationFlow[]>();
  for (const flow of flows) found.set(of(flow), [...(found.get(of(flow)) ?? []), flow]);
  return found;
}

function span(y: number, height: number): { y: number; top: number; bottom: number } {
  return { y: round(y), top: round(y - height / 2), bottom: round(y + height / 2) };
}

/** Its own name; what follows the first dot is the domain's. */
function cut(host: string, chars: number): string {
  const own = host.split(".", 1)[0]!;
  return own.length > chars ? `…${own.slice(1 - chars)}` : own;
}

/** Each node hands out its height from top to bottom, in the order of the other side: bands of one node do not cross there. */
function bands(of: { group: SummationGroupDetail; troubles: Troubles; left: Node[]; right: ServiceNode[]; x: Picture["x"]; perByte: number }): Band[] {
  const { group, troubles, left, right, x, perByte } = of;
  const workers = new Map(left.map((node) => [node.number, { node, at: node.top }]));
  const services = new Map(right.map((node) => [node.number, { node, at: node.top }]));
  const sorted = [...group.flows].sort((a, b) => a.worker - b.worker || a.service - b.service);
  const waited = new Set(group.waits.filter((wait) => wait.for_push).flatMap((wait) => wait.workers.map((worker) => `${worker} ${wait.service}`)));
  return sorted.flatMap((flow): Band[] => {
    const from = workers.get(flow.worker);
    const to = services.get(flow.service);
    if (from === undefined || to === undefined) return [];
    const px = bandPx(flow, perByte);
    const [a, b] = [round(from.at + px / 2), round(to.at + px / 2)];
    from.at += px;
    to.at += px;
    const [x0, x1] = [x.worker + BAR_PX, x.service];
    const bend = round((x1 - x0) * 0.45);
    const state = stateOf(flow, group, troubles, to.node, waited);
    return [{ worker: flow.worker, service: flow.service, px: round(TROUBLED.has(state) ? Math.max(px, MIN_TROUBLED_PX) : px), path: `M${x0} ${a}C${x0 + bend} ${a} ${x1 - bend} ${b} ${x1} ${b}`, state }];
  });
}

/** Bytes issued and not sent for longer than this are a queue, not a pipeline. */
const BEHIND_S = 1;

function stateOf(flow: SummationFlow, group: SummationGroupDetail, troubles: Troubles, service: ServiceNode, waited: Set<string>): BandState {
  const worker = troubles.workers.get(flow.worker);
  if (worker === "lost" || service.state === "lost") return "lost";
  if (worker === "waited" && waited.has(`${flow.worker} ${flow.service}`)) return "waited";
  if (flow.push_backlog_bytes > Math.max(group.partition_bytes, flow.push_bytes_per_s * BEHIND_S)) return "behind";
  if (rate(flow) === 0) return "idle";
  return service.role === "worker" && group.services.find((one) => one.service === flow.service)?.index === flow.worker ? "own" : "flows";
}
