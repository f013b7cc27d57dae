import { plural } from "../pure/format";
import * as store from "../state/store";
import { Export } from "../view/export";
import { Findings } from "../view/findings";
import { Hosts, MAX_LISTED } from "../view/hosts";
import { OpenIncidents, shownIncidents } from "../view/incident/lines";
import { JobsTable } from "../view/jobs-table";
import { Panel } from "../view/panel";
import { Throughput } from "../view/throughput";
import { jobRows } from "./jobs";

/** Jobs on the overview; the others are a click away. */
const FEW_JOBS = 6;

/** Everything at a glance: what fires, hosts, jobs, throughput. */
export function OverviewPage() {
  const jobs = store.sortedJobs.value;
  // The list of a few hosts leaves room below; the map of many does not.
  const few = store.hosts.value.items.length <= MAX_LISTED;
  return (
    <div class="overview">
      <OpenIncidents />
      <div class="column">
        <Hosts />
        <Panel id="jobs" title={plural(jobs.length, "job")} aside={<Export path="jobs?limit=1000" name="jobs" rows={() => jobRows(jobs)} />}>
          <JobsTable jobs={jobs.slice(0, FEW_JOBS)} />
          {jobs.length > FEW_JOBS && (
            <p>
              <a href={store.link({ page: "jobs" })}>All {plural(jobs.length, "job")}</a>
            </p>
          )}
        </Panel>
        {few && <Throughput />}
      </div>
      <div class="column">
        <Findings above={shownIncidents()} />
        {!few && <Throughput />}
      </div>
    </div>
  );
}
