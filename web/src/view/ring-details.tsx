import type { OddHop, Rank, Ring } from "../api";
import { plural, primitiveName, rankRanges, size } from "../pure/format";
import type { Layout, Place } from "../pure/ring";
import * as store from "../state/store";
import { Mark } from "./mark";
import { active } from "./ring-figure";

const ODD: Record<OddHop, string> = {
  cross_rail: "crosses rails, most hops do not",
  fallback: "a slower transport than its like",
  no_gpu_direct: "without GPUDirect, unlike its like",
};

/** The middle of the ring: what it is as a whole, or the hop pointed at. */
export function RingDetails(props: { ring: Ring; channels: number; drawn: Layout; byRank: Map<number, Rank> }) {
  const { drawn } = props;
  const place = active.value === null ? undefined : drawn.places[active.value];
  const width = Math.round((drawn.radius - drawn.discRadius - (drawn.hopLabels ? 62 : 14)) * 1.55);
  return (
    <figcaption
      class={drawn.roomy ? "ring-details" : "ring-details below"}
      style={drawn.roomy ? { width: `${width}px` } : {}}
      aria-live="polite"
    >
      {place === undefined ? <Whole {...props} /> : <HopDetails {...props} place={place} />}
    </figcaption>
  );
}

function Whole({ ring, channels, drawn }: { ring: Ring; channels: number; drawn: Layout }) {
  const hosts = new Set(drawn.arcs.map((arc) => arc.host)).size;
  const between = drawn.hops.filter((hop) => hop.betweenHosts).length;
  return (
    <>
      <p class="ring-channel">
        Channel {ring.channel} <small>of {channels}</small>
      </p>
      <p>
        {plural(drawn.places.length, "rank")} · {plural(hosts, "host")}
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
    </>
  );
}

function HopDetails(props: { ring: Ring; place: Place; byRank: Map<number, Rank> }) {
  const { place } = props;
  const hop = props.ring.order[place.index];
  const rank = props.byRank.get(place.rank);
  const next = hop === undefined ? undefined : (props.ring.order.find((one) => one.rank === hop.next)?.host ?? props.byRank.get(hop.next)?.host);
  const degraded = place.host !== null && store.degradedHosts.value.has(place.host);
  if (hop === undefined) {
    return (
      <>
        <p class="ring-channel">Rank {place.rank}</p>
        <p>{place.host ?? "host not known"}</p>
        <p class="bad">Its place in the ring is not known.</p>
      </>
    );
  }
  return (
    <>
      <p class="ring-channel">
        {hop.rank} <span aria-hidden="true">→</span>
        <span class="unseen"> to </span> {hop.next}
      </p>
      <p>
        {degraded && <Mark kind="warning" label="degraded" />} {hop.host}
        {next !== hop.host && ` → ${next ?? "?"}`}
      </p>
      <p>
        <b>{hop.transport ?? "Transport not known"}</b>
        {hop.nic !== null && ` via ${hop.nic}`}
        {hop.recv_nic !== undefined && hop.recv_nic !== hop.nic && ` to ${hop.recv_nic}`}
        {hop.gpu_direct === true && ", GPUDirect"}
        {hop.proxy_rank !== undefined && `, carried by rank ${hop.proxy_rank}`}
      </p>
      {(hop.odd ?? []).map((odd) => (
        <p key={odd}>
          <Mark kind="warning" label="odd" /> {ODD[odd]}
        </p>
      ))}
      {hop.sent_bytes !== null && hop.sent_bytes > 0 && <p>{size(hop.sent_bytes)} sent over the network</p>}
      <p class="quiet">
        {hop.gpu !== undefined && `GPU ${hop.gpu} · `}
        {rank?.state === "killed" ? <b class="bad">killed</b> : rank?.operation ? `${primitiveName(rank.operation.primitive)} #${rank.operation.seq_number}` : (rank?.state ?? "")}
      </p>
    </>
  );
}
