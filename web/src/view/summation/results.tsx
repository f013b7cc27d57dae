import type { SummationGroupDetail, SummationRound } from "../../api";
import { integer } from "../../pure/format";
import { roundRows } from "../../pure/summation/tables";
import { agreement, ns, serviceName } from "../../pure/summation/words";
import { useApi } from "../../state/api";
import { Export } from "../export";
import { Mark } from "../mark";
import { Panel } from "../panel";
import { Time } from "../time";

/** Asked for, and shown; those that differ are shown first. */
const ASKED = 200;
const SHOWN = 16;

/** The newest results, each with the fingerprint that every member must have seen. */
export function ResultsPanel({ group }: { group: SummationGroupDetail }) {
  const path = `summation/groups/${encodeURIComponent(group.id)}/rounds?limit=${ASKED}`;
  const { value, refused } = useApi<{ items: SummationRound[] }>(path, { on: "summation", everyMs: 3_000 });
  const rounds = value?.items ?? [];
  const { sentence, differ } = agreement(rounds);
  const shown = [...differ, ...rounds.filter((one) => one.agree !== false)].slice(0, Math.max(SHOWN, differ.length));
  return (
    <Panel id="results" title="Results and their fingerprints" aside={<Export path={path} name={`rounds-${group.id}`} rows={() => roundRows(rounds)} />}>
      {rounds.length === 0 ? (
        <p class="quiet">{refused ?? (value === undefined ? "Asking for them …" : "No result yet.")}</p>
      ) : (
        <>
          <p class={differ.length > 0 ? "progress stuck" : "progress"} role="status">
            {differ.length > 0 && <Mark kind="critical" label="mismatch" />}
            {sentence}
          </p>
          <div class="scroller tall" tabIndex={0} role="region" aria-label="Newest results">
            <table class="results stacking">
              <thead>
                <tr>
                  <th scope="col">Key, round</th>
                  <th scope="col">Fingerprint</th>
                  <th scope="col">Agreement</th>
                  <th scope="col">Made by</th>
                  <th scope="col" class="number" title="Contributions in it">From</th>
                  <th scope="col">Last</th>
                  <th scope="col" class="number" title="From the first contribution to the last">Spread</th>
                  <th scope="col" class="number">Took</th>
                  <th scope="col" class="number">At</th>
                </tr>
              </thead>
              <tbody>
                {shown.map((one) => (
                  <Row key={`${one.key} ${one.round} ${one.made_by}`} one={one} group={group} />
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
    </Panel>
  );
}

function Row({ one, group }: { one: SummationRound; group: SummationGroupDetail }) {
  const service = group.services.find((each) => each.service === one.made_by);
  return (
    <tr class={one.agree === false ? "is-lost" : ""}>
      <th scope="row">
        {one.key}, {integer(one.round)}
      </th>
      <td data-label="Fingerprint">
        <code>{one.fingerprint.replace(/^0x/, "")}</code>
      </td>
      <td data-label="Agreement">
        {one.agree === null ? <span class="quiet">not compared</span> : one.agree ? <><Mark kind="ok" /> same</> : <b class="bad"><Mark kind="killed" /> differs</b>}
      </td>
      <td data-label="Made by" title={service?.host ?? ""}>{service === undefined ? (one.made_by ?? "–") : serviceName(service)}</td>
      <td data-label="From" class="number">{one.contributors ?? "–"}</td>
      <td data-label="Last">{one.last_arriver === null ? "–" : `worker ${one.last_arriver}`}</td>
      <td data-label="Spread" class="number">{ns(one.spread_ns)}</td>
      <td data-label="Took" class="number">{ns(one.took_ns)}</td>
      <td data-label="At" class="number"><Time at={one.at} /></td>
    </tr>
  );
}
