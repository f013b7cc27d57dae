/** What communicators are called. Pure. */

import type { CommunicatorSummary } from "../api";

/** Characters of an id that tell communicators of one name apart. */
const ID_CHARS = 6;

/** By id. Programs give all groups of a kind one name: beside it then stands the only host, or the id. */
export function distinctNames(all: Pick<CommunicatorSummary, "id" | "name" | "hosts">[]): Map<string, string> {
  const counts = new Map<string, number>();
  for (const { name } of all) if (name !== undefined) counts.set(name, (counts.get(name) ?? 0) + 1);
  return new Map(all.map(({ id, name, hosts }) => {
    if (name === undefined) return [id, id];
    if (counts.get(name) === 1) return [id, name];
    return [id, `${name} · ${hosts.length === 1 ? hosts[0] : id.slice(0, ID_CHARS)}`];
  }));
}

/** host-2 before host-10. */
export function byName(a: string, b: string): number {
  return COLLATOR.compare(a, b);
}

const COLLATOR = new Intl.Collator("en", { numeric: true });
