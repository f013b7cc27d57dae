import type { ComponentChildren } from "preact";
import type { Detail, Finding, IncidentDetail } from "../api";
import { otherDetails } from "../pure/calls";
import { costWords } from "../pure/cost";
import { group, kindName } from "../pure/findings";
import { duration, integer, opening, plural } from "../pure/format";
import { culpritName, lastedWords, moments } from "../pure/incidents";
import { useApi } from "../state/api";
import * as store from "../state/store";
import { Export } from "../view/export";
import { Details, Proof, subjectRows } from "../view/finding-detail";
import { FindingLine } from "../view/finding-line";
import { CarePanel } from "../view/incident/care";
import { PicturePanel } from "../view/incident/picture-panel";
import { Mark } from "../view/mark";
import { Fact, PageHead } from "../view/page-head";
import { Panel } from "../view/panel";
import { Ago, Time } from "../view/time";
import { withCommands } from "../view/with-commands";

/** One incident: who it is, what to do, who suffers, how it is known, and what became known when. */
export function IncidentPage({ id }: { id: string }) {
  const { value: incident, missing, refused } = useApi<IncidentDetail>(`incidents/${encodeURIComponent(id)}`, { on: "incidents" });
  if (incident === undefined) return <p class="notice">{missing ? `Incident ${id} is not known to this daemon (any more).` : (refused ?? `Asking for incident ${id} …`)}</p>;
  const details = detailsOf(incident);
  return (
    <div id="incident">
      <Head incident={incident} />
      <div class="board">
        <div class="column words">
          {incident.advice !== "" && (
            <Panel id="to-do" title="What to do">
              <p class="to-do-first">{withCommands(incident.advice)}</p>
              <p>
                <a href={store.link({ page: "runbook", kind: incident.finding })}>Runbook: {kindName(incident.finding).toLowerCase()}</a>
              </p>
            </Panel>
          )}
          <Culprits incident={incident} details={otherDetails(details)} />
          <Members incident={incident} />
        </div>
        <div class="column pictures">
          <PicturePanel incident={incident} details={details} />
          <TimelinePanel incident={incident} />
          <CarePanel incident={incident} />
        </div>
      </div>
    </div>
  );
}

function Head({ incident: one }: { incident: IncidentDetail }) {
  const nowMs = store.nowMs.value;
  const began = Date.parse(one.began_at);
  const cost = costWords(one.cost, one.resolved_at != null).replace(/^costs? /, "");
  const lateS = (Date.parse(one.first_seen) - began) / 1000;
  return (
    <PageHead
      crumbs={[["Incidents", store.link({ page: "incidents" })]]}
      name={
        <>
          <Mark kind={one.severity} label={`${one.severity}${one.state === "resolved" ? ", over" : ""}`} /> {withCommands(opening(one.sentence), (part) => part)}
        </>
      }
    >
      <Fact name={one.resolved_at == null && one.imported !== true ? "Goes on since" : "Began"}>
        <b><Time at={began} /></b>
        <small>{one.imported === true ? "imported: read from files, nobody is told of it" : one.resolved_at == null ? `for ${duration(Math.max(0, (nowMs - began) / 1000))}` : lastedWords(one)}</small>
      </Fact>
      {one.resolved_at != null && (
        <Fact name="Over">
          <b><Ago at={one.resolved_at} /></b>
        </Fact>
      )}
      <Fact name="Found">
        <b><Time at={one.first_seen} /></b>
        {lateS >= 0.05 && <small>{duration(lateS)} after it began</small>}
      </Fact>
      <Fact name={one.resolved_at == null ? "Wait because of it" : "Waited because of it"}>
        <b>{one.n_victims === 0 ? "nobody" : plural(one.n_victims, "rank")}</b>
      </Fact>
      {cost !== "" && (
        <Fact name={one.resolved_at == null ? "Costs" : "Cost"}>
          <b>{cost}</b>
        </Fact>
      )}
      {one.host !== "" && (
        <Fact name="Host">
          <a href={store.link({ page: "host", host: one.host })}>
            <b>{one.host}</b>
          </a>
        </Fact>
      )}
      {one.job !== "" && (
        <Fact name="Job">
          <a href={store.link({ page: "job", job: one.job })}>
            <b>{one.job}</b>
          </a>
        </Fact>
      )}
      {one.comm !== "" && (
        <Fact name="Communicator">
          <a href={store.link({ page: "communicator", comm: one.comm, rank: one.rank, host: one.host === "" ? undefined : one.host })}>
            <b>{store.communicatorNames.value.get(one.comm) ?? one.comm}</b>
          </a>
        </Fact>
      )}
    </PageHead>
  );
}

