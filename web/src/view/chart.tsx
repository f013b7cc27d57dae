import { useEffect, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import { bandwidth, bandwidthTicks, clock, primitiveName } from "../pure/format";
import type { Columns } from "../pure/series";
import { isDark } from "../state/theme";

const HEIGHT_PX = 210;
const FONT = "12px system-ui, sans-serif";

/** Completed (solid) and issued (dashed) bytes per second; a line of text under it reads out the point under the cursor. */
export function Chart({ columns, fromMs, endMs }: { columns: Columns; fromMs: number; endMs: number }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const range = useRef<[number, number]>([0, 1]);
  const [index, setIndex] = useState<number | null>(null);
  const end = endMs / 1000;
  range.current = [fromMs / 1000, end];
  const latest = useRef(columns);
  latest.current = columns;
  const dark = isDark();
  const names = columns.primitives.join();

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    let observer: ResizeObserver | undefined;
    let gone = false;
    // A script of its own: the words are on the screen before the plotter has come.
    void import("uplot").then(({ default: Plot }) => {
      if (gone) return;
      plot.current = new Plot(options(element, columns.primitives, range, setIndex), data(latest.current), element);
      observer = new ResizeObserver(() => {
        plot.current?.setSize({ width: element.clientWidth, height: HEIGHT_PX });
      });
      observer.observe(element);
    });
    return () => {
      gone = true;
      observer?.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [names, dark]);

  useEffect(() => {
    plot.current?.setData(data(columns));
  }, [columns, fromMs, end]);

  return (
    <div class="chart">
      <div ref={box} role="img" aria-label={`Bandwidth over time. ${readout(columns, columns.times.length - 1)}`} />
      <p class="chart-readout" aria-hidden="true">
        {index === null ? (
          <>
            <span class="key solid" /> completed <span class="key dashed" /> issued, bytes per second over all ranks
          </>
        ) : (
          readout(columns, index)
        )}
      </p>
    </div>
  );
}

function readout(columns: Columns, index: number): string {
  const time = columns.times[index];
  if (time === undefined) return "Nothing recorded yet.";
  const parts = columns.primitives.map((primitive, i) => {
    const done = columns.completed[i]?.[index];
    const asked = columns.issued[i]?.[index];
    const issued = asked === null || asked === undefined ? "" : ` (issued ${bandwidth(asked)})`;
    return `${primitiveName(primitive)} ${done === null || done === undefined ? "not known" : bandwidth(done)}${issued}`;
  });
  return `${clock(time * 1000)}  ${parts.join(" · ")}`;
}

function data(columns: Columns): uPlot.AlignedData {
  return [columns.times, ...columns.completed, ...columns.issued];
}

function options(
  element: HTMLElement,
  primitives: string[],
  range: { current: [number, number] },
  onPoint: (index: number | null) => void,
): uPlot.Options {
  const style = getComputedStyle(element);
  const token = (name: string) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: token("--ink-quiet"),
    font: FONT,
    grid: { stroke: token("--rule"), width: 1 },
    ticks: { stroke: token("--rule"), width: 1, size: 4 },
  };
  const line = (i: number) => token(`--line-${i % 6}`);
  return {
    width: element.clientWidth,
    height: HEIGHT_PX,
    padding: [10, 8, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: {
      x: { range: () => range.current },
      y: { range: (_plot, _min, max) => [0, Math.max(max * 1.1, 1000)] },
    },
    axes: [
      { ...axis, size: 28, space: 70, values: (_plot, splits) => splits.map((s) => clock(s * 1000).slice(0, s % 60 === 0 ? 5 : 8)) },
      { ...axis, size: 74, space: 36, values: (_plot, splits) => bandwidthTicks(splits) },
    ],
    series: [
      {},
      ...primitives.map((primitive, i) => ({ label: primitive, stroke: line(i), width: 2, points: { show: false } })),
      ...primitives.map((primitive, i) => ({
        label: `${primitive} issued`,
        stroke: line(i),
        width: 1,
        dash: [3, 3],
        points: { show: false },
      })),
    ],
    hooks: { setCursor: [(plot) => onPoint(plot.cursor.idx ?? null)] },
  };
}
