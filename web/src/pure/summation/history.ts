/** A summation group over time: lines of services, and what they received against their optimum. Pure. */

import type { SummationGroupDetail, SummationSeries, SummationSeriesLine } from "../../api";
import type { CsvValue } from "../csv";
import { integer } from "../format";
import type { KeyedLine } from "../series";
import { serviceName } from "./words";

/** Shares are kept in millionths. */
const PPM = 1_000_000;

/** Lines by what people call the service; `all`: what the line over all services is called. */
export function named(lines: SummationSeriesLine[], group: Pick<SummationGroupDetail, "services">, all: string): KeyedLine[] {
  return lines.map((line) => ({ key: line.service === undefined ? all : nameOf(line, group), values: line.values }));
}

/** "server 0 on sum-0". A service that the group no longer has keeps its number. */
function nameOf({ service, host }: SummationSeriesLine, { services }: Pick<SummationGroupDetail, "services">): string {
  const known = services.find((one) => one.service === service);
  const name = known === undefined ? `service ${service}` : serviceName(known);
  return host === undefined || host === "" ? name : `${name} on ${host}`;
}

/**
 * What each service received in each step as a multiple of what it should: 1 is its optimum. Not known where nothing moved,
 * and of a service that should own nothing.
 */
export function againstOptimum(received: SummationSeries, optimum: SummationSeries | undefined): SummationSeriesLine[] {
  const all = received.times_ms.map((_, i) => received.lines.reduce((sum, line) => sum + (line.values[i] ?? 0), 0));
  const at = new Map((optimum?.times_ms ?? []).map((ms, i) => [ms, i]));
  return received.lines.map((line) => {
    const best = optimum?.lines.find((one) => one.service === line.service && one.host === line.host)?.values;
    return {
      ...line,
      values: line.values.map((value, i) => {
        const ppm = best?.[at.get(received.times_ms[i]!) ?? -1];
        return value == null || ppm == null || ppm === 0 || all[i]! <= 0 ? null : (value / all[i]!) / (ppm / PPM);
      }),
    };
  });
}

/** "1.27 ×". */
export function multiple(value: number): string {
  return `${value.toFixed(2)} ×`;
}

/** "1 312 /s", "0.4 /s". */
export function perSecond(value: number): string {
  return `${value > 0 && value < 10 ? value.toFixed(1) : integer(value)} /s`;
}

/** As rows of a CSV. */
export function historyRows(timesMs: number[], lines: KeyedLine[]): CsvValue[][] {
  return [["time", ...lines.map((line) => line.key)], ...timesMs.map((ms, i) => [new Date(ms).toISOString(), ...lines.map((line) => line.values[i])])];
}
