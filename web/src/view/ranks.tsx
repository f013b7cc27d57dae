import { signal } from "@preact/signals";
import type { Operation, Rank, RankState } from "../api";
import { duration, integer, plural, primitiveName, size, words } from "../pure/format";
import { placeBeside } from "../pure/place";
import { choose, filters, type RankFilter, type RankSort } from "../pure/ranks";
import { rankRows } from "../pure/tables";
import * as comm from "../state/communicator";
import * as store from "../state/store";
import { Export } from "./export";
import { HostName } from "./host-name";
import { Mark } from "./mark";
import { Panel } from "./panel";
import { rankMark, standingMark } from "./standing";
import { withCommands } from "./with-commands";

/** Rows shown before all are asked for: enough for a rack, few enough to draw every second. */
const FEW = 64;

const all = signal(false);
const filter = signal<RankFilter>("all");
/** Those to look at first, until somebody wants them otherwise. */
const order = signal<{ sort: RankSort; descending: boolean }>({ sort: "attention", descending: false });

export function RanksPanel() {
  const { host, rank: named } = comm.at.value;
  const ranks = store.ranks.value;
  const sentence = store.rankPositions.value;
  const standing = store.watched.value?.standing;
  const accused = store.accusedRanks.value;
  const offered = filters(ranks, accused);
  const wanted = offered.includes(filter.value) ? filter.value : "all";
  const few = ranks.length > FEW && !all.value;
  const { sort, descending } = order.value;
  const chosen = choose(ranks, accused, { sort, descending, filter: wanted, host });
  const gpus = new Set(ranks.map((rank) => rank.gpu)).size > 1;
  const shown = few ? chosen.slice(0, FEW) : chosen;
  return (
    <Panel
      id="ranks"
      title={heading(chosen.length, host)}
      aside={
        <>
          {offered.length > 2 && <States offered={offered} wanted={wanted} />}
          {host !== undefined && (
            <a class="chip" href={store.link({ ...comm.at.value, host: undefined })} aria-label={`Only ${host}; show every host`}>
              only <HostName of={host} /> <span aria-hidden="true">✕</span>
            </a>
          )}
          {store.watched.value !== undefined && (
            <Export path={`communicators/${encodeURIComponent(store.watched.value.id)}`} name={`ranks-${store.watched.value.id}`} rows={() => rankRows(chosen)}
              plot={`plots/channels.{}?comm=${encodeURIComponent(store.watched.value.id)}`} />
          )}
        </>
      }
    >
      {standing !== undefined && (standing.condition === "hung" || standing.condition === "failed") && (
        <p class="progress stuck" role="status">
          <Mark kind={standingMark(standing).kind} label={standing.condition} />
          {withCommands(standing.reason)}
        </p>
      )}
      {sentence !== "" && <p class="progress">{sentence}</p>}
      {chosen.length === 0 ? (
        <p class="quiet">{host === undefined ? "No rank heard of yet." : `${host} has no rank in this communicator.`}</p>
      ) : (
        <div class="scroller" tabIndex={0} role="region" aria-label="Ranks">
          <table class="ranks-table">
            <thead>
              <tr>
                <Head name="Rank" by="rank" class="number" />
                <Head name="Host" by="host" />
                {gpus && <th scope="col" class="wide">GPU</th>}
                <Head name="State" by="attention" title="Killed, failed and hung first, then degraded, then by rank" />
                <Head name="Ch." by="channels" class="number wide" title="Init channels found → final channels in use" />
                <Head name="Operation" by="operation" title="Those that the others wait for first, then the longest" />
              </tr>
            </thead>
            <tbody>
              {shown.map((rank) => (
                <Row key={rank.rank} rank={rank} gpu={gpus} accused={accused.has(rank.rank)} named={rank.rank === named} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {chosen.length > FEW && (
        <p class="quiet">
          {few && `${FEW} of ${integer(chosen.length)} ranks${sort === "attention" ? ", those to look at first" : ""}. `}
          <button type="button" class="plain" onClick={() => (all.value = !all.value)}>
            {all.value ? "Show fewer" : `Show all ${integer(chosen.length)}`}
          </button>
        </p>
      )}
    </Panel>
  );
}

function States({ offered, wanted }: { offered: RankFilter[]; wanted: RankFilter }) {
  return (
    <label class="picker">
      State{" "}
      <select value={wanted} onChange={(event) => (filter.value = offered.find((one) => one === event.currentTarget.value) ?? "all")}>
        {offered.map((one) => (
          <option key={one} value={one}>
            {one === "accused" ? "waited for" : one}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Sorts by its column; once more, the other way round. */
function Head(props: { name: string; by: RankSort; class?: string; title?: string }) {
  const on = order.value?.sort === props.by ? order.value : undefined;
  return (
    <th scope="col" class={props.class} title={props.title} aria-sort={on === undefined ? undefined : on.descending ? "descending" : "ascending"}>
      <button type="button" class="sort" onClick={() => (order.value = { sort: props.by, descending: on !== undefined && !on.descending })}>
        {props.name}
        <span aria-hidden="true">{on === undefined ? "" : on.descending ? " ↓" : " ↑"}</span>
      </button>
    </th>
  );
}

/** Says so where not every rank was heard of. */
function heading(count: number, host: string | undefined): string {
  const expected = store.watched.value?.n_ranks ?? count;
  return host === undefined && count < expected ? `${integer(count)} of ${plural(expected, "rank")} heard of` : plural(count, "rank");
}

/** Whether an open incident says that its calls are other ones. */
function differs(rank: number): boolean {
  return store.watchedIncidents.value.some((one) => one.finding === "call_mismatch" && one.culprits.some((culprit) => culprit.rank === rank));
}

/** `gpu`: whether its name tells the ranks apart. */
function Row({ rank, gpu, accused, named }: { rank: Rank; gpu: boolean; accused: boolean; named: boolean }) {
  const mark = rankMark(rank);
  return (
    <tr class={`state-${rank.state} is-${mark.kind}${accused ? " accused" : ""}${named ? " named" : ""}`} data-rank={rank.rank}>
      <th scope="row" class="number" title={rank.global_rank === undefined ? "" : `global rank ${rank.global_rank}`}>
        <a href={store.link({ ...comm.at.value, rank: rank.rank })}>{rank.rank}</a>
      </th>
      <td class="name" title={`process ${rank.pid}`}>
        <a href={store.link({ page: "host", host: rank.host })}><HostName of={rank.host} /></a>
        {placeBeside(rank.host, rank.place) !== undefined && <small class="place" title={rank.place?.words}>{placeBeside(rank.host, rank.place)}</small>}
      </td>
      {gpu && <td class="wide gpu" title={rank.gpu}>{rank.gpu?.replace(/^0000:/, "") ?? "–"}</td>}
      <td class="state" title={mark.why}>
        <Mark kind={mark.kind} label={mark.label} />
        <span class={mark.kind === "ok" ? "wide" : ""}>{stateOf(rank, mark.label)}</span>
      </td>
      <td class="number wide" title={rank.causes.map(words).join(", ")}>
        {rank.init_channels === null && rank.final_channels === null
          ? "–"
          : `${rank.init_channels ?? "–"}→${rank.final_channels ?? "–"}`}
      </td>
      <td class="operation">
        {rank.operation ? <OperationCell operation={rank.operation} state={rank.state} /> : <span class="quiet">none yet</span>}
        {accused && <b class="behind">{differs(rank.rank) ? "its call differs" : "the others wait for it"}</b>}
      </td>
    </tr>
  );
}

/** What has become of its process; of one that runs, how it stands. */
function stateOf(rank: Rank, label: string): string {
  return rank.state === "running" ? label : rank.state;
}

function OperationCell({ operation, state }: { operation: Operation; state: RankState }) {
  const { channels_done: done, channels_expected: expected } = operation;
  return (
    <>
      <span class={`op op-${operation.state}`}>
        {primitiveName(operation.primitive)} <span class="seq">#{operation.seq_number}</span>
      </span>
      <small>
        {stateWords(operation, state)} · {size(operation.bytes)} {operation.datatype}
        {operation.peer !== undefined && ` · peer ${operation.peer}`}
        {expected > 0 && operation.state === "in_flight" && operation.duration_s >= 1 && ` · ${done}/${expected} channels`}
      </small>
    </>
  );
}

function stateWords(operation: Operation, state: RankState): string {
  if (operation.state === "issued") return "issued, nothing tells when it is done";
  const time = duration(operation.duration_s);
  if (operation.state === "in_flight") {
    if (state === "killed") return `died in it after ${time}`;
    if (state === "imported") return "not finished when the file was written";
    return state === "exited" || state === "gone" ? `not finished after ${time}` : `in flight ${time}`;
  }
  if (operation.state === "completed") return `done in ${time}`;
  return operation.state;
}
