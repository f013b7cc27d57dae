import type { Finding } from "../api";
import { duration, list, moment, plural, rankRanges, since, words } from "../pure/format";
import { group, kindName, type FindingGroup } from "../pure/findings";
import { format } from "../pure/route";
import * as store from "../state/store";
import { Mark } from "./mark";
import { Panel } from "./panel";

/** Lines shown of what is firing, and of what was resolved. */
const MAX_LINES = 30;

export function Findings() {
  const firing = group(store.firing.value.items);
  const resolved = group(store.resolved.value.items);
  return (
    <Panel id="findings" title="Findings" aside={<Counts findings={store.firing.value.items} />}>
      {firing.length === 0 && <p class="quiet">Nothing is firing.</p>}
      <ul class="findings">
        {firing.slice(0, MAX_LINES).map((one) => (
          <Line key={one.key} group={one} />
        ))}
      </ul>
      {firing.length > MAX_LINES && <p class="quiet">{firing.length - MAX_LINES} more are firing.</p>}
      {resolved.length > 0 && (
        <details class="resolved">
          <summary>{plural(store.resolved.value.items.length, "finding")} resolved</summary>
          <ul class="findings">
            {resolved.slice(0, MAX_LINES).map((one) => (
              <Line key={one.key} group={one} />
            ))}
          </ul>
        </details>
      )}
    </Panel>
  );
}

function Counts({ findings }: { findings: Finding[] }) {
  const count = (severity: string) => findings.filter((finding) => finding.severity === severity).length;
  return (
    <span class="counts">
      {(["critical", "warning", "info"] as const).map((severity) =>
        count(severity) > 0 ? (
          <span key={severity}>
            <Mark kind={severity} />
            {count(severity)} {severity}
          </span>
        ) : null,
      )}
    </span>
  );
}

function Line({ group }: { group: FindingGroup }) {
  const { first, all, hosts } = group;
  const nowMs = store.nowMs.value;
  const start = Math.min(...all.map((finding) => Date.parse(finding.first_seen)));
  return (
    <li class={`finding severity-${first.severity} ${first.state}`}>
      <Mark kind={first.severity} label={first.severity} />
      <div>
        <p class="message">
          <a href={format({ job: first.job, communicator: first.comm, ...(hosts.length === 1 ? { host: first.host } : {}) })}>
            {first.message}
          </a>
        </p>
        {all.length > 1 && <p class="also">The same on {others(all, hosts)}.</p>}
        <p class="about">
          <span>{kindName(first.finding)}</span>
          <span>cause: {words(first.cause)}</span>
          {first.culprits !== undefined && first.culprits.length > 0 && <span>held back by {list(first.culprits)}</span>}
          <span>
            {first.state === "firing"
              ? `since ${since(start, nowMs)}`
              : `${moment(start, nowMs)} – ${moment(Date.parse(first.resolved_at ?? first.last_seen), nowMs)}`}
          </span>
          {first.state === "resolved" && (
            <span>
              lasted {duration(Math.max(0, (Date.parse(first.resolved_at ?? first.last_seen) - start) / 1000))}
            </span>
          )}
        </p>
      </div>
    </li>
  );
}

function others(all: Finding[], hosts: string[]): string {
  if (hosts.length > 1) return `${plural(hosts.length - 1, "other host")}: ${list(hosts.slice(1), 5)}`;
  const ranks = all.flatMap((finding) => (finding.rank === undefined ? [] : [finding.rank])).slice(1);
  return ranks.length === 1 ? `rank ${ranks[0]}` : `ranks ${rankRanges(ranks)}`;
}
