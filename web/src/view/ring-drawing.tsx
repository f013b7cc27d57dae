import { useMemo } from "preact/hooks";
import type { RankState } from "../api";
import { plural, rankRanges } from "../pure/format";
import { byName } from "../pure/names";
import { MAX_NAME_CHARS, type Arc, type HopLine, type Layout, type Place } from "../pure/ring";
import * as store from "../state/store";
import type { Scene } from "./ring-scene";

/** Hosts and hops. Drawn anew only when something in it changed: a thousand ranks are some thousand elements. */
export function RingBase({ drawn, scene }: { drawn: Layout; scene: Scene }) {
  const { degraded, changed, host: chosen } = scene;
  return useMemo(() => {
    const hosts = [...new Set(drawn.arcs.map((arc) => arc.host))].sort(byName);
    const number = new Map(hosts.map((host, i) => [host, i]));
    return (
      <g>
        <Hatch />
        {drawn.arcs.map((arc, i) => (
          <HostArc
            key={i}
            arc={arc}
            odd={number.get(arc.host)! % 2 === 1}
            degraded={degraded.has(arc.host)}
            faded={chosen !== undefined && chosen !== arc.host}
            labelled={isLabelled(arc, i, drawn, degraded.has(arc.host) || chosen === arc.host)}
          />
        ))}
        {drawn.hops.map((hop) => (
          <Hop key={hop.index} hop={hop} drawn={drawn} faded={chosen !== undefined && chosen !== hop.hop.host} changed={isChanged(drawn.places[hop.index]!, changed)} />
        ))}
      </g>
    );
  }, [drawn, [...degraded].join(), [...changed].join(), chosen]);
}

function isChanged(place: Place, changed: ReadonlySet<number>): boolean {
  return changed.size > 0 && place.ranks.some((rank) => changed.has(rank));
}

/** What fills the band of a degraded host: seen without colour. */
function Hatch() {
  return (
    <defs>
      <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
        <rect class="hatch-ground" width="6" height="6" />
        <rect class="hatch-line" width="2.5" height="6" />
      </pattern>
    </defs>
  );
}

/** What is drawn of a rank's state. */
type DrawnState = RankState | "late";

/** The ranks, above what is highlighted. `name` begins their ids; `states`: ranks that do not run or are late, as `rank:state,…`. */
export function RingRanks({ name, drawn, scene, states }: { name: string; drawn: Layout; scene: Scene; states: string }) {
  const { degraded, host: chosen, rank: pinned } = scene;
  return useMemo(() => {
    const stateOf = new Map(states.split(",").map((pair) => pair.split(":") as [string, DrawnState]));
    const worst = (place: Place): DrawnState => {
      const all = place.ranks.map((rank) => stateOf.get(String(rank)) ?? "running");
      return all.find((state) => state === "killed") ?? all.find((state) => state === "late") ?? all[0]!;
    };
    return (
      <g>
        {drawn.places.map((place) => (
          <Disc
            key={place.index}
            id={`${name}-${place.index}`}
            place={place}
            drawn={drawn}
            state={worst(place)}
            degraded={place.host !== null && degraded.has(place.host)}
            faded={chosen !== undefined && chosen !== place.host}
            pinned={pinned !== undefined && place.ranks.includes(pinned)}
          />
        ))}
      </g>
    );
  }, [drawn, states, [...degraded].join(), chosen, pinned]);
}

function isLabelled(arc: Arc, index: number, drawn: Layout, always: boolean): boolean {
  if (always) return true;
  // Rings that come back to a host often would be ringed by the same few names.
  if (drawn.arcs.length > drawn.maxArcLabels) return false;
  return index === 0 || arc.host !== drawn.arcs[index - 1]!.host;
}

function HostArc(props: { arc: Arc; odd: boolean; degraded: boolean; faded: boolean; labelled: boolean }) {
  const { arc, degraded } = props;
  const short = store.shortHost(arc.host);
  const name = short.length > MAX_NAME_CHARS ? `…${short.slice(1 - MAX_NAME_CHARS)}` : short;
  return (
    <g class={`host-arc${props.odd ? " odd" : ""}${degraded ? " degraded" : ""}${arc.short ? " short" : ""}${props.faded ? " faded" : ""}`} aria-hidden="true">
      {degraded && <path class="arc-edge" d={arc.path} />}
      <path class="arc" d={arc.path} />
      {props.labelled && (
        <text x={arc.x} y={arc.y} text-anchor={arc.anchor}>
          {degraded ? `▲ ${name}` : name}
        </text>
      )}
    </g>
  );
}

