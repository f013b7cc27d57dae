import { signal } from "@preact/signals";
import type { CommunicatorSummary } from "../api";
import { byWeight } from "../pure/choose";
import { integer, list, plural, rateOf } from "../pure/format";
import { distinctNames } from "../pure/names";
import * as store from "../state/store";
import { HostName } from "./host-name";
import { Mark } from "./mark";
import { Purpose } from "./purpose";
import { communicatorMark } from "./standing";
import { Time } from "./time";

/** Rows before all are asked for. */
const FEW = 24;
const all = signal(false);

/** The communicators of a job, those to look at first in front. */
export function Communicators({ items, isUnseen }: { items: CommunicatorSummary[]; isUnseen: boolean }) {
  const names = distinctNames(items);
  const sorted = [...items].sort(byWeight);
  const shown = all.value ? sorted : sorted.slice(0, FEW);
  if (sorted.length === 0) return <p class="quiet">{isUnseen ? "None is seen: how the job stands says why." : "None yet."}</p>;
  return (
    <>
      <div class="scroller" tabIndex={0} role="region" aria-label="Communicators">
        <table class="communicators stacking">
          <thead>
            <tr>
              <th scope="col">Communicator</th>
              <th scope="col">For</th>
              <th scope="col">State</th>
              <th scope="col" class="number">Ranks</th>
              <th scope="col" class="number">Hosts</th>
              <th scope="col" class="number" title="Lowest init channels of all ranks → final channels in use">Channels</th>
              <th scope="col">Held back by</th>
              <th scope="col" class="number">Completed</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((one) => (
              <Row key={one.id} one={one} name={names.get(one.id)!} />
            ))}
          </tbody>
        </table>
      </div>
      {sorted.length > FEW && (
        <p class="quiet">
          {!all.value && `${FEW} of ${integer(sorted.length)}, those to look at first. `}
          <button type="button" class="plain" onClick={() => (all.value = !all.value)}>
            {all.value ? "Show fewer" : `Show all ${integer(sorted.length)}`}
          </button>
        </p>
      )}
    </>
  );
}

function Row({ one, name }: { one: CommunicatorSummary; name: string }) {
  const known = one.base !== null || one.final_channels !== null;
  const mark = communicatorMark(one);
  return (
    <tr class={`is-${mark.kind}${one.state === "ended" ? " over" : ""}`} data-comm={one.id} title={mark.why}>
      <th scope="row">
        <a href={store.link({ page: "communicator", comm: one.id })}>{name}</a>
        {one.coverage.state === "partly" && one.state !== "ended" && <small class="partly"> partly seen</small>}
      </th>
      <td data-label="For">{one.purpose == null ? <span class="quiet">–</span> : <Purpose of={one} />}</td>
      <td data-label="State" class="state">
        <Mark kind={mark.kind} /> {mark.label}{mark.label !== one.state && mark.kind !== "ok" && `, ${one.state}`}
        <small>{one.ended === undefined ? " since " : " at "}<Time at={one.ended ?? one.created} /></small>
      </td>
      <td data-label="Ranks" class="number" title={one.n_ranks_seen < one.n_ranks ? `${plural(one.n_ranks_seen, "rank")} heard of` : ""}>{integer(one.n_ranks)}</td>
      <td data-label="Hosts" class="number">{integer(one.hosts.length)}</td>
      <td data-label="Channels" class="number">{known ? `${one.base ?? "–"} → ${one.final_channels ?? "–"}` : "not known"}</td>
      <td data-label="Held back by">
        {one.culprits.length === 0 ? <span class="quiet">–</span> : one.culprits.length > 3 ? list(one.culprits.map(store.shortHost), 3) : one.culprits.map((host, i) => (
          <span key={host}>
            {i > 0 && ", "}
            <a href={store.link({ page: "communicator", comm: one.id, host })}><HostName of={host} /></a>
          </span>
        ))}
      </td>
      <td data-label="Completed" class="number">{rateOf(one)}</td>
    </tr>
  );
}
