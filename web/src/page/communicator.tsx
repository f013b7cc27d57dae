import type { CommunicatorDetail } from "../api";
import { causeWords } from "../pure/cause";
import { group } from "../pure/findings";
import { integer, list, plural, rateOf } from "../pure/format";
import { untold } from "../pure/incidents";
import { COMMUNICATOR_VIEWS, type CommunicatorView } from "../pure/route";
import { API } from "../state/client";
import * as comm from "../state/communicator";
import * as store from "../state/store";
import { BandwidthBySize } from "../view/bandwidth-by-size";
import { Export } from "../view/export";
import { subjectRows } from "../view/finding-detail";
import { FindingLine } from "../view/finding-line";
import { IncidentsHere } from "../view/incident/lines";
import { Fact, PageHead, Stands } from "../view/page-head";
import { Panel } from "../view/panel";
import { Purpose } from "../view/purpose";
import { RanksPanel } from "../view/ranks";
import { RingPanel } from "../view/ring-panel";
import { CommunicatorCards } from "../view/scope";
import { communicatorMark } from "../view/standing";
import { Ago, Time } from "../view/time";
import { Traffic } from "../view/traffic";

/** One communicator: its rings, ranks and bytes. */
export function CommunicatorPage() {
  const shown = store.watched.value;
  if (shown === undefined) {
    const { comm: id } = comm.at.value;
    return <p class="notice">{comm.missing.value ? `Communicator ${id} is not known to this daemon.` : (store.watchedAnswer.value?.refused ?? `Asking for communicator ${id} …`)}</p>;
  }
  const { view, compare } = comm.at.value;
  return (
    <>
      <Head shown={shown} />
      <CommunicatorCards />
      <Views />
      {view === undefined ? (
        <div class={compare === undefined ? "board" : "board comparing"}>
          <div class="column words">
            <IncidentsHere items={store.watchedIncidents.value} />
            <Found comm={shown.id} />
            <RanksPanel />
          </div>
          <div class="column pictures">
            <RingPanel />
            <Traffic />
            <BandwidthBySize />
          </div>
        </div>
      ) : (
        <div class="column">{view === "rings" ? <RingPanel /> : view === "ranks" ? <RanksPanel /> : <Primitives />}</div>
      )}
    </>
  );
}

function Primitives() {
  return (
    <>
      <Traffic />
      <BandwidthBySize />
    </>
  );
}

/** What is firing about it and the incidents above do not tell: nothing where nothing is. */
function Found({ comm: id }: { comm: string }) {
  const all = untold(store.firing.value.items.filter((one) => one.comm === id), store.watchedIncidents.value);
  const groups = group(all);
  if (groups.length === 0) return null;
  return (
    <Panel id="findings" title="Findings" aside={<Export path={`findings?state=firing&comm=${encodeURIComponent(id)}`} name={`findings-${id}`} rows={() => subjectRows(all)} />}>
      <ul class="findings">
        {groups.slice(0, MAX_FOUND).map((one) => (
          <FindingLine key={one.key} group={one} />
        ))}
      </ul>
      {groups.length > MAX_FOUND && <p class="quiet">{plural(groups.length - MAX_FOUND, "more finding")}: <a href={store.link({ page: "findings", job: store.jobId.value })}>all of the job</a>.</p>}
    </Panel>
  );
}
const MAX_FOUND = 6;

function Head({ shown }: { shown: CommunicatorDetail }) {
  const { job, base, final_channels: final, hosts } = shown;
  const cause = shown.prediction.steps.at(-1)?.cause;
  return (
    <PageHead
      crumbs={[["Jobs", store.link({ page: "jobs" })], [job, store.link({ page: "job", job })]]}
      name={
        <>
          {shown.name ?? shown.id} <Purpose of={shown} />
        </>
      }
      aside={<Trace id={shown.id} />}
    >
      <Stands {...communicatorMark(shown)} />
      <Fact name="State">
        <b>{shown.state}</b>
        <small>{shown.ended === undefined ? <>since <Ago at={shown.created} /></> : <>ended at <Time at={shown.ended} /></>}</small>
        <Replaced shown={shown} />
      </Fact>
      <Fact name="Ranks">
        <b>{integer(shown.n_ranks)}</b>
        <small>
          {shown.n_ranks_seen < shown.n_ranks && `${integer(shown.n_ranks_seen)} heard of, `}
          {plural(hosts.length, "host")}
        </small>
      </Fact>
      <Fact name="Channels, found → in use">
        <b>{base === null && final === null ? "not known" : `${base ?? "–"} → ${final ?? "–"}`}</b>
        {cause !== undefined && <small>{causeWords(cause)}</small>}
        {shown.culprits.length > 0 && <small class="bad">held back by {list(shown.culprits)}</small>}
      </Fact>
      <Fact name="Completed">
        <b>{rateOf(shown)}</b>
      </Fact>
      <Fact name="comm_hash">
        <code title="The library's own hash, as its log prints it">{shown.comm_hash}</code>
      </Fact>
    </PageHead>
  );
}

/** An address may name a communicator that the job has given up since. */
function Replaced({ shown }: { shown: CommunicatorDetail }) {
  if (shown.ended === undefined || store.job.value === undefined || store.job.value.state === "ended") return null;
  return <a href={store.link({ page: "job", job: shown.job })}>Show what runs now</a>;
}

const NAMES: Record<CommunicatorView, string> = { rings: "Rings", ranks: "Ranks", primitives: "Primitives" };

function Views() {
  const { view } = comm.at.value;
  const all: (CommunicatorView | undefined)[] = [undefined, ...COMMUNICATOR_VIEWS];
  return (
    <nav class="segments views" aria-label="Parts of this page">
      {all.map((one) => (
        <a key={one ?? "all"} href={store.link({ ...comm.at.value, view: one })} class={view === one ? "on" : ""} aria-current={view === one ? "true" : undefined}>
          {one === undefined ? "Everything" : NAMES[one]}
        </a>
      ))}
    </nav>
  );
}

/** Operations of the time range, for a viewer of traces on the reader's own machine. */
function Trace({ id }: { id: string }) {
  const { fromMs, toMs } = store.range.value;
  const iso = (ms: number) => new Date(Math.floor(ms / 1000) * 1000).toISOString();
  return (
    <details class="trace">
      <summary>Trace</summary>
      <div class="pop">
        <p>Every operation of each rank in the time range on the screen, as a Chrome trace.</p>
        <p>
          <a href={`${API}communicators/${encodeURIComponent(id)}/trace?from=${iso(fromMs)}&to=${iso(toMs)}`} download={`ringscope-${id}.json`}>
            Download the trace
          </a>
        </p>
        <p class="quiet">
          Open it in Perfetto (ui.perfetto.dev, “Open trace file”, which stays in your browser) or in <code>chrome://tracing</code>.
        </p>
      </div>
    </details>
  );
}
