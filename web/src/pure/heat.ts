/** Hosts as a map of cells: racks as they are named, the part of a name that tells its cell apart, a shade for a number. Pure. */

import type { HostSummary } from "../api";
import { bandwidth, integer } from "./format";
import { byName } from "./names";

export const SHADES = ["bandwidth", "channels", "nics"] as const;
export type Shade = (typeof SHADES)[number];
export const SHADE_NAMES: Record<Shade, string> = { bandwidth: "Bandwidth", channels: "Init channels", nics: "NICs down" };

export interface Cell {
  host: HostSummary;
  short: string;
}

export interface Rack {
  /** What all its names begin with, or its first and last name. */
  label: string;
  cells: Cell[];
}

/** A rack in a row; more are cut into blocks of as many as people count in. */
const MAX_RACK = 32;
const BLOCK = 20;

/** Racks by the names' own numbers: gpu-r05n14 stands in gpu-r05; host-17 in host-0 … host-19. */
export function racks(hosts: HostSummary[]): Rack[] {
  const sorted = [...hosts].sort((a, b) => byName(a.host, b.host));
  const byPrefix = new Map<string, Cell[]>();
  for (const host of sorted) {
    const { prefix, short } = split(host.host);
    const cells = byPrefix.get(prefix);
    if (cells === undefined) byPrefix.set(prefix, [{ host, short }]);
    else cells.push({ host, short });
  }
  const found: Rack[] = [];
  const loose: Cell[] = [];
  for (const [prefix, cells] of byPrefix) {
    if (cells.length === 1) loose.push({ ...cells[0]!, short: tail(cells[0]!.host.host) });
    else if (cells.length <= MAX_RACK) found.push({ label: prefix.replace(/[-_.]$/, "").replace(/[-_.]?[a-z]$/i, (tail) => (/\d/.test(prefix) ? "" : tail)) || prefix, cells });
    else found.push(...blocks(prefix, cells));
  }
  return loose.length === 0 ? found : [...found, ...chunks(loose).map((cells) => ({ label: "", cells }))];
}

/** Characters of a name that a cell holds. */
const MAX_SHORT = 6;

/** As many of the last words of a name as a cell holds: "17" of gpu-node-17, and not "ode-17". */
function tail(name: string): string {
  const end = name.slice(-MAX_SHORT);
  if (end === name || /[-_.]/.test(name.at(-MAX_SHORT - 1) ?? "")) return end;
  const cut = end.search(/[-_.][^-_.]/);
  return cut < 0 ? end : end.slice(cut + 1);
}

/** The last number of the host's own name; what follows the first dot is the domain's. */
function split(name: string): { prefix: string; short: string } {
  const own = name.split(".", 1)[0]!;
  const found = /^(.*?)(\d+)$/.exec(own);
  return found === null ? { prefix: own, short: own.slice(-MAX_SHORT) } : { prefix: found[1]!, short: found[2]!.slice(-MAX_SHORT) };
}

function blocks(prefix: string, cells: Cell[]): Rack[] {
  return chunks(cells).map((block) => ({ label: `${prefix}${block[0]!.short}…`, cells: block }));
}

function chunks(cells: Cell[]): Cell[][] {
  return Array.from({ length: Math.ceil(cells.length / BLOCK) }, (_, i) => cells.slice(i * BLOCK, (i + 1) * BLOCK));
}

export interface Scale {
  /** 0 (least) to 4; null: not known. */
  heat: (host: HostSummary) => number | null;
  low: string;
  high: string;
}

export function scale(hosts: HostSummary[], shade: Shade): Scale {
  if (shade === "channels") {
    const top = Math.max(0, ...hosts.map((host) => host.init_channels ?? 0));
    return { heat: (host) => (host.init_channels === null ? null : step(host.init_channels, top)), low: "0", high: integer(top) };
  }
  if (shade === "nics") {
    const top = Math.max(1, ...hosts.map((host) => host.n_nics_down ?? 0));
    return { heat: (host) => (host.n_nics_down == null ? null : step(host.n_nics_down, top)), low: "0", high: integer(top) };
  }
  const top = Math.max(0, ...hosts.map((host) => host.completed_bytes_per_s));
  return { heat: (host) => (host.completed_bytes_per_s < 0 ? null : step(host.completed_bytes_per_s, top)), low: "0", high: bandwidth(top) };
}

/** The number behind a shade, in words. */
export function shadeWords(host: HostSummary, shade: Shade): string {
  if (shade === "channels") return host.init_channels === null ? "init channels not known" : `${integer(host.init_channels)} init channels`;
  if (shade === "nics") return host.n_nics == null ? "NICs not known" : `${integer(host.n_nics_down ?? 0)} of ${integer(host.n_nics)} NICs down`;
  return host.completed_bytes_per_s < 0 ? "bandwidth not recorded" : bandwidth(host.completed_bytes_per_s);
}

function step(value: number, top: number): number {
  if (value <= 0 || top <= 0) return 0;
  return Math.max(1, Math.min(4, Math.ceil((value / top) * 4)));
}
