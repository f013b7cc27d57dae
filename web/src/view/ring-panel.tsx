import { moment, plural, words } from "../pure/format";
import * as comm from "../state/communicator";
import * as store from "../state/store";
import { Panel } from "./panel";
import { RingFigure } from "./ring-figure";
import { RingTable } from "./ring-table";
import { withCommands } from "./with-commands";

/** The ring of one channel of the communicator on the screen. */
export function RingPanel() {
  const rings = comm.rings.value;
  const ring = comm.ring.value;
  return (
    <Panel id="ring-panel" title={title()} aside={<Facts />}>
      <Replaced />
      <PartlySeen />
      <Prediction />
      {rings === undefined ? (
        <p class="quiet">{comm.missing.value ? `Communicator ${store.communicatorId.value} is not known to this daemon.` : "Asking for its rings …"}</p>
      ) : rings.rings.length === 0 ? (
        <NoRings />
      ) : (
        <>
          <Channels />
          {ring === undefined ? (
            <p class="notice">
              Channel {comm.at.value.channel} is not one of this communicator's {plural(rings.rings.length, "channel")}.
            </p>
          ) : (
            <>
              {!ring.complete && (
                <p class="notice" role="status">
                  <strong>Ring incomplete.</strong> {ring.problem}
                </p>
              )}
              <RingFigure ring={ring} channels={rings.rings.length} />
              <RingTable ring={ring} />
            </>
          )}
        </>
      )}
    </Panel>
  );
}

function title(): string {
  const communicator = store.watched.value;
  return communicator === undefined ? "Ring" : `Ring of ${communicator.name ?? communicator.id}`;
}

function Facts() {
  const communicator = store.watched.value;
  if (communicator === undefined) return null;
  return (
    <code class="quiet" title="comm_hash: the library's own hash, as its log prints it">
      {communicator.comm_hash}
    </code>
  );
}

/** An address may name a communicator that the job has given up since. */
function Replaced() {
  const { ended, job, name } = store.watched.value ?? {};
  if (ended === undefined || job === undefined || store.job.value?.state === "ended") return null;
  return (
    <p class="notice" role="status">
      {name ?? "This communicator"} ended at {moment(Date.parse(ended), store.nowMs.value)}; the job runs on others.{" "}
      <a href={store.link({ page: "job", job })}>Show what runs now</a>
    </p>
  );
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
  const detail = store.watched.value;
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
          <b>{step.channels}</b> {words(step.cause)}
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

function Channels() {
  const rings = comm.rings.value?.rings ?? [];
  return (
    <nav class="segments channels" aria-label="Channel">
      <span class="segments-name">Channel</span>
      {rings.map((ring) => (
        <a
          key={ring.channel}
          href={store.link({ ...comm.at.value, channel: ring.channel })}
          class={ring.channel === comm.ring.value?.channel ? "on" : ""}
          aria-current={ring.channel === comm.ring.value?.channel ? "true" : undefined}
          aria-label={`Channel ${ring.channel}${ring.complete ? "" : ", incomplete"}`}
        >
          {ring.channel}
          {!ring.complete && <sup>!</sup>}
        </a>
      ))}
    </nav>
  );
}
