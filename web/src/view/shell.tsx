import { useSignalEffect } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { AuditPage } from "../page/audit";
import { CommunicatorPage } from "../page/communicator";
import { FindingsPage } from "../page/findings";
import { HostPage } from "../page/host";
import { HostsPage } from "../page/hosts";
import { IncidentPage } from "../page/incident";
import { IncidentsPage } from "../page/incidents";
import { JobPage } from "../page/job";
import { JobsPage } from "../page/jobs";
import { OverviewPage } from "../page/overview";
import { PastPage } from "../page/past";
import { RunbookPage } from "../page/runbook";
import { SummationPage } from "../page/summation";
import { SummationGroupPage } from "../page/summation-group";
import { clock } from "../pure/format";
import { showsPast } from "../pure/past";
import type { Route } from "../pure/route";
import { stranger } from "../state/client";
import * as store from "../state/store";
import { Empty } from "./empty";
import { Headline } from "./headline";
import { Masthead } from "./masthead";
import { PastBanner } from "./past/banner";
import { SignIn } from "./sign-in";
import { StaleBanner, Unreadable } from "./stale";
import { Zone } from "./time";

/** The pages, for who may see them. */
export function Shell() {
  return stranger.value === undefined ? <Pages /> : <SignIn />;
}

/** What every page stands in: masthead, the sentence about everything, and the page that the address names. */
function Pages() {
  useSignalEffect(() => {
    const suspects = store.suspectHosts.value;
    const stale = store.unreadable.value !== undefined || store.staleMs.value !== undefined;
    const level = isOfPast() ? undefined : store.health.value?.level;
    const asOf = store.atMs.value === undefined ? "" : `as of ${clock(store.atMs.value)} – `;
    const mark = level === "critical" ? "◆ " : level === "warning" ? "▲ " : level === "unknown" ? "? " : "";
    document.title = `${stale ? "(stale) " : ""}${mark}${asOf}${suspects.length > 0 && asOf === "" ? `${suspects[0]} – ` : ""}${subject(store.route.value)}ringscope`;
  });
  const stale = store.connection.value.state === "away" || store.staleMs.value !== undefined;
  const main = useRef<HTMLElement>(null);
  const route = store.route.value;
  const place = [route.page, route.page === "job" && route.job, route.page === "communicator" && route.comm, route.page === "host" && route.host, route.page === "incident" && route.incident, route.page === "summation-group" && route.group].join();
  const first = useRef(true);
  // At once: later it would take the focus from who types by then.
  useLayoutEffect(() => {
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
      <PastBanner />
      <main id="main" ref={main} tabIndex={-1} class={stale ? "stale" : ""}>
        {!store.loaded.value ? (
          store.unreadable.value === undefined ? (
            <p class="loading" role="status">
              Asking the daemon …
            </p>
          ) : (
            <Unreadable fault={store.unreadable.value} />
          )
        ) : (
          <>
            {!isOfPast() && <Headline />}
            <Content />
          </>
        )}
      </main>
      <Zone />
    </>
  );
}

/** Whether the page shows how things stood at another time. */
function isOfPast(): boolean {
  return store.atMs.value !== undefined && showsPast(store.route.value.page);
}

function Content() {
  const route = store.route.value;
  const atMs = store.atMs.value;
  if (atMs !== undefined && isOfPast()) return <PastPage atMs={atMs} route={route} />;
  const known = store.jobs.value.items.length + store.hosts.value.items.length + store.incidents.value.length;
  if (known === 0 && !["runbook", "audit", "incident", "nowhere"].includes(route.page)) return <Empty />;
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
    case "incidents":
      return <IncidentsPage />;
    case "incident":
      return <IncidentPage key={route.incident} id={route.incident} />;
    case "findings":
      return <FindingsPage />;
    case "summation":
      return <SummationPage />;
    case "summation-group":
      return <SummationGroupPage key={route.group} id={route.group} />;
    case "runbook":
      return <RunbookPage />;
    case "audit":
      return <AuditPage />;
    case "nowhere":
      return <p class="notice">There is no page #/{route.address}. The <a href={store.link({ page: "overview" })}>overview</a> shows what is known.</p>;
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
    case "incident":
      return `incident ${route.incident} – `;
    case "summation-group":
      return `summation ${route.group} – `;
    case "nowhere":
      return "no such page – ";
    default:
      return `${route.page} – `;
  }
}

/** The address names what is shown: the link must not change it. */
function skip(event: Event, main: HTMLElement | null): void {
  event.preventDefault();
  main?.focus();
}
