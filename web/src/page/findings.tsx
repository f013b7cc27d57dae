import type { Finding, FindingKind, Severity } from "../api";
import { concerns, group, kindName, KINDS, type FindingGroup } from "../pure/findings";
import { integer, plural } from "../pure/format";
import type { FindingsRoute } from "../pure/route";
import { useList } from "../state/api";
import * as store from "../state/store";
import { Export } from "../view/export";
import { FindingDetail, subjectRows } from "../view/finding-detail";
import { FindingLine } from "../view/finding-line";
import { Panel } from "../view/panel";
import { Choice, Segments } from "../view/segments";

/** Groups drawn; more are counted. */
const MAX_GROUPS = 100;

/** What was found, now and before, with its evidence and what to do. */
export function FindingsPage() {
  const route = store.route.value as FindingsRoute;
  const path = pathOf(route);
  const { value, refused } = useList<Finding>(path, { on: "findings" });
  const items = [...(value?.items ?? []), ...onItsHosts(route)];
  const groups = group(items).filter(({ first }) => route.severity === undefined || severe(first.severity, route.severity));
  const firing = groups.filter(({ first }) => first.state === "firing");
  const resolved = groups.filter(({ first }) => first.state === "resolved").sort(newestFirst);
  return (
    <>
      <Filters route={route} />
      {value === undefined && <p class="quiet">{refused ?? "Asking for the findings …"}</p>}
      {value !== undefined && route.state !== "resolved" && (
        <Panel id="firing" title={firing.length === 0 ? "Nothing is firing" : `${plural(firing.length, "conclusion")} firing`}
          aside={<Export path={path} name="findings" rows={() => subjectRows(items)} />}>
          <Lines groups={firing} open={route.id} empty={filtered(route) ? "Nothing fires that fits the filters." : "No host holds another back."} />
        </Panel>
      )}
      {value !== undefined && route.state !== "firing" && (
        <Panel id="history" title="History">
          <Lines groups={resolved} open={route.id} empty={filtered(route) ? "Nothing was resolved that fits the filters." : "Nothing was resolved yet."} />
          {value.more && <p class="quiet">There are more than are shown here: narrow the filters.</p>}
        </Panel>
      )}
    </>
  );
}

/** Hardware belongs to no job: what fires about that of the job's hosts. */
function onItsHosts({ job: id, state, kind, host }: FindingsRoute): Finding[] {
  if (id === undefined || state === "resolved") return [];
  const job = store.jobs.value.items.find((one) => one.id === id);
  return store.firing.value.items.filter((one) =>
    one.job === "" && concerns(one, job) && (kind === undefined || one.finding === kind) && (host === undefined || one.host === host));
}

function Lines({ groups, open, empty }: { groups: FindingGroup[]; open: string | undefined; empty: string }) {
  if (groups.length === 0) return <p class="quiet">{empty}</p>;
  return (
    <ul class="findings">
      {groups.slice(0, MAX_GROUPS).map((one) => {
        const isOpen = open !== undefined && one.all.some((finding) => finding.id === open);
        return (
          <FindingLine key={one.key} group={one} open={isOpen}>
            {isOpen && <FindingDetail group={one} />}
          </FindingLine>
        );
      })}
      {groups.length > MAX_GROUPS && <li class="quiet">{integer(groups.length - MAX_GROUPS)} more: narrow the filters.</li>}
    </ul>
  );
}

function Filters({ route }: { route: FindingsRoute }) {
  const change = (next: Partial<FindingsRoute>) => store.replace({ ...route, id: undefined, ...next });
  return (
    <form class="filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
      <Segments name="State" value={route.state ?? ""} choices={[["", "Any state"], ["firing", "Firing"], ["resolved", "Resolved"]]} onPick={(state) => change({ state: state || undefined })} />
      <Segments name="Severity" value={route.severity ?? ""} choices={[["", "Any severity"], ["warning", "Warning and worse"], ["critical", "Critical"]]}
        onPick={(severity) => change({ severity: severity || undefined })} />
      <Choice name="Kind" value={route.kind ?? ""} choices={KINDS.map((kind: FindingKind) => [kind, kindName(kind)])} onPick={(kind) => change({ kind: kind || undefined })} />
      <Choice name="Job" value={route.job ?? ""} choices={store.sortedJobs.value.map((job) => [job.id, job.id])} onPick={(job) => change({ job: job || undefined })} />
      <label class="field">
        Host
        <input type="search" value={route.host ?? ""} list="host-names" placeholder="any" onChange={(event) => change({ host: event.currentTarget.value.trim() || undefined })} />
      </label>
      <datalist id="host-names">
        {store.hosts.value.items.slice(0, MAX_NAMES).map((host) => <option key={host.host} value={host.host} />)}
      </datalist>
      {filtered(route) && (
        <a class="chip" href={store.link({ page: "findings" })}>
          clear filters <span aria-hidden="true">✕</span>
        </a>
      )}
    </form>
  );
}
/** Names offered while a host is typed. */
const MAX_NAMES = 200;

function filtered({ severity, state, kind, job, host }: FindingsRoute): boolean {
  return [severity, state, kind, job, host].some((one) => one !== undefined);
}

const SEVERITIES: Severity[] = ["info", "warning", "critical"];

function severe(severity: Severity, least: string): boolean {
  return SEVERITIES.indexOf(severity) >= SEVERITIES.indexOf(least as Severity);
}

function pathOf(route: FindingsRoute): string {
  const query = new URLSearchParams();
  for (const name of ["state", "kind", "job", "host"] as const) if (route[name] !== undefined) query.set(name, route[name]);
  return query.size === 0 ? "findings" : `findings?${query}`;
}

function newestFirst(a: FindingGroup, b: FindingGroup): number {
  return (b.first.resolved_at ?? "").localeCompare(a.first.resolved_at ?? "");
}
