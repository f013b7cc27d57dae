/** Channels and rings. */

import type { Case, Firing } from "../promtool.js";
import { channels, comm, finding, here, instance, job, SILENCED } from "./series.js";

const ALL = [
  "InitBelowHalfFinal",
  "InitBelowHalfFinalUnexplained",
  "ChannelShortfall",
  "CappedByPeer",
  "FinalDisagrees",
  "FinalUnexplained",
  "ChannelRegression",
  "TransportFallback",
  "RailMismatch",
  "PartlySeen",
];

const page = "communicators/f1";

/** A kind of finding that has an alert of its own: it fires, and no other; its severity is the finding's. */
function alone(
  kind: string,
  cause: string,
  severity: string,
  text: Pick<Firing, "alert" | "summary" | "description">,
): Case {
  const labels = { ...here, finding: kind, cause, severity };
  return {
    name: `${kind} alone`,
    series: { ...channels({ "host-1": 2, "host-2": 2 }, 4), ...finding(kind, cause, severity) },
    fires: [{ ...text, labels, section: kind, page, at: ["5s", "5m"] }],
    silent: ALL.filter((alert) => alert !== text.alert),
    until: "2m",
  };
}

const shortfall = {
  alert: "ChannelShortfall",
  labels: { ...here, finding: "channel_shortfall", cause: "nic_down", severity: "critical" },
  section: "channel_shortfall",
  page,
  summary: "host-2 holds job train back",
  description:
    "host-2 found 1 channels where others found 2, so the 8 ranks of communicator f1 of job train run on 2 (nic_down).",
};

const halfFinal = {
  alert: "InitBelowHalfFinal",
  labels: { ...here, severity: "info" },
  section: "init_below_half_final",
  page,
  summary: "host-2 found less than half of the channels that it runs on",
  description:
    "host-2 found 2 and runs on 8 in communicator f1 of job train. The finding's cause says which rule or setting raised them.",
};

const unexplained = {
  alert: "InitBelowHalfFinalUnexplained",
  labels: { ...here, severity: "warning" },
  section: "init_below_half_final",
  page,
  summary: "host-2 runs on more than twice the channels that it found, and no known rule says why",
  description:
    "host-2 found 2 and runs on 8 in communicator f1 of job train; neither the library's rules nor a known setting explains it.",
};

