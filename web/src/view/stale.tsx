import { clock } from "../pure/format";
import { refused } from "../state/api";
import * as store from "../state/store";

/** Says that what is on the screen is old, how old, and what happens next. */
export function StaleBanner() {
  const connection = store.connection.value;
  if (connection.state === "away") {
    const heard = store.heardMs.value;
    return (
      <div class="banner stale-banner" role="alert">
        <strong>{heard === null ? "The daemon does not answer" : `Stale since ${clock(heard)}`}</strong>
        <span>
          {heard === null ? "Nothing is known yet." : "The daemon does not answer: what is shown is as it was then."}{" "}
          <NextTry atMs={connection.nextTryMs} />
        </span>
      </div>
    );
  }
  if (refused.value.length > 0) {
    return (
      <div class="banner" role="status">
        <strong>The daemon could not say everything</strong>
        <span>{refused.value.join("; ")}</span>
      </div>
    );
  }
  return null;
}

function NextTry({ atMs }: { atMs: number }) {
  const seconds = Math.ceil((atMs - store.browserNowMs.value) / 1000);
  return <span class="next-try" aria-hidden="true">{seconds > 0 ? `Trying again in ${seconds} s.` : "Trying now …"}</span>;
}
