/** What somebody does to an incident, and the name under which. */

import { effect, signal } from "@preact/signals";
import type { Session } from "../api";
import { away, type Fault } from "../pure/fault";
import { markDirty, refreshDue } from "./api";
import { Failed, post } from "./client";

const KEY = "ringscope.name";

/** Who acts, if they have said so; kept in this browser. */
export const myName = signal(stored());

/** Who acts: as they have said, else as they signed in. */
export function actor(session: Session | undefined): string {
  return myName.value.trim() || (session?.name ?? "");
}

effect(() => {
  const name = myName.value.trim();
  try {
    if (name === "") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, name);
  } catch {
    // Storage is refused: the name holds until the page is left.
  }
});

function stored(): string {
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

/** What can be said of an incident. */
export type Word = "acknowledge" | "unacknowledge" | "silence" | "unsilence" | "notes";

/** Says something about an incident; what went wrong, if anything did. The page then asks how it stands. */
export async function act(incident: string, what: Word, by: string, body: Record<string, unknown>): Promise<Fault | undefined> {
  try {
    await post(`incidents/${encodeURIComponent(incident)}/${what}`, { by, ...body });
  } catch (error) {
    return error instanceof Failed ? error.fault : away();
  }
  markDirty();
  // Who is away is said elsewhere.
  refreshDue().catch(() => {});
  return undefined;
}
