import { signal } from "@preact/signals";
import type { SummationGroupDetail, SummationWorker } from "../../api";
import { integer, list, size } from "../../pure/format";
import type { SummationGroupRoute } from "../../pure/route";
import { workerRows } from "../../pure/summation/tables";
import type { Troubles, WorkerState } from "../../pure/summation/trouble";
import { ns, percent } from "../../pure/summation/words";
import * as store from "../../state/store";
import { Export } from "../export";
import { HostName } from "../host-name";
import { Panel } from "../panel";
import { GLYPHS } from "./bipartite";

/** Rows before all are asked for. */
const FEW = 12;
const all = signal(false);

const WORDS: Record<WorkerState, string> = { ok: "", late: "straggler", waited: "waited for", lost: "lost" };

/** Workers by how often they come last. */
export function StragglersPanel({ group, known, at }: { group: SummationGroupDetail; known: Troubles; at: SummationGroupRoute }) {
  const sorted = [...group.workers].sort((a, b) => b.last_share - a.last_share || b.mean_late_ns - a.mean_late_ns || a.index - b.index);
  const shown = all.value ? sorted : sorted.slice(0, FEW);
  const most = Math.max(1e-9, 1 / Math.max(1, sorted.length), ...sorted.map((one) => one.last_share));
  return (
    <Panel id="stragglers" title="Who comes last" aside={<Export path={`summation/groups/${encodeURIComponent(group.id)}`} name={`workers-${group.id}`} rows={() => workerRows(sorted)} />}>
      {sorted.every((one) => one.contributions === 0) ? (
        <p class="quiet">No contribution yet{sorted.length > 0 && ` of the workers on ${list([...new Set(sorted.map((one) => one.host))])}`}.</p>
      ) : (
        <div class="scroller" tabIndex={0} role="region" aria-label="Workers by how often they come last">
          <table class="lateness">
            <thead>
              <tr>
                <th scope="col">Worker</th>
                <th scope="col" title="Part of all rounds in which its contribution came last; the tick is what each would have if all were alike">Last in</th>
                <th scope="col" class="number" title="After the first contribution, on average">Late by</th>
                <th scope="col" class="number wide" title="Bytes in flight of those it may have">Credits</th>
                <th scope="col" class="number narrow" title="Answers to it that are not sent whole">Unanswered</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((one) => (
                <Row key={one.index} one={one} state={known.workers.get(one.index) ?? "ok"} scale={{ most, fair: 1 / sorted.length }} at={at} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {sorted.length > FEW && sorted.some((one) => one.contributions > 0) && (
        <p class="quiet">
          {!all.value && `${FEW} of ${integer(sorted.length)}, those last most often. `}
          <button type="button" class="plain" onClick={() => (all.value = !all.value)}>
            {all.value ? "Show fewer" : `Show all ${integer(sorted.length)}`}
          </button>
        </p>
      )}
    </Panel>
  );
}

/** `scale`: the largest part, which fills the bar, and what each would have if all were alike. */
function Row({ one, state, scale, at }: { one: SummationWorker; state: WorkerState; scale: { most: number; fair: number }; at: SummationGroupRoute }) {
  const chosen = at.worker === one.index;
  return (
    <tr class={`is-${state}${chosen ? " named" : ""}`} data-worker={one.index}>
      <th scope="row">
        <a href={store.link({ ...at, service: undefined, worker: chosen ? undefined : one.index })} title={one.global_rank === null ? "" : `global rank ${one.global_rank}`}>
          {GLYPHS[state]}worker {one.index}
        </a>
        {state !== "ok" && <small class={state === "late" ? "late" : "bad"}> {WORDS[state]}</small>}
        <small class="host-of">
          <a href={store.link({ page: "host", host: one.host })}><HostName of={one.host} /></a>
        </small>
      </th>
      <td class="last-in">
        <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
          <rect class="share-ground" width="100" height="10" />
          <rect class="share-bar" width={(one.last_share / scale.most) * 100} height="10" />
          <path class="optimum" d={`M${(scale.fair / scale.most) * 100} 0v10`} vector-effect="non-scaling-stroke" />
        </svg>
        <span class="number">{percent(one.last_share)}</span>
      </td>
      <td class="number">{ns(one.mean_late_ns)}</td>
      <td class="number wide">{one.credit_bytes > 0 ? percent(one.credits_used_bytes / one.credit_bytes) : size(one.credits_used_bytes)}</td>
      <td class="number narrow">{integer(one.unanswered)}</td>
    </tr>
  );
}
