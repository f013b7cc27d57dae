import { useState } from "preact/hooks";
import type { Finding, Incident, Past, PastCommunicator } from "../api";
import { group } from "../pure/findings";
import { bandwidth, capital, integer, plural } from "../pure/format";
import { inTrouble } from "../pure/condition";
import { paceWords } from "../pure/pace-series";
import { untold } from "../pure/incidents";
import { asSummary } from "../pure/past";
import type { Route } from "../pure/route";
import { useApi } from "../state/api";
import { pastPath } from "../state/past";
import * as store from "../state/store";
import { Export } from "../view/export";
import { subjectRows } from "../view/finding-detail";
import { FindingLine } from "../view/finding-line";
import { hostRows, HostsShown, shadeOf } from "../view/hosts";
import { IncidentList } from "../view/incident/lines";
import { JobHistory } from "../view/job-history";
import { Mark, type MarkKind } from "../view/mark";
import { PageHead } from "../view/page-head";
import { PastRings } from "../view/past/rings";
import { Panel } from "../view/panel";
import { Throughput } from "../view/throughput";
import { Time } from "../view/time";
import { withCommands } from "../view/with-commands";

/** Lines drawn of a list; more are counted. */
const MAX_LINES = 60;
/** Communicators drawn until more are asked for, and then. */
const FEW = 12;
const MANY = 500;

/** How things stood at the moment that the address names: everything, a job, or a host. What was not kept is said to be unknown. */
export function PastPage({ atMs, route }: { atMs: number; route: Route }) {
  const only = route.page === "incidents" || route.page === "findings" ? route.page : undefined;
  const job = route.page === "job" || route.page === "incidents" || route.page === "findings" ? route.job : undefined;
  const host = route.page === "host" ? route.host : undefined;
  const path = pastPath(atMs, job);
  const { value, refused } = useApi<Past>(path, { on: "never" });
  const known = store.jobs.value.items.find((one) => one.id === job);
  const crumbs: [string, string][] = job !== undefined ? [["Jobs", store.link({ page: "jobs" })]] : [["Hosts", store.link({ page: "hosts" })]];
  return (
    <>
      {(job ?? host) !== undefined && <PageHead crumbs={crumbs} name={job ?? host}>{null}</PageHead>}
      {value === undefined ? <><h1 class="unseen">How it stood then</h1><p class="notice">{refused ?? "Asking how it was then …"}</p></> : <Told past={host === undefined ? value : ofHost(value, host)} path={path} host={host} only={only} />}
      <div class="column">
        {known !== undefined && only === undefined && <JobHistory job={known} />}
        {route.page === "overview" && <Throughput />}
      </div>
    </>
  );
}

/** What it says of one host. */
function ofHost(past: Past, host: string): Past {
  return {
    ...past,
    hosts: past.hosts.filter((one) => one.host === host),
    findings: past.findings.filter((one) => one.host === host || one.accused?.some((culprit) => culprit.host === host)),
    incidents: past.incidents.filter((one) => one.host === host || one.culprits.some((culprit) => culprit.host === host)),
    communicators: [],
  };
}

const MARKS: Record<Past["level"], MarkKind> = { empty: "info", idle: "ended", ok: "ok", unknown: "unknown", warning: "warning", critical: "critical" };

function Told({ past, path, host, only }: { past: Past; path: string; host: string | undefined; only: "incidents" | "findings" | undefined }) {
  const hosts = past.hosts.map((one) => asSummary(one, Date.parse(past.at)));
  // What the first incident says, or the only host, need not be said twice.
  const isTold = host !== undefined || past.incidents.length > 0;
  const troubled = new Set(hosts.filter((one) => inTrouble(one.standing)).map((one) => one.host));
  return (
    <>
      <section class={`headline compact level-${past.level}${isTold ? " unseen" : ""}`} aria-label="How it stood then">
        <div class="verdict">
          <Mark kind={MARKS[past.level]} label={capital(past.level)} large />
          <h1>{withCommands(past.sentence)}.</h1>
        </div>
      </section>
      {past.lacks.length > 0 && <ul class="past-lacks" aria-label="Not known of that time">
        {past.lacks.map((line) => (
          <li key={line}>{withCommands(line)}</li>
        ))}
      </ul>}
      <div class="column past">
        {only === "incidents" && past.incidents.length === 0 && <p class="quiet">No incident is kept that was open then.</p>}
        {past.incidents.length > 0 && only !== "findings" && (
          <Panel id="incidents" title={`${plural(past.incidents.length, "incident")} open then`}>
            <IncidentList items={past.incidents.slice(0, MAX_LINES)} />
          </Panel>
        )}
        {only === undefined && <Panel id="hosts" title={`${plural(hosts.length, "host")} then`} aside={<Export path={path} name="hosts-then" rows={() => hostRows(hosts)} />}>
          {hosts.length === 0 ? <p class="quiet">{host === undefined ? "No host is known to have had a process then." : `Nothing is kept of ${host} at that time: no process of a job was there, as far as is known.`}</p> : <HostsShown hosts={hosts} shade={shadeOf(store.route.value)} />}
        </Panel>}
        {only !== "incidents" && <Panel id="findings" title="Findings that held then" aside={<Export path={path} name="findings-then" rows={() => subjectRows(past.findings)} />}>
          <Found findings={past.findings} above={only === "findings" ? [] : past.incidents} />
        </Panel>}
        {host === undefined && only === undefined && <Pace past={past} path={path} />}
        {host === undefined && only === undefined && <Communicators items={past.communicators} troubled={troubled} path={path} />}
      </div>
    </>
  );
}

