/** Alerts on channels and rings. */

import { page } from "../links.js";
import { thresholds } from "../thresholds.js";
import { alert, DAEMON, finding, findingAlert, number } from "./rule.js";
import type { Alert, Group } from "./rule.js";

const host = ["job", "comm", "host"];
const comm = ["job", "comm"];
const FOUND = number("ringscope_init_channels{%labels%}", host);
const FINAL = number("ringscope_final_channels{%labels%}", host);
const RUNS_ON = number("max(ringscope_final_channels{%labels%})", comm);
const LEAST_FINAL = number("min(ringscope_final_channels{%labels%})", comm);
const MOST = number("max(ringscope_init_channels{%labels%})", comm);
const LEAST = number("min(ringscope_init_channels{%labels%})", comm);
const RANKS = number("ringscope_communicator_ranks{%labels%}", comm);

const literal = `ringscope_init_channels * 2 < ringscope_final_channels\nand count_over_time(ringscope_init_channels[${thresholds.twice}]) >= 2`;
const HERE = "communicator {{ $labels.comm }} of job {{ $labels.job }}";

export const channels: Group<Alert> = {
  name: "ringscope-channels",
  rules: [
    alert({
      name: "InitBelowHalfFinal",
      section: "init_below_half_final",
      expr: literal,
      severity: "info",
      summary: "{{ $labels.host }} found less than half of the channels that it runs on",
      description: `{{ $labels.host }} found ${FOUND} and runs on ${FINAL} in ${HERE}. The finding's cause says which rule or setting raised them.`,
      page: page.communicator,
    }),
    alert({
      name: "InitBelowHalfFinalUnexplained",
      section: "init_below_half_final",
      expr: `(${literal})\nand on (${DAEMON}, job, comm, host) ringscope_finding{finding="init_below_half_final",cause="unexplained"} == 1`,
      severity: "warning",
      summary: "{{ $labels.host }} runs on more than twice the channels that it found, and no known rule says why",
      description: `{{ $labels.host }} found ${FOUND} and runs on ${FINAL} in ${HERE}; neither the library's rules nor a known setting explains it.`,
      page: page.communicator,
    }),
    findingAlert("channel_shortfall", {
      name: "ChannelShortfall",
      summary: "{{ $labels.host }} holds job {{ $labels.job }} back",
      description: `{{ $labels.host }} found ${FOUND} channels where others found ${MOST}, so the ${RANKS} ranks of ${HERE} run on ${RUNS_ON} ({{ $labels.cause }}).`,
      page: page.communicator,
    }),
    alert({
      // One for the communicator: the healthy hosts of a big job are hundreds.
      name: "CappedByPeer",
      section: "capped_by_peer",
      expr: `count by (${DAEMON}, job, comm, severity, incident) (${finding("capped_by_peer")})`,
      summary: "{{ $value }} hosts of job {{ $labels.job }} are held back by others",
      description: `{{ $value }} hosts found up to ${MOST} channels and run on ${RUNS_ON} in ${HERE}, because the worst host found ${LEAST}. RingscopeChannelShortfall names it.`,
      page: page.communicator,
    }),
    findingAlert("final_disagrees", {
      name: "FinalDisagrees",
      summary: "Job {{ $labels.job }} will hang: its ranks disagree on the number of channels",
      description: `The ${RANKS} ranks of ${HERE} run on ${LEAST_FINAL} to ${RUNS_ON} channels.`,
      page: page.communicator,
    }),
    findingAlert("final_unexplained", {
      name: "FinalUnexplained",
      summary: "Job {{ $labels.job }} runs on fewer channels than the library's rules give",
      description: `The ranks of ${HERE} run on ${RUNS_ON} channels and the worst host found ${LEAST}: most likely a setting that nothing tells of.`,
      page: page.communicator,
    }),
    findingAlert("channel_regression", {
      name: "ChannelRegression",
      summary: "{{ $labels.host }} finds fewer channels than it did",
      description: `{{ $labels.host }} found ${FOUND} in ${HERE}, fewer than in its previous communicator of this shape ({{ $labels.cause }}).`,
      page: page.communicator,
    }),
    findingAlert("transport_fallback", {
      name: "TransportFallback",
      summary: "{{ $labels.host }} uses a slower transport than its peers",
      description: `A hop of {{ $labels.host }} among the ${RANKS} ranks of ${HERE} fell back ({{ $labels.cause }}).`,
      page: page.communicator,
    }),
    findingAlert("rail_mismatch", {
      name: "RailMismatch",
      summary: "Traffic of {{ $labels.host }} leaves its rail",
      description: `A hop of {{ $labels.host }} among the ${RANKS} ranks of ${HERE} leads to a NIC of another rail, while most keep theirs.`,
      page: page.communicator,
    }),
    findingAlert("partly_seen", {
      name: "PartlySeen",
      summary: "ringscope sees only a part of job {{ $labels.job }}",
      description: `Something of the ${RANKS} ranks of ${HERE} is not seen ({{ $labels.cause }}). Its page says what, and how to see it.`,
      page: page.communicator,
    }),
  ],
};
