import type { Job } from "../api";
import type { CsvValue } from "../pure/csv";
import { integer, plural } from "../pure/format";
import * as store from "../state/store";
import { Export } from "../view/export";
import { JobsTable } from "../view/jobs-table";
import { Panel } from "../view/panel";
import { Segments } from "../view/segments";

/** Rows drawn; more are found by name. */
const MAX_ROWS = 200;

/** Every job. */
export function JobsPage() {
  const route = store.route.value;
  if (route.page !== "jobs") return null;
  const { q = "", state = "" } = route;
  const wanted = q.toLowerCase();
  const jobs = store.sortedJobs.value.filter((job) =>
    (state === "" || (state === "ended") === (job.state === "ended")) && (job.id.toLowerCase().includes(wanted) || job.hosts.some((host) => host.toLowerCase() === wanted)));
  return (
    <>
      <form class="filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
        <label class="field">
          Name or host
          <input type="search" value={q} placeholder="any" onInput={(event) => store.replace({ ...route, q: event.currentTarget.value || undefined })} />
        </label>
        <Segments name="State" value={state} choices={[["", "All"], ["live", "Live"], ["ended", "Ended"]]} onPick={(next) => store.replace({ ...route, state: next || undefined })} />
      </form>
      <Panel id="jobs" title={plural(jobs.length, "job")} aside={<Export path="jobs?limit=1000" name="jobs" rows={() => jobRows(jobs)} />}>
        {jobs.length === 0 ? <p class="quiet">No job fits.</p> : <JobsTable jobs={jobs.slice(0, MAX_ROWS)} />}
        {jobs.length > MAX_ROWS && <p class="quiet">{integer(jobs.length - MAX_ROWS)} more: narrow the search.</p>}
        {store.jobs.value.more && <p class="quiet">The daemon knows more jobs than are shown here.</p>}
      </Panel>
    </>
  );
}

/** The table as CSV. */
export function jobRows(jobs: Job[]): CsvValue[][] {
  const head = ["job", "state", "first_seen", "last_seen", "hosts", "world_size", "processes", "killed", "completed_bytes_per_s", "issued_bytes", "completed_bytes", "critical", "warning", "info"];
  return [head, ...jobs.map((job) => [
    job.id, job.state, job.first_seen, job.last_seen, job.hosts.length, job.world_size, job.n_processes, job.n_killed, job.completed_bytes_per_s,
    job.issued_bytes, job.completed_bytes, job.findings.critical, job.findings.warning, job.findings.info,
  ])];
}
