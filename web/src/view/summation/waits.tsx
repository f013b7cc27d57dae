import { signal } from "@preact/signals";
import type { SummationGroupDetail } from "../../api";
import { integer } from "../../pure/format";
import { waitRows } from "../../pure/summation/tables";
import type { Troubles } from "../../pure/summation/trouble";
import { ns, serviceName, waitingFor, waitSentence } from "../../pure/summation/words";
import { Export } from "../export";
import { Mark } from "../mark";
import { Panel } from "../panel";

/** Rows before all are asked for. */
const FEW = 8;
const all = signal(false);

/** Rounds that are not over, and for whom each waits. */
export function WaitsPanel({ group, known }: { group: SummationGroupDetail; known: Troubles }) {
  const { sentence, stuck } = waitSentence(group, known);
  const shown = all.value ? group.waits : group.waits.slice(0, FEW);
  return (
    <Panel id="waits" title="Rounds in flight" aside={<Export path={`summation/groups/${encodeURIComponent(group.id)}`} name={`waits-${group.id}`} rows={() => waitRows(group)} />}>
      <p class={stuck ? "progress stuck" : "progress"} role="status">
        {stuck && <Mark kind="critical" label="stuck" />}
        {sentence}
      </p>
      {shown.length > 0 && (
        <div class="scroller" tabIndex={0} role="region" aria-label="Rounds in flight">
          <table class="waits stacking">
            <thead>
              <tr>
                <th scope="col">Tensor</th>
                <th scope="col">At</th>
                <th scope="col">Waits for</th>
                <th scope="col" class="number">For</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((wait) => {
                const service = group.services.find((one) => one.service === wait.service);
                return (
                  <tr key={`${wait.service} ${wait.key} ${wait.round}`} class={wait.workers.some((one) => known.workers.get(one) === "waited") ? "is-waited" : ""}>
                    <th scope="row">
                      {wait.tensor}
                      <small> round {integer(wait.round)}, key {wait.key}</small>
                    </th>
                    <td data-label="At">{service === undefined ? `service ${wait.service}` : serviceName(service)}</td>
                    <td data-label="Waits for">{waitingFor(group, wait)}</td>
                    <td data-label="For" class="number">{ns(wait.age_ns)}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
      {group.waits.length > FEW && (
        <p class="quiet">
          {!all.value && `The ${FEW} oldest of ${integer(group.waits.length)}. `}
          <button type="button" class="plain" onClick={() => (all.value = !all.value)}>
            {all.value ? "Show fewer" : `Show all ${integer(group.waits.length)}`}
          </button>
        </p>
      )}
    </Panel>
  );
}
