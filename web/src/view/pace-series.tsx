import { useComputed } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { PaceSeries } from "../api";
import type { ChartMark } from "../pure/chart-marks";
import { stepDuration } from "../pure/format";
import { isKnown, pointWords } from "../pure/pace-series";
import { seriesQuery, stepS } from "../pure/range";
import { useApi } from "../state/api";
import * as store from "../state/store";
import { Export } from "./export";
import { LineKey } from "./line-key";
import { Lines, type Line } from "./lines";
import { Panel } from "./panel";

/** Samples come as often. */
const EVERY_MS = 10_000;
/** Noise of less than a millisecond is not blown up. */
const LEAST_TOP_S = 0.001;

/** How long the steps of a job took over time, and what of it was the own time of its slowest rank. */
export function PaceOverTime({ job, fromMs, endMs, marks }: { job: string; fromMs: number; endMs: number; marks: ChartMark[] }) {
  const path = `jobs/${encodeURIComponent(job)}/pace/series?${seriesQuery(store.route.value, store.nowMs.value)}`;
  const everyMs = useComputed(() => Math.max(EVERY_MS, stepS(store.range.value) * 1000)).value;
  const { value: series, refused } = useApi<PaceSeries>(path, { on: "never", everyMs });
  const times = useMemo(() => (series?.times_ms ?? []).map((ms) => ms / 1000), [series]);
  const lines = useMemo((): Line[] => (series === undefined || !isKnown(series) ? [] : [
    { label: "A step", values: series.step_seconds, style: 0 },
    { label: "Of it, own time of the slowest rank", values: series.own_seconds, style: 1 },
  ]), [series]);
  return (
    <Panel id="pace-over-time" title="How long a step took" aside={<Export path={path} name={`pace-over-time-${job}`} />}>
      {series === undefined ? (
        <p class="quiet">{refused ?? "Asking for it …"}</p>
      ) : lines.length === 0 ? (
        <p class="quiet">Nothing recorded in this time range.</p>
      ) : (
        <Lines
          name="How long a step took"
          times={times}
          lines={lines}
          fromMs={fromMs}
          endMs={endMs}
          marks={marks}
          ticks={(ticks) => ticks.map((tick) => stepDuration(tick))}
          leastTop={LEAST_TOP_S}
          readout={(index) => pointWords(series, index)}
        >
          {lines.map((line) => (
            <span key={line.label} class="key-word">
              <LineKey style={line.style} />
              {line.label}
            </span>
          ))}
        </Lines>
      )}
    </Panel>
  );
}
