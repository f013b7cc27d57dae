import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { integer, plural } from "../pure/format";
import { callWords, seconds, type JobTimeline } from "../pure/job-timeline";
import { firstToSee, latenessMap, waterfall, worstWords, type Fall, type LatenessMap } from "../pure/lateness";
import { heightPx, namedRows, rowPx } from "../pure/timeline-view";
import * as store from "../state/store";
import { isDark } from "../state/theme";
import { HostName } from "./host-name";
import { useWidth } from "./use-width";

/** Room for the numbers of ranks. */
const RANKS_PX = 44;
/** Shades of lateness, the least first; their colours are tokens. */
const SHADES = 6;

/** Ranks by calls: who is late to which. A click on a call tells of it rank by rank. */
export function LatenessPanel({ of, onPick }: { of: JobTimeline; onPick: (at: number) => void }) {
  const comm = useSignal(firstToSee(of));
  const shown = comm.value < of.communicators.length ? comm.value : 0;
  const map = useMemo(() => latenessMap(of, shown), [of, shown]);
  const words = worstWords(of, map, store.shortHost);
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const mapPx = Math.max(0, useWidth(box) - RANKS_PX);
  const dark = isDark();
  const columns = map.calls.length;
  const row = rowPx(of.ranks.length);
  const pointed = useSignal<{ row: number; column: number } | undefined>(undefined);
  useEffect(() => {
    if (canvas.current !== null && mapPx > 0 && columns > 0) paint(canvas.current, of, map, columns, mapPx);
  }, [map, mapPx, dark]);
  const place = (event: MouseEvent) => {
    const { left, top, width } = canvas.current!.getBoundingClientRect();
    const at = { row: Math.floor((event.clientY - top) / row), column: Math.floor(((event.clientX - left) / width) * columns) };
    return at.row >= 0 && at.row < of.ranks.length && at.column >= 0 && at.column < columns ? at : undefined;
  };
  const pick = (event: MouseEvent) => {
    const at = place(event);
    if (at === undefined) return;
    for (let i = of.start[at.row]!; i < of.start[at.row + 1]!; i += 1) if (of.comm[i] === shown && of.call[i] === map.calls[at.column]) return onPick(i);
  };
  const at = pointed.value;
  const us = at === undefined ? NaN : map.late[at.row * columns + at.column]!;
  return (
    <div class="lateness" ref={box}>
      {of.communicators.length > 1 && (
        <label class="picker">
          Communicator{" "}
          <select value={shown} onChange={(event) => (comm.value = Number(event.currentTarget.value))}>
            {of.communicators.map((one, i) => (
              <option key={one.id} value={i}>{one.name ?? one.id}</option>
            ))}
          </select>
        </label>
      )}
      {columns === 0 ? <p class="quiet">No call of it was told by two ranks.</p> : (
        <>
          <p>{words}</p>
          <div class="lateness-map">
          <ol class="lateness-ranks" aria-hidden="true">
            {namedRows(of.ranks.length).map((at) => (
              <li key={at} style={{ top: `${at * row}px` }}>{of.ranks[at]!.rank}</li>
            ))}
          </ol>
          <canvas ref={canvas} role="img" style={{ width: `${mapPx}px`, height: `${heightPx(of.ranks.length)}px` }}
            aria-label={`How late each of ${plural(of.ranks.length, "rank")} came to ${plural(columns, "call")}, a row for each rank. ${words}`}
            onPointerMove={(event) => (pointed.value = place(event))} onPointerLeave={() => (pointed.value = undefined)} onClick={pick} />
          </div>
          <p class="lateness-calls" aria-hidden="true"><span>call #{map.calls[0]}</span><span>call #{map.calls[columns - 1]}</span></p>
          <p class="chart-readout" aria-hidden="true">
            {at === undefined ? (
              <span class="time-legend">
                on time {Array.from({ length: SHADES }, (_, i) => <i key={i} class={`late-${i}`} />)} {seconds(map.topUs)} behind the others or more
                <small> Calls from left to right, ranks from top to bottom; a click tells of one call.</small>
              </span>
            ) : `rank ${of.ranks[at.row]!.rank} on ${store.shortHost(of.ranks[at.row]!.host)}, call #${map.calls[at.column]}: ${Number.isNaN(us) ? "not told" : us < 1 ? "on time" : `${seconds(us)} behind the others`}`}
          </p>
        </>
      )}
    </div>
  );
}

