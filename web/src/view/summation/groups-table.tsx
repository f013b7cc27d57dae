import { signal } from "@preact/signals";
import type { SummationGroup } from "../../api";
import { bandwidth, integer, size } from "../../pure/format";
import { byAttention } from "../../pure/summation/groups";
import { LIVE_STATES, membersWords, modeWords } from "../../pure/summation/words";
import * as store from "../../state/store";
import { Mark } from "../mark";
import { groupMark } from "./group-mark";
import { Time } from "../time";

/** Rows before all are asked for. */
const FEW = 24;
const all = signal(false);

/** Groups, a row each, those to look at first in front. `of`: the job that all of them belong to. */
export function GroupsTable({ items, of }: { items: SummationGroup[]; of?: string }) {
  const sorted = [...items].sort(byAttention);
  const shown = all.value ? sorted : sorted.slice(0, FEW);
  return (
    <>
      <div class="scroller" tabIndex={0} role="region" aria-label="Summation groups">
        <table class="communicators stacking">
          <thead>
            <tr>
              <th scope="col">Group</th>
              {of === undefined && <th scope="col">Job</th>}
              <th scope="col">State</th>
              <th scope="col">Members</th>
              <th scope="col" class="wide">Sums</th>
              <th scope="col" class="number">Model</th>
              <th scope="col" class="number">Pushed</th>
              <th scope="col" class="number">Pulled</th>
              <th scope="col" class="number wide" title="Results of parts per second, over all services">Rounds/s</th>
              <th scope="col" class="number">Findings</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((one) => (
              <Row key={one.id} one={one} of={of} />
            ))}
          </tbody>
        </table>
      </div>
      {sorted.length > FEW && (
        <p class="quiet">
          {!all.value && `${FEW} of ${integer(sorted.length)}, those to look at first. `}
          <button type="button" class="plain" onClick={() => (all.value = !all.value)}>
            {all.value ? "Show fewer" : `Show all ${integer(sorted.length)}`}
          </button>
        </p>
      )}
    </>
  );
}

function Row({ one, of }: { one: SummationGroup; of: string | undefined }) {
  const live = LIVE_STATES.has(one.state);
  const rate = (value: number) => (live ? bandwidth(value) : "–");
  const look = one.state === "failed" ? " is-critical" : live && one.n_findings > 0 ? " degraded" : live ? "" : " over";
  return (
    <tr class={look.trim()} data-group={one.id}>
      <th scope="row">
        <a href={store.link({ page: "summation-group", group: one.id })}>{one.id}</a>
        {one.membership_epoch > 1 && <small> membership {one.membership_epoch}</small>}
      </th>
      {of === undefined && (
        <td data-label="Job">
          <a href={store.link({ page: "job", job: one.job })}>{one.job}</a>
        </td>
      )}
      <td data-label="State" class="state">
        <Mark {...groupMark(one)} /> {one.state}
        <small>{" "}since <Time at={one.started_at} /></small>
      </td>
      <td data-label="Members">{membersWords(one)}</td>
      <td data-label="Sums" class="wide">{modeWords(one)}</td>
      <td data-label="Model" class="number">{size(one.model_bytes)}</td>
      <td data-label="Pushed" class="number">{rate(one.push_bytes_per_s)}</td>
      <td data-label="Pulled" class="number">{rate(one.pull_bytes_per_s)}</td>
      <td data-label="Rounds/s" class="number wide">{live ? integer(one.rounds_per_s) : "–"}</td>
      <td data-label="Findings" class="number">{one.n_findings === 0 ? <span class="quiet">none</span> : <b>{integer(one.n_findings)}</b>}</td>
    </tr>
  );
}
