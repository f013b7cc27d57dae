/** What is said of a host's RDMA connections. Pure. */

import type { Connection, ConnectionEnd, Gid, GidKind, Nic } from "../api";
import { duration, integer, list, plural, size } from "./format";

/** Rows that the table shows; the rest is counted, and in the export. */
export const MAX_ROWS = 200;
/** Queue pairs that a row names. */
const MAX_PAIRS = 3;

const KINDS: Record<GidKind, string> = { infiniband: "InfiniBand", roce_v1: "RoCE v1", roce_v2: "RoCE v2" };

export function kindWords(kind: GidKind | null | undefined): string {
  return kind == null ? "kind not known" : KINDS[kind];
}

/** "mlx5_3", "mlx5_3 port 2". */
export function portWords(end: ConnectionEnd): string {
  return end.port != null && end.port > 1 ? `${end.device} port ${end.port}` : end.device;
}

export function isBad(one: Connection): boolean {
  return one.state === "failed" || one.state === "broken";
}

/** Whether it had met its other end; else it failed before. */
export function hasMet(one: Connection): boolean {
  return one.remote.host !== "";
}

/** The rows of the table: those in trouble first, closed ones last, in the daemon's order. */
export function shown(all: Connection[]): { rows: Connection[]; left: number } {
  const order = (one: Connection) => (isBad(one) ? 0 : one.state === "closed" ? 2 : 1);
  const rows = [...all].sort((a, b) => order(a) - order(b));
  return { rows: rows.slice(0, MAX_ROWS), left: Math.max(0, rows.length - MAX_ROWS) };
}

/** "fe80::1, RoCE v2, index 1": the far end's where the kinds differ. */
export function gidWords(one: Connection): { words: string; differs: boolean } {
  const { local, remote } = one;
  if (local.gid == null && local.gid_kind == null) return { words: "–", differs: false };
  const differs = local.gid_kind != null && remote.gid_kind != null && local.gid_kind !== remote.gid_kind;
  const index = local.gid_index == null ? "" : `, index ${local.gid_index}`;
  const words = `${kindWords(local.gid_kind)}${index}`;
  return { words: differs ? `${words}; the other end ${kindWords(remote.gid_kind)}` : words, differs };
}

/** "4096", "1024: here 4096, there 1024". */
export function mtuWords(one: Connection): { words: string; differs: boolean } {
  const [here, there, path] = [one.local.mtu_bytes, one.remote.mtu_bytes, one.path_mtu_bytes];
  const differs = here != null && there != null && here !== there;
  const uses = path == null ? "–" : String(path);
  return { words: differs ? `${uses}: here ${here}, there ${there}` : uses, differs };
}

/** "17 → 18 RTS, 19 → 20 RTS and 6 more". */
export function pairWords(one: Connection): string {
  const words = one.queue_pairs.map((pair) => `${pair.number} → ${pair.remote_number}${pair.state == null ? "" : ` ${pair.state}`}`);
  return list(words, MAX_PAIRS + 1);
}

/** "rank 1 of host-1", "process 4712 of host-1". */
export function peerWords(end: ConnectionEnd): string {
  if (end.global_rank != null) return `rank ${end.global_rank}`;
  return end.pid == null ? "" : `process ${end.pid}`;
}

/** "12 ×, 1.5 s in all"; empty: none. */
export function waitWords(one: Connection): string {
  return one.waits === 0 ? "" : `${integer(one.waits)} ×, ${duration(one.wait_s)} in all`;
}

/** "3 RDMA connections, 1 failed". */
export function title(all: Connection[]): string {
  const living = all.filter((one) => one.state !== "closed");
  const bad = living.filter(isBad).length;
  return `${plural(living.length, "RDMA connection")}${bad > 0 ? `, ${integer(bad)} failed` : ""}`;
}

export function movedWords(one: Connection): string {
  return `${size(one.bytes)} in ${plural(one.completed_requests, "request")}`;
}

/** "4 GIDs (RoCE v1, RoCE v2), MTU 4096"; empty where nothing is known. */
export function tableWords(nic: Pick<Nic, "gids" | "mtu_bytes">): string {
  const kinds = [...new Set(nic.gids.map((gid: Gid) => (gid.kind == null ? "" : KINDS[gid.kind])).filter(Boolean))].sort();
  const gids = nic.gids.length === 0 ? "" : `${plural(nic.gids.length, "GID")}${kinds.length > 0 ? ` (${kinds.join(", ")})` : ""}`;
  return [gids, nic.mtu_bytes == null ? "" : `MTU ${nic.mtu_bytes}`].filter(Boolean).join(", ");
}

/** The whole table of GIDs, a line each. */
export function gidLines(gids: Gid[]): string {
  return gids.map((gid) => `${gid.index}: ${gid.gid} ${kindWords(gid.kind)}${gid.interface == null ? "" : ` ${gid.interface}`}`).join("\n");
}
