/** The files that are built from here, by path in `dashboards/`. */

import { stringify } from "yaml";

import { dashboards } from "./grafana/index.js";
import { channels } from "./rules/channels.js";
import { incidents } from "./rules/incidents.js";
import { hardware } from "./rules/hardware.js";
import { itself } from "./rules/itself.js";
import { recording } from "./rules/recording.js";
import { summation } from "./rules/summation.js";
import { traffic } from "./rules/traffic.js";

const HEAD = "# Built from dashboards/src by `cargo xtask dashboards`. Do not edit.\n";

export const alertGroups = [incidents, channels, traffic, summation, hardware, itself];
export const recordingGroups = [recording];

export function files(): Map<string, string> {
  const rules = (groups: unknown) => HEAD + stringify({ groups }, { lineWidth: 0 });
  const pictures = Object.entries(dashboards);
  return new Map([
    ...pictures.map(([name, one]): [string, string] => [`grafana/${name}.json`, `${JSON.stringify(one, null, 1)}\n`]),
    ["rules/alerts.yml", rules(alertGroups)],
    ["rules/recording.yml", rules(recordingGroups)],
  ]);
}
