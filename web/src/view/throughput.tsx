import { useComputed } from "@preact/signals";
import type { Series } from "../api";
import { marks } from "../pure/chart-marks";
import { bandwidth } from "../pure/format";
import { rangeWords, seriesQuery, stepS } from "../pure/range";
import { columns, settled } from "../pure/series";
import { useApi } from "../state/api";
import * as store from "../state/store";
import { Chart } from "./chart";
import { Export } from "./export";
import { Panel } from "./panel";

/** Bandwidth of all jobs together, by primitive. */
export function Throughput() {
  const query = useComputed(() => seriesQuery(store.route.value, store.nowMs.value)).value;
  const everyMs = useComputed(() => Math.max(5_000, stepS(store.range.value) * 1000)).value;
  const path = (metric: string) => `series?metric=${metric}&${query}&rate=true`;
  const completed = useApi<Series>(path("completed_bytes"), { on: "never", everyMs }).value;
  const issued = useApi<Series>(path("issued_bytes"), { on: "never", everyMs }).value;
  const nowMs = store.nowMs.peek();
  const cut = (series: Series | undefined) => (series === undefined ? null : settled(series, nowMs));
  const drawn = columns(cut(completed), cut(issued), [], Infinity);
  const happened = useComputed(() => marks({ findings: store.firing.value.items.filter((one) => one.severity !== "info"), jobs: store.jobs.value.items }, store.range.value.fromMs, store.range.value.toMs));
  const rate = store.jobs.value.items.filter((job) => job.state !== "ended").reduce((sum, job) => sum + job.completed_bytes_per_s, 0);
  return (
    <Panel id="throughput" title="Throughput, all jobs" aside={<Export path={path("completed_bytes")} name="throughput" rows={() => [
      ["time", ...drawn.primitives.map((one) => `${one}_completed_bytes_per_s`)],
      ...drawn.times.map((time, i) => [new Date(time * 1000).toISOString(), ...drawn.completed.map((line) => line[i])]),
    ]} />}>
      <p class="now">
        {store.atMs.value === undefined && <b>{bandwidth(rate)}</b>} <small>{store.atMs.value === undefined ? "now; below the" : ""} {rangeWords(store.route.value, store.nowMs.value)}</small>
      </p>
      {completed === undefined || drawn.primitives.length === 0 ? (
        <p class="quiet">{completed === undefined ? "Asking for the history …" : "No operation in this time."}</p>
      ) : (
        <Chart columns={drawn} fromMs={store.range.value.fromMs} endMs={Math.min(store.range.value.toMs, store.nowMs.value)} marks={happened.value} />
      )}
    </Panel>
  );
}
