import { useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { CommunicatorPage } from "../page/communicator";
import { FindingsPage } from "../page/findings";
import { HostPage } from "../page/host";
import { HostsPage } from "../page/hosts";
import { JobPage } from "../page/job";
import { JobsPage } from "../page/jobs";
import { OverviewPage } from "../page/overview";
import { RunbookPage } from "../page/runbook";
import { SummationPage } from "../page/summation";
import { SummationGroupPage } from "../page/summation-group";
import type { Route } from "../pure/route";
import * as store from "../state/store";
import { Empty } from "./empty";
import { Headline } from "./headline";
import { Masthead } from "./masthead";
import { StaleBanner } from "./stale";

/** What every page stands in: masthead, the sentence about everything, and the page that the address names. */
export function Shell() {
  useSignalEffect(() => {
    const { level, suspects } = store.headline.value;
    const mark = level === "critical" ? "◆ " : level === "warning" ? "▲ " : "";
    document.title = `${mark}${suspects.length > 0 ? `${suspects[0]} – ` : ""}${subject(store.route.value)}ringscope`;
  });
  const away = store.connection.value.state === "away";
  const main = useRef<HTMLElement>(null);
  const route = store.route.value;
  const place = [route.page, route.page === "job" && route.job, route.page === "communicator" && route.comm, route.page === "host" && route.host, route.page === "summation-group" && route.group].join();
  const first = useRef(true);
  useEffect(() => {
    // Another page begins at its top, for eyes and for who hears it.
    if (!first.current) {
      scrollTo(0, 0);
      main.current?.focus({ preventScroll: true });
    }
    first.current = false;
  }, [place]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => skip(event, main.current)}>
        Skip to the content
      </a>
      <Masthead />
      <StaleBanner />
      <main id="main" ref={main} tabIndex={-1} class={away ? "stale" : ""}>
        {!store.loaded.value ? (
          <p class="loading" role="status">
            Asking the daemon …
          </p>
        ) : (
          <>
            <Headline />
            <Content />
          </>
        )}
      </main>
    </>
  );
}

function Content() {
  const route = store.route.value;
  if (store.jobs.value.items.length === 0 && store.hosts.value.items.length === 0 && route.page !== "runbook") return <Empty />;
  switch (route.page) {
    case "overview":
      return store.jobs.value.items.length === 0 ? <><Empty /><OverviewPage /></> : <OverviewPage />;
    case "jobs":
      return <JobsPage />;
    case "job":
      return <JobPage key={route.job} id={route.job} />;
    case "communicator":
      return <CommunicatorPage />;
    case "hosts":
      return <HostsPage />;
    case "host":
      return <HostPage key={route.host} host={route.host} />;
    case "findings":
      return <FindingsPage />;
    case "summation":
      return <SummationPage />;
    case "summation-group":
      return <SummationGroupPage key={route.group} id={route.group} />;
    case "runbook":
      return <RunbookPage />;
  }
}

/** What the page is about, for the browser's tab. */
function subject(route: Route): string {
  switch (route.page) {
    case "overview":
      return "";
    case "job":
      return `${route.job} – `;
    case "communicator":
      return `${store.communicatorNames.value.get(route.comm) ?? route.comm} – `;
    case "host":
      return `${route.host} – `;
    case "summation-group":
      return `summation ${route.group} – `;
    default:
      return `${route.page} – `;
  }
}

/** The address names what is shown: the link must not change it. */
function skip(event: Event, main: HTMLElement | null): void {
  event.preventDefault();
  main?.focus();
}
