/** What a host found each time that it joined a communicator. Pure. */

import type { HostChannels } from "../api";
import { stem } from "./compare";

/** Communicators in which the host found fewer channels than in the last one of the same name and size. */
export function fallen(items: HostChannels[]): Set<string> {
  const last = new Map<string, number>();
  const fell = new Set<string>();
  for (const one of [...items].sort((a, b) => a.created.localeCompare(b.created))) {
    if (one.init_channels == null) continue;
    const like = `${one.job} ${stem(one.name)} ${one.n_ranks}`;
    if (one.init_channels < (last.get(like) ?? 0)) fell.add(one.comm);
    last.set(like, one.init_channels);
  }
  return fell;
}
