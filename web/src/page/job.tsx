import type { CommunicatorSummary, Finding, Job, JobLevel, SummationGroup } from "../api";
import { marks } from "../pure/chart-marks";
import { concerns, group } from "../pure/findings";
import { integer, plural, rateOf, size } from "../pure/format";
import { communicatorLanes, findingLanes } from "../pure/lanes";
import { groupRows } from "../pure/summation/tables";
import { communicatorRows, lifetimeRows } from "../pure/tables";
import { useApi, useList } from "../state/api";
import * as store from "../state/store";
import { Communicators } from "../view/communicators";
import { Export } from "../view/export";
import { Findings } from "../view/findings";
import { IncidentsHere, incidentsOf } from "../view/incident/lines";
import { JobPace } from "../view/job-pace";
import { JobSeries } from "../view/job-series";
import { JobTimelinePanel } from "../view/job-timeline";
import { Fact, PageHead, Stands } from "../view/page-head";
import { Panel } from "../view/panel";
import { jobMark } from "../view/standing";
import { GroupsTable } from "../view/summation/groups-table";
import { Time } from "../view/time";
import { Timeline } from "../view/timeline";

/** Shortest time that the pictures span: a job that just began fills them all the same. */
const MIN_SPAN_MS = 30_000;
/** Somebody asks for another level now and then. */
const LEVEL_MS = 30_000;

/** One job: what was found in it, its communicators, and how it went. */
export function JobPage({ id }: { id: string }) {
  const job = store.job.value;
  const of = `job=${encodeURIComponent(id)}`;
  const communicators = useList<CommunicatorSummary>(`communicators?${of}`, { on: "lists" });
  const resolved = useList<Finding>(`findings?state=resolved&${of}`, { on: "findings" });
  const level = useApi<JobLevel>(`jobs/${encodeURIComponent(id)}/level`, { on: "never", everyMs: LEVEL_MS }).value;
  if (job === undefined) return <p class="notice">Job {id} is not known to this daemon.</p>;
  const items = communicators.value?.items ?? [];
  const isUnseen = items.length === 0 && job.standing.condition === "unknown";
  const endMs = Math.min(store.range.value.toMs, job.state === "ended" ? Date.parse(job.last_seen) : Infinity);
  const fromMs = Math.min(Math.max(Math.min(store.range.value.fromMs, endMs - MIN_SPAN_MS), Date.parse(job.first_seen)), endMs - MIN_SPAN_MS);
  const range = { fromMs, toMs: endMs };
  const findings = [...store.firing.value.items.filter((one) => concerns(one, job)), ...(resolved.value?.items ?? [])];
  const happened = marks({ findings: findings.filter((one) => one.severity !== "info"), communicators: items, jobs: [job], level, nameOf: (one) => store.communicatorNames.value.get(one) ?? one }, fromMs, endMs);
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
        <JobSeries job={id} fromMs={fromMs} endMs={endMs} marks={happened} />
        <Panel id="timeline" title="Communicators and findings over time" aside={<Export path={`communicators?${of}&limit=1000`} name={`timeline-${id}`} rows={() => lifetimeRows(items, findings)} />}>
          <Timeline
            range={range}
            nowMs={store.nowMs.value}
            groups={[
              { name: "Communicators", noun: "communicator", lanes: communicatorLanes(items, range), href: (comm) => store.link({ page: "communicator", comm }) },
              { name: "Findings", noun: "finding", lanes: findingLanes(group(findings), range), href: (finding) => store.link({ page: "findings", id: finding }) },
            ]}
          />
        </Panel>
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
