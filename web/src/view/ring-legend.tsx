import type { OddHop } from "../api";
import type { Layout, Transport } from "../pure/ring";
import type { Scene } from "./ring-scene";

const NAMES: Record<Transport, string> = {
  net: "NET, RDMA or other",
  socket: "NET/Socket",
  p2p: "P2P",
  shm: "SHM",
  unknown: "not known",
};

const ODD: Record<OddHop, string> = { cross_rail: "cross-rail", fallback: "fallback", no_gpu_direct: "no GPUDirect" };

/** Only what is in the drawing. */
export function RingLegend({ drawn, scene }: { drawn: Layout; scene: Scene }) {
  const transports = (Object.keys(NAMES) as Transport[]).filter((one) => drawn.hops.some((hop) => hop.transport === one));
  const degraded = drawn.arcs.some((arc) => scene.degraded.has(arc.host));
  const killed = [...scene.byRank.values()].some((rank) => rank.state === "killed");
  const late = scene.late.size > 0;
  const odd = [...new Set(drawn.hops.flatMap((hop) => hop.hop.odd ?? []))];
  return (
    <ul class="ring-legend" aria-label="Legend">
      {transports.map((transport) => (
        <li key={transport}>
          <svg width="30" height="10" class={`hop transport-${transport}`} aria-hidden="true">
            <path class="hop-line" d="M1 5H29" />
          </svg>
          {transport === "net" ? netName(drawn) : NAMES[transport]}
        </li>
      ))}
      {(odd.length > 0 || drawn.places.some((place) => place.oddInside > 0)) && (
        <li>
          <svg width="18" height="16" class="hop" aria-hidden="true">
            <path class="hop-odd" d="M0 -8L7.5 5.500H-7.500z" transform="translate(9 9)" />
          </svg>
          odd hop{odd.length > 0 && `: ${odd.map((one) => ODD[one]).join(", ")}`}
        </li>
      )}
      {scene.changed.size > 0 && (
        <li>
          <svg width="30" height="14" class="hop changed" aria-hidden="true">
            <path class="hop-change" d="M3 7H27" />
            <path class="hop-line" d="M1 7H29" />
          </svg>
          hop that is not as in the other ring
        </li>
      )}
      {degraded && (
        <li>
          <svg width="30" height="10" class="host-arc degraded" aria-hidden="true">
            <rect class="legend-hatch" width="30" height="10" fill="url(#hatch)" />
          </svg>
          ▲ host in trouble
        </li>
      )}
      {killed && (
        <li>
          <svg width="12" height="12" class="rank state-killed" aria-hidden="true">
            <path class="cross" d="M1 1L11 11M11 1L1 11" />
          </svg>
          killed rank
        </li>
      )}
      {late && (
        <li>
          <svg width="16" height="16" class="rank state-late" aria-hidden="true">
            <circle cx="8" cy="8" r="6" />
          </svg>
          rank that the others wait for
        </li>
      )}
    </ul>
  );
}

/** By the names that occur, e.g. `NET/IB`. */
function netName(drawn: Layout): string {
  const names = new Set(drawn.hops.filter((hop) => hop.transport === "net").map((hop) => hop.hop.transport!.split("/").slice(0, 2).join("/")));
  return [...names].join(", ") || NAMES.net;
}
