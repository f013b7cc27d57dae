import { bandwidth, size } from "../../pure/format";
import type { Matrix, Shade } from "../../pure/summation/matrix";
import type { BandState, Picture } from "../../pure/summation/picture";
import type { Troubles } from "../../pure/summation/trouble";
import { isMatrix } from "./picture-panel";

const BANDS: Record<BandState, string> = {
  flows: "as wide as its bytes per second", own: "inside of a process", behind: "issued and not sent for more than 1 s", waited: "a round waits for it", lost: "lost", idle: "nothing flows",
};

/** What the marks mean that are in the picture. */
export function PictureLegend({ drawn, known, shade }: { drawn: Picture | Matrix; known: Troubles; shade: Shade | undefined }) {
  const workers = new Set(known.workers.values());
  const services = new Set(known.services.values());
  const states = isMatrix(drawn) ? [] : (Object.keys(BANDS) as BandState[]).filter((state) => drawn.bands.some((band) => band.state === state));
  return (
    <ul class="ring-legend" aria-label="Legend">
      {isMatrix(drawn) && (
        <li>
          <span class="ramp">
            <span>0</span>
            {drawn.cells.map((_, i) => (
              <i key={i} class={`shade-${i}`} />
            ))}
            <span>{shade === "backlog" ? `${size(drawn.top)} issued and not sent` : `${bandwidth(drawn.top)} from a worker to a service and back`}</span>
          </span>
        </li>
      )}
      {isMatrix(drawn) && shared(drawn).map((words) => <li key={words}>{words}</li>)}
      {states.map((state) => (
        <li key={state}>
          <svg width="26" height="10" aria-hidden="true">
            <path class={`band is-${state}`} d="M0 5h26" stroke-width={state === "idle" || state === "lost" ? 1.5 : 6} />
          </svg>
          {BANDS[state]}
        </li>
      ))}
      <li>
        <svg width="26" height="14" aria-hidden="true">
          <rect class="share-bar" x="0" y="3" width="20" height="8" />
          <path class="optimum" d="M16 0v14" />
        </svg>
        share it owns, and its optimum
      </li>
      {workers.has("late") && <li><b class="late">▲</b> comes last most often</li>}
      {workers.has("waited") && !states.includes("waited") && <li><b class="bad">◆</b> rounds wait for it</li>}
      {services.has("over") && <li><b class="late">▲</b> owns more than its optimum</li>}
      {(workers.has("lost") || services.has("lost")) && !states.includes("lost") && <li><b class="bad">✕</b> lost</li>}
    </ul>
  );
}

/** Where lines stand for several members. */
function shared({ rows, columns }: Matrix): string[] {
  const most = (lines: { members: number[] }[]) => Math.max(1, ...lines.map((line) => line.members.length));
  return [
    ...(most(rows) > 1 ? [`a row is ${most(rows)} workers`] : []),
    ...(most(columns) > 1 ? [`a column is ${most(columns)} services`] : []),
  ];
}
