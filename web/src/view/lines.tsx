import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import { clock } from "../pure/format";
import { colourOf, isOpen, shapeOf, SHAPES } from "../pure/line-style";
import { isDark } from "../state/theme";

const HEIGHT_PX = 210;
/** After so long the plotter is asked for again: the daemon was away. */
const AGAIN_MS = 2_000;
const FONT = "12px system-ui, sans-serif";
/** More lines than this nobody follows. */
export const MAX_LINES = 6;
/** Between the marks on a line. */
const SHAPE_EVERY_PX = 96;

const POWERS_OF_TWO = Array.from({ length: 61 }, (_, i) => 2 ** i);

export interface Line {
  label: string;
  values: (number | null)[];
  /** Which colour and shape, see `pure/line-style.ts`. */
  style: number;
  dashed?: boolean;
}

interface Props {
  /** What is drawn, for who hears the page. */
  name: string;
  /** Seconds since the epoch, ascending. */
  times: number[];
  lines: Line[];
  fromMs: number;
  endMs: number;
  /** What the axis says of its ticks. */
  ticks: (values: number[]) => string[];
  /** Whether round numbers are powers of two, as of sizes. */
  binary?: boolean;
  /** The axis goes at least to here: noise around nothing is not blown up. */
  leastTop: number;
  /** What is said of one point in time. */
  readout: (index: number) => string;
  /** What is said while none is pointed at. */
  children: ComponentChildren;
}

/** Lines over time; a line of text under them reads out the point under the cursor. */
export function Lines(props: Props) {
  const { times, lines, fromMs, endMs } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const [index, setIndex] = useState<number | null>(null);
  const [missing, setMissing] = useState(false);
  /** How often the plotter was asked for in vain. */
  const [failures, setFailures] = useState(0);
  const dark = isDark();
  const shape = lines.map((line) => `${line.label}${line.dashed}${line.style}`).join();

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    let observer: ResizeObserver | undefined;
    let gone = false;
    let again: ReturnType<typeof setTimeout> | undefined;
    // A script of its own: the words are on the screen before the plotter has come.
    import("uplot").then(({ default: Plot }) => {
      if (gone) return;
      setMissing(false);
      plot.current = new Plot(options(element, latest, setIndex), data(latest.current), element);
      observer = new ResizeObserver(() => {
        plot.current?.setSize({ width: element.clientWidth, height: HEIGHT_PX });
      });
      observer.observe(element);
    }, () => {
      if (gone) return;
      setMissing(true);
      again = setTimeout(() => setFailures((n) => n + 1), AGAIN_MS);
    });
    return () => {
      gone = true;
      clearTimeout(again);
      observer?.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape, dark, failures]);

  useEffect(() => {
    plot.current?.setData(data(props));
  }, [times, lines, fromMs, endMs]);

  return (
    <div class="chart">
      <div ref={box} role="img" aria-label={`${props.name} over time. ${say(props, times.length - 1)}`} />
      <p class="chart-readout" aria-hidden="true">
        {missing ? "The lines cannot be drawn: the daemon did not send the plotter. It is asked for again." : index === null ? props.children : say(props, index)}
      </p>
    </div>
  );
}

function say({ times, readout }: Props, index: number): string {
  const time = times[index];
  return time === undefined ? "Nothing recorded yet." : `${clock(time * 1000)}  ${readout(index)}`;
}

function data({ times, lines }: Props): uPlot.AlignedData {
  return [times, ...lines.map((line) => line.values)];
}

function options(element: HTMLElement, latest: { current: Props }, onPoint: (index: number | null) => void): uPlot.Options {
  const style = getComputedStyle(element);
  const token = (name: string) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: token("--ink-quiet"),
    font: FONT,
    grid: { stroke: token("--rule"), width: 1 },
    ticks: { stroke: token("--rule"), width: 1, size: 4 },
  };
  return {
    width: element.clientWidth,
    height: HEIGHT_PX,
    padding: [10, 26, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: {
      x: { range: () => [latest.current.fromMs / 1000, latest.current.endMs / 1000] },
      y: { range: (_plot, _min, max) => [0, Math.max(max * 1.1, latest.current.leastTop)] },
    },
    axes: [
      { ...axis, size: 28, space: 70, values: (_plot, splits) => splits.map((s) => clock(s * 1000).slice(0, s % 60 === 0 ? 5 : 8)) },
      { ...axis, size: 88, space: 36, ...(latest.current.binary ? { incrs: POWERS_OF_TWO } : {}), values: (_plot, splits) => latest.current.ticks(splits) },
    ],
    series: [
      {},
      ...latest.current.lines.map((line) => ({
        label: line.label,
        stroke: token(`--line-${colourOf(line.style)}`),
        width: line.dashed ? 1 : 2,
        ...(line.dashed ? { dash: [3, 3] } : {}),
        points: { show: false },
      })),
    ],
    hooks: {
      setCursor: [(plot) => onPoint(plot.cursor.idx ?? null)],
      draw: [(plot) => latest.current.lines.forEach((line, i) => !line.dashed && drawShapes(plot, i + 1, line, token))],
    },
  };
}

/** The shape of a line's style, here and there on it: lines are told apart without colour. Those of one chart stand at different places. */
function drawShapes(plot: uPlot, index: number, { style, values }: Line, token: (name: string) => string): void {
  const { ctx, bbox } = plot;
  const scale = devicePixelRatio;
  const shape = shapeOf(style);
  const path = new Path2D(SHAPES[shape]);
  ctx.save();
  ctx.fillStyle = ctx.strokeStyle = token(`--line-${colourOf(style)}`);
  ctx.lineWidth = 2;
  for (let px = SHAPE_EVERY_PX * (0.4 + 0.16 * index); px * scale < bbox.width; px += SHAPE_EVERY_PX) {
    const at = plot.posToIdx(px);
    const value = values[at];
    if (value == null) continue;
    ctx.setTransform(scale, 0, 0, scale, plot.valToPos(plot.data[0][at]!, "x", true), plot.valToPos(value, "y", true));
    if (isOpen(shape)) ctx.stroke(path);
    else ctx.fill(path);
  }
  ctx.restore();
}
