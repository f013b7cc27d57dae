/** Who looks at the page, as the daemon knows them. */

import type { Session } from "../api";
import { away, type Fault } from "../pure/fault";
import { useApi } from "./api";
import { ask, Failed, post, stranger } from "./client";
import { retryNow } from "./live";

/** A role may change and a session ends: soon enough for a page that is open for days. */
const EVERY_MS = 60_000;

export function useSession(): Session | undefined {
  return useApi<Session>("session", { on: "never", everyMs: EVERY_MS }).value;
}

/** Signs in with a token; what went wrong, if anything did. */
export async function signIn(token: string): Promise<Fault | undefined> {
  try {
    await post("session", { token });
  } catch (error) {
    return error instanceof Failed ? error.fault : away();
  }
  stranger.value = undefined;
  retryNow();
  return undefined;
}

/** Signs out, and forgets all that the page knew. */
export async function signOut(): Promise<Fault | undefined> {
  try {
    await ask("session", { method: "DELETE" });
  } catch (error) {
    return error instanceof Failed ? error.fault : away();
  }
  location.reload();
  return undefined;
}
