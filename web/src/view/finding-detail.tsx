import type { ComponentChildren } from "preact";
import type { Detail, Evidence, Finding, RunbookEntry } from "../api";
import { causeWords } from "../pure/cause";
import { costWords } from "../pure/cost";
import type { FindingGroup } from "../pure/findings";
import { duration, integer, list, plural } from "../pure/format";
import { useApi } from "../state/api";
import * as store from "../state/store";
import { Export } from "./export";
import { HostName } from "./host-name";
import { Time } from "./time";
import { withCommands } from "./with-commands";

/** Subjects listed of a conclusion that many share. */
const MAX_SUBJECTS = 40;

/** A conclusion, whole: where, its numbers, the lines that prove it, what to do. */
export function FindingDetail({ group }: { group: FindingGroup }) {
  const { first, all } = group;
  return (
    <div class="finding-detail">
      <Places group={group} />
      <Numbers finding={first} count={all.length} />
      <Details items={first.details ?? []} />
      <Proof findings={all} />
      <ToDo finding={first} />
      <p class="about">
        <a href={store.link({ page: "findings", id: first.id })}>Link to this finding</a>
        <Export path={`findings?kind=${first.finding}&host=${encodeURIComponent(first.host)}`} name={`finding-${first.id}`} rows={() => subjectRows(all)} />
      </p>
    </div>
  );
}

/** Where to look further: host, NIC, communicator, ring. */
function Places({ group: { first, hosts, comms } }: { group: FindingGroup }) {
  const [comm] = comms;
  const { group: summation } = first as Finding & { group?: string };
  return (
    <ul class="places" aria-label="Go to">
      {hosts.slice(0, MAX_SUBJECTS).map((host) => (
        <li key={host}>
          <a class="chip" href={store.link({ page: "host", host })}><HostName of={host} /></a>
        </li>
      ))}
      {hosts.length > MAX_SUBJECTS && <li class="quiet">and {integer(hosts.length - MAX_SUBJECTS)} more</li>}
      {first.incident !== undefined && first.incident !== "" && (
        <li>
          <a class="chip" href={store.link({ page: "incident", incident: first.incident })}>its incident</a>
        </li>
      )}
      {first.nic != null && (
        <li>
          <a class="chip" href={store.link({ page: "host", host: first.host, nic: first.nic })}>NIC {first.nic}</a>
        </li>
      )}
      {comm !== undefined && (
        <>
          <li>
            <a class="chip" href={store.link({ page: "communicator", comm, host: first.host })}>
              communicator {store.communicatorNames.value.get(comm) ?? comm}
            </a>
          </li>
          <li>
            <a class="chip" href={store.link({ page: "communicator", comm, view: "rings", host: first.host, channel: first.channel, rank: first.rank })}>
              {first.channel == null ? "rings" : `ring of channel ${first.channel}`}
            </a>
          </li>
        </>
      )}
      {summation !== undefined && (
        <li>
          <a class="chip" href={store.link({ page: "summation-group", group: summation })}>summation group {summation}</a>
        </li>
      )}
      {first.job !== "" && (
        <li>
          <a class="chip" href={store.link({ page: "job", job: first.job })}>job {first.job}</a>
        </li>
      )}
    </ul>
  );
}

