import type { ComponentChildren } from "preact";
import { causeWords } from "../pure/cause";
import { costWords, highestCost } from "../pure/cost";
import type { FindingGroup } from "../pure/findings";
import { duration, list, plural, rankRanges } from "../pure/format";
import { kindName } from "../pure/findings";
import type { FindingsRoute } from "../pure/route";
import * as store from "../state/store";
import { inBrief } from "./incident/lines";
import { Mark } from "./mark";
import { Ago, Time } from "./time";
import { withCommands } from "./with-commands";

/** One conclusion: what, where else, since when. */
export function FindingLine({ group, open, within = false, children }: {
  group: FindingGroup;
  open?: boolean;
  /** On the page of its incident, which need not be named. */
  within?: boolean;
  children?: ComponentChildren;
}) {
  const { first, all, comms } = group;
  const start = Math.min(...all.map((finding) => Date.parse(finding.began_at ?? finding.first_seen)));
  const also = others(group);
  const cost = costWords(highestCost(all), first.state === "resolved");
  return (
    <li class={`finding severity-${first.severity} ${first.state}`}>
      <Mark kind={first.severity} label={first.severity} />
      <div>
        <p class="message">
          <a href={store.link({ ...filters(), page: "findings", id: open ? undefined : first.id })} {...(open === undefined ? {} : { "aria-expanded": open })}>
            {withCommands(inBrief(first.message))}
          </a>
        </p>
        {also !== "" && <p class="also">The same on {also}.</p>}
        <p class="about">
          <span>{kindName(first.finding)}</span>
          {cost !== "" && <span class="cost">{cost}</span>}
          {first.cause !== "" && <span>cause: {causeWords(first.cause)}</span>}
          {!within && first.incident !== undefined && first.incident !== "" && (
            <span>
              <a href={store.link({ page: "incident", incident: first.incident })}>incident</a>
            </span>
          )}
          {first.culprits !== undefined && first.culprits.length > 0 && <span>held back by {list(first.culprits.map(store.shortHost))}</span>}
          {first.job !== "" && store.jobs.value.items.length > 1 && <span>{first.job}</span>}
          {comms.length > 1 && <span title={comms.map(nameOf).join(", ")}>{named(comms)}</span>}
          <span>
            {first.state === "firing" ? <>since <Ago at={start} /></> : <><Time at={start} /> – <Time at={first.resolved_at ?? first.last_seen} /></>}
          </span>
          {first.state === "resolved" && (
            <span>lasted {duration(Math.max(0, (Date.parse(first.resolved_at ?? first.last_seen) - start) / 1000))}</span>
          )}
        </p>
        {children}
      </div>
    </li>
  );
}

function nameOf(comm: string): string {
  return store.communicatorNames.value.get(comm) ?? comm;
}

/** On the page of findings a line opens in place, under the filters chosen. */
function filters(): Partial<FindingsRoute> {
  const at = store.route.value;
  return at.page === "findings" ? at : {};
}

/** "in world/1, data-0/1 and data-1/1"; names are known of the job on the screen only. */
function named(comms: string[]): string {
  const known = store.sortedCommunicators.value.filter((one) => comms.includes(one.id));
  return known.length < comms.length ? `in ${plural(comms.length, "communicator")}` : `in ${list(known.map((one) => nameOf(one.id)))}`;
}

function others({ first, all, hosts }: FindingGroup): string {
  if (hosts.length > 1) return `${plural(hosts.length - 1, "other host")}: ${list(hosts.slice(1).map(store.shortHost), 5)}`;
  const ranks = [...new Set(all.flatMap((finding) => (finding.rank === undefined ? [] : [finding.rank])))].filter((rank) => rank !== first.rank);
  if (ranks.length === 0) return "";
  return ranks.length === 1 ? `rank ${ranks[0]}` : `ranks ${rankRanges(ranks)}`;
}
