import { useMemo } from "preact/hooks";
import type { Finding, SummationGroup, SummationGroupDetail } from "../api";
import { group as groupFindings } from "../pure/findings";
import { bandwidth, integer, plural, size } from "../pure/format";
import { predecessor, successor } from "../pure/summation/groups";
import { troubles } from "../pure/summation/trouble";
import { lostWords, membersWords, modeWords, parametersWords } from "../pure/summation/words";
import { useApi, useList } from "../state/api";
import * as store from "../state/store";
import { Export } from "../view/export";
import { subjectRows } from "../view/finding-detail";
import { FindingLine } from "../view/finding-line";
import { Mark } from "../view/mark";
import { Fact, PageHead } from "../view/page-head";
import { Panel } from "../view/panel";
import { groupMark } from "../view/summation/group-mark";
import { HistoryPanel } from "../view/summation/history";
import { KeyClassesPanel } from "../view/summation/key-classes";
import { PicturePanel } from "../view/summation/picture-panel";
import { PipelinePanel } from "../view/summation/pipeline";
import { ResultsPanel } from "../view/summation/results";
import { StalenessPanel } from "../view/summation/staleness";
import { StragglersPanel } from "../view/summation/stragglers";
import { WaitsPanel } from "../view/summation/waits";
import { Ago } from "../view/time";

/** One summation group: who owns what, what flows, where parts wait, who comes last, whether results agree. */
export function SummationGroupPage({ id }: { id: string }) {
  const { value: group, missing, refused } = useApi<SummationGroupDetail>(`summation/groups/${encodeURIComponent(id)}`, { on: "summation" });
  const firing = store.firing.value.items;
  const findings = useMemo(() => firing.filter((one) => group?.findings.includes(one.id)), [firing, group?.findings.join()]);
  const known = useMemo(() => (group === undefined ? undefined : troubles(group, findings)), [group, findings]);
  const at = store.route.value;
  if (at.page !== "summation-group") return null;
  if (group === undefined || known === undefined) return <p class="notice">{missing ? `Summation group ${id} is not known to this daemon.` : (refused ?? `Asking for summation group ${id} …`)}</p>;
  const started = group.services.length > 0;
  return (
    <>
      <Head group={group} />
      <Ended group={group} />
      <div class="board">
        <div class="column words">
          <Found id={id} findings={findings} />
          <WaitsPanel group={group} known={known} />
          <StragglersPanel group={group} known={known} at={at} />
          <StalenessPanel group={group} />
          <KeyClassesPanel group={group} />
        </div>
        <div class="column summing">
          <PicturePanel group={group} known={known} at={at} />
          {started && <PipelinePanel group={group} at={at} />}
          {started && <ResultsPanel group={group} />}
        </div>
      </div>
      {started && <HistoryPanel group={group} />}
    </>
  );
}

function Head({ group }: { group: SummationGroupDetail }) {
  return (
    <PageHead crumbs={[["Summation", store.link({ page: "summation" })], [group.job, store.link({ page: "job", job: group.job })]]} name={`Summation group ${group.id}`} aside={<Members group={group} />}>
      <Fact name="State">
        <b>
          <Mark {...groupMark(group)} /> {group.state}
        </b>
        <small>began <Ago at={group.started_at} /></small>
      </Fact>
      <Fact name="Members">
        <b>{membersWords(group)}</b>
      </Fact>
      <Fact name="Model">
        {group.n_parts === 0 ? <b>not agreed on yet</b> : <b>{size(group.model_bytes)}</b>}
        {group.n_parts > 0 && (
          <small>
            {plural(group.n_tensors, "tensor")}, {plural(group.n_parts, "part")} of {size(group.partition_bytes)} at most
          </small>
        )}
      </Fact>
      {group.state === "running" && (
        <Fact name="Pushed, pulled">
          <b>
            {bandwidth(group.push_bytes_per_s)}, {bandwidth(group.pull_bytes_per_s)}
          </b>
          <small>{integer(group.rounds_per_s)} results of parts per second</small>
        </Fact>
      )}
      <Fact name="Sums">
        <b>{modeWords(group)}</b>
      </Fact>
      {!group.asynchronous && <Parameters group={group} />}
      <Fact name="Epochs">
        <b>{group.membership_epoch}</b>
        <small>of members, {group.placement_epoch} of placement</small>
      </Fact>
    </PageHead>
  );
}

function Parameters({ group }: { group: SummationGroupDetail }) {
  const { state, how } = parametersWords(group);
  return (
    <Fact name="Parameters">
      <b class={state === "differ" ? "bad" : ""}>
        {state === "same" && <Mark kind="ok" />} {state === "differ" && <Mark kind="critical" />} {state}
      </b>
      <small>{how}</small>
    </Fact>
  );
}

/** Groups of one session: members come and go, and each time the group is another one. */
function Members({ group }: { group: SummationGroupDetail }) {
  const all = useSession(group);
  const [before, after] = [predecessor(group, all), successor(group, all)];
  if (before === undefined && after === undefined) return null;
  const to = (one: SummationGroup, words: string) => <a href={store.link({ page: "summation-group", group: one.id })}>{words} ({membersWords(one)})</a>;
  return (
    <nav class="session" aria-label="The same session with other members">
      {before !== undefined && to(before, "← before")}
      {after !== undefined && to(after, `goes on as ${after.id} →`)}
    </nav>
  );
}

function useSession(group: SummationGroupDetail): SummationGroup[] {
  return useList<SummationGroup>(`summation/groups?job=${encodeURIComponent(group.job)}`, { on: "summation" }).value?.items ?? [];
}

/** Whose loss ended it, and what runs now. */
function Ended({ group }: { group: SummationGroupDetail }) {
  const after = successor(group, useSession(group));
  const lost = lostWords(group);
  if (lost === undefined && group.state !== "failed") return null;
  return (
    <div class="notice lost" role="status">
      <p>
        <Mark kind="killed" label="failed" /> <strong>{lost ?? "The group failed."}</strong>
      </p>
      <p>
        {after === undefined ? "No group goes on in its place: the job has stopped, or has not formed one yet." : (
          <>
            The session goes on with {membersWords(after)}: <a href={store.link({ page: "summation-group", group: after.id })}>group {after.id}</a>, {after.state}.
          </>
        )}
      </p>
    </div>
  );
}

/** Findings of the past shown. */
const MAX_RESOLVED = 5;

/** What fires about it, and what did: nothing where nothing ever has. */
function Found({ id, findings }: { id: string; findings: Finding[] }) {
  const of = `findings?group=${encodeURIComponent(id)}`;
  const resolved = useList<Finding>(`${of}&state=resolved`, { on: "findings" }).value?.items ?? [];
  const past = groupFindings(resolved);
  const shown = [...groupFindings(findings), ...past.slice(0, MAX_RESOLVED)];
  if (shown.length === 0) return null;
  return (
    <Panel id="findings" title="Findings" aside={<Export path={of} name={`findings-${id}`} rows={() => subjectRows([...findings, ...resolved])} />}>
      <ul class="findings">
        {shown.map((one) => (
          <FindingLine key={one.key} group={one} />
        ))}
        {past.length > MAX_RESOLVED && <li class="quiet">and {plural(past.length - MAX_RESOLVED, "older one")}</li>}
      </ul>
    </Panel>
  );
}