/** Culprits named; the findings count the others. */
const MAX_CULPRITS = 16;

/** Who it is, what each does instead, and what was found out about them. */
function Culprits({ incident, details }: { incident: IncidentDetail; details: Detail[] }) {
  const { culprits } = incident;
  if (culprits.length === 0 && details.length === 0) return null;
  return (
    <Panel id="culprit" title={culprits.length === 0 ? "What was found out" : `Who: ${culpritName(culprits)}`}>
      {culprits.length > 0 && (
        <table class="culprits stacking">
          <thead>
            <tr>
              <th scope="col">Process</th>
              <th scope="col">Does</th>
            </tr>
          </thead>
          <tbody>
            {culprits.slice(0, MAX_CULPRITS).map((one, i) => (
              <tr key={i}>
                <th scope="row">
                  <b>{one.rank === undefined ? (one.global_rank === undefined ? "" : `rank ${one.global_rank} of the job`) : `rank ${one.rank}`}</b>{" "}
                  {one.host !== "" && <a href={store.link({ page: "host", host: one.host })}>{one.host}</a>}
                  {one.pid !== undefined && <small>process {one.pid}</small>}
                  {one.place !== undefined && <small>{one.place}</small>}
                </th>
                <td>{withCommands(one.doing)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {culprits.length > MAX_CULPRITS && <p class="quiet">and {integer(culprits.length - MAX_CULPRITS)} more.</p>}
      <Details items={details} />
    </Panel>
  );
}

function Members({ incident }: { incident: IncidentDetail }) {
  const groups = group(incident.members);
  return (
    <Panel id="findings" title={plural(incident.members.length, "finding")} aside={<Export path={`incidents/${encodeURIComponent(incident.id)}`} name={`incident-${incident.id}`} rows={() => subjectRows(incident.members)} />}>
      <ul class="findings">
        {groups.map((one) => (
          <FindingLine key={one.key} group={one} within>
            <Evidenced findings={one.all}>
              <Proof findings={one.all} />
            </Evidenced>
          </FindingLine>
        ))}
      </ul>
    </Panel>
  );
}

/** Lines that prove it, where there are any. */
function Evidenced({ findings, children }: { findings: Finding[]; children: ComponentChildren }) {
  return findings.some((one) => (one.evidence ?? []).length > 0) ? <div class="finding-detail">{children}</div> : null;
}

/** Longer pauses are drawn longer, but not as much. */
const GAP_PX = 11;

/** What was known when: a line with a point for each moment, the way between them as long as the time was. */
function TimelinePanel({ incident }: { incident: IncidentDetail }) {
  const all = moments(incident);
  return (
    <Panel id="timeline" title="What was known when">
      <ol class="moments">
        {all.map((one, i) => (
          <li key={`${one.atMs}${one.text}`} style={i === 0 ? {} : { paddingTop: `${Math.round(4 + GAP_PX * Math.log10(1 + one.pauseS))}px` }}>
            <Time at={one.atMs} /> <small>{one.after}</small>
            <p>{withCommands(one.text)}</p>
          </li>
        ))}
        <li class={incident.resolved_at == null ? "open" : "over"}>
          <b>{incident.resolved_at == null ? "It goes on" : `It is over, ${lastedWords(incident)}`}</b>
        </li>
      </ol>
    </Panel>
  );
}

/** What its findings found out, each once, the root's first. */
function detailsOf({ members }: IncidentDetail): Detail[] {
  const seen = new Map<string, Detail>();
  for (const one of members.flatMap((finding) => finding.details ?? [])) {
    const key = `${one.title}\n${one.lines.join("\n")}`;
    if (!seen.has(key)) seen.set(key, one);
  }
  return [...seen.values()];
}
