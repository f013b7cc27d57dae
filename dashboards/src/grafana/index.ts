/** Every dashboard, by the name of its file. */

import type { Dashboard } from "@grafana/schema";
import { communicator } from "./communicator.js";
import { fleet } from "./fleet.js";
import { host } from "./host.js";
import { itself } from "./itself.js";
import { job } from "./job.js";
import { summation } from "./summation.js";

export const dashboards: Record<string, Dashboard> = { fleet, job, communicator, summation, host, itself };