/** But for what the incidents above tell. */
function Found({ findings, above }: { findings: Finding[]; above: Incident[] }) {
  if (findings.length === 0) return <p class="quiet">Nothing is kept that held then.</p>;
  const left = untold(findings, above);
  const told = findings.length - left.length;
  const groups = group(left);
  return (
    <>
      {told > 0 && <p class="quiet">{plural(told, "finding")} {told === 1 ? "belongs" : "belong"} to the {above.length === 1 ? "incident" : "incidents"} above.</p>}
      <ul class="findings">
        {groups.slice(0, MAX_LINES).map((one) => (
          <FindingLine key={one.key} group={one} />
        ))}
      </ul>
      {groups.length > MAX_LINES && <p class="quiet">{integer(groups.length - MAX_LINES)} more of less weight.</p>}
    </>
  );
}

/** How fast jobs went around that moment. */
function Pace({ past, path }: { past: Past; path: string }) {
  const jobs = new Set(past.communicators.map((one) => one.job));
  if (jobs.size === 0) return null;
  const shown = past.paces.slice(0, MAX_LINES);
  return (
    <Panel id="pace-then" title="How fast jobs went then" aside={<Export path={path} name="pace-then" />}>
      {shown.length === 0 ? <p class="quiet">Not known: no times of steps are kept of then.</p> : (
        <ul>
          {shown.map((one) => (
            <li key={one.job}><b>{one.job}</b> {paceWords(one)}</li>
          ))}
        </ul>
      )}
      {past.paces.length > shown.length && <p class="quiet">{integer(past.paces.length - shown.length)} more jobs.</p>}
    </Panel>
  );
}

/** Those in use then; the rings of one of them. */
function Communicators({ items, troubled, path }: { items: PastCommunicator[]; troubled: ReadonlySet<string>; path: string }) {
  const [chosen, choose] = useState<string | undefined>(undefined);
  const [all, showAll] = useState(false);
  const drawn = all ? MANY : FEW;
  const jobs = new Set(items.map((one) => one.job)).size > 1;
  const largest = [...items].sort((a, b) => b.n_ranks - a.n_ranks);
  const shown = items.find((one) => one.id === chosen) ?? largest[0];
  return (
    <>
      <Panel id="communicators" title={`${plural(items.length, "communicator")} in use then`} aside={<Export path={path} name="communicators-then" />}>
        {items.length === 0 ? <p class="quiet">None is kept that was in use then.</p> : (
          <div class="scroller" tabIndex={0} role="region" aria-label="Communicators in use then">
            <table class="past-communicators">
              <thead>
                <tr>
                  <th scope="col">Communicator</th>
                  {jobs && <th scope="col" class="wide">Job</th>}
                  <th scope="col" class="number">Ranks</th>
                  <th scope="col" class="number wide">Hosts</th>
                  <th scope="col" class="number" title="Lowest init channel count, and the count in use">Channels</th>
                  <th scope="col" class="number">Bandwidth</th>
                  <th scope="col" class="wide">In use</th>
                </tr>
              </thead>
              <tbody>
                {largest.slice(0, drawn).map((one) => (
                  <tr key={one.id} aria-selected={one === shown}>
                    <th scope="row"><button type="button" class="plain" aria-pressed={one === shown} onClick={() => choose(one.id)}>{one.name ?? one.id}</button></th>
                    {jobs && <td class="wide">{one.job}</td>}
                    <td class="number">{integer(one.n_ranks)}</td>
                    <td class="number wide">{integer(one.n_hosts)}</td>
                    <td class="number">{one.base ?? "–"} → {one.final_channels ?? "–"}</td>
                    <td class="number">{one.completed_bytes_per_s === null ? "not recorded" : bandwidth(one.completed_bytes_per_s)}</td>
                    <td class="wide">{one.ended === undefined ? <>since <Time at={one.created} /></> : <><Time at={one.created} /> – <Time at={one.ended} /></>}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
        {items.length > drawn && (
          <p class="quiet">{all ? `and ${integer(items.length - drawn)} more, none larger` : <button type="button" class="plain" onClick={() => showAll(true)}>Show {integer(items.length - drawn)} more, none larger</button>}</p>
        )}
      </Panel>
      {shown !== undefined && (
        <Panel id="ring-panel" title={`Rings of ${shown.name ?? shown.id} then`} aside={<a href={store.link({ page: "communicator", comm: shown.id, at: undefined })}>The communicator now</a>}>
          <PastRings of={shown} troubled={troubled} />
        </Panel>
      )}
    </>
  );
}
