/** What is not the same in the rings of two communicators: channels, their order, and how each rank reaches the next. Pure. */

import type { CommunicatorSummary, Hop, Ring } from "../api";
import { list, plural, rankRanges } from "./format";
import { byName } from "./names";

export type HopPart = "host" | "next" | "transport" | "NIC" | "GPUDirect";

export interface HopChange {
  channel: number;
  rank: number;
  parts: HopPart[];
  before: Hop;
  after: Hop;
}

export interface ChannelChange {
  channel: number;
  kind: "only_before" | "only_after" | "changed" | "same";
  /** Whether the ranks follow each other otherwise, as far as both rings are known. */
  reordered: boolean;
  hops: HopChange[];
}

export interface Comparison {
  channels: ChannelChange[];
  /** In one sentence, for the head of the table. */
  sentence: string;
}

/** Hops told one by one in the sentence; more are counted. */
const MAX_TOLD_HOPS = 2;
/** Earlier communicators offered. */
export const MAX_CANDIDATES = 50;

/** Earlier communicators of the same job to compare with: those of its name and shape first, newest first. */
export function candidates(all: CommunicatorSummary[], one: CommunicatorSummary): CommunicatorSummary[] {
  const alike = (other: CommunicatorSummary) =>
    2 * Number(stem(other.name) === stem(one.name)) + Number(other.n_ranks === one.n_ranks && other.hosts.length === one.hosts.length);
  return all
    .filter((other) => other.job === one.job && other.id !== one.id && other.created <= one.created)
    .sort((a, b) => alike(b) - alike(a) || b.created.localeCompare(a.created) || a.id.localeCompare(b.id))
    .slice(0, MAX_CANDIDATES);
}

/** Names that differ in their count only, as world/1 and world/2, name the same group at another time. */
export function stem(name: string | null | undefined): string {
  return (name ?? "").replace(/\/\d+$/, "");
}

export function compare(before: Ring[], after: Ring[]): Comparison {
  const old = new Map(before.map((ring) => [ring.channel, ring]));
  const fresh = new Map(after.map((ring) => [ring.channel, ring]));
  const numbers = [...new Set([...old.keys(), ...fresh.keys()])].sort((a, b) => a - b);
  const channels = numbers.map((channel) => channelChange(channel, old.get(channel), fresh.get(channel)));
  return { channels, sentence: sentence(channels, before, after) };
}

function channelChange(channel: number, before: Ring | undefined, after: Ring | undefined): ChannelChange {
  if (before === undefined) return { channel, kind: "only_after", reordered: false, hops: [] };
  if (after === undefined) return { channel, kind: "only_before", reordered: false, hops: [] };
  const old = new Map(before.order.map((hop) => [hop.rank, hop]));
  const hops = after.order.flatMap((hop) => {
    const was = old.get(hop.rank);
    const parts = was === undefined ? [] : changed(was, hop);
    return was === undefined || parts.length === 0 ? [] : [{ channel, rank: hop.rank, parts, before: was, after: hop }];
  });
  const reordered = hops.some((hop) => hop.parts.includes("next")) || (before.complete && after.complete && before.order.length !== after.order.length);
  return { channel, kind: reordered || hops.length > 0 ? "changed" : "same", reordered, hops };
}

/** What is not known on one side is no difference. */
function changed(a: Hop, b: Hop): HopPart[] {
  const parts: HopPart[] = [];
  if (a.host !== b.host) parts.push("host");
  if (a.next !== b.next) parts.push("next");
  if (a.transport === null || b.transport === null) return parts;
  if (kind(a.transport) !== kind(b.transport)) parts.push("transport");
  if (a.nic !== b.nic || (a.recv_nic !== undefined && b.recv_nic !== undefined && a.recv_nic !== b.recv_nic)) parts.push("NIC");
  if (a.gpu_direct !== undefined && b.gpu_direct !== undefined && a.gpu_direct !== b.gpu_direct) parts.push("GPUDirect");
  return parts;
}

/** NET/IB/0/GDRDMA -> NET/IB: the rest are the number of the NIC and GPUDirect, which are compared by themselves. */
function kind(transport: string): string {
  return /^net/i.test(transport) ? transport.split("/").slice(0, 2).join("/") : transport;
}

function sentence(channels: ChannelChange[], before: Ring[], after: Ring[]): string {
  if (before.length === 0 || after.length === 0) return "The rings of one of them are not known.";
  const parts: string[] = [];
  const of = (wanted: ChannelChange["kind"]) => channels.filter((one) => one.kind === wanted).map((one) => one.channel);
  const [gone, come] = [of("only_before"), of("only_after")];
  if (before.length !== after.length) parts.push(`${plural(after.length, "channel")} instead of ${before.length}`);
  else if (gone.length > 0) parts.push(`channels ${rankRanges(come)} instead of ${rankRanges(gone)}`);
  const turned = channels.filter((one) => one.reordered).map((one) => one.channel);
  if (turned.length > 0) parts.push(`the order of ${turned.length === 1 ? "channel" : "channels"} ${rankRanges(turned)} is not the same`);
  const hops = channels.flatMap((one) => one.hops).filter((hop) => hop.parts.some((part) => part !== "next"));
  if (hops.length > 0 && hops.length <= MAX_TOLD_HOPS) parts.push(...hops.map(told));
  else if (hops.length > 0) parts.push(`${plural(hops.length, "hop")} run otherwise, on ${list([...new Set(hops.map((hop) => hop.after.host))].sort(byName), 3)}`);
  if (parts.length === 0) return `The same ${plural(after.length, "ring")}, as far as they are known.`;
  const words = parts.join("; ");
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;
}

function told({ channel, rank, before, after }: HopChange): string {
  return `rank ${rank} on ${after.host} sends over ${way(after)} instead of ${way(before)} on channel ${channel}`;
}

/** "NET/IB via mlx5_0". */
export function way(hop: Hop): string {
  const nic = hop.nic === null ? "" : ` via ${hop.nic}${hop.recv_nic !== undefined && hop.recv_nic !== hop.nic ? ` to ${hop.recv_nic}` : ""}`;
  return `${hop.transport ?? "an unknown transport"}${nic}`;
}
