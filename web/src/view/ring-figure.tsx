import { signal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Rank, Ring } from "../api";
import { layout, nearest, type Layout, type Place } from "../pure/ring";
import { shownId } from "../state/communicator";
import * as store from "../state/store";
import { RingDetails } from "./ring-details";
import { RingBase, RingRanks } from "./ring-drawing";
import { RingLegend } from "./ring-legend";

/** Place pointed at or reached by keyboard: index into the layout's places. */
export const active = signal<number | null>(null);

const MAX_WIDTH_PX = 900;
const MIN_WIDTH_PX = 280;

/** The ring, drawn; one stop for Tab, arrows go along it. */
export function RingFigure({ ring, channels }: { ring: Ring; channels: number }) {
  const box = useRef<HTMLDivElement>(null);
  const widthPx = useWidth(box);
  const ranks = store.ranks.value;
  const byRank = useMemo(() => new Map(ranks.map((rank) => [rank.rank, rank])), [ranks]);
  const nRanks = store.watched.value?.n_ranks ?? 0;
  const hostsKey = ring.complete ? "" : ranks.map((rank) => rank.host).join();
  const drawn = useMemo(
    () => layout(ring, widthPx, nRanks, (rank) => byRank.get(rank)?.host ?? null),
    [ring, widthPx, nRanks, hostsKey],
  );
  useEffect(() => {
    active.value = null;
  }, [ring.channel, shownId.value]);
  const at = active.value === null ? undefined : drawn.places[active.value];
  return (
    <figure class="ring-figure">
      <div class="ring-box" ref={box}>
        <div class="ring-square" style={{ width: `${drawn.widthPx}px` }}>
          <svg
            class={drawn.dense ? "ring dense" : "ring"}
            width={drawn.widthPx}
            height={drawn.heightPx}
            viewBox={`0 0 ${drawn.widthPx} ${drawn.heightPx}`}
            role="listbox"
            tabIndex={0}
            aria-label={`Ring of channel ${ring.channel}, in order; arrow keys go along it`}
            aria-activedescendant={at === undefined ? undefined : `place-${at.index}`}
            onPointerMove={(event) => point(event, drawn)}
            onPointerLeave={() => (active.value = null)}
            onClick={(event) => choose(event, drawn)}
            onKeyDown={(event) => walk(event, drawn)}
            onBlur={() => (active.value = null)}
          >
            <RingBase drawn={drawn} />
            <Highlight drawn={drawn} />
            <RingRanks drawn={drawn} states={statesOf(ranks, store.ranksProgress.value.behind)} />
          </svg>
          <RingDetails ring={ring} channels={channels} drawn={drawn} byRank={byRank} />
        </div>
      </div>
      <RingLegend drawn={drawn} />
    </figure>
  );
}

/** Ranks that do not run, or that the others wait for, as text: equal text means nothing to draw again. */
function statesOf(ranks: Rank[], behind: Map<number, number>): string {
  return ranks
    .filter((rank) => rank.state !== "running" || behind.has(rank.rank))
    .map((rank) => `${rank.rank}:${rank.state === "running" ? "late" : rank.state}`)
    .join();
}

function Highlight({ drawn }: { drawn: Layout }) {
  const place = active.value === null ? undefined : drawn.places[active.value];
  if (place === undefined) return null;
  const hop = drawn.hops[place.index];
  return (
    <g class="highlight" aria-hidden="true">
      {hop && <path d={hop.path} />}
      <circle cx={place.x} cy={place.y} r={Math.max(5, drawn.discRadius + 3)} />
    </g>
  );
}

function point(event: PointerEvent, drawn: Layout): void {
  active.value = placeAt(event, drawn)?.index ?? null;
}

function placeAt(event: MouseEvent, drawn: Layout): Place | null {
  const rect = (event.currentTarget as Element).getBoundingClientRect();
  return nearest(drawn, event.clientX - rect.left, event.clientY - rect.top);
}

/** For a finger, which cannot hover. */
function choose(event: MouseEvent, drawn: Layout): void {
  active.value = placeAt(event, drawn)?.index ?? null;
}

function walk(event: KeyboardEvent, drawn: Layout): void {
  const n = drawn.places.length;
  const at = active.value;
  let next: number | null;
  if (event.key === "ArrowRight" || event.key === "ArrowDown") next = at === null ? 0 : (at + 1) % n;
  else if (event.key === "ArrowLeft" || event.key === "ArrowUp") next = at === null ? n - 1 : (at + n - 1) % n;
  else if (event.key === "Home") next = 0;
  else if (event.key === "End") next = n - 1;
  else if (event.key === "Escape") next = null;
  else return;
  event.preventDefault();
  active.value = next;
}

function useWidth(box: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const measure = () => setWidth(Math.floor(element.clientWidth));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return Math.max(MIN_WIDTH_PX, Math.min(MAX_WIDTH_PX, width));
}
