import type { CommunicatorSummary, Job, JobLevel, SummationGroup } from "../api";
import { integer, plural, rateOf, size } from "../pure/format";
import { groupRows } from "../pure/summation/tables";
import { communicatorRows } from "../pure/tables";
import { useApi, useList } from "../state/api";
import * as store from "../state/store";
import { Communicators } from "../view/communicators";
import { Export } from "../view/export";
import { Findings } from "../view/findings";
import { IncidentsHere, incidentsOf } from "../view/incident/lines";
import { JobHistory } from "../view/job-history";
import { JobPace } from "../view/job-pace";
import { JobTimelinePanel } from "../view/job-timeline";
import { Fact, PageHead, Stands } from "../view/page-head";
import { Panel } from "../view/panel";
import { jobMark } from "../view/standing";
import { GroupsTable } from "../view/summation/groups-table";
import { Time } from "../view/time";

/** Somebody asks for another level now and then. */
const LEVEL_MS = 30_000;

/** One job: what was found in it, its communicators, and how it went. */
export function JobPage({ id }: { id: string }) {
  const job = store.job.value;
  const of = `job=${encodeURIComponent(id)}`;
  const communicators = useList<CommunicatorSummary>(`communicators?${of}`, { on: "lists" });
  const level = useApi<JobLevel>(`jobs/${encodeURIComponent(id)}/level`, { on: "never", everyMs: LEVEL_MS }).value;
  if (job === undefined) return <p class="notice">Job {id} is not known to this daemon.</p>;
  const items = communicators.value?.items ?? [];
  const isUnseen = items.length === 0 && job.standing.condition === "unknown";
  return (
    <>
      <Head job={job} />
      <div class="column">
        <IncidentsHere items={incidentsOf(job)} />
        <Findings job={job} above={incidentsOf(job)} />
        <JobPace job={job} level={level} />
        <Panel id="communicators" title={communicators.value === undefined || isUnseen ? "Communicators" : plural(items.length, "communicator")} aside={<Export path={`communicators?${of}&limit=1000`} name={`communicators-${id}`} rows={() => communicatorRows(items)} />}>
          {communicators.value === undefined ? <p class="quiet">{communicators.refused ?? "Asking for them …"}</p> : <Communicators items={items} isUnseen={isUnseen} />}
        </Panel>
        <Summation job={id} />
        <JobTimelinePanel job={id} />
        <JobHistory job={job} level={level} />
      </div>
    </>
  );
}

/** Its summation groups: nothing where it has none, as most jobs. */
function Summation({ job }: { job: string }) {
  const of = `summation/groups?job=${encodeURIComponent(job)}`;
  const items = useList<SummationGroup>(of, { on: "summation", everyMs: 5_000 }).value?.items ?? [];
  if (items.length === 0) return null;
  return (
    <Panel id="summation" title={plural(items.length, "summation group")} aside={<Export path={`${of}&limit=1000`} name={`summation-groups-${job}`} rows={() => groupRows(items)} />}>
      <GroupsTable items={items} of={job} />
    </Panel>
  );
}

function Head({ job }: { job: Job }) {
  return (
    <PageHead crumbs={[["Jobs", store.link({ page: "jobs" })]]} name={job.id}>
      <Stands {...jobMark(job)} />
      <Fact name={job.state === "ended" ? "Ended" : "Began"}>
        <b><Time at={job.state === "ended" ? job.last_seen : job.first_seen} /></b>
        {(job.state === "stale" || job.state === "imported") && <small>{job.state}</small>}
      </Fact>
      {job.scheduled !== undefined && (
        <Fact name="Scheduled by">
          <b>{job.scheduled.by === "slurm" ? "Slurm" : "Kubernetes"}</b>
          <small>{job.scheduled.words.replace(/^(Slurm|Kubernetes), /, "").replace(/^Slurm job/, "job")}</small>
        </Fact>
      )}
      <Fact name="Hosts">
        <a href={store.link({ page: "hosts", job: job.id })}>
          <b>{integer(job.hosts.length)}</b>
        </a>
      </Fact>
      <Fact name="Ranks">
        <b>{integer(job.world_size ?? job.n_processes)}</b>
        {job.n_killed > 0 ? <small class="bad">{integer(job.n_killed)} killed</small> : <small>{integer(job.n_processes)} {job.n_processes === 1 ? "process" : "processes"} seen</small>}
      </Fact>
      <Fact name="Communicators in use">
        <b>{integer(job.active_communicators)}</b>
        <small>of {integer(job.n_communicators)} ever seen</small>
      </Fact>
      <Fact name="Completed">
        <b>{rateOf(job)}</b>
        <small>{size(job.completed_bytes)} in all</small>
      </Fact>
      {job.coverage.state === "partly" && (
        <Fact name="Coverage">
          <b class="partly">partly seen</b>
          <small title={job.coverage.lacks.join(" ")}>{job.coverage.lacks[0]}</small>
        </Fact>
      )}
    </PageHead>
  );
}
