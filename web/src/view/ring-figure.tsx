import { useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Ring } from "../api";
import { layout, nearest, type Layout, type Place } from "../pure/ring";
import { hostNames } from "../state/store";
import { RingDetails } from "./ring-details";
import { RingBase, RingRanks } from "./ring-drawing";
import { RingLegend } from "./ring-legend";
import type { Scene } from "./ring-scene";
import { useWidth } from "./use-width";

const MAX_WIDTH_PX = 900;
const MIN_WIDTH_PX = 280;

/** The ring, drawn; one stop for Tab, arrows go along it, Enter chooses. */
export function RingFigure({ ring, channels, scene, label = "Ring" }: { ring: Ring; channels: number; scene: Scene; label?: string }) {
  const box = useRef<HTMLDivElement>(null);
  const widthPx = Math.max(MIN_WIDTH_PX, Math.min(MAX_WIDTH_PX, useWidth(box)));
  // Place pointed at or reached by keyboard: index into the layout's places.
  const [active, setActive] = useState<number | null>(null);
  const { byRank, nRanks, host, rank } = scene;
  const hostsKey = ring.complete ? "" : [...byRank.values()].map((one) => one.host).join();
  const names = hostNames.value;
  const drawn = useMemo(
    () => layout(ring, widthPx, nRanks, (one) => byRank.get(one)?.host ?? null, host, (one) => names.get(one) ?? one),
    [ring, widthPx, nRanks, hostsKey, host, names],
  );
  // Who expands a host by keyboard goes on at its first rank.
  useLayoutEffect(() => setActive((last) => (last === null || !drawn.byHosts ? null : firstOf(drawn, host))), [ring.channel, host]);
  const name = useId();
  const at = active === null ? undefined : drawn.places[active];
  const pinned = rank === undefined ? undefined : drawn.places.find((place) => place.ranks.includes(rank));
  const shown = at ?? pinned;
  return (
    <figure class="ring-figure">
      <div class="ring-box" ref={box}>
        <div class="ring-square" style={{ width: `${drawn.widthPx}px` }}>
          <svg
            class={`ring${drawn.dense ? " dense" : ""}${drawn.byHosts ? " by-hosts" : ""}`}
            width={drawn.widthPx}
            height={drawn.heightPx}
            viewBox={`0 0 ${drawn.widthPx} ${drawn.heightPx}`}
            role="listbox"
            tabIndex={0}
            aria-label={`${label} of channel ${ring.channel}, in order; arrow keys go along it, Enter chooses`}
            aria-activedescendant={at === undefined ? undefined : `${name}-${at.index}`}
            onPointerMove={(event) => setActive(placeAt(event, drawn)?.index ?? null)}
            onPointerLeave={() => setActive(null)}
            onClick={(event) => pick(placeAt(event, drawn), scene)}
            onKeyDown={(event) => walk(event, drawn, active, setActive, scene)}
            onBlur={() => setActive(null)}
          >
            <RingBase drawn={drawn} scene={scene} />
            <Highlight drawn={drawn} place={shown} />
            <RingRanks name={name} drawn={drawn} scene={scene} states={statesOf(scene)} />
          </svg>
          <RingDetails ring={ring} channels={channels} drawn={drawn} scene={scene} place={shown} pinned={shown !== undefined && shown === pinned} />
        </div>
      </div>
      <RingLegend drawn={drawn} scene={scene} />
    </figure>
  );
}

function firstOf(drawn: Layout, host: string | undefined): number | null {
  return drawn.places.find((place) => place.host === host && !place.collapsed)?.index ?? null;
}

/** Ranks that do not run, or that the others wait for, as text: equal text means nothing to draw again. */
function statesOf({ byRank, late }: Scene): string {
  return [...byRank.values()]
    .filter((rank) => rank.state !== "running" || late.has(rank.rank))
    .map((rank) => `${rank.rank}:${rank.state === "running" ? "late" : rank.state}`)
    .join();
}

function Highlight({ drawn, place }: { drawn: Layout; place: Place | undefined }) {
  if (place === undefined) return null;
  const hop = drawn.hops[place.index];
  return (
    <g class="highlight" aria-hidden="true">
      {hop && <path d={hop.path} />}
      <circle cx={place.x} cy={place.y} r={Math.max(5, drawn.discRadius + 3)} />
    </g>
  );
}

function placeAt(event: MouseEvent, drawn: Layout): Place | null {
  const rect = (event.currentTarget as Element).getBoundingClientRect();
  return nearest(drawn, event.clientX - rect.left, event.clientY - rect.top);
}

/** A host that stands for its ranks is expanded, a rank is pinned; what was chosen already is let go, as is all by a click beside the ring. */
function pick(place: Place | null, scene: Scene): void {
  if (place === null) scene.choose({ host: scene.host });
  else if (place.collapsed) scene.choose({ host: place.host ?? undefined });
  else scene.choose({ host: scene.host, rank: place.rank === scene.rank ? undefined : place.rank });
}

function walk(event: KeyboardEvent, drawn: Layout, at: number | null, go: (next: number | null) => void, scene: Scene): void {
  const n = drawn.places.length;
  if (event.key === "ArrowRight" || event.key === "ArrowDown") go(at === null ? 0 : (at + 1) % n);
  else if (event.key === "ArrowLeft" || event.key === "ArrowUp") go(at === null ? n - 1 : (at + n - 1) % n);
  else if (event.key === "Home") go(0);
  else if (event.key === "End") go(n - 1);
  else if (event.key === "Enter" || event.key === " ") pick(drawn.places[at ?? -1] ?? null, scene);
  else if (event.key === "Escape") leave(at, go, scene);
  else return;
  event.preventDefault();
}

/** One thing after the other: the place pointed at, the pinned rank, the expanded host. */
function leave(at: number | null, go: (next: number | null) => void, scene: Scene): void {
  if (scene.rank !== undefined) scene.choose({ host: scene.host });
  else if (at === null && scene.host !== undefined) scene.choose({});
  go(null);
}
