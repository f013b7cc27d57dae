/** Paints a job's timeline on a canvas; what is where is decided in `pure/timeline-raster.ts` and `pure/timeline-view.ts`. */

import { clock } from "../pure/format";
import { firstFrom, seconds, type JobTimeline } from "../pure/job-timeline";
import { coloursOf, drawsShapes, raster, type Pyramid, type Rgb } from "../pure/timeline-raster";
import { axis, heightPx, namedRows, rowPx, type TimeView } from "../pure/timeline-view";

/** Above the rows: times. It is what one takes hold of to move the view. */
export const AXIS_PX = 22;
const TICK_PX = 96;
const FONT = "11.5px system-ui, sans-serif";

export interface Over {
  /** Operation under the pointer; -1: none. */
  pointed: number;
  /** Who waited for whom, operation by operation. */
  links: number[];
  /** The range that is being drawn, in pixels right of the names. */
  drawn: { fromPx: number; toPx: number } | undefined;
}
export type Painter = (view: TimeView, over: Over) => void;

export function painter(canvas: HTMLCanvasElement, of: JobTimeline, sums: () => Pyramid | undefined, at: { widthPx: number; leftPx: number; nameOf: (row: number) => string }): Painter {
  const { widthPx, leftPx, nameOf } = at;
  const [rows, row] = [of.ranks.length, rowPx(of.ranks.length)];
  const [width, height] = [Math.max(1, widthPx - leftPx), heightPx(rows)];
  const scale = devicePixelRatio;
  canvas.width = Math.round(widthPx * scale);
  canvas.height = Math.round((height + AXIS_PX) * scale);
  const ctx = canvas.getContext("2d", { alpha: false })!;
  const style = getComputedStyle(canvas);
  const token = (name: string) => style.getPropertyValue(name).trim();
  const colours = coloursOf({ own: rgb(token("--own")), waiting: rgb(token("--waiting")), transfer: rgb(token("--transfer")), nothing: rgb(token("--panel")) });
  const image = new ImageData(width, rows * row);
  const pixels = new Uint32Array(image.data.buffer);
  const behind = document.createElement("canvas");
  behind.width = width;
  behind.height = rows * row;
  const back = behind.getContext("2d")!;
  const named = namedRows(rows);

  return (view, over) => {
    const { fromUs, toUs } = view;
    const x = (us: number) => leftPx + ((us - fromUs) / (toUs - fromUs)) * width;
    const middle = (i: number) => AXIS_PX + (of.row[i]! + 0.5) * row;
    ctx.setTransform(scale, 0, 0, scale, 0, 0);
    ctx.fillStyle = token("--panel");
    ctx.fillRect(0, 0, widthPx, height + AXIS_PX);
    if (row >= 3 && drawsShapes(of, view)) shapes();
    else {
      raster(of, sums(), { ...view, width }, colours, row, pixels);
      back.putImageData(image, 0, 0);
      ctx.imageSmoothingEnabled = false;
      ctx.drawImage(behind, leftPx, AXIS_PX);
    }
    frame();
    links();
    if (over.pointed >= 0) outline(over.pointed, 1.5);
    if (over.drawn !== undefined) {
      const [a, b] = [Math.max(0, Math.min(over.drawn.fromPx, over.drawn.toPx)), Math.max(over.drawn.fromPx, over.drawn.toPx)];
      ctx.fillStyle = token("--data");
      ctx.globalAlpha = 0.22;
      ctx.fillRect(leftPx + a, AXIS_PX, Math.min(b, width) - a, height);
      ctx.globalAlpha = 1;
    }

    function shapes(): void {
      const gap = row > 6 ? 1 : 0;
      for (let r = 0; r < rows; r += 1) {
        const [first, end] = [of.start[r]!, of.start[r + 1]!];
        if (first === end) continue;
        const y = AXIS_PX + r * row;
        const [left, right] = [Math.max(leftPx, x(of.called[first]!)), Math.min(widthPx, x(of.ends[end - 1]!))];
        ctx.fillStyle = token("--own");
        if (right > left) ctx.fillRect(left, y, right - left, row - gap);
        for (let i = firstFrom(of, r, fromUs); i < end && of.called[i]! < toUs; i += 1) {
          const [a, b, c] = [Math.max(leftPx, x(of.called[i]!)), Math.max(leftPx, x(of.last[i]!)), x(of.completed[i]!)];
          ctx.fillStyle = token("--waiting");
          ctx.fillRect(a, y, b - a, row - gap);
          ctx.fillStyle = token("--transfer");
          ctx.fillRect(b, y, Math.max(0.5, c - b - (c - b > 3 ? 0.5 : 0)), row - gap);
        }
      }
    }

    function frame(): void {
      ctx.font = FONT;
      ctx.fillStyle = token("--panel");
      ctx.fillRect(0, 0, leftPx, height + AXIS_PX);
      ctx.fillStyle = token("--ink-quiet");
      ctx.strokeStyle = token("--rule-strong");
      ctx.lineWidth = 1;
      ctx.textAlign = "left";
      for (const { share, ms, afterUs } of axis(view, of.fromMs, Math.max(2, Math.floor(width / TICK_PX)))) {
        const at = Math.round(leftPx + share * width) + 0.5;
        ctx.beginPath();
        ctx.moveTo(at, AXIS_PX - 5);
        ctx.lineTo(at, AXIS_PX);
        ctx.stroke();
        if (at < widthPx - TICK_PX / 2) ctx.fillText(afterUs === undefined ? clock(ms) : `+${seconds(afterUs)}`, at + 3, 12);
      }
      ctx.textAlign = "right";
      for (const r of named) ctx.fillText(cut(nameOf(r), leftPx), leftPx - 6, AXIS_PX + r * row + Math.min(row, 14) / 2 + 4);
    }

    function cut(name: string, px: number): string {
      return name.length * 6.2 > px - 8 ? `${name.slice(0, Math.max(1, Math.floor((px - 8) / 6.2) - 1))}…` : name;
    }

    function links(): void {
      for (const i of over.links) outline(i, 2);
      if (over.links.length < 2) return;
      ctx.strokeStyle = token("--ink");
      ctx.lineWidth = 2;
      ctx.beginPath();
      over.links.forEach((i, n) => {
        const [px, py] = [Math.max(leftPx, Math.min(widthPx, x(of.last[i]!))), middle(i)];
        if (n === 0) ctx.moveTo(px, py);
        else ctx.lineTo(px, py);
      });
      ctx.stroke();
    }

    function outline(i: number, px: number): void {
      const [a, b] = [Math.max(leftPx, x(of.called[i]!)), Math.min(widthPx, x(of.completed[i]!))];
      if (b < leftPx || a > widthPx) return;
      ctx.strokeStyle = token("--ink");
      ctx.lineWidth = px;
      ctx.strokeRect(a, AXIS_PX + of.row[i]! * row, Math.max(2, b - a), Math.max(2, row));
    }
  };
}

/** "#1f7ba3" as numbers. */
function rgb(hex: string): Rgb {
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)) as unknown as Rgb;
}
