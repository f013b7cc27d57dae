import type { ComponentChildren } from "preact";
import type { Incident, Job } from "../../api";
import { costWords } from "../../pure/cost";
import { kindName } from "../../pure/findings";
import { integer, opening, plural } from "../../pure/format";
import { brief, isSilenced, telling, timeWords, victimWords } from "../../pure/incidents";
import * as store from "../../state/store";
import { Mark } from "../mark";
import { Panel } from "../panel";
import { Time } from "../time";
import { withCommands } from "../with-commands";

/** Lines on the overview; the page of incidents has the others. */
const MAX_LINES = 6;

/** What is open, worst first, across the whole width: nothing where nothing is. */
export function OpenIncidents() {
  const all = store.incidents.value;
  if (all.length === 0) return null;
  return (
    <div class={`across severity-${all[0]!.severity}`}>
      <Panel id="incidents" title={plural(all.length, "open incident")} aside={<a href={store.link({ page: "incidents" })}>All, and those that are over</a>}>
        <IncidentList items={all.slice(0, MAX_LINES)} advice />
        {all.length > MAX_LINES && <p class="quiet">{integer(all.length - MAX_LINES)} more.</p>}
      </Panel>
    </div>
  );
}

/** What an incident says in full on a page is said there once: all else says how it begins. */
export function inBrief(words: string): string {
  return brief(words, shownIncidents());
}

/** Of the incidents that the page shows: on the overview the first ones, elsewhere those of what it is about. */
export function shownIncidents(): Incident[] {
  const at = store.route.value;
  if (store.atMs.value !== undefined) return [];
  if (at.page === "overview") return store.incidents.value.slice(0, MAX_LINES);
  if (at.page === "job" && store.job.value !== undefined) return incidentsOf(store.job.value);
  if (at.page === "host") return incidentsOn(at.host);
  return at.page === "communicator" ? store.watchedIncidents.value : [];
}

/** Open ones of which a host is to blame. */
export function incidentsOn(host: string): Incident[] {
  return store.incidents.value.filter((one) => one.host === host || one.culprits.some((culprit) => culprit.host === host));
}

/** Where these words are told already: a link to it in their place. */
export function ToldAbove({ words, where = "above", children }: { words: string; where?: "above" | "below"; children: ComponentChildren }) {
  const one = telling(words, shownIncidents());
  return one === undefined ? <>{children}</> : <a class="told" href={store.link({ page: "incident", incident: one.id })}>the incident {where}</a>;
}

/** Those about what the page is about: nothing where there are none. */
export function IncidentsHere({ items }: { items: Incident[] }) {
  if (items.length === 0) return null;
  return (
    <Panel id="incidents" title={plural(items.length, "open incident")}>
      <IncidentList items={items} advice />
    </Panel>
  );
}

/** Open ones of a job, and of the hosts that it runs on. */
export function incidentsOf(job: Job): Incident[] {
  return store.incidents.value.filter((one) => one.job === job.id || (one.job === "" && job.state !== "ended" && job.hosts.includes(one.host)));
}

export function IncidentList({ items, advice = false }: { items: Incident[]; advice?: boolean }) {
  return (
    <ul class="findings incidents">
      {items.map((one) => (
        <IncidentLine key={one.id} one={one} advice={advice} />
      ))}
    </ul>
  );
}

/** One incident: who it is, since when, who suffers, who looks after it. */
function IncidentLine({ one, advice }: { one: Incident; advice: boolean }) {
  const nowMs = store.nowMs.value;
  const victims = victimWords(one);
  const cost = costWords(one.cost, one.state === "resolved");
  return (
    <li class={`finding severity-${one.severity} ${one.state}`} data-incident={one.id}>
      <Mark kind={one.severity} label={one.severity} />
      <div>
        <p class="message">
          <a href={store.link({ page: "incident", incident: one.id })}>{withCommands(opening(one.sentence))}</a>
        </p>
        {advice && one.advice !== "" && one.severity !== "info" && <p class="also">{withCommands(one.advice)}</p>}
        <p class="about">
          <span>{kindName(one.finding)}</span>
          <span><Lasted one={one} nowMs={nowMs} /></span>
          {cost !== "" && <span class="cost">{cost}</span>}
          {victims !== "" && <span>{victims}</span>}
          {one.job !== "" && <span>{one.job}</span>}
          <Care one={one} nowMs={nowMs} />
        </p>
      </div>
    </li>
  );
}

/** Since when and for how long. */
function Lasted({ one, nowMs }: { one: Incident; nowMs: number }) {
  const [before, words] = timeWords(one, nowMs);
  return <>{before} <Time at={one.began_at} />{one.resolved_at == null ? "" : <> – <Time at={one.resolved_at} /></>}{words}</>;
}

/** Who looks after it, and whether anybody is told of it. */
export function Care({ one, nowMs }: { one: Incident; nowMs: number }) {
  return (
    <>
      {one.acknowledged !== undefined && <span class="care">{one.acknowledged.by} {one.state === "firing" ? "looks" : "looked"} after it</span>}
      {isSilenced(one, nowMs) && <span class="care">silenced until <Time at={one.silenced_until!} /></span>}
      {one.notes.length > 0 && <span>{plural(one.notes.length, "note")}</span>}
    </>
  );
}
