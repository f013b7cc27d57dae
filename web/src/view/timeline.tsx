import { useRef, useState } from "preact/hooks";
import { clock, moment, plural, since } from "../pure/format";
import { ticks, type Bar, type Lane, type Lanes, type Range, type Tone } from "../pure/lanes";
import { reset, zoom } from "../state/zoom";
import { MIN_DRAG_PX } from "./lines";
import { useWidth } from "./use-width";

const LANE_PX = 24;
const BAR_PX = 16;
const HEAD_PX = 22;
/** Room for the names of lanes; on a telephone they stand above their bars. */
const NAME_PX = 168;
const NARROW_PX = 620;
const NAME_LINE_PX = 16;
/** What a character of a name takes, roughly. */
const CHAR_PX = 6.8;
/** Pixels a tick's time takes, with room around it. */
const TICK_PX = 84;

/** States by a shape as well: told apart without colour. */
const SIGNS: Record<Tone, string> = { ok: "", unknown: "? ", ended: "", broken: "✕ ", info: "", warning: "▲ ", critical: "◆ " };

export interface TimelineGroup {
  name: string;
  lanes: Lanes;
  href: (id: string) => string;
  /** What one of those without a lane is called. */
  noun: string;
}

/** What lived when, over one time axis: each bar leads to what it stands for. */
export function Timeline({ groups, range, nowMs }: { groups: TimelineGroup[]; range: Range; nowMs: number }) {
  const box = useRef<HTMLDivElement>(null);
  const [drag, setDrag] = useState<{ from: number; to: number } | null>(null);
  const widthPx = useWidth(box);
  const narrow = widthPx < NARROW_PX;
  const leftPx = narrow ? 0 : NAME_PX;
  const roomPx = Math.max(1, widthPx - leftPx - 1);
  const lanePx = narrow ? LANE_PX + NAME_LINE_PX : LANE_PX;
  const rows = groups.filter((group) => group.lanes.lanes.length > 0).flatMap((group) => group.lanes.lanes.map((lane) => ({ group, lane })));
  const heightPx = HEAD_PX + rows.length * lanePx + 4;
  const dragged = useRef(false);
  const at = (event: PointerEvent & { currentTarget: Element }) => Math.max(0, Math.min(1, (event.clientX - event.currentTarget.getBoundingClientRect().left - leftPx) / roomPx));
  /** A click on a bar leads to what it stands for; what was drawn over bars does not. */
  const release = ({ from, to }: { from: number; to: number }) => {
    setDrag(null);
    dragged.current = Math.abs(to - from) * roomPx >= MIN_DRAG_PX;
    const ms = (share: number) => range.fromMs + share * (range.toMs - range.fromMs);
    if (dragged.current) zoom(ms(Math.min(from, to)), ms(Math.max(from, to)));
    setTimeout(() => (dragged.current = false));
  };
  const hidden = groups.filter((group) => group.lanes.hidden > 0);
  return (
    <div class="timeline" ref={box}>
      {widthPx > 0 && (
        <svg width={widthPx} height={heightPx} role="group" aria-label={groups.map((group) => group.name).join(" and ")}
          onPointerDown={(event) => event.pointerType === "mouse" && event.button === 0 && setDrag({ from: at(event), to: at(event) })}
          onPointerMove={(event) => drag !== null && setDrag({ ...drag, to: at(event) })}
          onPointerLeave={() => setDrag(null)}
          onPointerUp={(event) => drag !== null && release({ ...drag, to: at(event) })}
          onClickCapture={(event) => dragged.current && event.preventDefault()}
          onDragStart={(event) => event.preventDefault()}
          onDblClick={reset}>
          {ticks(range, Math.max(2, Math.floor(roomPx / TICK_PX))).map(({ at, ms }) => (
            <g key={ms} class="tick" aria-hidden="true">
              <path d={`M${leftPx + at * roomPx} ${HEAD_PX - 4}V${heightPx}`} />
              <text x={leftPx + at * roomPx} y="12">
                {at * roomPx > roomPx - TICK_PX ? "" : range.toMs - range.fromMs > 86_400_000 ? moment(ms, nowMs) : clock(ms).slice(0, ms % 60_000 === 0 ? 5 : 8)}
              </text>
            </g>
          ))}
          {drag !== null && Math.abs(drag.to - drag.from) * roomPx >= MIN_DRAG_PX && (
            <rect class="drawn" x={leftPx + Math.min(drag.from, drag.to) * roomPx} y={HEAD_PX} width={Math.abs(drag.to - drag.from) * roomPx} height={heightPx - HEAD_PX} />
          )}
          {rows.map(({ group, lane }, i) => (
            <g key={i} transform={`translate(0 ${HEAD_PX + i * lanePx})`}>
              <LaneName lane={lane} first={i === 0 || rows[i - 1]!.lane.label !== lane.label} narrow={narrow} />
              {lane.bars.map((bar) => (
                <BarShape key={bar.id} bar={bar} href={group.href(bar.id)} leftPx={leftPx} roomPx={roomPx} topPx={narrow ? NAME_LINE_PX : 4} nowMs={nowMs} />
              ))}
            </g>
          ))}
        </svg>
      )}
      {rows.length === 0 && <p class="quiet">Nothing in this time range.</p>}
      {hidden.map(({ lanes, noun, name }) => (
        <p key={name} class="quiet">
          {plural(lanes.hidden, `more ${noun}`)} in this time range, of less weight.
        </p>
      ))}
    </div>
  );
}

function LaneName({ lane, first, narrow }: { lane: Lane; first: boolean; narrow: boolean }) {
  const most = narrow ? 44 : Math.floor((NAME_PX - 10) / CHAR_PX);
  const name = lane.label.length > most ? `${lane.label.slice(0, most - 1)}…` : lane.label;
  return first ? (
    <text class="lane-name" x={narrow ? 0 : NAME_PX - 10} y={narrow ? 12 : 16} text-anchor={narrow ? "start" : "end"}>
      {name}
    </text>
  ) : null;
}

function BarShape(props: { bar: Bar; href: string; leftPx: number; roomPx: number; topPx: number; nowMs: number }) {
  const { bar, leftPx, roomPx, topPx, nowMs } = props;
  const x = leftPx + bar.from * roomPx;
  const widthPx = Math.max(3, (bar.to - bar.from) * roomPx - 1);
  const sign = SIGNS[bar.tone];
  const fits = Math.floor((widthPx - 10) / CHAR_PX);
  const label = `${sign}${bar.label}`;
  const words = label.length <= fits ? label : fits >= 6 ? `${label.slice(0, fits - 1)}…` : sign.trim().length <= fits ? sign.trim() : "";
  const when = bar.toMs === undefined ? `since ${since(bar.fromMs, nowMs)}` : `${moment(bar.fromMs, nowMs)} – ${moment(bar.toMs, nowMs)}`;
  return (
    <a href={props.href} class={`bar-link tone-${bar.tone}`}>
      <title>{`${bar.label}\n${toneWords(bar.tone)}, ${when}`}</title>
      <rect x={x} y={topPx} width={widthPx} height={BAR_PX} rx="2.5" />
      {bar.toMs === undefined && <path class="open-end" d={`M${x + widthPx} ${topPx}v${BAR_PX}`} />}
      <text x={x + 5} y={topPx + 12}>
        {words}
      </text>
    </a>
  );
}

function toneWords(tone: Tone): string {
  return tone === "ok" ? "in use" : tone === "unknown" ? "not known" : tone === "info" ? "for information" : tone;
}
