import { signal } from "@preact/signals";
import type { SummationGroupDetail, SummationService } from "../../api";
import { bandwidth, integer, size } from "../../pure/format";
import type { ServiceState, Troubles } from "../../pure/summation/trouble";
import { ns, overWords, serviceName, share } from "../../pure/summation/words";
import * as store from "../../state/store";
import { HostName } from "../host-name";
import { GLYPHS } from "./bipartite";

/** Rows before all are asked for. */
const FEW = 40;
const all = signal(false);
/** Kept while the page is left: what was open stays so. */
const open = signal(false);

/** The services as a table: what the picture says, in numbers. */
export function ServicesTable({ group, known }: { group: SummationGroupDetail; known: Troubles }) {
  const { services } = group;
  const shown = all.value ? services : services.slice(0, FEW);
  return (
    <details class="ring-table" open={open.value} onToggle={(event) => (open.value = event.currentTarget.open)}>
      <summary>Services as a table</summary>
      {open.value && (
        <div class="scroller" tabIndex={0} role="region" aria-label="Services">
          <table class="stacking services">
            <thead>
              <tr>
                <th scope="col">Service</th>
                <th scope="col">Host</th>
                <th scope="col" class="number">Share</th>
                <th scope="col" class="number">Optimum</th>
                <th scope="col" class="number">Owned</th>
                <th scope="col" class="number" title="Of its process, for one round of all tensors">Sends, receives a round</th>
                <th scope="col" class="number">Pushed, pulled</th>
                <th scope="col" class="number">Sums</th>
                <th scope="col" class="number">Rounds</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((one) => (
                <Row key={one.service} one={one} state={known.services.get(one.service) ?? "ok"} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {open.value && services.length > FEW && (
        <button type="button" class="plain" onClick={() => (all.value = !all.value)}>
          {all.value ? "Show fewer" : `Show all ${integer(services.length)}`}
        </button>
      )}
    </details>
  );
}

function Row({ one, state }: { one: SummationService; state: ServiceState }) {
  const over = overWords(one, state);
  return (
    <tr class={state === "ok" ? "" : `is-${state}`}>
      <th scope="row">
        {GLYPHS[state]}
        {serviceName(one)}
        {state === "lost" && <small class="bad"> lost</small>}
      </th>
      <td data-label="Host">
        <a href={store.link({ page: "host", host: one.host })}><HostName of={one.host} /></a>
      </td>
      <td data-label="Share" class="number">
        {share(one.share)}
        {over !== undefined && <small class="late"> {over}</small>}
      </td>
      <td data-label="Optimum" class="number">{share(one.optimal_share)}</td>
      <td data-label="Owned" class="number">{size(one.owned_bytes)}</td>
      <td data-label="Sends, receives a round" class="number">{size(one.predicted_sent_bytes)}, {size(one.predicted_received_bytes)}</td>
      <td data-label="Pushed, pulled" class="number">{bandwidth(one.pushed_bytes_per_s)}, {bandwidth(one.pulled_bytes_per_s)}</td>
      <td data-label="Sums" class="number" title="Time for 1 MiB of contributions">{one.sum_ns_per_mib === null ? "–" : `${ns(one.sum_ns_per_mib)}/MiB`}</td>
      <td data-label="Rounds" class="number">{integer(one.finished_rounds)}</td>
    </tr>
  );
}