function Hop({ hop, drawn, faded, changed }: { hop: HopLine; drawn: Layout; faded: boolean; changed: boolean }) {
  const place = drawn.places[hop.index]!;
  const odd = (hop.hop.odd ?? []).length > 0;
  const heads = !drawn.dense && (drawn.byHosts ? !place.collapsed : drawn.discRadius >= 5);
  return (
    <g class={`hop transport-${hop.transport}${odd ? " odd" : ""}${changed ? " changed" : ""}${faded && !changed ? " faded" : ""}`} aria-hidden="true">
      {changed && <path class="hop-change" d={hop.path} />}
      <path class="hop-line" d={hop.path} />
      {heads && <path class="hop-head" d="M-4 -4L3 0L-4 4" transform={`translate(${hop.x} ${hop.y}) rotate(${hop.degrees})`} />}
      {(odd || place.oddInside > 0) && <path class="hop-odd" d="M0 -8L7.5 5.500H-7.500z" transform={`translate(${hop.x} ${hop.y})`} />}
      {drawn.hopLabels && hop.hop.transport !== null && <HopLabel hop={hop} />}
    </g>
  );
}

/** Inside the circle, beside its hop; to the left of the middle it ends there, to the right it begins there. */
function HopLabel({ hop }: { hop: HopLine }) {
  const side = Math.sin((hop.degrees * Math.PI) / 180);
  const anchor = Math.abs(side) < 0.3 ? "middle" : side > 0 ? "end" : "start";
  return (
    <text class="hop-label" x={hop.labelX} y={hop.labelY + 4} text-anchor={anchor}>
      {hop.hop.transport}
      {hop.hop.nic !== null && (
        <tspan x={hop.labelX} dy="13">
          {hop.hop.nic}
        </tspan>
      )}
    </text>
  );
}

/** A cross; its middle left out where a number stands there. */
function crossPath(radius: number, numbered: boolean): string {
  const out = Math.max(5, radius * 1.15);
  if (!numbered) return `M${-out} ${-out}L${out} ${out}M${out} ${-out}L${-out} ${out}`;
  const inner = radius * 0.72;
  return [[1, 1], [1, -1], [-1, 1], [-1, -1]]
    .map(([sx, sy]) => `M${sx! * inner} ${sy! * inner}L${sx! * out} ${sy! * out}`)
    .join("");
}

/** Of a host that stands for its ranks. */
const HOST_RADIUS_PX = 3.5;

function Disc(props: { id: string; place: Place; drawn: Layout; state: DrawnState; degraded: boolean; faded: boolean; pinned: boolean }) {
  const { place, drawn, state } = props;
  const { x, y } = place;
  const r = place.collapsed ? Math.min(HOST_RADIUS_PX, place.half * drawn.radius * 0.7) : drawn.discRadius;
  const numbered = drawn.rankLabels && !place.collapsed;
  const classes = [
    place.collapsed ? "rank host" : "rank", `state-${state}`, place.missing && "missing", props.degraded && "degraded", props.faded && "faded",
    props.pinned && "pinned",
  ];
  return (
    <g
      class={classes.filter(Boolean).join(" ")}
      role="option"
      id={props.id}
      aria-selected={props.pinned}
      aria-label={nameOf(place, state)}
      {...(place.collapsed ? { "data-host": place.host } : { "data-rank": place.rank })}
    >
      <circle cx={x} cy={y} r={r} />
      {numbered && (
        <text x={x} y={y + r * 0.34} style={{ fontSize: `${Math.max(8, Math.min(13, r * Math.min(0.95, 2.4 / String(place.rank).length)))}px` }}>
          {place.rank}
        </text>
      )}
      {state === "killed" && <path class="cross" d={crossPath(r, numbered)} transform={`translate(${x} ${y})`} />}
    </g>
  );
}

function nameOf(place: Place, state: DrawnState): string {
  const what = place.collapsed
    ? `${place.host ?? "host not known"}, ${plural(place.ranks.length, "rank")}: ${rankRanges(place.ranks)}`
    : `rank ${place.rank}${place.host === null ? "" : ` on ${place.host}`}`;
  return `${what}${place.missing ? ", place not known" : ""}${state === "running" ? "" : `, ${state}`}`;
}
