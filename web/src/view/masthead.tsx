import type { PageName, Place } from "../pure/route";
import * as store from "../state/store";
import { theme, type Theme } from "../state/theme";
import { Help } from "./help";
import { Logo } from "./logo";
import { Search } from "./search";
import { LookBack, TimeRange } from "./time-range";
import { Who } from "./who";

const THEMES: Theme[] = ["system", "light", "dark"];

export function Masthead() {
  return (
    <header class="masthead">
      <a class="wordmark" href={store.link({ page: "overview" })} aria-label="ringscope, overview">
        <Logo />
        ringscope
      </a>
      <Navigation />
      <LiveState />
      <Search />
      <TimeRange />
      <LookBack />
      <fieldset class="segments small themes">
        <legend class="unseen">Theme</legend>
        {THEMES.map((one) => (
          <label key={one} class={theme.value === one ? "on" : ""}>
            <input
              type="radio"
              name="theme"
              value={one}
              checked={theme.value === one}
              onChange={() => {
                theme.value = one;
              }}
            />
            {one === "system" ? "Auto" : one === "light" ? "Light" : "Dark"}
          </label>
        ))}
      </fieldset>
      <Help />
      <Who />
    </header>
  );
}

const PAGES: { name: string; place: Place; holds: PageName[] }[] = [
  { name: "Overview", place: { page: "overview" }, holds: ["overview"] },
  { name: "Jobs", place: { page: "jobs" }, holds: ["jobs", "job", "communicator"] },
  { name: "Hosts", place: { page: "hosts" }, holds: ["hosts", "host"] },
  { name: "Incidents", place: { page: "incidents" }, holds: ["incidents", "incident"] },
  { name: "Findings", place: { page: "findings" }, holds: ["findings"] },
  { name: "Summation", place: { page: "summation" }, holds: ["summation", "summation-group"] },
  { name: "Runbook", place: { page: "runbook" }, holds: ["runbook"] },
];

function Navigation() {
  const at = store.route.value.page;
  return (
    <nav class="pages" aria-label="Pages">
      {PAGES.map(({ name, place, holds }) => (
        <a key={name} href={store.link(place)} aria-current={at === holds[0] ? "page" : holds.includes(at) ? "true" : undefined}>
          {name}
        </a>
      ))}
    </nav>
  );
}

function LiveState() {
  const connection = store.connection.value.state;
  const state = connection === "live" && store.atMs.value !== undefined ? "paused" : connection;
  const words = state === "paused" ? "paused" : state === "live" ? "live" : state === "away" ? "stale" : "connecting";
  return (
    <span class={`live-state ${state}`}>
      <i aria-hidden="true" />
      {words}
    </span>
  );
}
