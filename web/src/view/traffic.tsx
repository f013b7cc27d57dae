import { useComputed } from "@preact/signals";
import type { PrimitiveTotals } from "../api";
import { marks } from "../pure/chart-marks";
import { bandwidth, integer, plural, primitiveName, size } from "../pure/format";
import { primitiveStyle } from "../pure/line-style";
import { seriesQuery } from "../pure/range";
import { columns } from "../pure/series";
import { primitiveRows } from "../pure/tables";
import * as comm from "../state/communicator";
import * as store from "../state/store";
import { Chart } from "./chart";
import { Export } from "./export";
import { LineKey } from "./line-key";
import { Panel } from "./panel";
import { withCommands } from "./with-commands";

/** Bytes and bandwidth of the communicator on the screen, by primitive. */
export function Traffic() {
  const id = comm.shownId.value;
  const totals = comm.primitives.value?.primitives ?? [];
  const drawn = useComputed(() => {
    const ended = store.watched.value?.ended;
    const endMs = store.range.value.live ? (ended === undefined ? Infinity : Date.parse(ended)) : comm.chartEndMs.value;
    return columns(comm.completed.value, comm.issued.value, comm.samples.value, endMs);
  });
  const happened = useComputed(() => {
    const shown = store.watched.value;
    const findings = store.firing.value.items.filter((one) => one.comm === shown?.id && one.severity !== "info");
    return marks({ findings, communicators: shown === undefined ? [] : [shown], nameOf: (one) => store.communicatorNames.value.get(one) ?? one }, comm.chartFromMs.value, comm.chartEndMs.value);
  });
  return (
    <Panel
      id="traffic"
      title="Bandwidth by primitive"
      aside={id !== undefined && (
        <Export
          path={`communicators/${encodeURIComponent(id)}/primitives`}
          name={`primitives-${id}`}
          rows={() => primitiveRows(totals)}
          plot={`plots/bandwidth.{}?comm=${encodeURIComponent(id)}&${seriesQuery(store.route.value, store.nowMs.value)}`}
          more={[{ words: "Download the backlog, SVG", path: `plots/backlog.svg?comm=${encodeURIComponent(id)}`, file: `backlog-${id}.svg` }]}
        />
      )}
    >
      {totals.length === 0 ? (
        <p class="quiet">{comm.primitives.value === undefined ? "Asking for its bytes …" : "No operation on this communicator yet."}</p>
      ) : (
        <>
          <Chart columns={drawn.value} fromMs={comm.chartFromMs.value} endMs={comm.chartEndMs.value} marks={happened.value} />
          <Totals totals={totals} />
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

function Totals({ totals }: { totals: PrimitiveTotals[] }) {
  const failed = totals.some((one) => one.failed_calls > 0);
  return (
    <div class="scroller" tabIndex={0} role="region" aria-label="Bytes by primitive">
      <table class="totals">
        <thead>
          <tr>
            <th scope="col">Primitive</th>
            <th scope="col" class="number" title="Completed bytes per second, all ranks, with the time in which nothing was called">Completed per second, all ranks</th>
            <th scope="col" class="number" title="Completed bytes per second times the primitive's ring factor, per rank, with the time in which nothing was called: what a link carried. How fast single operations are is under bandwidth by size.">On a link, per rank</th>
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
                <LineKey style={primitiveStyle(one.primitive)} />
                {primitiveName(one.primitive)}
              </th>
              <td data-label="Per second" class="number strong">{bandwidth(one.completed_bytes_per_s)}</td>
              <td data-label="On a link" class="number strong">{bandwidth(one.bus_bytes_per_s)}</td>
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
                  <small class="reason">{withCommands(one.reason ?? "not known")}</small>
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
