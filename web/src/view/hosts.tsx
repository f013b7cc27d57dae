import type { HostSummary, Job } from "../api";
import { bandwidth, duration, plural, rankRanges } from "../pure/format";
import { byName, worstFirst } from "../pure/health";
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

/** The hosts of a job, or every one. */
export function Hosts({ job }: { job?: Job | undefined }) {
  const all = [...store.hosts.value.items].sort((a, b) => byName(a.host, b.host));
  const hosts = job === undefined ? all : all.filter((host) => job.hosts.includes(host.host));
  return (
    <Panel id="hosts" title={plural(hosts.length, "host")}>
      {hosts.length <= MAX_LISTED ? <HostList hosts={hosts} /> : <Many hosts={hosts} />}
      {store.hosts.value.more && <p class="quiet">There are more hosts than are shown here.</p>}
    </Panel>
  );
}

function Many({ hosts }: { hosts: HostSummary[] }) {
  const killed = store.killedByHost.value;
  const late = store.lateByHost.value;
  const degraded = worstFirst(hosts.filter((host) => host.degraded || killed.has(host.host) || late.has(host.host)));
  const named = degraded.slice(0, MAX_NAMED);
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
  return (
    <tbody class={`${host.degraded ? "degraded" : ""} is-${mark.kind}`} data-host={host.host}>
      <tr>
        <th scope="row">
          <a href={store.link({ page: "host", host: host.host })}>
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
