import type { Hop, OddHop, Ring } from "../api";
import { plural, primitiveName, rankRanges, size } from "../pure/format";
import type { Layout, Place } from "../pure/ring";
import { link } from "../state/store";
import { HostName } from "./host-name";
import { Mark } from "./mark";
import type { Scene } from "./ring-scene";

const ODD: Record<OddHop, string> = {
  cross_rail: "crosses rails, most hops do not",
  fallback: "a slower transport than its like",
  no_gpu_direct: "without GPUDirect, unlike its like",
};

interface Props {
  ring: Ring;
  channels: number;
  drawn: Layout;
  scene: Scene;
}

/** The middle of the ring: what it is as a whole, or the place pointed at or pinned. */
export function RingDetails(props: Props & { place: Place | undefined; pinned: boolean }) {
  const { drawn, place } = props;
  const width = Math.round((drawn.radius - drawn.discRadius - (drawn.hopLabels ? 62 : 14)) * 1.55);
  return (
    <figcaption
      class={`ring-details${drawn.roomy ? "" : " below"}${props.pinned ? " pinned" : ""}`}
      style={drawn.roomy ? { width: `${width}px` } : {}}
      aria-live="polite"
    >
      {place === undefined ? <Whole {...props} /> : <AtPlace {...props} place={place} />}
    </figcaption>
  );
}

function Whole({ ring, channels, drawn }: Props) {
  const hosts = new Set(drawn.arcs.map((arc) => arc.host)).size;
  const between = drawn.hops.filter((hop) => hop.betweenHosts).length;
  const ranks = drawn.places.reduce((sum, place) => sum + place.ranks.length, 0);
  return (
    <>
      <p class="ring-channel">
        Channel {ring.channel} <small>of {channels}</small>
      </p>
      <p>
        {plural(ranks, "rank")} · {plural(hosts, "host")}
      </p>
      {ring.complete ? (
        <p class="quiet">{plural(between, "hop")} between hosts, clockwise</p>
      ) : (
        <p class="bad">
          {ring.missing_ranks.length > 0
            ? `Missing: ${ring.missing_ranks.length === 1 ? "rank" : "ranks"} ${rankRanges(ring.missing_ranks, 5)}`
            : "Does not close"}
        </p>
      )}
      {drawn.byHosts && <p class="quiet">Choose a host to see its ranks</p>}
    </>
  );
}

function AtPlace(props: Props & { place: Place }) {
  const { drawn, place } = props;
  const hop = drawn.hops[place.index]?.hop;
  if (hop === undefined || place.missing) {
    return (
      <>
        <p class="ring-channel">{place.ranks.length === 1 ? "Rank" : "Ranks"} {rankRanges(place.ranks, 4)}</p>
        <p>{place.host === null ? "host not known" : <HostName of={place.host} />}</p>
        <p class="bad">{place.ranks.length === 1 ? "Its place" : "Their places"} in the ring {place.ranks.length === 1 ? "is" : "are"} not known.</p>
      </>
    );
  }
  return place.collapsed ? <HostDetails {...props} hop={hop} /> : <HopDetails {...props} hop={hop} />;
}

/** A host that stands for its ranks, and the hop out of it. */
function HostDetails({ scene, place, hop }: Props & { place: Place; hop: Hop }) {
  return (
    <>
      <p class="ring-channel">{place.host !== null && <HostName of={place.host} />}</p>
      <p>
        {scene.degraded.has(hop.host) && <Mark kind="warning" label="in trouble" />} {plural(place.ranks.length, "rank")}: {rankRanges(place.ranks, 4)}
      </p>
      <p class="quiet">
        its hop out, {hop.rank} → {hop.next}
      </p>
      <Way hop={hop} />
      {place.oddInside > 0 && (
        <p>
          <Mark kind="warning" label="odd" /> {plural(place.oddInside, "odd hop")} inside
        </p>
      )}
    </>
  );
}

function HopDetails({ ring, scene, hop }: Props & { hop: Hop }) {
  const rank = scene.byRank.get(hop.rank);
  const next = ring.order.find((one) => one.rank === hop.next)?.host ?? scene.byRank.get(hop.next)?.host;
  return (
    <>
      <p class="ring-channel">
        {hop.rank} <span aria-hidden="true">→</span>
        <span class="unseen"> to </span> {hop.next}
      </p>
      <p>
        {scene.degraded.has(hop.host) && <Mark kind="warning" label="in trouble" />} <a href={link({ page: "host", host: hop.host })}><HostName of={hop.host} /></a>
        {next !== hop.host && <> → {next === undefined ? "?" : <a href={link({ page: "host", host: next })}><HostName of={next} /></a>}</>}
      </p>
      <Way hop={hop} next={next} />
      {hop.sent_bytes !== null && hop.sent_bytes > 0 && <p>{size(hop.sent_bytes)} sent over the network</p>}
      {scene.changed.has(hop.rank) && <p>not as in the other ring</p>}
      <p class="quiet">
        {hop.gpu !== undefined && `GPU ${hop.gpu} · `}
        {rank?.state === "killed" ? <b class="bad">killed</b> : rank?.operation ? `${primitiveName(rank.operation.primitive)} #${rank.operation.seq_number}` : (rank?.state ?? "")}
      </p>
    </>
  );
}

function Way({ hop, next }: { hop: Hop; next?: string | undefined }) {
  return (
    <>
      <p>
        <b>{hop.transport ?? "Transport not known"}</b>
        {hop.nic !== null && <> via <a href={link({ page: "host", host: hop.host, nic: hop.nic })}>{hop.nic}</a></>}
        {hop.recv_nic !== undefined && hop.recv_nic !== hop.nic && (
          <> to {next === undefined ? hop.recv_nic : <a href={link({ page: "host", host: next, nic: hop.recv_nic })}>{hop.recv_nic}</a>}</>
        )}
        {hop.gpu_direct === true && ", GPUDirect"}
        {hop.proxy_rank !== undefined && `, carried by rank ${hop.proxy_rank}`}
      </p>
      {(hop.odd ?? []).map((odd) => (
        <p key={odd}>
          <Mark kind="warning" label="odd" /> {ODD[odd]}
        </p>
      ))}
    </>
  );
}
