/** The alerts, by Prometheus' own test of rules. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { alertGroups } from "../src/files.js";
import { channelCases } from "./cases/channels.js";
import { hardwareCases, itselfCases } from "./cases/itself.js";
import { comm, host, instance, job, series } from "./cases/series.js";
import { incidentCases } from "./cases/incidents.js";
import { summationCases } from "./cases/summation.js";
import { trafficCases } from "./cases/traffic.js";
import { check, checkExpressions } from "./promtool.js";
import type { Case } from "./promtool.js";

const groups: Record<string, Case[]> = {
  incidents: incidentCases,
  channels: channelCases,
  traffic: trafficCases,
  summation: summationCases,
  hardware: hardwareCases,
  itself: itselfCases,
};

for (const [name, cases] of Object.entries(groups)) {
  test(`${name}: what must fire does, and nothing else`, () => check(cases));
}

test("each alert has a case in which it fires, with a severity, and one in which it must not", () => {
  const cases = Object.values(groups).flat();
  const alerts = alertGroups.flatMap((group) => group.rules.map((rule) => rule.alert.replace("Ringscope", "")));
  const fires = cases.flatMap((one) => one.fires ?? []);
  const silent = cases.flatMap((one) => one.silent ?? []);
  assert.deepEqual([...new Set(fires.map((one) => one.alert))].sort(), [...alerts].sort());
  assert.deepEqual([...new Set(silent)].sort(), [...alerts].sort());
  for (const one of fires) {
    assert.match(one.labels["severity"] ?? "none", /^(critical|warning|info)$/, one.alert);
  }
});

test("recording rules give what nccl-tests would", () => {
  const one = { instance, job, comm };
  const bytes = (primitive: string, host: string) =>
    series("ringscope_completed_bytes_total", { ...one, host, primitive }, "0+5000x60");
  // Rounded: a rate is not exact in its last digit.
  const recorded = (primitive: string) => `{comm="f1",instance="d:9440",job="train",primitive="${primitive}"}`;
  const bus = (primitive: string) => `round(comm_primitive:ringscope_bus_bytes_per_rank:rate5m{primitive="${primitive}"})`;
  checkExpressions(
    {
      ...bytes("all_reduce", host),
      ...bytes("all_reduce", "host-1"),
      ...bytes("all_gather", host),
      ...bytes("broadcast", host),
      ...series("ringscope_communicator_ranks", one, "4x60"),
      ...series("ringscope_init_channels", { ...one, host }, "2x60"),
      ...series("ringscope_final_channels", { ...one, host }, "8x60"),
    },
    "5m",
    {
      // 2 000 bytes a second over four ranks, times 2(n-1)/n.
      [bus("all_reduce")]: [[recorded("all_reduce"), 750]],
      [bus("all_gather")]: [[recorded("all_gather"), 750]],
      [bus("broadcast")]: [[recorded("broadcast"), 250]],
      "round(job:ringscope_completed_bytes:rate5m)": [['{instance="d:9440",job="train"}', 4000]],
      "job:ringscope_channel_ratio:min": [
        ['job:ringscope_channel_ratio:min{instance="d:9440",job="train"}', 0.25],
      ],
    },
  );
});
