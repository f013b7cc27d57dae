import type { Connection, Finding, HostChannels, HostDetail, SummationGroup } from "../api";
import { title } from "../pure/connections";
import { group } from "../pure/findings";
import { integer, plural, rateOf } from "../pure/format";
import { distinctNames } from "../pure/names";
import { groupRows } from "../pure/summation/tables";
import { connectionRows, gpuRows, historyRows, hostRankRows, nicRows } from "../pure/tables";
import { useApi, useList } from "../state/api";
import * as store from "../state/store";
import { ChannelHistory } from "../view/channel-history";
import { Connections } from "../view/connections";
import { Export } from "../view/export";
import { subjectRows } from "../view/finding-detail";
import { FindingLine } from "../view/finding-line";
import { Gpus } from "../view/gpus";
import { HostRanks } from "../view/host-ranks";
import { IncidentsHere, incidentsOn } from "../view/incident/lines";
import { Mark } from "../view/mark";
import { Nics } from "../view/nics";
import { Fact, PageHead, Stands } from "../view/page-head";
import { Panel } from "../view/panel";
import { hostMark } from "../view/standing";
import { GroupsTable } from "../view/summation/groups-table";
import { Ago, Time } from "../view/time";

/** Findings of the past shown. */
const MAX_RESOLVED = 5;

/** One host: whether it holds others back and why, its NICs and GPUs, and what it takes part in. */
export function HostPage({ host: name }: { host: string }) {
  const path = `nodes/${encodeURIComponent(name)}`;
  const { value: host, missing, refused } = useApi<HostDetail>(path, { on: "hosts" });
  const history = useList<HostChannels>(`${path}/channels`, { on: "never" });
  const resolved = useList<Finding>(`findings?state=resolved&host=${encodeURIComponent(name)}`, { on: "findings" });
  if (host === undefined) return <p class="notice">{missing ? `Host ${name} is not known to this daemon.` : (refused ?? `Asking for ${name} …`)}</p>;
  const items = history.value?.items ?? [];
  const known = distinctNames(items.map((one) => ({ id: one.comm, hosts: [], ...(one.name == null ? {} : { name: one.name }) })));
  const names = new Map([...known, ...store.communicatorNames.value]);
  const route = store.route.value;
  return (
    <div id="host">
      <Head host={host} />
      <div class="column">
        <IncidentsHere items={incidentsOn(name)} />
        <Found host={name} firing={host.firing} resolved={resolved.value?.items} unread={resolved.refused} />
        <Panel id="nics" title="NICs" aside={<><ReadAt host={host} /><Export path={path} name={`nics-${name}`} rows={() => nicRows(host.hardware?.nics ?? [])} /></>}>
          {host.hardware == null ? (
            <p class="quiet">Nobody has read its hardware: an agent of this version does (<code>ringscope agent</code>).</p>
          ) : (
            <Nics host={name} hardware={host.hardware} findings={host.firing} named={route.page === "host" ? route.nic : undefined} names={names} />
          )}
        </Panel>
        <RdmaConnections host={name} path={path} hasRdma={host.hardware?.nics.some((nic) => nic.rdma) ?? false} />
        {host.hardware != null && (
          <Panel id="gpus" title="GPUs" aside={<Export path={path} name={`gpus-${name}`} rows={() => gpuRows(host.hardware?.gpus ?? [])} />}>
            {host.hardware.gpus == null ? <p class="quiet">No driver answered: it has no GPU, or its agent may not ask for them.</p> : <Gpus gpus={host.hardware.gpus} />}
          </Panel>
        )}
        <Panel id="host-ranks" title={plural(host.ranks.length, "rank")} aside={<Export path={path} name={`ranks-${name}`} rows={() => hostRankRows(host.ranks)} />}>
          <HostRanks host={name} ranks={host.ranks} names={names} />
        </Panel>
        <Summation host={name} />
        <Panel id="channel-history" title="Channels it found" aside={<Export path={`${path}/channels?limit=1000`} name={`channels-${name}`} rows={() => historyRows(items)} />}>
          {history.value === undefined ? <p class="quiet">{history.refused ?? "Asking for them …"}</p> : <ChannelHistory items={items} host={name} names={names} />}
        </Panel>
      </div>
    </div>
  );
}

