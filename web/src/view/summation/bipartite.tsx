import { useMemo } from "preact/hooks";
import type { SummationGroupDetail } from "../../api";
import { BAR_PX, type Band, type Node, type Picture, type ServiceNode } from "../../pure/summation/picture";
import type { ServiceState, WorkerState } from "../../pure/summation/trouble";
import type { Pointed } from "../../pure/summation/walk";
import { overWords, serviceWords, share, workerWords } from "../../pure/summation/words";
import { shortHost } from "../../state/store";

/** Shapes that stand before a name: trouble is seen without colour. */
export const GLYPHS: Record<WorkerState | ServiceState, string> = { ok: "", late: "▲ ", waited: "◆ ", over: "▲ ", lost: "✕ " };

export interface DrawnProps {
  name: string;
  group: SummationGroupDetail;
  shown: Pointed;
  chosen: Pointed;
}

/** Workers, services and the bands between them. */
export function Bipartite({ name, drawn, group, shown, chosen }: DrawnProps & { drawn: Picture }) {
  const bands = useMemo(() => drawn.bands.map((band) => <BandPath key={`${band.worker} ${band.service}`} band={band} />), [drawn]);
  const lit = drawn.bands.filter((band) => isLit(band, shown));
  return (
    <>
      <Heads drawn={drawn} />
      <g class="bands">{bands}</g>
      <g class="lit" aria-hidden="true">
        {lit.map((band) => (
          <path key={`${band.worker} ${band.service}`} class={`band is-${band.state}`} d={band.path} stroke-width={Math.max(1.5, band.px)} />
        ))}
      </g>
      <g>
        {drawn.workers.map((node) => (
          <Worker key={node.number} id={`${name}-w${node.number}`} node={node} drawn={drawn} group={group} faded={isFaded(node, shown)} chosen={chosen.worker === node.number} />
        ))}
        {drawn.services.map((node) => (
          <Service key={node.number} id={`${name}-s${node.number}`} node={node} drawn={drawn} group={group} faded={isFaded(node, shown)} chosen={chosen.service === node.number} />
        ))}
      </g>
    </>
  );
}

function isLit(band: Band, { worker, service }: Pointed): boolean {
  if (worker === undefined && service === undefined) return false;
  return (worker === undefined || band.worker === worker) && (service === undefined || band.service === service);
}

function isFaded(node: Node, { worker, service }: Pointed): boolean {
  const mine = node.side === "worker" ? worker : service;
  return mine !== undefined && mine !== node.number;
}

function Heads({ drawn: { x, captions, widthPx, narrow } }: { drawn: Picture }) {
  return (
    <g class="picture-head" aria-hidden="true">
      <text x={0} y={14}>Workers</text>
      <text x={widthPx} y={14} text-anchor="end">
        {narrow ? "share" : "share of all bytes, and its optimum"}
      </text>
      {captions.map((one) => (
        <text key={one.words} x={narrow ? widthPx : x.service} y={one.y} text-anchor={narrow ? "end" : "start"}>
          {one.words}
        </text>
      ))}
    </g>
  );
}

function BandPath({ band }: { band: Band }) {
  return <path class={`band is-${band.state}`} d={band.path} stroke-width={band.px} data-worker={band.worker} data-service={band.service} />;
}

interface NodeProps<N extends Node> {
  id: string;
  node: N;
  drawn: Picture;
  group: SummationGroupDetail;
  faded: boolean;
  chosen: boolean;
}

function Worker({ id, node, drawn, group, faded, chosen }: NodeProps<Node>) {
  const worker = group.workers.find((one) => one.index === node.number)!;
  const row = rowOf(node, drawn);
  return (
    <g class={`member is-${node.state}${faded ? " faded" : ""}${chosen ? " chosen" : ""}`} data-worker={node.number}>
      <g role="option" id={id} aria-selected={chosen} aria-label={workerWords(worker, group, node.state as WorkerState).join("; ")}>
        <rect class="hit" x={0} y={row.y} width={drawn.x.worker + BAR_PX} height={row.height} />
      </g>
      <g aria-hidden="true">
        <rect class="bar-of" x={drawn.x.worker} y={node.top} width={BAR_PX} height={node.bottom - node.top} />
        <Name node={node} x={drawn.x.worker - 8} anchor="end" oneLine={row.height < 34} />
      </g>
    </g>
  );
}

function Service({ id, node, drawn, group, faded, chosen }: NodeProps<ServiceNode>) {
  const service = group.services.find((one) => one.service === node.number)!;
  const { x, widthPx } = drawn;
  const row = rowOf(node, drawn);
  return (
    <g class={`member is-${node.state} role-${node.role}${faded ? " faded" : ""}${chosen ? " chosen" : ""}`} data-service={node.number}>
      <g role="option" id={id} aria-selected={chosen} aria-label={serviceWords(service, node.state as ServiceState).join("; ")}>
        <rect class="hit" x={x.service} y={row.y} width={widthPx - x.service} height={row.height} />
      </g>
      <ServiceDrawing node={node} drawn={drawn} over={overWords(service, node.state as ServiceState)} />
    </g>
  );
}

function ServiceDrawing({ node, drawn, over }: { node: ServiceNode; drawn: Picture; over: string | undefined }) {
  const { x, narrow, widthPx } = drawn;
  const barY = narrow ? node.y + 5 : node.y - 4;
  return (
    <g aria-hidden="true">
      <rect class="bar-of" x={x.service} y={node.top} width={BAR_PX} height={node.bottom - node.top} />
      {narrow ? (
        <text x={x.share} y={node.y - 3} class="member-name">
          {GLYPHS[node.state]}
          {node.role === "server" ? node.name : node.name.replace("of worker", "of w")}
        </text>
      ) : (
        <Name node={node} x={x.service + BAR_PX + 8} anchor="start" oneLine={drawn.dense} />
      )}
      <rect class="share-ground" x={x.share} y={barY} width={x.number - x.share - 8} height={8} />
      <rect class="share-bar" x={x.share} y={barY} width={node.sharePx} height={8} />
      <path class="optimum" d={`M${x.share + node.optimalPx} ${barY - 4}v16`} />
      <text class="share-number" x={widthPx} y={narrow ? node.y + 13 : node.y + 4} text-anchor="end">
        {narrow && over !== undefined ? `▲${over}` : share(node.share)}
        {!narrow && over !== undefined && <tspan class="over"> {over}</tspan>}
      </text>
    </g>
  );
}

/** The row of a node reaches halfway to its neighbours. */
function rowOf(node: Node, drawn: Picture): { y: number; height: number } {
  const side: Node[] = node.side === "worker" ? drawn.workers : drawn.services;
  const [a, b] = [side[0]!, side[1]];
  const height = b === undefined ? 56 : Math.min(120, b.y - a.y);
  return { y: node.y - height / 2, height };
}

function Name({ node, x, anchor, oneLine }: { node: Node; x: number; anchor: "start" | "end"; oneLine: boolean }) {
  if (oneLine) {
    return (
      <text x={x} y={node.y + 4} text-anchor={anchor}>
        {GLYPHS[node.state]}
        <tspan class="member-name">{node.name.replace(/^worker |^server /, "")}</tspan> <tspan class="member-host">{shortHost(node.host)}</tspan>
      </text>
    );
  }
  return (
    <>
      <text class="member-name" x={x} y={node.y - 1} text-anchor={anchor}>
        {GLYPHS[node.state]}
        {node.name}
      </text>
      <text class="member-host" x={x} y={node.y + 14} text-anchor={anchor}>
        {shortHost(node.host)}
      </text>
    </>
  );
}