/** A row of a pixel or two is not seen among a thousand: the one that is late the most is drawn over its neighbours. */
const LEAST_ROW_PX = 4;

function paint(canvas: HTMLCanvasElement, of: JobTimeline, { late, topUs, worst }: LatenessMap, columns: number, widthPx: number): void {
  const row = rowPx(of.ranks.length);
  const style = getComputedStyle(canvas);
  const colours = Array.from({ length: SHADES }, (_, i) => style.getPropertyValue(`--late-${i}`).trim());
  const scale = devicePixelRatio;
  canvas.width = Math.round(widthPx * scale);
  canvas.height = Math.round(heightPx(of.ranks.length) * scale);
  const ctx = canvas.getContext("2d")!;
  ctx.scale(scale, scale);
  const [px, gap] = [widthPx / columns, row > 6 ? 1 : 0];
  const fill = (r: number, shade: number, topPx: number, heightPx: number) => {
    for (let column = 0; column < columns; column += 1) {
      const us = late[r * columns + column]!;
      if (Math.min(SHADES - 1, Math.floor((us / topUs) * SHADES)) === shade) ctx.fillRect(column * px, topPx, Math.max(1, px - (px > 6 ? 1 : 0)), heightPx);
    }
  };
  // By shade: to change the colour is what takes time.
  for (let shade = 0; shade < SHADES; shade += 1) {
    ctx.fillStyle = colours[shade]!;
    for (let r = 0; r < of.ranks.length; r += 1) fill(r, shade, r * row, row - gap);
  }
  if (row >= LEAST_ROW_PX || worst.meanUs < topUs / 2) return;
  for (let shade = 0; shade < SHADES; shade += 1) {
    ctx.fillStyle = colours[shade]!;
    fill(worst.row, shade, Math.max(0, worst.row * row + (row - LEAST_ROW_PX) / 2), LEAST_ROW_PX);
  }
}

/** One call rank by rank: who called when, waited how long, and how long bytes moved. */
export function OneCall({ of, at }: { of: JobTimeline; at: number }) {
  const { falls, hidden, lengthUs } = useMemo(() => waterfall(of, at), [of, at]);
  const comm = of.communicators[of.comm[at]!];
  return (
    <div class="one-call">
      <p>
        {callWords(of, at)} of {comm?.name ?? comm?.id}; who called last stands first. A click in the timeline or on the map chooses another.
      </p>
      <table class="stacking falls">
        <thead>
          <tr>
            <th scope="col">Rank</th>
            <th scope="col" class="number">Own before</th>
            <th scope="col" class="number">Called</th>
            <th scope="col" class="number">Waited</th>
            <th scope="col" class="number">Transfer</th>
            <th scope="col"><span class="unseen">As bars</span></th>
          </tr>
        </thead>
        <tbody>
          {falls.map((one) => <FallRow key={one.at} one={one} lengthUs={lengthUs} />)}
        </tbody>
      </table>
      {hidden > 0 && <p class="quiet">and {integer(hidden)} more that called earlier.</p>}
    </div>
  );
}

function FallRow({ one, lengthUs }: { one: Fall; lengthUs: number }) {
  const share = (us: number) => `${((100 * us) / Math.max(1, lengthUs)).toFixed(2)}%`;
  return (
    <tr>
      <th scope="row">
        <b>{one.rank}</b> <a href={store.link({ page: "host", host: one.host })}><HostName of={one.host} /></a>
      </th>
      <td data-label="Own before" class="number">{one.ownUs === undefined ? "not known" : seconds(one.ownUs)}</td>
      <td data-label="Called" class="number">+{seconds(one.calledUs)}</td>
      <td data-label="Waited" class="number">{one.isSplit ? seconds(one.waitingUs) : "not known"}</td>
      <td data-label="Transfer" class="number">{one.isSplit ? seconds(one.transferUs) : `${seconds(one.waitingUs + one.transferUs)} with waiting`}</td>
      <td class="fall" aria-hidden="true">
        <div>
          <span style={{ marginLeft: share(one.calledUs), width: share(one.waitingUs) }} class="waiting" />
          <span style={{ width: share(one.transferUs) }} class="transfer" />
        </div>
      </td>
    </tr>
  );
}
