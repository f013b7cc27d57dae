import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import { markWords, type ChartMark } from "../pure/chart-marks";
import { clock, zone } from "../pure/format";
import { colourOf, isOpen, shapeOf, SHAPES } from "../pure/line-style";
import { pointedMark } from "../pure/past";
import { dataFrom } from "../pure/range";
import { goTo } from "../state/past";
import * as store from "../state/store";
import { isDark } from "../state/theme";
import { reset, zoom } from "../state/zoom";
import { Time } from "./time";

const HEIGHT_PX = 210;
/** After so long the plotter is asked for again: the daemon was away. */
const AGAIN_MS = 2_000;
/** A click so near to a mark means it. */
const NEAR_MARK_PX = 9;
/** A shorter drag is a click that slipped. */
export const MIN_DRAG_PX = 8;
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
  /** What happened meanwhile. */
  marks?: ChartMark[];
  /** What is said of one point in time. */
  readout: (index: number) => string;
  /** What is said while none is pointed at. */
  children: ComponentChildren;
}

/** Lines over time; a line of text under them reads out the point under the cursor. */
export function Lines(props: Props) {
  const { times, lines, fromMs, endMs, marks } = props;
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
  }, [times, lines, fromMs, endMs, marks?.map(({ ms }) => ms).join(), store.atMs.value]);
  const begins = dataFrom(times, lines, store.range.value.fromMs, store.range.value.toMs);

  return (
    <div class="chart">
      <div ref={box} role="img" aria-label={`${props.name} over time. ${say(props, times.length - 1)}`} />
      <p class="chart-readout" aria-hidden="true">
        {missing ? "The lines cannot be drawn: the daemon did not send the plotter. It is asked for again." : index === null ? props.children : say(props, index)}
      </p>
      {begins !== undefined && <p class="chart-note">Data from <Time at={begins} /> on; the range is longer.</p>}
    </div>
  );
}

function say({ times, readout, marks = [], fromMs, endMs }: Props, index: number): string {
  const time = times[index];
  if (time === undefined) return "Nothing recorded yet.";
  const happened = markWords(marks, time * 1000, fromMs, endMs);
  return `${clock(time * 1000)} ${zone(time * 1000)}  ${readout(index)}${happened === "" ? "" : `. Then: ${happened}`}`;
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
    padding: [14, 26, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: true, y: false, setScale: false, dist: MIN_DRAG_PX },
      points: { size: 6 },
      bind: { dblclick: () => () => (reset(), null) },
    },
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
      setSelect: [(plot) => drawn(plot)],
      ready: [(plot) => clicks(plot, latest)],
      drawAxes: [(plot) => drawMarks(plot, latest.current.marks ?? [], token)],
      draw: [(plot) => latest.current.lines.forEach((line, i) => !line.dashed && drawShapes(plot, i + 1, line, token)), (plot) => drawMoment(plot, token)],
    },
  };
}

/** What was drawn over the chart becomes the range of the page. */
function drawn(plot: uPlot): void {
  const { left, width } = plot.select;
  if (width < MIN_DRAG_PX) return;
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  zoom(plot.posToVal(left, "x") * 1000, plot.posToVal(left + width, "x") * 1000);
}

/** A click on a mark shows how things stood then; the pointer says where that is so. */
function clicks(plot: uPlot, latest: { current: Props }): void {
  let downPx = 0;
  const markAt = (event: MouseEvent) => {
    const px = event.clientX - plot.over.getBoundingClientRect().left;
    const ms = (at: number) => plot.posToVal(at, "x") * 1000;
    return pointedMark(latest.current.marks ?? [], ms(px), ms(px + NEAR_MARK_PX) - ms(px));
  };
  plot.over.addEventListener("mousedown", (event) => (downPx = event.clientX));
  plot.over.addEventListener("mousemove", (event) => plot.over.classList.toggle("on-mark", markAt(event) !== undefined));
  plot.over.addEventListener("click", (event) => {
    const mark = Math.abs(event.clientX - downPx) < MIN_DRAG_PX ? markAt(event) : undefined;
    if (mark !== undefined) goTo(mark.ms);
  });
}

/** The moment of the past that the page shows, as a line through the chart. */
function drawMoment(plot: uPlot, token: (name: string) => string): void {
  const atMs = store.atMs.peek();
  if (atMs === undefined) return;
  const { ctx, bbox } = plot;
  const x = Math.round(plot.valToPos(atMs / 1000, "x", true));
  if (x < bbox.left || x > bbox.left + bbox.width) return;
  ctx.save();
  ctx.setLineDash([]);
  ctx.strokeStyle = token("--ink");
  ctx.lineWidth = 2 * devicePixelRatio;
  ctx.stroke(new Path2D(`M${x} ${bbox.top}V${bbox.top + bbox.height}`));
  ctx.restore();
}

/** A line from top to bottom with a shape on it: a diamond and a triangle for what was found, a ring, a bar, a flag. */
function drawMarks(plot: uPlot, marks: ChartMark[], token: (name: string) => string): void {
  const { ctx, bbox } = plot;
  const scale = devicePixelRatio;
  ctx.save();
  ctx.lineWidth = scale;
  for (const { ms, kind, severity } of marks) {
    const x = Math.round(plot.valToPos(ms / 1000, "x", true));
    const colour = token(kind !== "finding" || severity === "info" ? "--ink-quiet" : severity === "critical" ? "--critical" : "--warning");
    ctx.strokeStyle = ctx.fillStyle = colour;
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.setLineDash([2 * scale, 3 * scale]);
    ctx.stroke(new Path2D(`M${x} ${bbox.top}V${bbox.top + bbox.height}`));
    ctx.setLineDash([]);
    ctx.setTransform(scale, 0, 0, scale, x, bbox.top - 4 * scale);
    const shape = new Path2D(MARK_SHAPES[kind === "finding" ? severity ?? "info" : kind]);
    if (kind === "ring" || severity === "info") ctx.stroke(shape);
    else ctx.fill(shape);
  }
  ctx.restore();
}
const MARK_SHAPES: Record<string, string> = {
  critical: "M0-5L5 0L0 5L-5 0Z",
  warning: "M0-5L5 4H-5Z",
  info: "M3.5 0A3.5 3.5 0 1 1 -3.5 0A3.5 3.5 0 1 1 3.5 0Z",
  ring: "M4 0A4 4 0 1 1 -4 0A4 4 0 1 1 4 0Z",
  level: "M-5-2H5V2H-5Z",
  job: "M-1-5L6-2L-1 1V5H-2V-5Z",
};

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
