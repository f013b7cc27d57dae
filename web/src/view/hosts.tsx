import { signal } from "@preact/signals";
import type { HostSummary } from "../api";
import { bandwidth, duration, plural, rankRanges } from "../pure/format";
import { byName, worstFirst } from "../pure/health";
import { format } from "../pure/route";
import * as store from "../state/store";
import { HostGrid } from "./host-grid";
import { Mark, type MarkKind } from "./mark";
import { Panel } from "./panel";

/** Above this many hosts the list is a grid, with the degraded ones named above it. */
const MAX_LISTED = 24;
/** Degraded hosts named above the grid. */
const MAX_NAMED = 8;
/** A host not heard of for this long is silent. */
const SILENT_S = 15;

const everyJob = signal(false);

export function Hosts() {
  const job = store.job.value;
  const all = [...store.hosts.value.items].sort((a, b) => byName(a.host, b.host));
  const ofJob = job ? all.filter((host) => job.hosts.includes(host.host)) : all;
  const partial = ofJob.length > 0 && ofJob.length < all.length;
  const hosts = partial && !everyJob.value ? ofJob : all;
  return (
    <Panel
      id="hosts"
      title={plural(hosts.length, "host")}
      aside={
        partial && (
          <fieldset class="segments small">
            <legend class="unseen">Hosts of</legend>
            <Choice on={!everyJob.value} label={`of ${job?.id}`} pick={false} />
            <Choice on={everyJob.value} label="all" pick={true} />
          </fieldset>
        )
      }
    >
      {hosts.length <= MAX_LISTED ? <HostList hosts={hosts} /> : <Many hosts={hosts} />}
      {store.hosts.value.more && <p class="quiet">There are more hosts than are shown here.</p>}
    </Panel>
  );
}

function Choice(props: { on: boolean; label: string; pick: boolean }) {
  return (
    <label class={props.on ? "on" : ""}>
      <input
        type="radio"
        name="hosts-of"
        checked={props.on}
        onChange={() => {
          everyJob.value = props.pick;
        }}
      />
      {props.label}
    </label>
  );
}

function Many({ hosts }: { hosts: HostSummary[] }) {
  const killed = store.killedByHost.value;
  const late = store.lateByHost.value;
  const degraded = worstFirst(hosts.filter((host) => host.degraded || killed.has(host.host) || late.has(host.host)));
  const selected = hosts.find((host) => host.host === store.route.value.host);
  const named = degraded.slice(0, MAX_NAMED);
  if (selected && !named.includes(selected)) named.push(selected);
  return (
    <>
      {named.length > 0 && <HostList hosts={named} />}
      {degraded.length > MAX_NAMED && <p class="quiet">{degraded.length - MAX_NAMED} more hosts in trouble are marked below.</p>}
      <HostGrid hosts={hosts} />
    </>
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
        <HostRows key={host.host} host={host} share={host.completed_bytes_per_s / top} />
      ))}
    </table>
  );
}

function HostRows({ host, share }: { host: HostSummary; share: number }) {
  const mark = hostMark(host, store.nowMs.value);
  const selected = store.route.value.host === host.host;
  return (
    <tbody class={`${host.degraded ? "degraded" : ""} is-${mark.kind} ${selected ? "selected" : ""}`} data-host={host.host}>
      <tr>
        <th scope="row">
          <a href={toggleHost(host.host)} aria-current={selected ? "true" : undefined}>
            <Mark kind={mark.kind} label={mark.label} />
            {host.host}
          </a>
        </th>
        <td class="number">{host.init_channels ?? "–"}</td>
        <td class="number">{host.final_channels ?? "–"}</td>
        <td class="rate">
          <span class="bar" aria-hidden="true">
            <i style={{ width: `${Math.round(share * 100)}%` }} />
          </span>
          <span class="number">{host.n_processes === 0 ? "no process" : bandwidth(host.completed_bytes_per_s)}</span>
        </td>
      </tr>
      {(host.reasons.length > 0 || mark.why !== undefined) && (
        <tr class="why">
          <td colSpan={4}>
            {mark.why !== undefined && <p>{mark.why}</p>}
            {[...new Set(host.reasons)].map((reason) => (
              <p key={reason}>{reason}</p>
            ))}
          </td>
        </tr>
      )}
    </tbody>
  );
}

/** Choosing a host that is chosen lets go of it. */
export function toggleHost(host: string): string {
  const { host: chosen, ...rest } = store.route.value;
  return format(chosen === host ? rest : { ...rest, host });
}

export function hostMark(host: HostSummary, nowMs: number): { kind: MarkKind; label: string; why?: string } {
  if (host.findings.critical > 0) return { kind: "critical", label: "degraded, critical" };
  if (host.degraded) return { kind: "warning", label: "degraded" };
  const killed = store.killedByHost.value.get(host.host);
  if (killed !== undefined) {
    const ranks = `${killed.length === 1 ? "Rank" : "Ranks"} ${rankRanges(killed)}`;
    return { kind: "killed", label: "ranks killed", why: `${ranks} ${killed.length === 1 ? "was" : "were"} killed` };
  }
  const late = store.lateByHost.value.get(host.host);
  if (late !== undefined) {
    return { kind: "late", label: "ranks late", why: `The others wait for ${late.length === 1 ? "rank" : "ranks"} ${rankRanges(late)}` };
  }
  if (host.n_processes === 0) return { kind: "ended", label: "no process" };
  const silentS = (nowMs - Date.parse(host.last_seen)) / 1000;
  if (silentS > SILENT_S) return { kind: "stale", label: "silent", why: `Nothing heard for ${duration(silentS)}` };
  return { kind: "ok", label: "healthy" };
}
