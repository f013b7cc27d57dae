import type { HostSummary, Job } from "../api";
import { plural, rateOf } from "../pure/format";
import type { CsvValue } from "../pure/csv";
import { inTrouble, worstFirst } from "../pure/condition";
import { byName } from "../pure/names";
import { SHADE_NAMES, SHADES, type Shade } from "../pure/heat";
import type { Place, Route } from "../pure/route";
import * as store from "../state/store";
import { HeatMap } from "./heat-map";
import { HostName } from "./host-name";
import { inBrief, ToldAbove } from "./incident/lines";
import { Mark } from "./mark";
import { Export } from "./export";
import { Panel } from "./panel";
import { hostMark } from "./standing";
import { withCommands } from "./with-commands";

/** Above this many hosts the list is a grid, with those in trouble named above it. */
export const MAX_LISTED = 24;
/** Hosts in trouble named above the grid. */
const MAX_NAMED = 8;

/** The hosts of a job, or every one. */
export function Hosts({ job }: { job?: Job | undefined }) {
  const shade = shadeOf(store.route.value);
  const all = [...store.hosts.value.items].sort((a, b) => byName(a.host, b.host));
  const hosts = job === undefined ? all : all.filter((host) => job.hosts.includes(host.host));
  return (
    <Panel
      id="hosts"
      title={plural(hosts.length, "host")}
      aside={
        <>
          {hosts.length > MAX_LISTED && <ShadeChoice shade={shade} />}
          <Export path={job === undefined ? "nodes?limit=1000" : `nodes?job=${encodeURIComponent(job.id)}&limit=1000`} name="hosts" rows={() => hostRows(hosts)} />
        </>
      }
    >
      <HostsShown hosts={hosts} shade={shade} />
      {store.hosts.value.more && <p class="quiet">There are more hosts than are shown here.</p>}
    </Panel>
  );
}

/** Few as a list, many as a map with those in trouble named above it. */
export function HostsShown({ hosts, shade }: { hosts: HostSummary[]; shade: Shade }) {
  return hosts.length <= MAX_LISTED ? <HostList hosts={hosts} /> : <Many hosts={hosts} shade={shade} />;
}

function Many({ hosts, shade }: { hosts: HostSummary[]; shade: Shade }) {
  const all = worstFirst(hosts.filter((host) => inTrouble(host.standing)));
  // Who only waits is counted, as long as somebody is named.
  const accused = all.filter((host) => hostMark(host).kind !== "waits");
  const troubled = accused.length > 0 ? accused : all;
  const waiting = all.length - troubled.length;
  const named = troubled.slice(0, MAX_NAMED);
  return (
    <>
      {named.length > 0 && <HostList hosts={named} />}
      {troubled.length > MAX_NAMED && <p class="quiet">{troubled.length - MAX_NAMED} more hosts in trouble are marked below.</p>}
      {waiting > 0 && <p class="quiet">{plural(waiting, "host")} {waiting === 1 ? "waits" : "wait"} because of it: ◇ below.</p>}
      <HeatMap hosts={hosts} shade={shade} />
    </>
  );
}

/** The table as CSV. */
export function hostRows(hosts: HostSummary[]): CsvValue[][] {
  const head = ["host", "condition", "reason", "jobs", "processes", "init_channels", "final_channels", "completed_bytes_per_s", "nics", "nics_down", "gpus", "last_seen"];
  return [head, ...hosts.map((one) => [
    one.host, one.standing.condition, one.standing.reason, one.jobs.join(" "), one.n_processes, one.init_channels, one.final_channels, one.completed_bytes_per_s,
    one.n_nics, one.n_nics_down, one.n_gpus, one.last_seen,
  ])];
}

export function shadeOf(route: Route): Shade {
  return SHADES.find((one) => "shade" in route && route.shade === one) ?? "bandwidth";
}

/** What the cells' shade says; it stands in the address. */
export function ShadeChoice({ shade }: { shade: Shade }) {
  return (
    <fieldset class="segments small">
      <legend class="unseen">Shade</legend>
      {SHADES.map((one) => (
        <label key={one} class={one === shade ? "on" : ""}>
          <input type="radio" name="shade" checked={one === shade} onChange={() => store.replace({ ...store.route.value, shade: one === "bandwidth" ? undefined : one } as Place)} />
          {SHADE_NAMES[one]}
        </label>
      ))}
    </fieldset>
  );
}

function HostList({ hosts }: { hosts: HostSummary[] }) {
  const top = Math.max(1, ...hosts.map((host) => host.completed_bytes_per_s));
  return (
    <table class="hosts-table">
      <thead>
        <tr>
          <th scope="col">Host</th>
          <th scope="col" class="number" title="Init channels: what the host's own search found">
            init
          </th>
          <th scope="col" class="number" title="Final channels: what the communicator uses">
            final
          </th>
          <th scope="col">
            <span class="unseen">Completed bandwidth</span>
          </th>
        </tr>
      </thead>
      {hosts.map((host) => (
        <HostRows key={host.host} host={host} share={Math.max(0, host.completed_bytes_per_s) / top} />
      ))}
    </table>
  );
}

function HostRows({ host, share }: { host: HostSummary; share: number }) {
  const mark = hostMark(host);
  const reasons = reasonsOf(host);
  return (
    <tbody class={`is-${mark.kind}`} data-host={host.host} title={mark.loud ? undefined : mark.why}>
      <tr>
        <th scope="row">
          <a href={store.link({ page: "host", host: host.host })}>
            <Mark kind={mark.kind} label={mark.label} />
            <HostName of={host.host} />
          </a>
        </th>
        <td class="number">{host.init_channels ?? "–"}</td>
        <td class="number">{host.final_channels ?? "–"}</td>
        <td class="rate">
          <span class="bar" aria-hidden="true">
            <i style={{ width: `${Math.round(share * 100)}%` }} />
          </span>
          <span class="number">{host.n_processes === 0 ? "no process" : rateOf(host)}</span>
        </td>
      </tr>
      {mark.loud && (
        <tr class="why">
          <td colSpan={4}>
            {reasons.map((reason) => (
              <p key={reason}><ToldAbove words={reason}>{withCommands(inBrief(reason))}</ToldAbove></p>
            ))}
          </td>
        </tr>
      )}
    </tbody>
  );
}

/** Why it stands as it does, then what else was found on it. */
function reasonsOf(host: HostSummary): string[] {
  const more = host.reasons.filter((one) => !host.standing.reason.includes(one));
  return [...new Set([host.standing.reason, ...more])].slice(0, MAX_REASONS);
}
const MAX_REASONS = 4;
