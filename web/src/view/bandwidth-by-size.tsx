import { useRef, useState } from "preact/hooks";
import type { BandwidthCurve, Bandwidths } from "../api";
import { across, bandwidthRows, best, drawn, likeWords, nearest, own, rateTicks, sizeTicks, sizeWords, summary, type Drawn, type Point } from "../pure/bandwidths";
import { bandwidthTicks, primitiveName, size } from "../pure/format";
import { colourOf, isOpen, primitiveStyle, shapeOf, SHAPES } from "../pure/line-style";
import { useApi } from "../state/api";
import * as comm from "../state/communicator";
import { Export } from "./export";
import { LineKey } from "./line-key";
import { MAX_LINES } from "./lines";
import { Panel } from "./panel";
import { useWidth } from "./use-width";

const EVERY_MS = 5_000;
const HEIGHT_PX = 230;
/** Around the lines: for what the axes say. */
const LEFT_PX = 88;
const RIGHT_PX = 18;
const TOP_PX = 10;
const BOTTOM_PX = 26;
/** A word on the lower axis needs so much. */
const TICK_PX = 74;

/** What operations of each size reach on the communicator on the screen, beside the best of those like it. */
export function BandwidthBySize() {
  const id = comm.shownId.value;
  const path = `communicators/${encodeURIComponent(id ?? "")}/bandwidth`;
  const shown = useApi<Bandwidths>(id === undefined ? undefined : path, { on: "never", everyMs: EVERY_MS }).value;
  if (shown === undefined) return null;
  const curves = shown.curves.slice(0, MAX_LINES);
  return (
    <Panel id="bandwidth" title="Bandwidth by size" aside={<Export path={path} name={`bandwidth-${shown.id}`} rows={() => bandwidthRows(shown.curves)} />}>
      {curves.length > 0 && <Curves shown={shown} curves={curves} />}
      {shown.lacks.map((words) => (
        <p key={words} class="quiet">{words}</p>
      ))}
    </Panel>
  );
}

/** One stop for Tab; arrows go from size to size. */
function Curves({ shown, curves }: { shown: Bandwidths; curves: BandwidthCurve[] }) {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const [at, setAt] = useState<number | undefined>(undefined);
  const axes = drawn(curves);
  const pointed = at !== undefined && axes.sizes.includes(at) ? at : undefined;
  const point = (event: PointerEvent) => {
    const x = event.clientX - (box.current?.getBoundingClientRect().left ?? 0);
    setAt(nearest((x - LEFT_PX) / Math.max(1, width - LEFT_PX - RIGHT_PX), axes));
  };
  const arrows = (event: KeyboardEvent) => {
    const to = next(axes.sizes, pointed, event.key);
    if (to === undefined) return;
    event.preventDefault();
    setAt(to);
  };
  return (
    <div class="chart by-size">
      <div ref={box} role="img" tabIndex={0} onPointerMove={point} onPointerLeave={() => setAt(undefined)} onKeyDown={arrows} onBlur={() => setAt(undefined)}
        aria-label={`Bus bandwidth by size of operations. ${pointed === undefined ? summary(shown) : sizeWords(curves, pointed)}`}>
        {width > 0 && <Picture curves={curves} axes={axes} width={width} pointed={pointed} />}
      </div>
      <p class="chart-readout" aria-hidden="true">
        {pointed !== undefined ? `From ${size(pointed)}: ${sizeWords(curves, pointed)}` : (
          <>
            {curves.map(({ primitive }) => (
              <span key={primitive} class="key-word">
                <LineKey style={primitiveStyle(primitive)} />
                {primitiveName(primitive)}
              </span>
            ))}
            of late <span class="key dashed" /> {likeWords(shown)}; busbw as nccl-tests defines it
          </>
        )}
      </p>
    </div>
  );
}

function next(sizes: number[], pointed: number | undefined, key: string): number | undefined {
  if (key === "Home") return sizes[0];
  if (key === "End") return sizes.at(-1);
  const at = pointed === undefined ? undefined : sizes.indexOf(pointed);
  if (key === "ArrowRight") return sizes[at === undefined ? 0 : Math.min(at + 1, sizes.length - 1)];
  if (key === "ArrowLeft") return sizes[at === undefined ? sizes.length - 1 : Math.max(at - 1, 0)];
  return undefined;
}

function Picture({ curves, axes, width, pointed }: { curves: BandwidthCurve[]; axes: Drawn; width: number; pointed: number | undefined }) {
  const right = width - RIGHT_PX;
  const bottom = HEIGHT_PX - BOTTOM_PX;
  const x = (bytes: number) => LEFT_PX + across(bytes, axes) * (right - LEFT_PX);
  const y = (bytesPerS: number) => bottom - (bytesPerS / axes.top) * (bottom - TOP_PX);
  const rates = rateTicks(axes.top);
  const words = bandwidthTicks(rates);
  const at = curves.flatMap((curve) => [...curve.sizes, ...curve.best]).find((one) => one.from_bytes === pointed)?.bytes;
  // One alone has no line: a dash.
  const line = (points: Point[]) => points.length === 1 ? `M${(x(points[0]!.bytes) - 5).toFixed(1)} ${y(points[0]!.busBytesPerS).toFixed(1)}h10` : points.map((one, i) => `${i === 0 ? "M" : "L"}${x(one.bytes).toFixed(1)} ${y(one.busBytesPerS).toFixed(1)}`).join("");
  return (
    <svg width={width} height={HEIGHT_PX} viewBox={`0 0 ${width} ${HEIGHT_PX}`} aria-hidden="true">
      {rates.map((rate, i) => (
        <g key={rate}>
          <path class="grid" d={`M${LEFT_PX} ${y(rate)}H${right}`} />
          <text x={LEFT_PX - 8} y={y(rate) + 4} text-anchor="end">{words[i]}</text>
        </g>
      ))}
      {sizeTicks(axes, (right - LEFT_PX) / TICK_PX).map((bytes) => (
        <g key={bytes}>
          <path class="grid" d={`M${x(bytes)} ${TOP_PX}V${bottom}`} />
          <text x={x(bytes)} y={HEIGHT_PX - 8} text-anchor="middle">{size(bytes)}</text>
        </g>
      ))}
      {at !== undefined && <path class="pointed" d={`M${x(at)} ${TOP_PX}V${bottom}`} />}
      {curves.map((curve) => {
        const style = primitiveStyle(curve.primitive);
        const shape = shapeOf(style);
        return (
          <g key={curve.primitive} class={`line-key line-${colourOf(style)}${isOpen(shape) ? " open" : ""}`}>
            <path class="line best" d={line(best(curve))} />
            <path class="line" d={line(own(curve))} />
            {own(curve).map((one) => (
              <path key={one.bytes} class="shape" transform={`translate(${x(one.bytes).toFixed(1)} ${y(one.busBytesPerS).toFixed(1)})`} d={SHAPES[shape]} />
            ))}
          </g>
        );
      })}
    </svg>
  );
}
