import type { SummationGroup } from "../api";
import { plural } from "../pure/format";
import { groupRows } from "../pure/summation/tables";
import { LIVE_STATES } from "../pure/summation/words";
import { useList } from "../state/api";
import * as store from "../state/store";
import { Export } from "../view/export";
import { Panel } from "../view/panel";
import { Choice, Segments } from "../view/segments";
import { GroupsTable } from "../view/summation/groups-table";

/** Every group of workers and servers that sums for a job. */
export function SummationPage() {
  const { value, refused, missing } = useList<SummationGroup>("summation/groups", { on: "summation" });
  const route = store.route.value;
  if (route.page !== "summation") return null;
  if (value === undefined) return <p class="notice">{missing ? "This daemon knows nothing of summation groups." : (refused ?? "Asking for summation groups …")}</p>;
  if (value.items.length === 0) return <NoGroup />;
  const { job = "", state = "" } = route;
  const jobs = [...new Set(value.items.map((one) => one.job))].sort();
  const items = value.items.filter((one) => (job === "" || one.job === job) && (state === "" || (state === "live") === LIVE_STATES.has(one.state)));
  return (
    <>
      <form class="filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
        <Choice name="Job" value={job} choices={jobs.map((one) => [one, one] as const)} onPick={(next) => store.replace({ ...route, job: next || undefined })} />
        <Segments name="State" value={state} choices={[["", "All"], ["live", "Live"], ["over", "Over"]]} onPick={(next) => store.replace({ ...route, state: next || undefined })} />
      </form>
      <Panel id="summation" title={plural(items.length, "summation group")} aside={<Export path="summation/groups?limit=1000" name="summation-groups" rows={() => groupRows(items)} />}>
        {items.length === 0 ? <p class="quiet">No group fits.</p> : <GroupsTable items={items} />}
        {value.more && <p class="quiet">The daemon knows more groups than are shown here.</p>}
      </Panel>
    </>
  );
}

/** How to get one. */
function NoGroup() {
  return (
    <section class="empty panel" aria-label="No summation group">
      <h2>No job sums through the summation service</h2>
      <p>
        Workers push gradients to services that sum them, and pull the results: servers on machines with spare CPUs, and one service in each worker. A group
        appears here as soon as its members meet.
      </p>
      <dl>
        <dt>A training script that uses the Python package <code>ringscope_engine</code></dt>
        <dd>
          <code>ringscope run -- python train.py</code>
        </dd>
        <dt>
          A summation server, on a machine without GPUs; <code>RSUM_ROOT</code> and <code>RSUM_SECRET</code> as the workers have them
        </dt>
        <dd>
          <code>ringscope run -- ringscope-sumd</code>
        </dd>
      </dl>
    </section>
  );
}
