import { useMemo } from "preact/hooks";
import type { CommunicatorDetail, Ring, Rings } from "../api";
import { causeWords } from "../pure/cause";
import { compare, type Comparison } from "../pure/compare";
import { plural } from "../pure/format";
import { ringRows } from "../pure/tables";
import { useApi } from "../state/api";
import * as comm from "../state/communicator";
import * as store from "../state/store";
import { Changes, ComparePicker } from "./compare";
import { PaceChanges } from "./compare-pace";
import { Export } from "./export";
import { HostName } from "./host-name";
import { Panel } from "./panel";
import { RingFigure } from "./ring-figure";
import type { Scene } from "./ring-scene";
import { RingTable } from "./ring-table";
import { RingThumbs } from "./ring-thumbs";
import { withCommands } from "./with-commands";

/** The rings of the communicator on the screen: all of them small, one whole, and beside it what it was before. */
export function RingPanel() {
  const { compare: other } = comm.at.value;
  const rings = comm.rings.value;
  const before = useApi<Rings>(other === undefined ? undefined : `communicators/${encodeURIComponent(other)}/rings`, { on: other ?? "never", everyMs: 30_000 });
  const comparison = useMemo(
    () => (rings === undefined || before.value === undefined ? undefined : compare(before.value.rings, rings.rings)),
    [rings, before.value],
  );
  return (
    <Panel id="ring-panel" title="Rings" aside={<><ComparePicker /><Take rings={rings?.rings ?? []} /></>}>
      <PartlySeen />
      <Prediction />
      {rings === undefined ? (
        <p class="quiet">Asking for its rings …</p>
      ) : rings.rings.length === 0 ? (
        <NoRings />
      ) : (
        <>
          {other !== undefined && before.missing && <p class="notice">Communicator {other} is not known to this daemon any more.</p>}
          {comparison !== undefined && <p class="comparison" role="status">{comparison.sentence}</p>}
          {other !== undefined && store.watched.value !== undefined && <PaceChanges before={other} after={store.watched.value} />}
          <Chosen rings={rings.rings} before={before.value?.rings} comparison={comparison} />
          {comparison !== undefined && <Changes comparison={comparison} />}
        </>
      )}
    </Panel>
  );
}

function Take({ rings }: { rings: Ring[] }) {
  const id = comm.shownId.value;
  if (id === undefined) return null;
  const { channel } = comm.ring.value ?? {};
  return (
    <Export
      path={`communicators/${encodeURIComponent(id)}/rings`}
      name={`rings-${id}`}
      rows={() => ringRows(rings)}
      plot={`plots/rings.{}?comm=${encodeURIComponent(id)}&channel=${channel ?? 0}`}
      more={[{ words: "Download every ring, SVG", path: `plots/rings.svg?comm=${encodeURIComponent(id)}&channel=all`, file: `rings-${id}-all.svg` }]}
    />
  );
}

function Chosen({ rings, before, comparison }: { rings: Ring[]; before: Ring[] | undefined; comparison: Comparison | undefined }) {
  const ring = comm.ring.value;
  const { channel } = comm.at.value;
  const changed = useMemo(
    () => new Set((comparison?.channels ?? []).filter((one) => one.kind !== "same").map((one) => one.channel)),
    [comparison],
  );
  const scene = useScene(ring, comparison);
  const old = ring === undefined ? before?.find((one) => one.channel === channel) : before?.find((one) => one.channel === ring.channel);
  return (
    <>
      <RingThumbs
        rings={rings}
        shown={ring?.channel}
        degraded={scene.degraded}
        changed={changed}
        href={(one) => store.link({ ...comm.at.value, channel: one })}
      />
      {ring === undefined && (
        <p class="notice">
          Channel {channel} is not one of this communicator's {plural(rings.length, "channel")}.
        </p>
      )}
      {ring !== undefined && !ring.complete && (
        <p class="notice" role="status">
          <strong>Ring incomplete.</strong> {ring.problem}
        </p>
      )}
      <div class={before === undefined ? "" : "ring-pair"}>
        {before !== undefined && (
          <section aria-label="Before">
            <h3>Before</h3>
            {old === undefined ? <p class="notice">It had no such channel.</p> : <RingFigure ring={old} channels={before.length} scene={{ ...scene, nRanks: old.order.length, byRank: NOBODY, late: NONE, degraded: NO_HOST }} label="Ring before" />}
          </section>
        )}
        {ring !== undefined && (
          <section aria-label="Ring">
            {before !== undefined && <h3>Now</h3>}
            <RingFigure key={comm.shownId.value} ring={ring} channels={rings.length} scene={scene} />
          </section>
        )}
      </div>
      {ring !== undefined && scene.host !== undefined && <HostHops ring={ring} host={scene.host} />}
      {ring !== undefined && <RingTable ring={ring} scene={scene} />}
    </>
  );
}