export const channelCases: Case[] = [
  {
    name: "a healthy job",
    series: channels({ "host-1": 2, "host-2": 2 }, 4),
    silent: ALL,
    until: "5m",
  },
  {
    name: "a degraded host, and those that it holds back",
    series: {
      ...channels({ "host-1": 2, "host-2": 1, "host-3": 2 }, 2),
      ...finding("channel_shortfall", "nic_down", "critical"),
      ...finding("capped_by_peer", "peer_limits", "info", { ...here, host: "host-1" }),
      ...finding("capped_by_peer", "peer_limits", "info", { ...here, host: "host-3" }),
    },
    fires: [
      { ...shortfall, at: ["5s", "5m"] },
      {
        alert: "CappedByPeer",
        labels: { instance, job, comm, severity: "info" },
        section: "capped_by_peer",
        page,
        summary: "2 hosts of job train are held back by others",
        description:
          "2 hosts found up to 2 channels and run on 2 in communicator f1 of job train, because the worst host found 1. RingscopeChannelShortfall names it.",
        at: ["5s", "5m"],
      },
    ],
    silent: ALL.filter((alert) => !["ChannelShortfall", "CappedByPeer"].includes(alert)),
    until: "5m",
  },
  {
    name: "a communicator whose channels are not among the metrics",
    series: finding("channel_shortfall", "nic_down", "critical"),
    fires: [
      {
        ...shortfall,
        description:
          "host-2 found ? channels where others found ?, so the ? ranks of communicator f1 of job train run on ? (nic_down).",
        at: ["1m"],
      },
    ],
  },
  {
    name: "a degraded host whose incident somebody silenced",
    series: {
      ...channels({ "host-1": 2, "host-2": 1, "host-3": 2 }, 2),
      ...finding("channel_shortfall", "nic_down", "critical", here, SILENCED),
      ...finding("capped_by_peer", "peer_limits", "info", { ...here, host: "host-1" }, SILENCED),
    },
    silent: ALL,
    until: "5m",
  },
  {
    name: "a floor that nothing explains, whose incident somebody silenced",
    series: {
      ...channels({ "host-2": 2 }, 8),
      ...finding("init_below_half_final", "unexplained", "warning", here, SILENCED),
    },
    silent: ["InitBelowHalfFinalUnexplained"],
    until: "2m",
  },
  {
    name: "a restart of the daemon resolves nothing",
    series: {
      ...channels({ "host-1": 2, "host-2": 1 }, 2, "Nx10 stale _x2 Nx60"),
      ...finding("channel_shortfall", "nic_down", "critical", here, "1x10 stale _x2 1x60"),
    },
    fires: [{ ...shortfall, at: ["50s", "55s", "60s", "65s", "70s", "75s", "2m"] }],
  },
  {
    name: "the degraded job ended",
    series: {
      ...channels({ "host-1": 2, "host-2": 1 }, 4, "Nx10 stale"),
      ...finding("channel_shortfall", "nic_down", "critical", here, "1x10 stale"),
    },
    silent: ALL,
    at: ["180s", "3m", "10m"],
  },
  {
    name: "a floor of channels, explained",
    series: {
      ...channels({ "host-2": 2 }, 8),
      ...finding("init_below_half_final", "min_nchannels", "info"),
    },
    fires: [{ ...halfFinal, at: ["5s", "5m"] }],
    silent: ALL.filter((alert) => alert !== "InitBelowHalfFinal"),
    until: "5m",
  },
  {
    name: "more than half of the channels, and nothing says why",
    series: {
      ...channels({ "host-2": 2 }, 8),
      ...finding("init_below_half_final", "unexplained", "warning"),
    },
    fires: [
      { ...halfFinal, at: ["5s"] },
      { ...unexplained, at: ["5s", "5m"] },
    ],
    silent: ["ChannelShortfall"],
    until: "2m",
  },
  {
    name: "unexplained on another host only",
    series: {
      ...channels({ "host-2": 2 }, 8),
      ...finding("init_below_half_final", "unexplained", "warning", { ...here, host: "host-9" }),
    },
    silent: ["InitBelowHalfFinalUnexplained"],
    until: "2m",
  },
  alone("final_disagrees", "settings_differ", "critical", {
    alert: "FinalDisagrees",
    summary: "Job train will hang: its ranks disagree on the number of channels",
    description: "The 8 ranks of communicator f1 of job train run on 4 to 4 channels.",
  }),
  alone("final_unexplained", "unexplained", "info", {
    alert: "FinalUnexplained",
    summary: "Job train runs on fewer channels than the library's rules give",
    description:
      "The ranks of communicator f1 of job train run on 4 channels and the worst host found 2: most likely a setting that nothing tells of.",
  }),
  alone("channel_regression", "nic_down", "warning", {
    alert: "ChannelRegression",
    summary: "host-2 finds fewer channels than it did",
    description:
      "host-2 found 2 in communicator f1 of job train, fewer than in its previous communicator of this shape (nic_down).",
  }),
  alone("transport_fallback", "socket", "warning", {
    alert: "TransportFallback",
    summary: "host-2 uses a slower transport than its peers",
    description: "A hop of host-2 among the 8 ranks of communicator f1 of job train fell back (socket).",
  }),
  alone("rail_mismatch", "cross_rail", "warning", {
    alert: "RailMismatch",
    summary: "Traffic of host-2 leaves its rail",
    description:
      "A hop of host-2 among the 8 ranks of communicator f1 of job train leads to a NIC of another rail, while most keep theirs.",
  }),
  alone("partly_seen", "no_log", "info", {
    alert: "PartlySeen",
    summary: "ringscope sees only a part of job train",
    description:
      "Something of the 8 ranks of communicator f1 of job train is not seen (no_log). Its page says what, and how to see it.",
  }),
];
