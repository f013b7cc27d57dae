import type { HostSummary } from "../api";
import { integer, iso, plural, rateOf, since } from "../pure/format";
import { inTrouble, worstFirst } from "../pure/condition";
import { byName } from "../pure/names";
import type { HostsRoute } from "../pure/route";
import * as store from "../state/store";
import { Export } from "../view/export";
import { HeatMap } from "../view/heat-map";
import { HostName } from "../view/host-name";
import { hostRows, ShadeChoice, shadeOf } from "../view/hosts";
import { Mark } from "../view/mark";
import { Panel } from "../view/panel";
import { Choice } from "../view/segments";
import { hostMark } from "../view/standing";
import { withCommands } from "../view/with-commands";

/** Rows drawn until all are asked for. */
const FEW = 60;

interface Column {
  key: string;
  name: string;
  number?: boolean;
  wide?: boolean;
  /** Left out on a telephone: the host's page has it. */
  narrow?: boolean;
  compare: (a: HostSummary, b: HostSummary) => number;
}

const number = (of: (host: HostSummary) => number | null | undefined) => (a: HostSummary, b: HostSummary) => (of(b) ?? -1) - (of(a) ?? -1);
const COLUMNS: Column[] = [
  { key: "host", name: "Host", compare: (a, b) => byName(a.host, b.host) },
  { key: "state", name: "State", compare: (a, b) => (worstFirst([a, b])[0] === a ? -1 : 1) },
  { key: "init", name: "Init", number: true, narrow: true, compare: number((host) => host.init_channels) },
  { key: "final", name: "Final", number: true, wide: true, compare: number((host) => host.final_channels) },
  { key: "rate", name: "Bandwidth", number: true, compare: number((host) => host.completed_bytes_per_s) },
  { key: "nics", name: "NICs", number: true, compare: number((host) => host.n_nics_down) },
  { key: "gpus", name: "GPUs", number: true, wide: true, compare: number((host) => host.n_gpus) },
  { key: "jobs", name: "Jobs", wide: true, compare: number((host) => host.jobs.length) },
  { key: "heard", name: "Heard", wide: true, compare: (a, b) => a.last_seen.localeCompare(b.last_seen) },
];

/** Every host: as a map, and as a table. */
export function HostsPage() {
  const route = store.route.value as HostsRoute;
  const shade = shadeOf(store.route.value);
  const hosts = kept(route);
  const path = `nodes?limit=1000${route.job === undefined ? "" : `&job=${encodeURIComponent(route.job)}`}`;
  return (
    <>
      <form class="filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
        <label class="field">
          Name
          <input type="search" value={route.q ?? ""} placeholder="any" onInput={(event) => store.replace({ ...route, q: event.currentTarget.value || undefined })} />
        </label>
        <Choice name="Job" value={route.job ?? ""} choices={store.sortedJobs.value.map((job) => [job.id, job.id])} onPick={(job) => store.replace({ ...route, job: job || undefined })} />
        <label class="check">
          <input type="checkbox" checked={route.degraded !== undefined} onChange={(event) => store.replace({ ...route, degraded: event.currentTarget.checked ? "true" : undefined })} />
          only in trouble
        </label>
      </form>
      <Panel id="hosts" title={plural(hosts.length, "host")} aside={
        <>
          <ShadeChoice shade={shade} />
          <Export path={path} name="hosts" rows={() => hostRows(hosts)} />
        </>
      }>
        {hosts.length === 0 ? <p class="quiet">No host fits.</p> : <HeatMap hosts={hosts} shade={shade} />}
        {store.hosts.value.more && <p class="quiet">The daemon knows more hosts than are shown here.</p>}
      </Panel>
      {hosts.length > 0 && <Table hosts={hosts} route={route} />}
    </>
  );
}

function Table({ hosts, route }: { hosts: HostSummary[]; route: HostsRoute }) {
  const down = route.sort?.startsWith("-") === true;
  const key = route.sort?.replace("-", "") ?? "state";
  const column = COLUMNS.find((one) => one.key === key) ?? COLUMNS[1]!;
  const sorted = [...hosts].sort((a, b) => (down ? -1 : 1) * column.compare(a, b) || byName(a.host, b.host));
  const shown = sorted.slice(0, route.all === undefined ? FEW : hosts.length);
  return (
    <Panel id="host-table" title="Table">
      <div class="scroller" tabIndex={0} role="region" aria-label="Hosts as a table">
        <table class="all-hosts">
          <thead>
            <tr>
              {COLUMNS.map((one) => (
                <th key={one.key} scope="col" class={`${one.number ? "number" : ""} ${one.wide ? "wide" : ""} ${one.narrow ? "narrow" : ""}`} aria-sort={one === column ? (down ? "descending" : "ascending") : undefined}>
                  <a href={store.link({ ...route, sort: one === column && !down ? `-${one.key}` : one.key })}>
                    {one.name}
                    <span aria-hidden="true">{one === column ? (down ? " ↑" : " ↓") : ""}</span>
                  </a>
                </th>
              ))}
            </tr>
          </thead>
          {shown.map((host) => (
            <Row key={host.host} host={host} />
          ))}
        </table>
      </div>
      {hosts.length > FEW && (
        <p>
          <a href={store.link({ ...route, all: route.all === undefined ? "true" : undefined })}>{route.all === undefined ? `Show all ${integer(hosts.length)}` : "Show fewer"}</a>
        </p>
      )}
    </Panel>
  );
}

function Row({ host }: { host: HostSummary }) {
  const nowMs = store.nowMs.peek();
  const mark = hostMark(host);
  return (
    <tbody class={`is-${mark.kind}`} data-host={host.host} title={mark.loud ? undefined : mark.why}>
    <tr>
      <th scope="row">
        <a href={store.link({ page: "host", host: host.host })}><HostName of={host.host} /></a>
      </th>
      <td class="state">
        <Mark kind={mark.kind} /> {mark.label}
      </td>
      <td class="number narrow">{host.init_channels ?? "–"}</td>
      <td class="number wide">{host.final_channels ?? "–"}</td>
      <td class="number">{host.n_processes === 0 ? "no process" : rateOf(host)}</td>
      <td class="number">
        {host.n_nics ?? "–"}
        {(host.n_nics_down ?? 0) > 0 && <small class="bad"> {host.n_nics_down} down</small>}
      </td>
      <td class="number wide">{host.n_gpus ?? "–"}</td>
      <td class="wide">{host.jobs.join(", ") || "none"}</td>
      <td class="wide quiet" title={iso(Date.parse(host.last_seen))}>{since(Date.parse(host.last_seen), nowMs)}</td>
    </tr>
    {mark.loud && (
      <tr class="why">
        <td colSpan={COLUMNS.length}>{withCommands(mark.why)}</td>
      </tr>
    )}
    </tbody>
  );
}

function kept({ q = "", job, degraded }: HostsRoute): HostSummary[] {
  const wanted = q.toLowerCase();
  return store.hosts.value.items.filter((host) =>
    host.host.toLowerCase().includes(wanted) && (job === undefined || host.jobs.includes(job)) &&
    (degraded === undefined || inTrouble(host.standing)));
}
