import { useSignalEffect } from "@preact/signals";
import * as store from "../state/store";
import { Empty } from "./empty";
import { Findings } from "./findings";
import { Headline } from "./headline";
import { HostPanel } from "./host-panel";
import { Hosts } from "./hosts";
import { Masthead } from "./masthead";
import { RanksPanel } from "./ranks";
import { RingPanel } from "./ring-panel";
import { Scope } from "./scope";
import { StaleBanner } from "./stale";
import { Traffic } from "./traffic";

/** Words and tables on one side (which host, which rank), pictures on the other (ring, bandwidth). */
export function Page() {
  useSignalEffect(() => {
    const { level, suspects } = store.headline.value;
    const mark = level === "critical" ? "◆ " : level === "warning" ? "▲ " : "";
    document.title = `${mark}${suspects.length > 0 ? `${suspects[0]} – ` : ""}ringscope`;
  });
  const away = store.connection.value.state === "away";
  const empty = store.jobs.value.items.length === 0;
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the ring
      </a>
      <Masthead />
      <StaleBanner />
      <main class={away ? "stale" : ""}>
        {!store.loaded.value ? (
          <p class="loading" role="status">
            Asking the daemon …
          </p>
        ) : (
          <>
            <Headline />
            {empty ? (
              <Empty />
            ) : (
              <>
                <Scope />
                <div class="board">
                  <div class="column words">
                    <Hosts />
                    <HostPanel />
                    <Findings />
                  </div>
                  <div class="column ranks">
                    <RanksPanel />
                  </div>
                  <div class="column pictures">
                    <RingPanel />
                    <Traffic />
                  </div>
                </div>
              </>
            )}
          </>
        )}
      </main>
    </>
  );
}

/** The address names what is shown: the link must not change it. */
function skip(event: Event): void {
  event.preventDefault();
  document.querySelector<HTMLElement>("#ring-panel")?.focus();
}
