import { useComputed } from "@preact/signals";
import type { PrimitiveTotals } from "../api";
import { bandwidth, integer, plural, primitiveName, size } from "../pure/format";
import { columns } from "../pure/series";
import { forget } from "../state/refresh";
import * as store from "../state/store";
import { Chart } from "./chart";
import { Panel } from "./panel";

const SPANS: [number, string][] = [
  [300, "5 min"],
  [900, "15 min"],
  [3600, "1 h"],
];

/** Bytes and bandwidth of the communicator on the screen, by primitive. */
export function Traffic() {
  const id = store.shownId.value;
  const totals = store.primitives.value?.id === id ? (store.primitives.value?.primitives ?? []) : [];
  const drawn = useComputed(() => {
    const { completed, issued } = store.history.value;
    const ended = store.communicator.value?.ended;
    return columns(completed, issued, store.samples.value, ended === undefined ? Infinity : Date.parse(ended));
  });
  return (
    <Panel
      id="traffic"
      title="Bandwidth by primitive"
      aside={
        <fieldset class="segments small">
          <legend class="unseen">Time span</legend>
          {SPANS.map(([seconds, name]) => (
            <label key={seconds} class={store.windowS.value === seconds ? "on" : ""}>
              <input
                type="radio"
                name="span"
                checked={store.windowS.value === seconds}
                onChange={() => {
                  store.windowS.value = seconds;
                  forget("series");
                }}
              />
              {name}
            </label>
          ))}
        </fieldset>
      }
    >
      {totals.length === 0 ? (
        <p class="quiet">No operation on this communicator yet.</p>
      ) : (
        <>
          <Chart columns={drawn.value} fromMs={store.chartFromMs.value} endMs={store.chartEndMs.value} />
          <Totals totals={totals} order={drawn.value.primitives} />
        </>
      )}
    </Panel>
  );
}

const GRAPHS =
  "A call captured into a CUDA graph is a template. Its runs are counted where the library reports them; where it does not, nobody outside of the GPU can know how often the graph ran.";

function graphs(one: PrimitiveTotals): string {
  const runs = one.replayed_calls > 0 ? `${plural(one.replayed_calls, "run")} reported` : "runs not reported";
  return `+ ${integer(one.captured_calls)} in CUDA graphs, ${runs}`;
}

function Totals({ totals, order }: { totals: PrimitiveTotals[]; order: string[] }) {
  const failed = totals.some((one) => one.failed_calls > 0);
  return (
    <div class="scroller" tabIndex={0} role="region" aria-label="Bytes by primitive">
      <table class="totals">
        <thead>
          <tr>
            <th scope="col">Primitive</th>
            <th scope="col" class="number" title="Completed bytes per second, all ranks">algbw, all ranks</th>
            <th scope="col" class="number" title="Completed bytes times the primitive's ring factor, per rank: what a link carries">busbw, per rank</th>
            <th scope="col" class="number">Issued</th>
            <th scope="col" class="number">Completed</th>
            <th scope="col" class="number" title="Issued and not completed">Backlog</th>
            <th scope="col" class="number" title="To ranks on the same host (intra) and on other hosts (inter)">Sent</th>
            {failed && <th scope="col" class="number">Failed</th>}
          </tr>
        </thead>
        <tbody>
          {totals.map((one) => (
            <tr key={one.primitive} data-primitive={one.primitive}>
              <th scope="row">
                <i class={`swatch line-${order.indexOf(one.primitive) % 6}`} aria-hidden="true" />
                {primitiveName(one.primitive)}
              </th>
              <td data-label="algbw" class="number strong">{bandwidth(one.completed_bytes_per_s)}</td>
              <td data-label="busbw" class="number strong">{bandwidth(one.bus_bytes_per_s)}</td>
              <td data-label="Issued" class="number">
                {size(one.issued_bytes)}
                <small>{plural(one.issued_calls, "call")}</small>
                {one.captured_calls > 0 && <small title={GRAPHS}>{graphs(one)}</small>}
              </td>
              <td data-label="Completed" class="number">
                {size(one.completed_bytes)}
                <small>{plural(one.completed_calls, "call")}</small>
              </td>
              <td data-label="Backlog" class="number">{size(one.backlog_bytes)}</td>
              <td data-label="Sent" class="number">
                {one.intra_bytes === null || one.inter_bytes === null ? (
                  <small title="Bytes per hop are counted at the level `steps`: ringscope level --job JOB steps">not counted</small>
                ) : (
                  <>
                    <small>{size(one.intra_bytes)} intra</small>
                    <small>{size(one.inter_bytes)} inter</small>
                  </>
                )}
              </td>
              {failed && <td data-label="Failed" class="number">{integer(one.failed_calls)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