/** The RDMA connections of its processes: nothing on a host that has no RDMA device. */
function RdmaConnections({ host, path, hasRdma }: { host: string; path: string; hasRdma: boolean }) {
  const of = `${path}/connections`;
  const items = useList<Connection>(of, { on: "hosts", everyMs: 5_000 }).value?.items;
  if (items === undefined || (items.length === 0 && !hasRdma)) return null;
  if (items.length === 0) {
    return (
      <Panel id="connections" title="RDMA connections">
        <p class="quiet">No process here tells of any. Those do that run under <code>ringscope run</code> with the network plugin <code>libnccl-net-ringscope.so</code>.</p>
      </Panel>
    );
  }
  return (
    <Panel id="connections" title={title(items)} aside={<Export path={`${of}?limit=1000`} name={`connections-${host}`} rows={() => connectionRows(items)} />}>
      <Connections all={items} />
    </Panel>
  );
}

/** The summation groups that it is in: nothing where it is in none, as most hosts. */
function Summation({ host }: { host: string }) {
  const of = `summation/groups?host=${encodeURIComponent(host)}`;
  const items = useList<SummationGroup>(of, { on: "summation", everyMs: 5_000 }).value?.items ?? [];
  if (items.length === 0) return null;
  return (
    <Panel id="summation" title={plural(items.length, "summation group")} aside={<Export path={`${of}&limit=1000`} name={`summation-groups-${host}`} rows={() => groupRows(items)} />}>
      <GroupsTable items={items} />
    </Panel>
  );
}

function Head({ host }: { host: HostDetail }) {
  return (
    <PageHead
      crumbs={[["Hosts", store.link({ page: "hosts" })]]}
      name={
        <>
          <Mark kind={hostMark(host).kind} label={hostMark(host).label} /> {host.host}
        </>
      }
    >
      <Stands {...hostMark(host)} />
      <Fact name="Jobs">
        {host.jobs.length === 0 ? <b>none</b> : host.jobs.map((job) => (
          <a key={job} href={store.link({ page: "job", job })}>
            <b>{job}</b>
          </a>
        ))}
        <small>{`${integer(host.n_processes)} live ${host.n_processes === 1 ? "process" : "processes"}`}</small>
      </Fact>
      <Fact name="Channels, found → in use">
        <b>
          {host.init_channels ?? "–"} → {host.final_channels ?? "–"}
        </b>
      </Fact>
      {host.n_nics != null && (
        <Fact name="NICs">
          <b>{integer(host.n_nics)}</b>
          {host.n_nics_down != null && host.n_nics_down > 0 ? <small class="bad">✕ {integer(host.n_nics_down)} down</small> : <small>none down</small>}
        </Fact>
      )}
      {host.n_gpus != null && (
        <Fact name="GPUs">
          <b>{integer(host.n_gpus)}</b>
        </Fact>
      )}
      <Fact name="Completed">
        <b>{rateOf(host)}</b>
      </Fact>
      <Fact name="Heard">
        <b><Ago at={host.last_seen} /></b>
      </Fact>
    </PageHead>
  );
}

function ReadAt({ host }: { host: HostDetail }) {
  if (host.hardware == null) return null;
  return <small>read at <Time at={host.hardware.read_at} /></small>;
}

function Found({ host, firing, resolved = [], unread }: { host: string; firing: Finding[]; resolved: Finding[] | undefined; unread: string | undefined }) {
  const now = group(firing.filter((finding) => finding.state === "firing"));
  const past = group(resolved).slice(0, MAX_RESOLVED);
  return (
    <Panel id="findings" title="Findings" aside={
      <>
        <a href={store.link({ page: "findings", host })}>All of {host}</a>
        <Export path={`findings?host=${encodeURIComponent(host)}`} name={`findings-${host}`} rows={() => subjectRows([...firing, ...resolved])} />
      </>
    }>
      <ul class="findings" aria-label={`Findings on ${host}`}>
        {unread !== undefined && <li class="bad">What was found before is not known: {unread}</li>}
        {now.length === 0 && past.length === 0 && unread === undefined && <li class="quiet">Nothing was ever found on it.</li>}
        {[...now, ...past].map((one) => (
          <FindingLine key={one.key} group={one} />
        ))}
      </ul>
    </Panel>
  );
}
