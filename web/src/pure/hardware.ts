/** What is said of a host's NICs and GPUs. Pure. */

import type { Finding, Gpu, Hardware, Nic } from "../api";
import { bandwidth, integer, list, plural, rankRanges } from "./format";

/** From this share of its rate on a link is called full. */
const FULL_SHARE = 0.9;
/** Payload below this share of what the port sends: other traffic, or sent again, is worth a word. */
const FOREIGN_SHARE = 0.5;
/** A port that sends less than this is idle, whatever its share. */
const IDLE_BYTES_PER_S = 1e6;

/** How links are sold: 50e9 bytes per second -> "400 Gb/s". */
export function linkRate(bytesPerS: number | null | undefined): string {
  if (bytesPerS == null) return "not said";
  const gigabits = (bytesPerS * 8) / 1e9;
  return gigabits >= 1 ? `${Number(gigabits.toPrecision(3))} Gb/s` : `${Number((gigabits * 1000).toPrecision(3))} Mb/s`;
}

export type NicTrouble = "down" | "critical" | "warning" | null;

export function nicTrouble(nic: Nic): NicTrouble {
  if (nic.severity === "critical") return nic.up ? "critical" : "down";
  if (nic.severity === "warning") return nic.up ? "warning" : "down";
  return null;
}

/** Ports in trouble first, then RDMA devices as the daemon gave them. */
export function byTrouble(nics: Nic[]): Nic[] {
  return [...nics].sort((a, b) => TROUBLES.indexOf(nicTrouble(a)) - TROUBLES.indexOf(nicTrouble(b)));
}
const TROUBLES: NicTrouble[] = ["down", "critical", "warning", null];

/** Findings that are about a NIC, or that it explains. */
export function about(nic: Nic, findings: Finding[]): Finding[] {
  return findings.filter((finding) => finding.nic != null && (finding.nic === nic.name || finding.nic === nic.interface));
}

/** Findings that are about a port itself, and explain no channels. */
const OF_PORTS: ReadonlySet<string> = new Set(["nic_degraded", "rdma_retransmits", "rdma_errors", "queue_pair_error", "gid_mismatch", "mtu_mismatch", "pfc_storm"]);

/** What a down port means for the channels, in one sentence; empty if it says nothing. */
export function explains(nic: Nic, findings: Finding[], hardware: Hardware): string {
  if (nic.up) return "";
  const channels = about(nic, findings).filter((finding) => !OF_PORTS.has(finding.finding));
  const others = hardware.nics.filter((one) => one.rdma === nic.rdma && one.up && one.channels.length > 0);
  if (channels.length > 0) return `It explains: ${channels[0]!.message.replace(/\.$/, "")}.`;
  if (nic.channels.length > 0) return `${plural(count(nic), "channel")} of communicators in use ran through it when they were formed.`;
  if (others.length > 0) return `No channel goes through it; ${list(others.map((one) => one.name), 4)} ${others.length === 1 ? "carries" : "carry"} them all.`;
  return "No channel goes through it.";
}

function count(nic: Nic): number {
  return nic.channels.reduce((sum, one) => sum + one.channels.length, 0);
}

/** What the port sends against the payload of communicators, in words; empty where nothing can be said. */
export function payloadWords(nic: Nic): string {
  const { payload_bytes_per_s: payload, sent_bytes_per_s: sent, rate_bytes_per_s: rate } = nic;
  if (payload == null || sent == null || sent < IDLE_BYTES_PER_S) return "";
  const share = payload / sent;
  const full = rate != null && sent >= rate * FULL_SHARE ? ", link full" : "";
  if (share < FOREIGN_SHARE) return `only ${Math.round(share * 100)} % of what it sends${full}`;
  return `${Math.min(100, Math.round(share * 100))} % of what it sends${full}`;
}

/** "symbol_error 1 204, 12 more in 10 min", those that rise first: of the link, of requests that failed, of what was sent again. */
export function errorWords(nic: Nic): { words: string; rising: boolean }[] {
  return [...nic.errors, ...nic.failures, ...nic.retransmits]
    .sort((a, b) => b.risen - a.risen || a.name.localeCompare(b.name))
    .map(({ name, value, risen }) => ({
      words: `${name} ${integer(value)}${risen > 0 ? `, ${integer(risen)} more in 10 min` : ""}`,
      rising: risen > 0,
    }));
}

const DISTANCES = ["PIX", "PXB", "PHB", "NODE", "SYS"];
const DISTANCE_WORDS: Record<string, string> = {
  PIX: "one PCI switch",
  PXB: "several PCI switches",
  PHB: "a host bridge",
  NODE: "one NUMA node",
  SYS: "across NUMA nodes",
};

export function distanceWords(distance: string): string {
  return DISTANCE_WORDS[distance] ?? distance;
}

/** The GPUs closest to a NIC: "GPU 0–1 (PIX)". */
export function closest(nic: Nic, gpus: Gpu[]): string {
  const near = gpus.flatMap((gpu) => {
    const distance = gpu.nics.find((one) => one.nic === nic.name)?.distance;
    return distance === undefined ? [] : [{ index: gpu.index, distance }];
  });
  const best = DISTANCES.find((distance) => near.some((one) => one.distance === distance));
  if (best === undefined) return "";
  return `GPU ${rankRanges(near.filter((one) => one.distance === best).map((one) => one.index))} (${best})`;
}

export function rateWords(bytesPerS: number | null | undefined): string {
  return bytesPerS == null ? "–" : bandwidth(bytesPerS);
}