/** How the chosen host reaches the others: the way to its NICs. */
function HostHops({ ring, host }: { ring: Ring; host: string }) {
  const out = ring.order.filter((hop) => hop.host === host && hop.nic !== null);
  if (out.length === 0) return null;
  return (
    <p class="host-hops">
      Out of <a href={store.link({ page: "host", host })}><HostName of={host} /></a> on channel {ring.channel}:{" "}
      {out.map((hop, i) => (
        <span key={hop.rank}>
          {i > 0 && ", "}
          {hop.rank} → {hop.next} over {hop.transport ?? "?"} via <a href={store.link({ page: "host", host, nic: hop.nic ?? undefined })}>{hop.nic}</a>
        </span>
      ))}
    </p>
  );
}

const NONE: ReadonlySet<number> = new Set();
const NO_HOST: ReadonlySet<string> = new Set();
/** Of an earlier communicator nobody says how its hosts and ranks do now. */
const NOBODY: Scene["byRank"] = new Map();

function useScene(ring: Ring | undefined, comparison: Comparison | undefined): Scene {
  const ranks = store.ranks.value;
  const accused = store.accusedRanks.value;
  const { host, rank } = comm.at.value;
  const degradedKey = [...store.hostsInTrouble.value].join("\n");
  const byRank = useMemo(() => new Map(ranks.map((one) => [one.rank, one])), [ranks]);
  const degraded = useMemo(() => new Set(degradedKey === "" ? [] : degradedKey.split("\n")), [degradedKey]);
  const changed = useMemo(
    () => new Set(comparison?.channels.find((one) => one.channel === ring?.channel)?.hops.map((hop) => hop.rank) ?? []),
    [comparison, ring?.channel],
  );
  return {
    nRanks: store.watched.value?.n_ranks ?? 0,
    byRank,
    degraded,
    late: new Set(ranks.filter((one) => one.state !== "killed" && accused.has(one.rank)).map((one) => one.rank)),
    changed,
    host,
    rank,
    choose: (what) => store.replace({ ...comm.at.value, host: what.host, rank: what.rank }),
  };
}

/** What ringscope does not see of it: never silence. */
function PartlySeen() {
  const communicator = store.watched.value;
  if (communicator === undefined || communicator.coverage.state === "full" || communicator.state === "ended") return null;
  return (
    <div class="notice" role="status">
      <p>
        <strong>Partly seen.</strong>
      </p>
      {communicator.coverage.lacks.map((sentence) => (
        <p key={sentence}>{withCommands(sentence)}</p>
      ))}
    </div>
  );
}

/** How the library came from the fewest channels found to those in use. */
function Prediction() {
  const detail: CommunicatorDetail | undefined = store.watched.value;
  if (detail === undefined || detail.base === null) return null;
  const { base, final_channels: final } = detail;
  const { steps, finals, explained } = detail.prediction;
  return (
    <ol class="channel-steps" aria-label="How many channels, and why">
      <li>
        <b>{base}</b> fewest found
      </li>
      {steps.map((step) => (
        <li key={step.cause} title={step.text}>
          <b>{step.channels}</b> {causeWords(step.cause)}
          {step.inferred && " (inferred)"}
        </li>
      ))}
      {explained === false && final !== null && (
        <li class="bad">
          <b>{final}</b> in use{finals.length > 0 && `, ${finals.join(" or ")} expected`}: unexplained
        </li>
      )}
    </ol>
  );
}

function NoRings() {
  return (
    <div class="notice">
      <p>
        <strong>Channels not known: the log has no GRAPH lines.</strong>
      </p>
      <p>
        <code>ringscope run -- CMD</code> has the library write them. With a launcher of your own set{" "}
        <code>NCCL_DEBUG=INFO</code> and <code>NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV</code>. Bytes and operations are counted
        without them.
      </p>
    </div>
  );
}
