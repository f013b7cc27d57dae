import type { Job } from "../api";
import { duration, integer, iso, rateOf, size } from "../pure/format";
import * as store from "../state/store";
import { Counts } from "./counts";
import { inBrief, ToldAbove } from "./incident/lines";
import { Mark } from "./mark";
import { jobMark } from "./standing";
import { Time } from "./time";
import { withCommands } from "./with-commands";

/** Jobs, a row each. */
export function JobsTable({ jobs }: { jobs: Job[] }) {
  const nowMs = store.nowMs.value;
  return (
    <div class="scroller" tabIndex={0} role="region" aria-label="Jobs">
      <table class="jobs-table">
        <thead>
          <tr>
            <th scope="col">Job</th>
            <th scope="col">State</th>
            <th scope="col" class="number narrow">Hosts</th>
            <th scope="col" class="number narrow">Ranks</th>
            <th scope="col" class="number narrow">Bandwidth</th>
            <th scope="col" class="number wide" title="Issued and not completed">Backlog</th>
            <th scope="col">Findings</th>
            <th scope="col" class="number wide">Since</th>
          </tr>
        </thead>
        {jobs.map((job) => (
          <Row key={job.id} job={job} nowMs={nowMs} />
        ))}
      </table>
    </div>
  );
}

const COLUMNS = 8;

function Row({ job, nowMs }: { job: Job; nowMs: number }) {
  const mark = jobMark(job);
  const ended = job.state === "ended";
  return (
    <tbody class={`is-${mark.kind}`} data-job={job.id} title={mark.loud ? undefined : mark.why}>
    <tr>
      <th scope="row">
        <a href={store.link({ page: "job", job: job.id })}>{job.id}</a>
      </th>
      <td class="state">
        <Mark kind={mark.kind} /> {mark.label}
        {job.n_killed > 0 && <small class="bad"> {integer(job.n_killed)} killed</small>}
        {job.coverage.state === "partly" && !ended && <small title={job.coverage.lacks.join(" ")}> partly seen</small>}
      </td>
      <td class="number narrow">{integer(job.hosts.length)}</td>
      <td class="number narrow">{integer(job.world_size ?? job.n_processes)}</td>
      <td class="number narrow">{ended ? "–" : rateOf(job)}</td>
      <td class="number wide">{ended ? "–" : size(Math.max(0, job.issued_bytes - job.completed_bytes))}</td>
      <td>
        <Counts counts={job.findings} href={(severity) => store.link({ page: "findings", job: job.id, severity, state: "firing" })} />
      </td>
      <td class="number wide" title={iso(Date.parse(job.first_seen))}>
        {ended ? <>ended <Time at={job.last_seen} /></> : duration(Math.max(0, (nowMs - Date.parse(job.first_seen)) / 1000))}
      </td>
    </tr>
    {mark.loud && (
      <tr class="why">
        <td colSpan={COLUMNS}><ToldAbove words={mark.why}>{withCommands(inBrief(mark.why))}</ToldAbove></td>
      </tr>
    )}
    </tbody>
  );
}
