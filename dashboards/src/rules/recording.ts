/** Series that dashboards and people ask for again and again, named `level:metric:operation`. */

import { thresholds } from "../thresholds.js";
import { DAEMON } from "./rule.js";
import type { Group, Recording } from "./rule.js";

const window = thresholds.rateWindow;

/** Primitives whose counted bytes are one rank's part: a bus carries n-1 of them (`bus_factor` in the daemon's `view`). */
const PARTS = "all_gather|reduce_scatter|all_to_all|gather|scatter";

const n = "ringscope_communicator_ranks";

/** Completed bytes per second of one rank, on average, of these primitives. */
function perRank(primitives: string): string {
  const rate = `sum by (${DAEMON}, job, comm, primitive) (rate(ringscope_completed_bytes_total{${primitives}}[${window}]))`;
  return `${rate}\n  / on (${DAEMON}, job, comm) group_left () ${n}`;
}

function onBus(primitives: string, factor: string): string {
  return `${perRank(primitives)}\n  * on (${DAEMON}, job, comm) group_left () (${factor})`;
}

export const recording: Group<Recording> = {
  name: "ringscope-recording",
  rules: [
    {
      record: "job:ringscope_issued_bytes:rate5m",
      expr: `sum by (${DAEMON}, job) (rate(ringscope_issued_bytes_total[${window}]))`,
    },
    {
      record: "job:ringscope_completed_bytes:rate5m",
      expr: `sum by (${DAEMON}, job) (rate(ringscope_completed_bytes_total[${window}]))`,
    },
    {
      record: "job:ringscope_backlog_bytes:sum",
      expr: `sum by (${DAEMON}, job) (ringscope_backlog_bytes)`,
    },
    {
      record: "job_scope:ringscope_wire_bytes:rate5m",
      expr: `sum by (${DAEMON}, job, scope) (rate(ringscope_wire_bytes_total[${window}]))`,
    },
    {
      // The lowest share of the channels in use that a host of the job found itself: below 0.5 something raises them.
      record: "job:ringscope_channel_ratio:min",
      expr: `min by (${DAEMON}, job) (ringscope_init_channels / ringscope_final_channels)`,
    },
    {
      record: "host:ringscope_completed_bytes:rate5m",
      expr: `sum by (${DAEMON}, job, host) (rate(ringscope_completed_bytes_total[${window}]))`,
    },
    {
      // Of one rank, on average, over the wall clock: while nothing runs it is 0.
      record: "comm_primitive:ringscope_completed_bytes_per_rank:rate5m",
      expr: perRank(""),
    },
    {
      // busbw as nccl-tests defines it, over the wall clock.
      record: "comm_primitive:ringscope_bus_bytes_per_rank:rate5m",
      expr: [
        onBus('primitive="all_reduce"', `2 * (${n} - 1) / ${n}`),
        onBus(`primitive=~"${PARTS}"`, `${n} - 1`),
        perRank(`primitive!~"all_reduce|${PARTS}"`),
      ].join("\nor\n"),
    },
  ],
};
