import { useComputed } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import type { Finding, SummationGroupDetail, SummationSeries } from "../../api";
import { marks } from "../../pure/chart-marks";
import { bandwidth, bandwidthTicks, duration, plural } from "../../pure/format";
import { seriesQuery, stepS } from "../../pure/range";
import { heaviest, settled, type KeyedLine } from "../../pure/series";
import { againstOptimum, historyRows, multiple, named, perSecond } from "../../pure/summation/history";
import { useApi, type Answer } from "../../state/api";
import * as store from "../../state/store";
import { Export } from "../export";
import { LineKey } from "../line-key";
import { Lines, MAX_LINES, type Line } from "../lines";
import { Panel } from "../panel";

/** How the group went over the time range: what was summed and received, how fast rounds were over, who was late by how much. */
export function HistoryPanel({ group }: { group: SummationGroupDetail }) {
  const summed = useHistory(group.id, "metric=summed_bytes&rate=true", true);
  const received = useHistory(group.id, "metric=pushed_bytes&by_service=true&rate=true", true);
  const optimum = useHistory(group.id, "metric=optimal_share_ppm&by_service=true", false);
  const rounds = useHistory(group.id, "metric=finished_rounds&rate=true", true);
  const spread = useHistory(group.id, "metric=spread_ns", false);
  const against = useMemo(() => (received.series === undefined ? [] : againstOptimum(received.series, optimum.series)), [received.series, optimum.series]);
  const all = "all services";
  const lines = (one: History) => named(one.series?.lines ?? [], group, all);
  return (
    <Panel id="summation-history" title="Over time">
      <div class="charts">
        <OverTime id={group.id} of={summed} title="Summed per second" lines={lines(summed)} say={bandwidth} ticks={bandwidthTicks} leastTop={1000} />
        <OverTime id={group.id} of={rounds} title="Rounds of parts that got a result, per second" lines={lines(rounds)} say={perSecond} leastTop={1} />
        <OverTime id={group.id} of={received} title="Received per second, by service" lines={lines(received)} say={bandwidth} ticks={bandwidthTicks} leastTop={1000} />
        <OverTime id={group.id} of={received} title="Received against the optimum, by service" lines={named(against, group, all)} say={multiple} leastTop={1.2}>
          1 × is what the NICs make best.
        </OverTime>
        <OverTime id={group.id} of={spread} title="Worst arrival spread" lines={named(spread.series?.lines ?? [], group, "first to last contribution of a round")} say={spreadWords} leastTop={1e6} />
      </div>
    </Panel>
  );
}

interface History {
  path: string;
  answer: Answer<SummationSeries>;
  series: SummationSeries | undefined;
}

/** `rate`: without the step that is not over. */
function useHistory(id: string, what: string, rate: boolean): History {
  const range = seriesQuery(store.route.value, store.nowMs.value);
  const path = `summation/groups/${encodeURIComponent(id)}/series?${what}&${range}`;
  const everyMs = useComputed(() => Math.max(5_000, stepS(store.range.value) * 1000)).value;
  const answer = useApi<SummationSeries>(path, { on: "never", everyMs });
  const series = useMemo(() => (answer.value !== undefined && rate ? settled(answer.value, store.nowMs.peek()) : answer.value), [answer.value, rate]);
  return { path, answer, series };
}

interface Props {
  id: string;
  of: History;
  title: string;
  lines: KeyedLine[];
  say: (value: number) => string;
  ticks?: (values: number[]) => string[];
  leastTop: number;
  children?: ComponentChildren;
}

function OverTime({ id, of, title, lines: all, say, ticks, leastTop, children }: Props) {
  const { series, answer, path } = of;
  const { fromMs, toMs } = store.range.value;
  const happened = marks({ findings: store.firing.value.items.filter((one) => (one as Finding & { group?: string }).group === id && one.severity !== "info") }, fromMs, toMs);
  const drawn = heaviest(all, MAX_LINES);
  const lines: Line[] = drawn.lines.map(({ key, values }, style) => ({ label: key, values, style }));
  const name = title.toLowerCase().replaceAll(/[^a-z]+/g, "-");
  return (
    <section class="over-time" aria-label={title}>
      <header>
        <h3>{title}</h3>
        {series !== undefined && <Export path={path} name={`${name}-${id}`} rows={() => historyRows(series.times_ms, all)} />}
      </header>
      {series === undefined || lines.length === 0 ? (
        <p class="quiet">{answer.refused ?? (series === undefined ? "Asking for it …" : "Nothing recorded in this time range.")}</p>
      ) : (
        <Lines
          name={title}
          times={series.times_ms.map((ms) => ms / 1000)}
          lines={lines}
          fromMs={store.range.value.fromMs}
          endMs={store.range.value.toMs}
          ticks={ticks ?? ((values) => values.map(say))}
          leastTop={leastTop}
          marks={happened}
          readout={(index) => lines.map((line) => `${line.label} ${line.values[index] == null ? "not known" : say(line.values[index])}`).join(" · ")}
        >
          {lines.map((line) => (
            <span key={line.label} class="key-word">
              <LineKey style={line.style} />
              {line.label}
            </span>
          ))}
          {drawn.hidden > 0 && ` and ${plural(drawn.hidden, "service")} of less. `}
          {children}
        </Lines>
      )}
    </section>
  );
}

/** Nanoseconds as people say them. */
function spreadWords(ns: number): string {
  return duration(ns / 1e9);
}
