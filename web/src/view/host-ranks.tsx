import type { HostRank, Standing } from "../api";
import { badness } from "../pure/condition";
import { rankRanges } from "../pure/format";
import { placeBeside } from "../pure/place";
import * as store from "../state/store";
import { ToldAbove } from "./incident/lines";
import { Mark } from "./mark";
import { standingMark } from "./standing";
import { withCommands } from "./with-commands";

/** What it takes part in now, a row for each communicator. */
export function HostRanks({ host, ranks, names }: { host: string; ranks: HostRank[]; names: ReadonlyMap<string, string> }) {
  const rows = byCommunicator(host, ranks);
  if (rows.length === 0) return <p class="quiet">No rank in an active communicator.</p>;
  return (
    <div class="scroller tall" tabIndex={0} role="region" aria-label={`Ranks on ${host}`}>
      <table class="host-table stacking">
        <thead>
          <tr>
            <th scope="col">Communicator</th>
            <th scope="col">Job</th>
            <th scope="col">Ranks</th>
            <th scope="col">State</th>
            <th scope="col" class="number" title="Init channels found → final channels in use">Channels</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => [row, standingMark(row.worst)] as const).map(([{ first, ranks, places, states }, standing]) => (
            <tr key={first.comm}>
              <th scope="row">
                <a href={store.link({ page: "communicator", comm: first.comm, host })}>{names.get(first.comm) ?? first.comm}</a>
              </th>
              <td data-label="Job">
                <a href={store.link({ page: "job", job: first.job })}>{first.job}</a>
              </td>
              <td data-label="Ranks">
                {rankRanges(ranks)}
                {places.size > 0 && <small class="place">{placeWords([...places])}</small>}
              </td>
              <td data-label="State" class={states.has("killed") ? "bad" : ""} title={standing.why}>
                <Mark kind={standing.kind} label={standing.label} /> {stateWords(states)}
                {standing.loud && <div class="quiet"><ToldAbove words={standing.why}>{withCommands(standing.why)}</ToldAbove></div>}
              </td>
              <td data-label="Channels" class="number">
                {first.init_channels ?? "–"} → {first.final_channels ?? "–"}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface Row {
  first: HostRank;
  ranks: number[];
  /** Where a scheduler has put them. */
  places: Set<string>;
  /** Its ranks by their state. */
  states: Map<string, number[]>;
  /** How the one of them stands that stands worst. */
  worst: Standing;
}

/** "healthy", or "rank 4 healthy, rank 5 degraded" where they differ. */
function stateWords(states: ReadonlyMap<string, number[]>): string {
  if (states.size === 1) return [...states.keys()][0]!;
  return [...states].map(([state, ranks]) => `rank ${rankRanges(ranks)} ${state}`).join(", ");
}

/** "train-3 and 7 more". */
function placeWords([first, ...others]: string[]): string {
  return others.length === 0 ? first! : `${first} and ${others.length} more`;
}

/** Those with the most of its ranks first. */
function byCommunicator(host: string, all: HostRank[]): Row[] {
  const rows = new Map<string, Row>();
  for (const rank of all) {
    const row: Row = rows.get(rank.comm) ?? { first: rank, ranks: [], places: new Set(), states: new Map(), worst: rank.standing };
    row.ranks.push(rank.rank);
    const place = placeBeside(host, rank.place);
    if (place !== undefined) row.places.add(place);
    const state = rank.state === "running" ? rank.standing.condition : rank.state;
    row.states.set(state, [...(row.states.get(state) ?? []), rank.rank]);
    if (badness(rank.standing) > badness(row.worst)) row.worst = rank.standing;
    rows.set(rank.comm, row);
  }
  return [...rows.values()].sort((a, b) => a.first.job.localeCompare(b.first.job) || b.ranks.length - a.ranks.length || a.first.comm.localeCompare(b.first.comm));
}
