import type { Fault } from "../pure/fault";
import { clock, duration } from "../pure/format";
import { faulty } from "../state/api";
import * as store from "../state/store";
import { withCommands } from "./with-commands";

/** Faults named; what stands in the way of one answer mostly stands in that of all. */
const MAX_FAULTS = 3;

/** Says that what is on the screen is old, how old, why, what to do, and what happens next. */
export function StaleBanner() {
  // Then the page says nothing else.
  if (!store.loaded.value) return null;
  const connection = store.connection.value;
  if (connection.state === "away") {
    const heard = store.heardMs.value;
    return (
      <div class="banner stale-banner" role="alert">
        <strong>{heard === null ? "Nothing is known yet" : `Stale since ${clock(heard)}`}</strong>
        <span>
          {connection.fault.words}
          {heard !== null && <> What is shown is as it was <Age ms={heard} />.</>} <Advice fault={connection.fault} /> <NextTry atMs={connection.nextTryMs} />
        </span>
      </div>
    );
  }
  const { faults, oldestMs } = faulty.value;
  if (faults.length === 0) return null;
  return (
    <div class="banner stale-banner" role="alert">
      <strong>Not everything here is current</strong>
      <span>
        {faults.slice(0, MAX_FAULTS).map((fault) => fault.words).join(" ")}
        {faults.length > MAX_FAULTS && ` And ${faults.length - MAX_FAULTS} more faults.`}
        {oldestMs !== undefined && <> The oldest of what is shown is as it was <Age ms={oldestMs} />.</>} <Advice fault={faults[0]!} />
      </span>
    </div>
  );
}

/** In place of the page, while nothing at all is known. */
export function Unreadable({ fault }: { fault: Fault }) {
  const connection = store.connection.value;
  return (
    <section class="panel unreadable" role="alert" aria-label="Nothing can be shown">
      <h1>How things stand is not known</h1>
      <p class="fault">{fault.words}</p>
      <p>
        <b>What to do:</b> {withCommands(fault.advice)}
      </p>
      <p>
        <button type="button" onClick={() => location.reload()}>
          Reload
        </button>{" "}
        {connection.state === "away" && <NextTry atMs={connection.nextTryMs} />}
      </p>
    </section>
  );
}

function Advice({ fault }: { fault: Fault }) {
  return (
    <span>
      <b>What to do:</b> {withCommands(fault.advice)}
    </span>
  );
}

/** For eyes only: who hears the page is not told every second. */
function Age({ ms }: { ms: number }) {
  return <span aria-hidden="true">{duration(Math.max(0, (store.browserNowMs.value - ms) / 1000))} ago</span>;
}

function NextTry({ atMs }: { atMs: number }) {
  const seconds = Math.ceil((atMs - store.browserNowMs.value) / 1000);
  return <span class="next-try" aria-hidden="true">{seconds > 0 ? `Trying again in ${seconds}\u00a0s.` : "Trying now …"}</span>;
}
