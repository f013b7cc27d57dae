import type { Finding, HostDetail, HostRank } from "../api";
import { group } from "../pure/findings";
import { integer, list, rankRanges, since } from "../pure/format";
import { useApi, useList } from "../state/api";
import * as store from "../state/store";
import { FindingLine } from "./finding-line";
import { Panel } from "./panel";

/** Findings of the past shown. */
const MAX_RESOLVED = 5;

/** The chosen host: what it takes part in, and what was found on it. */
export function HostPanel({ name }: { name: string }) {
  const { value: host, missing } = useApi<HostDetail>(`nodes/${encodeURIComponent(name)}`, { on: "hosts" });
  return (
    <Panel
      id="host"
      title={name}
    >
      {host === undefined ? (
        <p class="quiet">{missing ? "Not known to this daemon." : "Asking for it …"}</p>
      ) : (
        <>
          <p class="about">
            <span>{host.jobs.length === 0 ? "no job" : list(host.jobs)}</span>
            <span>{`${integer(host.n_processes)} live ${host.n_processes === 1 ? "process" : "processes"}`}</span>
            <span>heard {since(Date.parse(host.last_seen), store.nowMs.value)}</span>
          </p>
          <Channels host={host} />
          <Found host={host.host} firing={host.firing} />
        </>
      )}
    </Panel>
  );
}

function Channels({ host }: { host: HostDetail }) {
  const rows = byCommunicator(host.ranks);
  if (rows.length === 0) return <p class="quiet">No rank in an active communicator.</p>;
  return (
    <div class="scroller" tabIndex={0} role="region" aria-label={`Communicators of ${host.host}`}>
      <table class="host-table">
        <thead>
          <tr>
            <th scope="col">Communicator</th>
            <th scope="col">Ranks</th>
            <th scope="col">State</th>
            <th scope="col" class="number" title="Init channels found → final channels in use">Channels</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ first, ranks, states }) => (
            <tr key={first.comm}>
              <th scope="row">
                <a href={store.link({ page: "communicator", comm: first.comm, host: host.host })}>
                  {store.communicatorNames.value.get(first.comm) ?? first.comm}
                </a>
              </th>
              <td>{rankRanges(ranks)}</td>
              <td class={states.includes("killed") ? "bad" : ""}>{states.join(", ")}</td>
              <td class="number">
                {first.init_channels ?? "–"} → {first.final_channels ?? "–"}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function byCommunicator(all: HostRank[]): { first: HostRank; ranks: number[]; states: string[] }[] {
  const rows = new Map<string, { first: HostRank; ranks: number[]; states: string[] }>();
  for (const rank of all) {
    const row = rows.get(rank.comm) ?? { first: rank, ranks: [], states: [] };
    row.ranks.push(rank.rank);
    if (!row.states.includes(rank.state)) row.states.push(rank.state);
    rows.set(rank.comm, row);
  }
  const weight = store.sortedCommunicators.value.map((one) => one.id);
  const place = (comm: string) => (weight.includes(comm) ? weight.indexOf(comm) : Infinity);
  return [...rows.values()].sort((a, b) => place(a.first.comm) - place(b.first.comm) || a.first.comm.localeCompare(b.first.comm));
}

function Found({ host, firing }: { host: string; firing: HostDetail["firing"] }) {
  const now = group(firing.filter((finding) => finding.state === "firing"));
  const resolved = useList<Finding>(`findings?state=resolved&host=${encodeURIComponent(host)}`, { on: "findings" });
  const past = group(resolved.value?.items ?? []).slice(0, MAX_RESOLVED);
  return (
    <ul class="findings" aria-label={`Findings on ${host}`}>
      {now.length === 0 && past.length === 0 && <li class="quiet">Nothing was ever found on it.</li>}
      {[...now, ...past].map((one) => (
        <FindingLine key={one.key} group={one} />
      ))}
    </ul>
  );
}
