/** One communicator: who takes part, on how many channels, how fast. */

import { dashboard } from "./dashboard.js";
import { lines, NEUTRAL, stat } from "./panels.js";
import { backlog, bandwidth, channels, channelTable, findingCount, firingFindings, issuedAgainstCompleted, wireBytes } from "./parts.js";
import { DAEMON, labelVariable, now, over } from "./query.js";

const OF = `${DAEMON},job="$job",comm="$comm"`;

/** What a link of the ring carries for a byte of payload of a rank: nccl-tests' PERFORMANCE.md. */
const FACTORS: [primitives: string, factor: string][] = [
  ["all_reduce", "2 * (N - 1) / N"],
  ["all_gather|reduce_scatter|all_to_all", "(N - 1) / N"],
  ["broadcast|reduce", "N / N"],
];

/** As `busbw` of nccl-tests: the pace of one rank times the factor. */
const BUSBW = FACTORS.map(([primitives, factor]) => {
  const rate = `sum by (comm, primitive) (rate(ringscope_completed_bytes_total{${OF},primitive=~"${primitives}"}[$__rate_interval]))`;
  const perRank = `(${factor} / N)`.replaceAll("N", `ringscope_communicator_ranks{${OF}}`);
  return `${rate} * on (comm) group_left () ${perRank}`;
}).join(" or ");

export const communicator = dashboard({
  uid: "ringscope-communicator", title: "ringscope / Communicator", marks: OF, page: "/#/communicators/$comm",
  description: "One communicator: who takes part, on how many channels, how fast.",
  variables: [
    labelVariable("job", "Job", `ringscope_job_info{${DAEMON}}`, false),
    labelVariable("comm", "Communicator", `ringscope_communicator_info{${DAEMON},job="$job"}`, false),
  ],
  sections: [
    {
      panels: [
        findingCount("critical", OF, 4), findingCount("warning", OF, 4), findingCount("info", OF, 4),
        stat({
          title: "Lowest init", unit: "none", w: 4, h: 4, steps: NEUTRAL, description: "Channels that the poorest host found: what final follows from.",
          targets: now(["", `min(ringscope_init_channels{${OF}})`]),
        }),
        stat({
          title: "Final", unit: "none", w: 4, h: 4, steps: NEUTRAL, description: "Channels in use.", targets: now(["", `min(ringscope_final_channels{${OF}})`]),
        }),
        stat({
          title: "Init × 2 < final", unit: "short", w: 4, h: 4, zero: "none", steps: [[null, "green"], [1, "yellow"]],
          description: "Hosts on which twice the channels found is less than those in use. NCCL's own rules may explain it: see the cause of the finding.",
          targets: now(["", `count(ringscope_init_channels{${OF}} * 2 < ringscope_final_channels{${OF}}) or vector(0)`]),
        }),
        firingFindings(OF, ["host"]),
      ],
    },
    { title: "Channels", panels: [channels(OF, 12, "{{host}}"), channelTable(OF, 12)] },
    {
      title: "Pace",
      panels: [
        bandwidth(OF, "primitive", "{{primitive}}", 12, "Bandwidth by primitive"),
        lines({
          title: "Bus bandwidth by primitive", unit: "Bps", w: 12, h: 8,
          description: "What a link of the ring carries (busbw of nccl-tests): completed bytes of a rank times 2(n-1)/n, (n-1)/n or 1. Send and recv have none.",
          targets: over(["{{primitive}}", BUSBW]),
        }),
        issuedAgainstCompleted(OF, 12), backlog(OF, "primitive", "{{primitive}}", 12),
        lines({
          title: "Calls", unit: "ops", w: 12, h: 8, description: "Calls finished per second, by primitive.",
          targets: over(["{{primitive}}", `sum by (primitive) (rate(ringscope_completed_calls_total{${OF}}[$__rate_interval]))`]),
        }),
        wireBytes(OF, 12),
      ],
    },
  ],
});
