import type { Layout, Transport } from "../pure/ring";
import * as store from "../state/store";

const NAMES: Record<Transport, string> = {
  net: "NET, RDMA or other",
  socket: "NET/Socket",
  p2p: "P2P",
  shm: "SHM",
  unknown: "not known",
};

/** Only what is in the drawing. */
export function RingLegend({ drawn }: { drawn: Layout }) {
  const transports = (Object.keys(NAMES) as Transport[]).filter((one) => drawn.hops.some((hop) => hop.transport === one));
  const degraded = drawn.arcs.some((arc) => store.degradedHosts.value.has(arc.host));
  const killed = store.ranks.value.some((rank) => rank.state === "killed");
  const late = store.lateByHost.value.size > 0;
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
      {drawn.hops.some((hop) => (hop.hop.odd ?? []).length > 0) && (
        <li>
          <svg width="18" height="16" class="hop" aria-hidden="true">
            <path class="hop-odd" d="M0 -8L7.5 5.500H-7.500z" transform="translate(9 9)" />
          </svg>
          odd hop: fallback or cross-rail
        </li>
      )}
      {degraded && (
        <li>
          <svg width="30" height="10" class="host-arc degraded" aria-hidden="true">
            <rect class="legend-hatch" width="30" height="10" fill="url(#hatch)" />
          </svg>
          ▲ degraded host
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
