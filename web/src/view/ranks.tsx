import { signal } from "@preact/signals";
import type { Operation, Rank, RankState } from "../api";
import { duration, integer, plural, primitiveName, size, words } from "../pure/format";
import * as comm from "../state/communicator";
import * as store from "../state/store";
import { Mark, type MarkKind } from "./mark";
import { Panel } from "./panel";

/** Rows shown before all are asked for: enough for a rack, few enough to draw every second. */
const FEW = 64;

const all = signal(false);

const MARKS: Record<RankState, MarkKind> = { running: "ok", stale: "stale", exited: "ended", killed: "killed", imported: "ended" };

export function RanksPanel() {
  const host = comm.at.value.host;
  const ranks = store.ranks.value;
  const ofHost = host === undefined ? ranks : ranks.filter((rank) => rank.host === host);
  const { sentence, stuck, behind } = store.ranksProgress.value;
  const ordered = ofHost.length > FEW ? noteworthyFirst(ofHost, behind) : ofHost;
  const gpus = new Set(ranks.map((rank) => rank.gpu)).size > 1;
  const shown = all.value ? ofHost : ordered.slice(0, FEW);
  return (
    <Panel
      id="ranks"
      title={heading(ofHost.length, host)}
      aside={
        host !== undefined && (
          <a class="chip" href={store.link({ ...comm.at.value, host: undefined })} aria-label={`Only ${host}; show every host`}>
            only {host} <span aria-hidden="true">✕</span>
          </a>
        )
      }
    >
      {sentence !== "" && (
        <p class={stuck ? "progress stuck" : "progress"} role="status">
          {stuck && <Mark kind="critical" label="stuck" />}
          {sentence}
        </p>
      )}
      {ofHost.length === 0 ? (
        <p class="quiet">{host === undefined ? "No rank heard of yet." : `${host} has no rank in this communicator.`}</p>
      ) : (
        <div class="scroller" tabIndex={0} role="region" aria-label="Ranks">
          <table class="ranks-table">
            <thead>
              <tr>
                <th scope="col" class="number">Rank</th>
                <th scope="col">Host</th>
                {gpus && <th scope="col" class="wide">GPU</th>}
                <th scope="col">State</th>
                <th scope="col" class="number wide" title="Init channels found → final channels in use">Ch.</th>
                <th scope="col">Operation</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((rank) => (
                <Row key={rank.rank} rank={rank} gpu={gpus} behind={behind.get(rank.rank)} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {ofHost.length > FEW && (
        <p class="quiet">
          {!all.value && `${FEW} of ${integer(ofHost.length)} ranks, those to look at first. `}
          <button type="button" class="plain" onClick={() => (all.value = !all.value)}>
            {all.value ? "Show fewer" : `Show all ${integer(ofHost.length)}`}
          </button>
        </p>
      )}
    </Panel>
  );
}

/** Says so where not every rank was heard of. */
function heading(count: number, host: string | undefined): string {
  const expected = store.watched.value?.n_ranks ?? count;
  return host === undefined && count < expected ? `${integer(count)} of ${plural(expected, "rank")} heard of` : plural(count, "rank");
}

/** `gpu`: whether its name tells the ranks apart. */
function Row({ rank, gpu, behind }: { rank: Rank; gpu: boolean; behind: number | undefined }) {
  return (
    <tr class={`state-${rank.state}`} data-rank={rank.rank}>
      <th scope="row" class="number" title={rank.global_rank === undefined ? "" : `global rank ${rank.global_rank}`}>
        {rank.rank}
      </th>
      <td class="name" title={`process ${rank.pid}`}>
        {rank.host}
      </td>
      {gpu && <td class="wide gpu">{rank.gpu ?? "–"}</td>}
      <td class="state">
        <Mark kind={MARKS[rank.state]} label={rank.state} />
        <span class={rank.state === "running" ? "wide" : ""} aria-hidden="true">
          {rank.state}
        </span>
      </td>
      <td class="number wide" title={rank.causes.map(words).join(", ")}>
        {rank.init_channels === null && rank.final_channels === null
          ? "–"
          : `${rank.init_channels ?? "–"}→${rank.final_channels ?? "–"}`}
      </td>
      <td class="operation">
        {rank.operation ? <OperationCell operation={rank.operation} state={rank.state} /> : <span class="quiet">none yet</span>}
        {behind !== undefined && <b class="behind">{behind === 0 ? "the others wait for it" : `${plural(behind, "operation")} behind`}</b>}
      </td>
    </tr>
  );
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
    return state === "exited" ? `not finished after ${time}` : `in flight ${time}`;
  }
  if (operation.state === "completed") return `done in ${time}`;
  return operation.state;
}

/** Killed, silent and late ranks first; otherwise by rank. */
function noteworthyFirst(ranks: Rank[], behind: Map<number, number>): Rank[] {
  const weight = (rank: Rank) =>
    rank.state === "killed" ? 3 : behind.has(rank.rank) ? 2 : rank.state === "running" ? 0 : 1;
  return [...ranks].sort((a, b) => weight(b) - weight(a) || a.rank - b.rank);
}
