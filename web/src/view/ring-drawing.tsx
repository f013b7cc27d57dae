import { useMemo } from "preact/hooks";
import type { RankState } from "../api";
import { MAX_NAME_CHARS, type Arc, type HopLine, type Layout, type Place } from "../pure/ring";
import { byName } from "../pure/health";
import { at } from "../state/communicator";
import * as store from "../state/store";

/** Hosts and hops. Drawn anew only when something in it changed: 1 024 ranks are some thousand elements. */
export function RingBase({ drawn }: { drawn: Layout }) {
  const degraded = store.degradedHosts.value;
  const chosen = at.value.host;
  const degradedKey = [...degraded.keys()].join();
  return useMemo(() => {
    const hosts = [...new Set(drawn.arcs.map((arc) => arc.host))].sort(byName);
    return (
      <g>
        <defs>
          <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
            <rect class="hatch-ground" width="6" height="6" />
            <rect class="hatch-line" width="2.5" height="6" />
          </pattern>
        </defs>
        {drawn.arcs.map((arc, i) => (
          <HostArc
            key={i}
            arc={arc}
            odd={hosts.indexOf(arc.host) % 2 === 1}
            degraded={degraded.has(arc.host)}
            faded={chosen !== undefined && chosen !== arc.host}
            labelled={isLabelled(arc, i, drawn, degraded.has(arc.host) || chosen === arc.host)}
          />
        ))}
        {drawn.hops.map((hop) => (
          <Hop key={hop.index} hop={hop} drawn={drawn} faded={chosen !== undefined && chosen !== hop.hop.host} />
        ))}
      </g>
    );
  }, [drawn, degradedKey, chosen]);
}

/** What is drawn of a rank's state. */
type DrawnState = RankState | "late";

/** The ranks, above what is highlighted. `states`: ranks that do not run or are late, as `rank:state,…`. */
export function RingRanks({ drawn, states }: { drawn: Layout; states: string }) {
  const degraded = store.degradedHosts.value;
  const chosen = at.value.host;
  const degradedKey = [...degraded.keys()].join();
  return useMemo(() => {
    const stateOf = new Map(states.split(",").map((pair) => pair.split(":") as [string, DrawnState]));
    return (
      <g>
        {drawn.places.map((place) => (
          <RankDisc
            key={place.index}
            place={place}
            drawn={drawn}
            state={stateOf.get(String(place.rank)) ?? "running"}
            degraded={place.host !== null && degraded.has(place.host)}
            faded={chosen !== undefined && chosen !== place.host}
          />
        ))}
      </g>
    );
  }, [drawn, states, degradedKey, chosen]);
}

function isLabelled(arc: Arc, index: number, drawn: Layout, always: boolean): boolean {
  if (always) return true;
  // Rings that come back to a host often would be ringed by the same few names.
  if (drawn.arcs.length > drawn.maxArcLabels) return false;
  return index === 0 || arc.host !== drawn.arcs[index - 1]!.host;
}

function HostArc(props: { arc: Arc; odd: boolean; degraded: boolean; faded: boolean; labelled: boolean }) {
  const { arc, degraded } = props;
  const name = arc.host.length > MAX_NAME_CHARS ? `…${arc.host.slice(1 - MAX_NAME_CHARS)}` : arc.host;
  return (
    <g class={`host-arc${props.odd ? " odd" : ""}${degraded ? " degraded" : ""}${props.faded ? " faded" : ""}`} aria-hidden="true">
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

function Hop({ hop, drawn, faded }: { hop: HopLine; drawn: Layout; faded: boolean }) {
  return (
    <g class={`hop transport-${hop.transport}${hop.hop.odd?.length ? " odd" : ""}${faded ? " faded" : ""}`} aria-hidden="true">
      <path class="hop-line" d={hop.path} />
      {!drawn.dense && drawn.discRadius >= 5 && (
        <path class="hop-head" d="M-4 -4L3 0L-4 4" transform={`translate(${hop.x} ${hop.y}) rotate(${hop.degrees})`} />
      )}
      {hop.hop.odd !== undefined && hop.hop.odd.length > 0 && (
        <path class="hop-odd" d="M0 -8L7.5 5.500H-7.500z" transform={`translate(${hop.x} ${hop.y})`} />
      )}
      {drawn.hopLabels && hop.hop.transport !== null && (
        <HopLabel hop={hop} />
      )}
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
function crossPath(drawn: Layout): string {
  const out = Math.max(5, drawn.discRadius * 1.15);
  if (!drawn.rankLabels) return `M${-out} ${-out}L${out} ${out}M${out} ${-out}L${-out} ${out}`;
  const inner = drawn.discRadius * 0.72;
  return [[1, 1], [1, -1], [-1, 1], [-1, -1]]
    .map(([sx, sy]) => `M${sx! * inner} ${sy! * inner}L${sx! * out} ${sy! * out}`)
    .join("");
}

function RankDisc(props: { place: Place; drawn: Layout; state: DrawnState; degraded: boolean; faded: boolean }) {
  const { place, drawn, state } = props;
  const { x, y } = place;
  const r = drawn.discRadius;
  const classes = `rank state-${state}${place.missing ? " missing" : ""}${props.degraded ? " degraded" : ""}${props.faded ? " faded" : ""}`;
  const label = `rank ${place.rank}${place.host === null ? "" : ` on ${place.host}`}${place.missing ? ", place not known" : ""}${state === "running" ? "" : `, ${state}`}`;
  return (
    <g class={classes} role="option" id={`place-${place.index}`} aria-selected="false" aria-label={label} data-rank={place.rank}>
      <circle cx={x} cy={y} r={r} />
      {drawn.rankLabels && (
        <text x={x} y={y + r * 0.34} style={{ fontSize: `${Math.max(8, Math.min(13, r * 0.95))}px` }}>
          {place.rank}
        </text>
      )}
      {state === "killed" && (
        <path class="cross" d={crossPath(drawn)} transform={`translate(${x} ${y})`} />
      )}
    </g>
  );
}
