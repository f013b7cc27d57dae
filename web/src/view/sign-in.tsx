import { useState } from "preact/hooks";
import type { Fault } from "../pure/fault";
import { signIn } from "../state/session";
import { Logo } from "./logo";
import { withCommands } from "./with-commands";

/** In place of every page, while the daemon does not know who looks. */
export function SignIn() {
  const [token, setToken] = useState("");
  const [fault, setFault] = useState<Fault | undefined>(undefined);
  const [busy, setBusy] = useState(false);
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
          {withCommands("Whoever runs the daemon has one for you: `ringscope token create --role read` makes it, or `--role operate` for who is on call.")}
        </p>
      </section>
    </main>
  );
}
