/** Arrow keys over the picture of a group: up and down along a side, left to the workers, right to the services. Pure. */

import type { SummationGroupDetail } from "../../api";
import { step } from "../search";

/** What is pointed at: a worker, a service, or what flows between them. */
export interface Pointed {
  worker?: number | undefined;
  service?: number | undefined;
}

/** Undefined: not a key for this. */
export function walk(key: string, at: Pointed, group: SummationGroupDetail, matrix: boolean): Pointed | undefined {
  if (key === "Escape") return {};
  const workers = group.workers.map((one) => one.index);
  const services = group.services.map((one) => one.service);
  const go = (all: number[], from: number | undefined, by: number) => all[step(from === undefined ? -1 : all.indexOf(from), by, all.length)];
  const by = key === "ArrowDown" || key === "ArrowRight" ? 1 : key === "ArrowUp" || key === "ArrowLeft" ? -1 : 0;
  const down = key === "ArrowDown" || key === "ArrowUp";
  if (by === 0) return undefined;
  if (matrix) return down ? { ...at, worker: go(workers, at.worker, by) } : { ...at, service: go(services, at.service, by) };
  const onServices = at.service !== undefined && at.worker === undefined;
  if (down) return onServices ? { service: go(services, at.service, by) } : { worker: go(workers, at.worker, by) };
  if (key === "ArrowRight") return onServices ? at : { service: services[across(at.worker, workers, services)] };
  return onServices ? { worker: workers[across(at.service, services, workers)] } : at.worker === undefined ? { worker: workers[0] } : at;
}

/** The one about as far down on the other side. */
function across(at: number | undefined, from: number[], to: number[]): number {
  const place = at === undefined ? 0 : Math.max(0, from.indexOf(at));
  return Math.min(to.length - 1, Math.round((place / Math.max(1, from.length - 1)) * Math.max(0, to.length - 1)));
}
