import { signal, useComputed } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { Series, SeriesLine } from "../api";
import type { ChartMark } from "../pure/chart-marks";
import { bandwidth, bandwidthTicks, plural, primitiveName, size } from "../pure/format";
import { primitiveStyle } from "../pure/line-style";
import { byName } from "../pure/names";
import { seriesQuery, stepS } from "../pure/range";
import { heaviest, merge, settled } from "../pure/series";
import { seriesRows } from "../pure/tables";
import { useApi } from "../state/api";
import * as store from "../state/store";
import { Export } from "./export";
import { LineKey } from "./line-key";
import { Lines, MAX_LINES, type Line } from "./lines";
import { Panel } from "./panel";

const BY = ["primitive", "host", "comm"] as const;
type By = (typeof BY)[number];
const NAMES: Record<By, string> = { primitive: "primitive", host: "host", comm: "communicator" };
const by = signal<By>("primitive");

/** Completed bytes per second, and what was issued and is not completed, of a job over time. */
export function JobSeries({ job, fromMs, endMs, marks }: { job: string; fromMs: number; endMs: number; marks: ChartMark[] }) {
  return (
    <Panel
      id="traffic"
      title="Bandwidth and backlog"
      aside={
        <fieldset class="segments small">
          <legend class="unseen">A line for each</legend>
          {BY.map((one) => (
            <label key={one} class={by.value === one ? "on" : ""}>
              <input type="radio" name="by" checked={by.value === one} onChange={() => (by.value = one)} />
              by {NAMES[one]}
            </label>
          ))}
        </fieldset>
      }
    >
      <OverTime job={job} metric="completed_bytes" rate title="Completed per second, all ranks" fromMs={fromMs} endMs={endMs} marks={marks} />
      <OverTime job={job} metric="backlog_bytes" rate={false} title="Backlog: issued and not completed" fromMs={fromMs} endMs={endMs} marks={marks} />
    </Panel>
  );
}

function OverTime(props: { job: string; metric: string; rate: boolean; title: string; fromMs: number; endMs: number; marks: ChartMark[] }) {
  const { job, metric, rate } = props;
  const range = seriesQuery(store.route.value, store.nowMs.value);
  const path = `series?job=${encodeURIComponent(job)}&metric=${metric}&by=${by.value}${rate ? "&rate=true" : ""}&${range}`;
  const everyMs = useComputed(() => Math.max(5_000, stepS(store.range.value) * 1000)).value;
  const answer = useApi<Series>(path, { on: "never", everyMs });
  const series = useMemo(() => (answer.value !== undefined && rate ? settled(answer.value, store.nowMs.peek()) : answer.value), [answer.value, rate]);
  const drawn = useMemo(() => (series === undefined ? undefined : heaviest(merge(series.lines, keyOf), MAX_LINES)), [series]);
  const names = store.communicatorNames.value;
  const label = (key: string) => (by.value === "comm" ? (names.get(key) ?? key) : by.value === "primitive" ? primitiveName(key) : store.shortHost(key));
  const lines = useMemo(
    (): Line[] => (drawn?.lines ?? []).map(({ key, values }) => ({ label: label(key), values, key })).sort((a, b) => byName(a.label, b.label)).map((line, i) => ({ ...line, style: by.value === "primitive" ? primitiveStyle(line.key) : i })),
    [drawn, names],
  );
  const times = useMemo(() => (series?.times_ms ?? []).map((ms) => ms / 1000), [series]);
  const say = rate ? bandwidth : size;
  if (answer.refused !== undefined && series === undefined) return <p class="quiet">{props.title}: {answer.refused}</p>;
  return (
    <section class="over-time" aria-label={props.title}>
      <header>
        <h3>{props.title}</h3>
        {series !== undefined && (
          <Export
            path={path}
            name={`${metric}-${job}`}
            rows={() => seriesRows(series.times_ms, series.lines)}
            plot={`plots/${rate ? "bandwidth" : "backlog"}.{}?job=${encodeURIComponent(job)}&${range}`}
          />
        )}
      </header>
      {lines.length === 0 ? (
        <p class="quiet">{series === undefined ? "Asking for it …" : "Nothing recorded in this time range."}</p>
      ) : (
        <Lines
          name={props.title}
          times={times}
          lines={lines}
          fromMs={props.fromMs}
          endMs={props.endMs}
          marks={props.marks}
          ticks={rate ? bandwidthTicks : (ticks) => ticks.map((tick) => size(tick))}
          binary={!rate}
          leastTop={1000}
          readout={(index) => lines.map((line) => `${line.label} ${line.values[index] == null ? "not known" : say(line.values[index])}`).join(" · ")}
        >
          {lines.map((line) => (
            <span key={line.label} class="key-word">
              <LineKey style={line.style} />
              {line.label}
            </span>
          ))}
          {drawn !== undefined && drawn.hidden > 0 && ` and ${plural(drawn.hidden, "line")} of less`}
        </Lines>
      )}
    </section>
  );
}

/** What a line stands for; those of one key, of other primitives, are one line. */
function keyOf(line: SeriesLine): string {
  return (by.value === "comm" ? line.comm : by.value === "host" ? line.host : undefined) ?? line.primitive;
}