function Numbers({ finding, count }: { finding: Finding; count: number }) {
  const nowMs = store.nowMs.value;
  const at = (time: string) => <Time at={time} />;
  const endMs = finding.resolved_at == null ? nowMs : Date.parse(finding.resolved_at);
  const facts: [string, ComponentChildren | undefined][] = [
    ["Cause", causeWords(finding.cause)],
    ["Held back by", finding.culprits === undefined || finding.culprits.length === 0 ? undefined : list(finding.culprits)],
    ["Wait because of it", finding.n_victims === undefined || finding.n_victims === 0 ? undefined : plural(finding.n_victims, "rank")],
    ["Began", finding.began_at === undefined ? undefined : at(finding.began_at)],
    ["What it costs", costWords(finding.cost, finding.state === "resolved").replace(/^costs? /, "") || undefined],
    ["Rank", finding.rank == null ? undefined : String(finding.rank)],
    ["Channel", finding.channel == null ? undefined : String(finding.channel)],
    ["Subjects", count > 1 ? integer(count) : undefined],
    ["First seen", at(finding.first_seen)],
    ["Last seen", at(finding.last_seen)],
    ["Resolved", finding.resolved_at == null ? undefined : at(finding.resolved_at)],
    [finding.state === "firing" ? "Fires for" : "Lasted", duration(Math.max(0, (endMs - Date.parse(finding.began_at ?? finding.first_seen)) / 1000))],
  ];
  return (
    <dl class="numbers">
      {facts.map(([name, value]) => value !== undefined && (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** What else was found out: stacks, system calls, calls side by side, messages of the kernel. */
export function Details({ items }: { items: Detail[] }) {
  return (
    <>
      {items.map((one) => (
        <figure key={`${one.title}${one.lines[0]}`} class="known">
          <figcaption>{one.title}</figcaption>
          <ol tabIndex={0} aria-label={one.title}>
            {one.lines.map((line, i) => (
              <li key={i}>
                <code>{line}</code>
              </li>
            ))}
          </ol>
        </figure>
      ))}
    </>
  );
}

/** Lines shown of a conclusion that many share. */
const MAX_LINES = 60;

/** The lines of logs and kernel files that prove it, each once, by file. */
export function Proof({ findings }: { findings: Finding[] }) {
  const files = new Map<string, Map<string, Evidence>>();
  for (const line of findings.flatMap((finding) => finding.evidence ?? []).slice(0, MAX_LINES)) {
    const lines = files.get(line.file) ?? new Map<string, Evidence>();
    // Records of a dump have no line: they are told apart by their text.
    lines.set(`${line.line} ${line.line === 0 ? line.text : ""}`, line);
    files.set(line.file, lines);
  }
  if (files.size === 0) {
    return <p class="quiet">It follows from the numbers that the ranks reported; no single line of a log proves it.</p>;
  }
  return (
    <section class="evidence" aria-label="Evidence">
      <h3>Evidence</h3>
      {[...files].map(([file, lines]) => (
        <figure key={file}>
          <figcaption>
            <code>{file}</code>
          </figcaption>
          <ol tabIndex={0} aria-label={`Lines of ${file}`}>
            {[...lines.values()].sort((a, b) => a.line - b.line).map((line) => (
              <li key={`${line.line} ${line.text}`}>
                <span class="line-number">{line.line > 0 ? line.line : ""}</span>
                <code>{line.text}</code>
              </li>
            ))}
          </ol>
        </figure>
      ))}
    </section>
  );
}

/** What this very host needs, then the runbook of the kind. */
function ToDo({ finding }: { finding: Finding }) {
  const runbook = useApi<RunbookEntry[]>("runbook", { on: "never", everyMs: 600_000 });
  const entry = runbook.value?.find((one) => one.finding === finding.finding);
  return (
    <section class="to-do" aria-label="What to do">
      <h3>What to do</h3>
      {finding.advice !== undefined && finding.advice !== "" && <p>{withCommands(finding.advice)}</p>}
      {entry !== undefined && <Steps entry={entry} />}
      <p>
        <a href={store.link({ page: "runbook", kind: finding.finding })}>Runbook</a>
      </p>
    </section>
  );
}

/** Meaning, checks and actions of a runbook entry. */
export function Steps({ entry }: { entry: RunbookEntry }) {
  return (
    <>
      <p>{withCommands(entry.meaning)}</p>
      <div class="steps">
        <div>
          <h4>Check</h4>
          <ol>{entry.checks.map((step) => <li key={step}>{withCommands(step)}</li>)}</ol>
        </div>
        <div>
          <h4>Do</h4>
          <ol>{entry.actions.map((step) => <li key={step}>{withCommands(step)}</li>)}</ol>
        </div>
      </div>
    </>
  );
}

/** Findings as rows of a CSV. */
export function subjectRows(findings: Finding[]): (string | number | null | undefined)[][] {
  const head = ["id", "finding", "severity", "state", "job", "host", "nic", "comm", "rank", "channel", "cause", "culprits", "message", "seconds_per_step", "percent", "rank_hours", "first_seen", "last_seen", "resolved_at"];
  return [head, ...findings.map((one) => [
    one.id, one.finding, one.severity, one.state, one.job, one.host, one.nic, one.comm, one.rank, one.channel, one.cause,
    (one.culprits ?? []).join(" "), one.message, one.cost?.seconds_per_step, one.cost?.percent, one.cost?.rank_hours, one.first_seen, one.last_seen, one.resolved_at,
  ])];
}
