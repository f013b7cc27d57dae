import type { CommunicatorSummary, Finding, Job, JobLevel } from "../api";
import { marks } from "../pure/chart-marks";
import { concerns, group } from "../pure/findings";
import { shortened } from "../pure/host-names";
import { communicatorLanes, findingLanes } from "../pure/lanes";
import { lifetimeRows } from "../pure/tables";
import { useList } from "../state/api";
import * as store from "../state/store";
import { Export } from "./export";
import { JobSeries } from "./job-series";
import { PaceOverTime } from "./pace-series";
import { Moments } from "./past/moments";
import { Panel } from "./panel";
import { Timeline } from "./timeline";

/** Shortest time that the pictures span: a job that just began fills them all the same. */
const MIN_SPAN_MS = 30_000;

/** How a job went over time: its steps, bytes, communicators and findings, with what happened as marks. */
export function JobHistory({ job, level }: { job: Job; level?: JobLevel | undefined }) {
  const of = `job=${encodeURIComponent(job.id)}`;
  const items = useList<CommunicatorSummary>(`communicators?${of}`, { on: "lists" }).value?.items ?? [];
  const resolved = useList<Finding>(`findings?state=resolved&${of}`, { on: "findings" });
  const endMs = Math.min(store.range.value.toMs, store.nowMs.value, job.state === "ended" ? Date.parse(job.last_seen) : Infinity);
  const fromMs = Math.min(Math.max(Math.min(store.range.value.fromMs, endMs - MIN_SPAN_MS), Date.parse(job.first_seen)), endMs - MIN_SPAN_MS);
  const range = { fromMs, toMs: endMs };
  const findings = [...store.firing.value.items.filter((one) => concerns(one, job)), ...(resolved.value?.items ?? [])];
  const happened = marks({ findings: findings.filter((one) => one.severity !== "info"), communicators: items, jobs: [job], level, nameOf: (one) => store.communicatorNames.value.get(one) ?? one }, fromMs, endMs);
  return (
    <>
      <PaceOverTime job={job.id} fromMs={fromMs} endMs={endMs} marks={happened} />
      <JobSeries job={job.id} fromMs={fromMs} endMs={endMs} marks={happened} />
      <Panel id="timeline" title="Communicators and findings over time" aside={<Export path={`communicators?${of}&limit=1000`} name={`timeline-${job.id}`} rows={() => lifetimeRows(items, findings)} />}>
        <Timeline
          range={range}
          nowMs={store.nowMs.value}
          groups={[
            { name: "Communicators", noun: "communicator", lanes: communicatorLanes(items, range), href: (comm) => store.link({ page: "communicator", comm }) },
            { name: "Findings", noun: "finding", lanes: findingLanes(group(findings), range, (words) => shortened(words, store.hostNames.value)), href: (finding) => store.link({ page: "findings", id: finding }) },
          ]}
        />
        <Moments marks={happened} />
      </Panel>
    </>
  );
}
