import { useMemo } from "preact/hooks";
import type { Line, Matrix } from "../../pure/summation/matrix";
import type { ServiceState, WorkerState } from "../../pure/summation/trouble";
import { serviceWords, workerWords } from "../../pure/summation/words";
import { GLYPHS, type DrawnProps } from "./bipartite";

/** A large group: a row a worker, a column a service. */
export function MatrixDrawing({ name, drawn, group, shown, chosen }: DrawnProps & { drawn: Matrix }) {
  const base = useMemo(() => <Base drawn={drawn} />, [drawn]);
  const row = drawn.rows.find((line) => shown.worker !== undefined && line.members.includes(shown.worker));
  const column = drawn.columns.find((line) => shown.service !== undefined && line.members.includes(shown.service));
  const { box } = drawn;
  const worker = group.workers.find((one) => one.index === shown.worker);
  const service = group.services.find((one) => one.service === shown.service);
  return (
    <>
      {base}
      <g class="crosshair" aria-hidden="true">
        {row !== undefined && <rect x={box.x - 1} y={row.at - 1} width={drawn.widthPx - box.x} height={row.px + 1.5} />}
        {column !== undefined && <rect x={column.at - 1} y={22} width={column.px + 1.5} height={box.bottom - 21} />}
      </g>
      {/* Only what is pointed at is read out: hundreds of names would be waded through. */}
      {worker !== undefined && <g role="option" id={`${name}-w${worker.index}`} aria-selected={chosen.worker === worker.index} aria-label={workerWords(worker, group, stateOf(row, worker.index) as WorkerState).join("; ")} />}
      {service !== undefined && <g role="option" id={`${name}-s${service.service}`} aria-selected={chosen.service === service.service} aria-label={serviceWords(service, stateOf(column, service.service) as ServiceState).join("; ")} />}
    </>
  );
}

function stateOf(line: Line | undefined, member: number): WorkerState | ServiceState {
  return line !== undefined && line.member === member ? line.state : "ok";
}

function Base({ drawn }: { drawn: Matrix }) {
  const { box } = drawn;
  const right = box.right + 8;
  return (
    <g aria-hidden="true">
      <g class="picture-head">
        <text x={box.x} y={12}>share, and its optimum</text>
        <text x={right} y={box.y - 8}>last in</text>
        {drawn.captions.map((one) => (
          <text key={one.words} x={one.x} y={box.bottom + 16}>{one.words}</text>
        ))}
        {drawn.ticks.map((one) => (
          <text key={one.words} x={box.x - 6} y={one.y} text-anchor="end">{one.words}</text>
        ))}
      </g>
      {drawn.columns.map((column) => (
        <g key={column.members[0]} class={`member is-${column.state}`}>
          <rect class="share-bar" x={column.at} y={box.y - 6 - column.valuePx} width={Math.max(1, column.px - (column.px >= 4 ? 1 : 0.4))} height={column.valuePx} />
          <path class="optimum" d={`M${column.at} ${box.y - 6 - column.optimalPx}h${column.px}`} />
        </g>
      ))}
      {drawn.cells.map((d, i) => d !== "" && <path key={i} class={`shade-${i}`} d={d} />)}
      {drawn.lost !== "" && <path class="shade-lost" d={drawn.lost} />}
      {drawn.rows.map((row) => (
        <g key={row.members[0]} class={`member is-${row.state}`}>
          <rect class="share-bar" x={right} y={row.at} width={row.valuePx} height={Math.max(1, row.px - (row.px >= 4 ? 1 : 0.4))} />
        </g>
      ))}
      <path class="optimum" d={`M${right + drawn.fairPx} ${box.y - 3}V${box.bottom + 3}`} />
      <Marks drawn={drawn} />
    </g>
  );
}

/** Who is in trouble, beside its row or above its column; of neighbours only as many as can be told apart. */
function Marks({ drawn }: { drawn: Matrix }) {
  const { box } = drawn;
  return (
    <g class="matrix-marks">
      {apart(drawn.rows).map((row) => (
        <text key={row.members[0]} class={`is-${row.state}`} x={box.x - 6} y={row.at + row.px / 2 + 4} text-anchor="end">
          {`${GLYPHS[row.state]}${row.member}`}
        </text>
      ))}
      {apart(drawn.columns).map((column) => (
        <text key={column.members[0]} class={`is-${column.state}`} x={column.at + column.px / 2} y={box.y - 12 - Math.max(column.valuePx, column.optimalPx)} text-anchor="middle">
          {GLYPHS[column.state].trim()}
        </text>
      ))}
    </g>
  );
}

/** Marks closer than this lie on each other. */
const APART_PX = 12;

function apart(lines: Line[]): Line[] {
  let last = -Infinity;
  return lines.filter((line) => {
    if (line.state === "ok" || line.at - last < APART_PX) return false;
    last = line.at;
    return true;
  });
}
