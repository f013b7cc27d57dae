import { useRef } from "preact/hooks";
import type { HostChannels } from "../api";
import { causeWords } from "../pure/cause";
import { integer, moment, plural } from "../pure/format";
import { fallen } from "../pure/history";
import * as store from "../state/store";
import { Mark } from "./mark";
import { useWidth } from "./use-width";

const HEIGHT_PX = 120;
const LEFT_PX = 30;
const BOTTOM_PX = 18;import { Time } from "./time";

/** A communicator takes at least this much of the chart's width: with more of them, the newest are drawn. */
const MIN_SLOT_PX = 14;
const MAX_SLOT_PX = 64;

/** What the host found each time it joined a communicator: newest last in the picture, first in the table. */
export function ChannelHistory({ items, host, names }: { items: HostChannels[]; host: string; names: ReadonlyMap<string, string> }) {
  const sorted = [...items].sort((a, b) => a.created.localeCompare(b.created));
  const known = sorted.filter((one) => one.init_channels != null || one.final_channels != null);
  const fell = fallen(items);
  if (sorted.length === 0) return <p class="quiet">It has been in no communicator.</p>;
  return (
    <>
      {known.length > 1 && <Picture items={known} fell={fell} />}
      <Rows items={[...sorted].reverse()} fell={fell} host={host} names={names} />
    </>
  );
}

/** By order and not by time: communicators are made in bursts. */
function Picture({ items, fell }: { items: HostChannels[]; fell: Set<string> }) {
  const box = useRef<HTMLDivElement>(null);
  const widthPx = useWidth(box);
  const roomPx = Math.max(0, widthPx - LEFT_PX - 6);
  const shown = items.slice(-Math.max(2, Math.floor(roomPx / MIN_SLOT_PX)));
  const top = Math.max(1, ...shown.map((one) => Math.max(one.init_channels ?? 0, one.base ?? 0, one.final_channels ?? 0)));
  const slotPx = Math.min(MAX_SLOT_PX, roomPx / Math.max(1, shown.length));
  const y = (channels: number) => 8 + (1 - channels / top) * (HEIGHT_PX - BOTTOM_PX - 8);
  return (
    <div class="channel-history" ref={box}>
      {widthPx > 0 && (
        <svg width={widthPx} height={HEIGHT_PX} role="img" aria-label={`Channels of the last ${plural(shown.length, "communicator")}; the table below says the same`}>
          {[0, top].map((value) => (
            <g key={value} class="tick">
              <path d={`M${LEFT_PX} ${y(value)}H${widthPx}`} />
              <text x={LEFT_PX - 6} y={y(value) + 4} text-anchor="end">{value}</text>
            </g>
          ))}
          {shown.map((one, i) => (
            <Stem key={one.comm} one={one} fell={fell.has(one.comm)} x={LEFT_PX + (i + 0.5) * slotPx} y={y} />
          ))}
          <text class="tick-words" x={LEFT_PX} y={HEIGHT_PX - 4}>{moment(Date.parse(shown[0]!.created), store.nowMs.value)}</text>
          {shown.length > 4 && (
            <text class="tick-words" x={LEFT_PX + shown.length * slotPx} y={HEIGHT_PX - 4} text-anchor="end">
              {moment(Date.parse(shown.at(-1)!.created), store.nowMs.value)}
            </text>
          )}
        </svg>
      )}
      <ul class="ring-legend" aria-label="Legend">
        <li><svg width="12" height="12" class="stem" aria-hidden="true"><circle class="init" cx="6" cy="6" r="4" /></svg>init: found here</li>
        <li><svg width="16" height="12" class="stem" aria-hidden="true"><path class="base" d="M1 6H15" /></svg>base: fewest of all hosts</li>
        <li><svg width="12" height="12" class="stem" aria-hidden="true"><rect class="final" x="2" y="2" width="8" height="8" /></svg>final: in use</li>
      </ul>
    </div>
  );
}

function Stem({ one, fell, x, y }: { one: HostChannels; fell: boolean; x: number; y: (channels: number) => number }) {
  const { init_channels: init, base, final_channels: final } = one;
  return (
    <g class={`stem${fell ? " short" : ""}`}>
      {init != null && final != null && <path class="span" d={`M${x} ${y(init)}V${y(final)}`} />}
      {base != null && <path class="base" d={`M${x - 6} ${y(base)}H${x + 6}`} />}
      {final != null && <rect class="final" x={x - 4} y={y(final) - 4} width="8" height="8" />}
      {init != null && <circle class="init" cx={x} cy={y(init)} r="4" />}
    </g>
  );
}

function Rows({ items, fell, host, names }: { items: HostChannels[]; fell: Set<string>; host: string; names: ReadonlyMap<string, string> }) {
  return (
    <div class="scroller tall" tabIndex={0} role="region" aria-label="Channel history">
      <table class="history-table stacking">
        <thead>
          <tr>
            <th scope="col">Made</th>
            <th scope="col">Communicator</th>
            <th scope="col">Job</th>
            <th scope="col" class="number" title="Its ranks here, of all">Ranks</th>
            <th scope="col" class="number">Init</th>
            <th scope="col" class="number" title="Lowest init of all ranks">Base</th>
            <th scope="col" class="number">Final</th>
            <th scope="col">Cause</th>
          </tr>
        </thead>
        <tbody>
          {items.map((one) => (
            <tr key={one.comm} class={one.ended == null ? "" : "over"}>
              <td data-label="Made">
                <Time at={one.created} />
                {one.ended != null && <small> – <Time at={one.ended} /></small>}
              </td>
              <th scope="row">
                <a href={store.link({ page: "communicator", comm: one.comm, host })}>{names.get(one.comm) ?? one.comm}</a>
              </th>
              <td data-label="Job"><a href={store.link({ page: "job", job: one.job })}>{one.job}</a></td>
              <td data-label="Ranks" class="number">{integer(one.n_ranks_here)} of {integer(one.n_ranks)}</td>
              <td data-label="Init" class="number">
                {fell.has(one.comm) && <Mark kind="warning" label="fewer than the last time" />} {one.init_channels ?? "–"}
              </td>
              <td data-label="Base" class="number">{one.base ?? "–"}</td>
              <td data-label="Final" class="number">{one.final_channels ?? "–"}</td>
              <td data-label="Cause">{causeWords(one.cause)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
