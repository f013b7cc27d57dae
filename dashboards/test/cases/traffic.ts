/** What is issued and completed. */

import type { Case, Series } from "../promtool.js";
import { comm, here, instance, job, series } from "./series.js";

const ALL = ["BacklogGrowing", "CompletionStands", "NoDataFromRunningJob"];

/** Samples of a communicator: bytes issued, calls completed, bytes waiting (absent: nothing tells of completion). */
function traffic(issued: string, completed: string, backlog?: string): Series {
  const labels = { ...here, primitive: "all_reduce" };
  return {
    ...series("ringscope_issued_bytes_total", labels, issued),
    ...series("ringscope_completed_calls_total", labels, completed),
    ...(backlog && series("ringscope_backlog_bytes", labels, backlog)),
  };
}

/** The incident of the job, critical, that ringscope has named. */
function incident(samples: string): Series {
  return series("ringscope_incident", { instance, job, incident: "a1", finding: "rank_missing", severity: "critical" }, samples);
}

/** A job, when its counters came last, and how many processes it has. */
function heard(state: string, at?: string): Series {
  return {
    ...series("ringscope_job_info", { instance, job, state }, "1x400"),
    ...(at && series("ringscope_job_heard_timestamp_seconds", { instance, job }, at)),
    ...(at && series("ringscope_job_processes", { instance, job, host: "host-1", state: "running" }, "4x400")),
  };
}

export const trafficCases: Case[] = [
  {
    name: "issues and completes",
    series: traffic("0+4096x240", "0+1x240", "4096x240"),
    silent: ALL,
    until: "20m",
  },
  {
    // Completion stands from 60 s on.
    name: "issues and completes no more",
    series: traffic("0+4096x240", "0+1x12 12x228", "4096x12 4096+4096x228"),
    fires: [
      {
        alert: "BacklogGrowing",
        labels: { instance, job, comm, severity: "critical" },
        section: "backlog_growing",
        page: "communicators/f1",
        summary: "Job train issues and nothing completes",
        description:
          "In 90s the ranks of communicator f1 issued 72kiB and completed no call; 96kiB wait.",
        at: ["180s"],
      },
    ],
    silent: ["BacklogGrowing"],
    at: ["60s", "90s", "120s", "140s"],
  },
  {
    name: "hangs: one more step is issued, and nothing after it",
    series: traffic("0+4096x12 1000000x228", "0+1x12 12x228", "0x12 950848x228"),
    fires: [
      {
        alert: "CompletionStands",
        labels: { instance, job, comm, severity: "warning" },
        section: "completion_stands",
        page: "communicators/f1",
        summary: "Job train has completed nothing for 5m",
        description:
          "928.6kiB of communicator f1 wait, and no call has completed for 5m: it hangs, or waits for work by design, and ringscope has named nobody.",
        at: ["375s", "15m"],
      },
    ],
    silent: ["BacklogGrowing"],
    until: "15m",
  },
  {
    name: "hangs, and ringscope has named who it is",
    series: {
      ...traffic("0+4096x12 1000000x228", "0+1x12 12x228", "0x12 950848x228"),
      ...incident("_x14 1x226"),
    },
    silent: ["CompletionStands"],
    until: "15m",
  },
  {
    name: "issues and completes no more, and somebody silenced the incident",
    series: { ...traffic("0+4096x240", "0+1x12 12x228", "4096x12 4096+4096x228"), ...incident("_x14 1x2 0x224") },
    silent: ALL,
    until: "15m",
  },
  {
    name: "completes seldom",
    series: traffic("0+4096x240", "0x47 1x47 2x47 3x47 4x47", "4096x240"),
    silent: ["CompletionStands"],
    until: "18m",
  },
  {
    name: "has nothing to do",
    series: traffic("4096x240", "1x240", "0x240"),
    silent: ALL,
    until: "15m",
  },
  {
    name: "nothing tells of completion",
    series: traffic("0+4096x240", "0x240"),
    silent: ALL,
    until: "15m",
  },
  {
    name: "the counters start again, as when a daemon without a store restarts",
    series: traffic("0+4096x60 stale _x2 0+4096x200", "0+1x60 stale _x2 0+1x200", "4096x60 stale _x2 4096x200"),
    silent: ALL,
    until: "15m",
  },
  {
    name: "the job ended while it hung",
    series: traffic("1000000x12 stale", "12x12 stale", "950848x12 stale"),
    silent: ALL,
    until: "15m",
  },
  {
    name: "a job that runs and calls nothing",
    series: heard("running", "60x400"),
    fires: [
      {
        alert: "NoDataFromRunningJob",
        labels: { instance, job, severity: "warning" },
        section: "no_data_from_running_job",
        page: "jobs/train",
        summary: "Job train runs and calls no collective",
        description:
          "The 4 processes of job train live, and their counters have not moved for 16m 0s: the job stands, or its calls go past the collector.",
        at: ["1020s"],
      },
    ],
    silent: ["NoDataFromRunningJob"],
    until: "16m",
  },
  {
    name: "a job that calls nothing, and somebody silenced the incident",
    series: { ...heard("running", "60x400"), ...incident("0x400") },
    silent: ALL,
    until: "30m",
  },
  { name: "a job that calls", series: heard("running", "0+5x400"), silent: ALL, until: "30m" },
  { name: "a job that ended", series: heard("ended"), silent: ALL, until: "30m" },
  { name: "a job whose agents are away has another alert", series: heard("stale", "60x400"), silent: ALL, until: "30m" },
];
