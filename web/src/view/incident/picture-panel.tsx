import { useMemo, useRef } from "preact/hooks";
import type { CommunicatorDetail, Detail, FindingKind, IncidentDetail } from "../../api";
import { callTable, circle, lastCalls, type CallTable, type LastCalls } from "../../pure/calls";
import { integer, plural, rankRanges } from "../../pure/format";
import { culpritName } from "../../pure/incidents";
import { hostRows, membersOf, picture, ROLE_WORDS, waitingSentence, type Member } from "../../pure/waits";
import { useApi } from "../../state/api";
import * as store from "../../state/store";
import { HostName } from "../host-name";
import { Panel } from "../panel";
import { useWidth } from "../use-width";
import { CircleDrawing } from "./circle-drawing";
import { WaitsDrawing, WaitsLegend } from "./waits-drawing";

/** Findings about somebody whom ranks of one communicator wait for. */
const WAITS = new Set<FindingKind>([
  "waiting", "rank_missing", "rank_dead", "host_lost", "call_mismatch", "p2p_unmatched", "transfer_stalled", "device_stalled", "init_stuck", "async_error", "teardown_stuck",
]);

/** Who waits for whom: the ranks around a circle, the circle of an order deadlock, the calls of a mismatch. Nothing for other kinds. */
export function PicturePanel({ incident, details }: { incident: IncidentDetail; details: Detail[] }) {
  const table = callTable(details);
  const last = lastCalls(details);
  const links = circle(incident.culprits, details, store.communicatorNames.value);
  const isCircle = incident.finding === "order_deadlock" && links.length > 1;
  const hasRanks = incident.comm !== "" && (WAITS.has(incident.finding) || (incident.finding === "order_deadlock" && !isCircle));
  if (!isCircle && !hasRanks && table === undefined && last === undefined) return null;
  return (
    <Panel id="who-waits" title={table !== undefined && !isCircle ? "The calls side by side" : "Who waits for whom"}>
      {table !== undefined && <Calls table={table} />}
      {last !== undefined && <Last calls={last} />}
      {isCircle && <CircleDrawing links={links} />}
      {hasRanks && <Ranks incident={incident} />}
    </Panel>
  );
}

function Calls({ table }: { table: CallTable }) {
  return (
    <div class="scroller" tabIndex={0} role="region" aria-label={table.title}>
      <table class="calls">
        <caption>{table.title}</caption>
        <tbody>
          {table.rows.map((row) => (
            <tr key={row.who}>
              <th scope="row">{row.who}</th>
              {row.fields.map((field, i) => (
                <td key={i} class={field.differs ? "differs" : ""}>
                  {field.differs && <span aria-hidden="true">≠ </span>}
                  {field.words}
                  {field.differs && <span class="unseen"> (differs)</span>}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What the odd one called before, beside what another did. */
function Last({ calls }: { calls: LastCalls }) {
  return (
    <div class="scroller" tabIndex={0} role="region" aria-label="The last calls">
      <table class="calls">
        <caption>The last calls of {calls.heads.join(" and ")}</caption>
        <thead>
          <tr>
            <th scope="col">Call</th>
            {calls.heads.map((head) => (
              <th key={head} scope="col">{head}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {calls.rows.map((row) => (
            <tr key={row.number}>
              <th scope="row">#{row.number}</th>
              {row.cells.map((cell, i) => (
                <td key={i} class={row.differs ? "differs" : ""}>
                  {row.differs && <span aria-hidden="true">≠ </span>}
                  {cell || "–"}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const MAX_WIDTH_PX = 720;
const MIN_WIDTH_PX = 260;

function Ranks({ incident }: { incident: IncidentDetail }) {
  const { value, missing, refused } = useApi<CommunicatorDetail>(`communicators/${encodeURIComponent(incident.comm)}`, { on: incident.comm });
  if (value === undefined) {
    return <p class="quiet">{missing ? "The daemon knows nothing of its communicator any more." : (refused ?? "Asking for its ranks …")}</p>;
  }
  return <Drawn incident={incident} communicator={value} />;
}

function Drawn({ incident, communicator }: { incident: IncidentDetail; communicator: CommunicatorDetail }) {
  const box = useRef<HTMLDivElement>(null);
  const widthPx = Math.max(MIN_WIDTH_PX, Math.min(MAX_WIDTH_PX, useWidth(box)));
  const members = useMemo(() => membersOf(incident, communicator), [incident, communicator]);
  const names = store.hostNames.value;
  const drawn = useMemo(() => picture(members.map((one) => ({ ...one, ...(one.host === undefined ? {} : { host: names.get(one.host) ?? one.host }) })), widthPx), [members, widthPx, names]);
  const waiting = waitingSentence(members);
  const who = culpritName(incident.culprits);
  const sentence = incident.resolved_at != null ? "It is over: nobody waits any more because of it." : `${waiting === "" ? "No rank is seen to wait" : waiting}${who === "" || waiting === "" ? "" : `, for ${who}`}.`;
  return (
    <figure class="who-waits">
      <div class="ring-box" ref={box}>
        <WaitsDrawing drawn={drawn} label={sentence} />
      </div>
      <WaitsLegend drawn={drawn} />
      <figcaption>{sentence}{drawn.folded && " In a place stand so many ranks as its number says."}</figcaption>
      <Table members={members} />
    </figure>
  );
}

/** Rows of the table; more are counted. */
const MAX_ROWS = 300;

function Table({ members }: { members: Member[] }) {
  const rows = hostRows(members);
  return (
    <details class="ring-table">
      <summary>The same as a table</summary>
      <div class="scroller" tabIndex={0} role="region" aria-label="Who waits, by host">
        <table>
          <thead>
            <tr>
              <th scope="col">Host</th>
              <th scope="col">Ranks</th>
              <th scope="col" class="number">How many</th>
              <th scope="col">Part</th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, MAX_ROWS).map((row) => (
              <tr key={`${row.role} ${row.host}`} class={row.role === "culprit" ? "is-culprit" : ""}>
                <th scope="row">{row.host === "" ? "not known" : <a href={store.link({ page: "host", host: row.host })}><HostName of={row.host} /></a>}</th>
                <td>{rankRanges(row.ranks)}</td>
                <td class="number">{integer(row.ranks.length)}</td>
                <td>{ROLE_WORDS[row.role]}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > MAX_ROWS && <p class="quiet">{plural(rows.length - MAX_ROWS, "more row")}.</p>}
    </details>
  );
}
