import type { SummationGroupDetail, SummationStage } from "../../api";
import { capital, integer, size, words } from "../../pure/format";
import type { SummationGroupRoute } from "../../pure/route";
import { isUnused, pipeline } from "../../pure/summation/stages";
import { stageRows } from "../../pure/summation/tables";
import { ns, percent } from "../../pure/summation/words";
import * as store from "../../state/store";
import { Export } from "../export";
import { Panel } from "../panel";

const MEAN_WAIT = "mean wait";
/** What is said of each stage: beside the boxes where there is room, else in each. */
const MEASURES: [string, (stage: SummationStage) => string][] = [
  ["waiting", (stage) => integer(stage.waiting_parts)],
  ["in it", (stage) => integer(stage.running_parts)],
  ["parts/s", (stage) => perS(stage.parts_per_s)],
  [MEAN_WAIT, (stage) => ns(stage.mean_wait_ns)],
  ["mean time", (stage) => ns(stage.mean_work_ns)],
  ["longest wait", (stage) => ns(stage.longest_wait_ns)],
];

/** The stages that a part passes in a worker, with what waits before each. */
export function PipelinePanel({ group, at }: { group: SummationGroupDetail; at: SummationGroupRoute }) {
  const chosen = group.workers.find((one) => one.index === at.worker);
  const { stages, slowest, creditsUsedBytes, creditBytes } = pipeline(chosen === undefined ? group.workers : [chosen]);
  const deepest = Math.max(1, ...stages.map((one) => one.waiting_parts + one.running_parts));
  return (
    <Panel id="pipeline" title={chosen === undefined ? "Pipeline of all workers" : `Pipeline of worker ${chosen.index} on ${chosen.host}`} aside={
      <>
        <WorkerPicker group={group} at={at} />
        <Export path={`summation/groups/${encodeURIComponent(group.id)}`} name={`pipeline-${group.id}`} rows={() => stageRows(chosen === undefined ? group.workers : [chosen])} />
      </>
    }>
      {stages.length === 0 ? (
        <p class="quiet">No worker has said anything of its stages yet.</p>
      ) : (
        <>
          <p class="stage-key" aria-hidden="true">
            <span><i class="waits" />parts that wait for it</span>
            <span><i class="runs" />parts in it</span>
          </p>
          <ol class="stages" aria-label="Stages, in the order in which a part passes them">
            <li class="stage-names" aria-hidden="true">
              {MEASURES.map(([name]) => <span key={name}>{name}</span>)}
            </li>
            {stages.map((stage) => (
              <Stage key={stage.stage} stage={stage} deepest={deepest} slowest={stage.stage === slowest} />
            ))}
          </ol>
          <Credits usedBytes={creditsUsedBytes} bytes={creditBytes} />
        </>
      )}
    </Panel>
  );
}

function WorkerPicker({ group, at }: { group: SummationGroupDetail; at: SummationGroupRoute }) {
  return (
    <label class="picker">
      Worker{" "}
      <select value={at.worker ?? ""} onChange={(event) => store.replace({ ...at, service: undefined, worker: event.currentTarget.value === "" ? undefined : Number(event.currentTarget.value) })}>
        <option value="">all, summed</option>
        {group.workers.map((one) => (
          <option key={one.index} value={one.index}>
            {one.index} · {store.shortHost(one.host)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** `deepest`: parts in the fullest stage, which fill its queue's bar. */
function Stage({ stage, deepest, slowest }: { stage: SummationStage; deepest: number; slowest: boolean }) {
  const unused = isUnused(stage);
  return (
    <li class={`stage${slowest ? " slowest" : ""}${unused ? " unused" : ""}`}>
      <h3>{capital(words(stage.stage))}</h3>
      <svg class="queue" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
        <rect class="queue-ground" width="100" height="10" />
        <rect class="queue-waits" width={(stage.waiting_parts / deepest) * 100} height="10" />
        <rect class="queue-runs" x={(stage.waiting_parts / deepest) * 100} width={(stage.running_parts / deepest) * 100} height="10" />
      </svg>
      {unused ? (
        <p class="quiet">not used</p>
      ) : (
        <dl>
          {MEASURES.map(([name, words]) => (
            <div key={name} class={slowest && name === MEAN_WAIT ? "strong" : ""}>
              <dt>{name}</dt>
              <dd>{words(stage)}</dd>
            </div>
          ))}
        </dl>
      )}
      {slowest && <p class="slowest-words">bottleneck</p>}
    </li>
  );
}

function perS(value: number): string {
  return value === 0 || value >= 99.5 ? integer(Math.round(value)) : value.toFixed(value >= 9.95 ? 0 : 1);
}

/** From so much on parts wait for credits, not for the network. */
const FULL = 0.95;

function Credits({ usedBytes, bytes }: { usedBytes: number; bytes: number }) {
  if (bytes <= 0) return <p class="credits quiet">Bytes in flight have no bound here.</p>;
  const used = usedBytes / bytes;
  return (
    <div class={`credits${used >= FULL ? " full" : ""}`}>
      <b>Credits</b>
      <svg viewBox="0 0 100 10" preserveAspectRatio="none" role="meter" aria-label="Credits in use" aria-valuemin={0} aria-valuemax={bytes} aria-valuenow={Math.min(usedBytes, bytes)}>
        <rect class="share-ground" width="100" height="10" />
        <rect class="share-bar" width={Math.min(1, used) * 100} height="10" />
      </svg>
      <span>
        {size(usedBytes)} of {size(bytes)} in flight, {percent(used)}
        {used >= FULL && <b>: used up, parts wait until some come back</b>}
      </span>
    </div>
  );
}
