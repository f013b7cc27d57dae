import { useState } from "preact/hooks";
import type { Fault } from "../pure/fault";
import { signOut, useSession } from "../state/session";
import * as store from "../state/store";

/** Who looks, and a way out. Nothing where the daemon asks nobody. */
export function Who() {
  const session = useSession();
  const [fault, setFault] = useState<Fault | undefined>(undefined);
  if (session === undefined || session.known_by === "nothing") return null;
  return (
    <span class="who">
      <span class="who-name" title={session.name}>
        <span class="unseen">Signed in as </span>
        {session.name}
      </span>
      <span class="who-role">
        {session.role}
        {session.tenant !== undefined && ` of ${session.tenant}`}
      </span>
      {session.role === "admin" && (
        <a href={store.link({ page: "audit" })} aria-current={store.route.value.page === "audit" ? "page" : undefined}>
          Audit trail
        </a>
      )}
      {session.known_by === "session" && (
        <button type="button" onClick={() => void signOut().then(setFault)}>
          Sign out
        </button>
      )}
      {fault !== undefined && <span role="alert">{fault.words}</span>}
    </span>
  );
}
