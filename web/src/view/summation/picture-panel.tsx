import { useId, useMemo, useRef, useState } from "preact/hooks";
import type { SummationGroupDetail } from "../../api";
import { matrix, SHADE_NAMES, SHADES, under, type Matrix, type Shade } from "../../pure/summation/matrix";
import { fits, picture, type Picture } from "../../pure/summation/picture";
import { serviceRows } from "../../pure/summation/tables";
import type { Troubles } from "../../pure/summation/trouble";
import { walk, type Pointed } from "../../pure/summation/walk";
import type { SummationGroupRoute } from "../../pure/route";
import * as store from "../../state/store";
import { Export } from "../export";
import { Panel } from "../panel";
import { Segments } from "../segments";
import { useWidth } from "../use-width";
import { Bipartite } from "./bipartite";
import { PictureDetails } from "./details";
import { PictureLegend } from "./legend";
import { MatrixDrawing } from "./matrix";
import { ServicesTable } from "./services-table";

const MIN_WIDTH_PX = 280;
const MAX_WIDTH_PX = 1000;

/** Who sends how much to whom: a picture, and the same as a table. */
export function PicturePanel({ group, known, at }: { group: SummationGroupDetail; known: Troubles; at: SummationGroupRoute }) {
  const small = fits(group);
  const shade = SHADES.find((one) => one === at.shade) ?? "rate";
  return (
    <Panel id="summation-picture" title="Workers and services" aside={
      <>
        {!small && <Segments name="Shade" value={shade} choices={SHADES.map((one) => [one, SHADE_NAMES[one]] as const)} onPick={(next) => store.replace({ ...at, shade: next === "rate" ? undefined : next })} />}
        <Export path={`summation/groups/${encodeURIComponent(group.id)}`} name={`summation-${group.id}`} rows={() => serviceRows(group.services)} />
      </>
    }>
      {group.services.length === 0 || group.workers.length === 0 ? (
        <p class="quiet">Its members have not agreed on what to sum yet: nobody owns anything.</p>
      ) : (
        <>
          <Figure group={group} known={known} at={at} shade={small ? undefined : shade} />
          <ServicesTable group={group} known={known} />
        </>
      )}
    </Panel>
  );
}

/** One stop for Tab, arrows go along a side and across, Enter chooses. */
function Figure({ group, known, at, shade }: { group: SummationGroupDetail; known: Troubles; at: SummationGroupRoute; shade: Shade | undefined }) {
  const box = useRef<HTMLDivElement>(null);
  const widthPx = Math.max(MIN_WIDTH_PX, Math.min(MAX_WIDTH_PX, useWidth(box)));
  const [pointed, setPointed] = useState<Pointed>({});
  const drawn = useMemo(() => (shade === undefined ? picture(group, known, widthPx) : matrix(group, known, widthPx, shade)), [group, known, widthPx, shade]);
  const chosen: Pointed = { worker: at.worker, service: at.service };
  const shown = isNothing(pointed) ? chosen : pointed;
  const name = useId();
  const active = isNothing(pointed) ? undefined : pointed.worker === undefined ? `${name}-s${pointed.service}` : `${name}-w${pointed.worker}`;
  const props = { name, group, shown, chosen };
  return (
    <figure class="summation-figure">
      <div ref={box}>
        <svg class={`summation-picture${isNothing(shown) ? "" : " pointed-at"}`} width={drawn.widthPx} height={drawn.heightPx} viewBox={`0 0 ${drawn.widthPx} ${drawn.heightPx}`}
          role="listbox" tabIndex={0} aria-activedescendant={active}
          aria-label="Workers and services, and what flows between them; arrow keys go along them, Enter chooses"
          onPointerMove={(event) => setPointed(pointAt(event, drawn))}
          onPointerLeave={() => setPointed({})}
          onClick={(event) => choose(pointAt(event, drawn), at)}
          onKeyDown={(event) => press(event, { pointed, chosen, set: setPointed, group, at, matrix: shade !== undefined })}
          onBlur={() => setPointed({})}>
          {isMatrix(drawn) ? <MatrixDrawing {...props} drawn={drawn} /> : <Bipartite {...props} drawn={drawn} />}
        </svg>
      </div>
      <PictureDetails group={group} known={known} shown={shown} />
      <PictureLegend drawn={drawn} known={known} shade={shade} />
    </figure>
  );
}

export function isMatrix(drawn: Picture | Matrix): drawn is Matrix {
  return "rows" in drawn;
}

function isNothing({ worker, service }: Pointed): boolean {
  return worker === undefined && service === undefined;
}

function pointAt(event: MouseEvent, drawn: Picture | Matrix): Pointed {
  if (isMatrix(drawn)) {
    const rect = (event.currentTarget as Element).getBoundingClientRect();
    const { row, column } = under(drawn, event.clientX - rect.left, event.clientY - rect.top);
    return { worker: row?.member, service: column?.member };
  }
  const data = (event.target as Element).closest<SVGElement>("[data-worker], [data-service]")?.dataset ?? {};
  return { worker: numberOf(data.worker), service: numberOf(data.service) };
}

function numberOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}

/** What was chosen already is let go, as is all by a click beside it. */
function choose(next: Pointed, at: SummationGroupRoute): void {
  const same = next.worker === at.worker && next.service === at.service;
  store.replace({ ...at, worker: same ? undefined : next.worker, service: same ? undefined : next.service });
}

interface Press {
  pointed: Pointed;
  chosen: Pointed;
  set: (next: Pointed) => void;
  group: SummationGroupDetail;
  at: SummationGroupRoute;
  matrix: boolean;
}

function press(event: KeyboardEvent, { pointed, chosen, set, group, at, matrix }: Press): void {
  const from = isNothing(pointed) ? chosen : pointed;
  if (event.key === "Enter" || event.key === " ") choose(from, at);
  else {
    const next = walk(event.key, from, group, matrix);
    if (next === undefined) return;
    if (event.key === "Escape" && isNothing(pointed)) choose({}, at);
    set(next);
  }
  event.preventDefault();
}
