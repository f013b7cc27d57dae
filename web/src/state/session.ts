/** Who looks at the page, as the daemon knows them. */

import type { OidcWay, Session, SignInWays } from "../api";
import { away, type Fault } from "../pure/fault";
import { useApi } from "./api";
import { ask, Failed, post, read, stranger, WAYS } from "./client";
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

/** The provider at which people sign in. Undefined: there is none, or the daemon does not say. */
export async function oidcWay(): Promise<OidcWay | undefined> {
  try {
    return (await read<SignInWays>(WAYS)).value.oidc;
  } catch {
    return undefined;
  }
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
