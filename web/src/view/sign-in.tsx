import { useEffect, useState } from "preact/hooks";
import type { OidcWay } from "../api";
import type { Fault } from "../pure/fault";
import { returning } from "../pure/returning";
import { stranger } from "../state/client";
import { oidcWay, signIn } from "../state/session";
import { Logo } from "./logo";
import { withCommands } from "./with-commands";

/** In place of every page, while the daemon does not know who looks. */
export function SignIn() {
  const [token, setToken] = useState("");
  const [fault, setFault] = useState<Fault | undefined>(undefined);
  const [busy, setBusy] = useState(false);
  // Each refusal of a stranger is an answer: that there was none is over.
  const answered = stranger.value;
  useEffect(() => setFault((before) => (before?.kind === "refused" ? before : undefined)), [answered]);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    const refused = await signIn(token.trim());
    setBusy(false);
    setFault(refused);
    if (refused === undefined) setToken("");
  };
  return (
    <main id="main" class="sign-in">
      <p class="wordmark">
        <Logo />
        ringscope
      </p>
      <section class="panel">
        <h1>Sign in</h1>
        {answered?.status === 403 && <p class="fault">{withCommands(answered.words)}</p>}
        <AtProvider />
        <form onSubmit={(event) => void submit(event)}>
          <label class="field">
            Token
            <input
              type="password"
              name="token"
              autocomplete="current-password"
              spellcheck={false}
              required
              value={token}
              aria-invalid={fault !== undefined}
              aria-describedby={fault === undefined ? undefined : "sign-in-fault"}
              onInput={(event) => setToken(event.currentTarget.value)}
            />
          </label>
          <button type="submit" disabled={busy || token.trim() === ""}>
            {busy ? "Signing in …" : "Sign in"}
          </button>
        </form>
        {fault !== undefined && (
          <p class="fault" id="sign-in-fault" role="alert">
            {withCommands(fault.words)}
          </p>
        )}
        <p class="quiet">
          {withCommands("Whoever runs the daemon has one for you: `ringscope token create --name NAME --role read` makes it, or `--role operate` for who is on call.")}
        </p>
      </section>
    </main>
  );
}

/** Signing in at an OpenID provider, where the daemon knows one. */
function AtProvider() {
  const [way, setWay] = useState<OidcWay | undefined>(undefined);
  useEffect(() => {
    const look = () => void oidcWay().then(setWay);
    look();
    const timer = setInterval(look, EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  if (way === undefined) return null;
  return (
    <div class="provider">
      <a href={returning(way.address, location.search, location.hash)}>Sign in with {way.issuer_host}</a>
      {way.away !== undefined && (
        <p class="fault" role="alert">
          {way.issuer_host} cannot be asked: {way.away}. A token goes on to work.
        </p>
      )}
    </div>
  );
}

/** A provider that was away is there again, or the other way round. */
const EVERY_MS = 10_000;
