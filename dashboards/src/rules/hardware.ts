/** Alerts on the hosts' hardware. */

import { page } from "../links.js";
import { findingAlert } from "./rule.js";
import type { Alert, Group } from "./rule.js";

export const hardware: Group<Alert> = {
  name: "ringscope-hardware",
  rules: [
    findingAlert("nic_degraded", {
      name: "NicDegraded",
      summary: "A NIC of {{ $labels.host }} is degraded ({{ $labels.cause }})",
      description: "The host's page says which NIC, since when, and with which counters.",
      page: page.host,
    }),
    findingAlert("gpu_missing", {
      name: "GpuMissing",
      summary: "{{ $labels.host }} shows fewer GPUs than before, or than its peers",
      description: "The host's page says which GPUs are left.",
      page: page.host,
    }),
  ],
};
