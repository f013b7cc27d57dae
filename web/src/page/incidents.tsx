import type { Incident } from "../api";
import { integer, plural } from "../pure/format";
import { newestFirst, worstIncidentsFirst } from "../pure/incidents";
import type { IncidentsRoute } from "../pure/route";
import { incidentRows } from "../pure/tables";
import { useList } from "../state/api";
import * as store from "../state/store";
import { Export } from "../view/export";
import { IncidentList } from "../view/incident/lines";
import { Panel } from "../view/panel";
import { Choice, Segments } from "../view/segments";

/** Lines drawn; more are counted. */
const MAX_LINES = 100;

/** What somebody has to look at, and what somebody had to. */
export function IncidentsPage() {
  const route = store.route.value as IncidentsRoute;
  const path = pathOf(route);
  const { value, refused } = useList<Incident>(path, { on: "incidents" });
  const items = (value?.items ?? []).filter(({ host, culprits }) => route.host === undefined || host === route.host || culprits.some((one) => one.host === route.host));
  const open = worstIncidentsFirst(items.filter((one) => one.state === "firing"));
  const over = newestFirst(items.filter((one) => one.state === "resolved"));
  const change = (next: Partial<IncidentsRoute>) => store.replace({ ...route, ...next });
  return (
    <>
      <form class="filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
        <Segments name="State" value={route.state ?? ""} choices={[["", "Any state"], ["firing", "Open"], ["resolved", "Over"]]} onPick={(state) => change({ state: state || undefined })} />
        <Choice name="Job" value={route.job ?? ""} choices={store.sortedJobs.value.map((job) => [job.id, job.id])} onPick={(job) => change({ job: job || undefined })} />
        <label class="field">
          Host
          <input type="search" value={route.host ?? ""} placeholder="any" onChange={(event) => change({ host: event.currentTarget.value.trim() || undefined })} />
        </label>
      </form>
      {value === undefined && <p class={refused === undefined ? "quiet" : "notice"}>{refused ?? "Asking for the incidents …"}</p>}
      {value !== undefined && route.state !== "resolved" && (
        <Panel id="open" title={open.length === 0 ? "No incident is open" : plural(open.length, "open incident")}
          aside={<Export path={path} name="incidents" rows={() => incidentRows(items)} />}>
          <Lines items={open} empty={nothingOpen(route)} advice />
        </Panel>
      )}
      {value !== undefined && route.state !== "firing" && (
        <Panel id="history" title="Over">
          <Lines items={over} empty="None that fits is known." />
          {value.more && <p class="quiet">There are more than are shown here: narrow the filters.</p>}
        </Panel>
      )}
    </>
  );
}

/** That there is no incident does not say that all is known. */
function nothingOpen({ job, host }: IncidentsRoute): string {
  if (job !== undefined || host !== undefined) return "None that fits the filters.";
  return store.health.value?.level === "unknown" ? "Nothing is known to be wrong; what is not known stands above." : "Nothing is known to be wrong.";
}

function Lines({ items, empty, advice = false }: { items: Incident[]; empty: string; advice?: boolean }) {
  if (items.length === 0) return <p class="quiet">{empty}</p>;
  return (
    <>
      <IncidentList items={items.slice(0, MAX_LINES)} advice={advice} />
      {items.length > MAX_LINES && <p class="quiet">{integer(items.length - MAX_LINES)} more: narrow the filters.</p>}
    </>
  );
}

function pathOf({ state, job }: IncidentsRoute): string {
  const query = new URLSearchParams();
  if (state !== undefined) query.set("state", state);
  if (job !== undefined) query.set("job", job);
  return query.size === 0 ? "incidents" : `incidents?${query}`;
}
