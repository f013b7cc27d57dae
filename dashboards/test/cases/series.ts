/** Series that cases are made of. */

import type { Series } from "../promtool.js";

export const instance = "d:9440";
export const job = "train";
export const comm = "f1";
export const host = "host-2";
/** Host, communicator and job that most cases are about. */
export const here = { instance, job, comm, host };

/** Ten minutes of it. */
export const STEADY = "x120";

/** A finding or an incident that goes on and that somebody has silenced. */
export const SILENCED = `0${STEADY}`;

export function series(name: string, labels: Record<string, string>, values: string): Series {
  const text = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  return { [`${name}{${text.join(",")}}`]: values };
}

/** What each host found and runs on; `N` in `samples` stands for the number. */
export function channels(found: Record<string, number>, final: number, samples = `N${STEADY}`): Series {
  const of = (value: number) => samples.replaceAll("N", String(value));
  const hosts = Object.entries(found).map(([host, init]) => ({
    ...series("ringscope_init_channels", { ...here, host }, of(init)),
    ...series("ringscope_final_channels", { ...here, host }, of(final)),
  }));
  const ranks = series("ringscope_communicator_ranks", { instance, job, comm }, of(8));
  return Object.assign(ranks, ...hosts) as Series;
}

export function finding(
  kind: string,
  cause: string,
  severity: string,
  labels: Record<string, string> = here,
  samples = `1${STEADY}`,
): Series {
  return series("ringscope_finding", { ...labels, finding: kind, cause, severity }, samples);
}
