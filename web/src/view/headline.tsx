import type { ComponentChildren } from "preact";
import type { HealthLevel } from "../api";
import { bandwidth, duration, integer, plural, words } from "../pure/format";
import * as store from "../state/store";
import { HostName, withHosts } from "./host-name";
import { inBrief } from "./incident/lines";
import { Mark, type MarkKind } from "./mark";
import { Time } from "./time";
import { withCommands } from "./with-commands";

const MARKS: Record<HealthLevel, MarkKind> = {
  empty: "info",
  idle: "ended",
  ok: "ok",
  unknown: "unknown",
  warning: "warning",
  critical: "critical",
};
const LEVELS: Record<HealthLevel, string> = {
  empty: "No job",
  idle: "Idle",
  ok: "Healthy",
  unknown: "Not everything is known",
  warning: "Warning",
  critical: "Critical",
};

/** Suspects named by link; the hosts panel has the others. */
const MAX_SUSPECTS = 3;

/** The answer to: is something wrong, where, since when. It is the daemon's, word for word but for what the open incident below says too. */
export function Headline() {
  const health = store.health.value;
  if (health === undefined) return null;
  const { level, sentence, advice, unknown, notices = [] } = health;
  const old = store.staleMs.value !== undefined;
  // What was well a minute ago need not be so now.
  const shown = old && level !== "critical" && level !== "warning" ? "unknown" : level;
  return (
    <section class={`headline level-${shown}${store.route.value.page === "overview" ? "" : " compact"}${isSaidBelow(sentence) ? " unseen" : ""}`} aria-label="Health">
      <div class="verdict">
        <Mark kind={MARKS[shown]} label={old ? `Was: ${LEVELS[level]}` : LEVELS[level]} large />
        <div>
          <AsOf />
          <h1>
            <span role="status">{withCommands(inBrief(sentence), wholeNames)}</span>
          </h1>
          {advice !== undefined && (
            <p class="advice">
              <b>What to do:</b> {withCommands(advice)}
            </p>
          )}
          {notices.map((notice) => (
            <p class="advice" key={notice}>
              <b>Note:</b> {withCommands(notice)}.
            </p>
          ))}
          <Unknown lines={unknown.filter((line) => !sentence.includes(line))} />
        </div>
      </div>
      {level !== "empty" && <Facts />}
    </section>
  );
}

/** On the page of the very incident that the sentence is about. */
function isSaidBelow(sentence: string): boolean {
  const at = store.route.value;
  const incident = at.page === "incident" ? store.incidents.value.find((one) => one.id === at.incident) : undefined;
  return incident !== undefined && sentence.toLowerCase().replace(/[.\s]+$/, "") === incident.sentence.toLowerCase().replace(/[.\s]+$/, "");
}

/** How old the sentence is, where it is. */
function AsOf() {
  const ms = store.staleMs.value;
  if (ms === undefined) return null;
  const now = store.browserNowMs.value;
  return (
    <p class="as-of">
      As of <Time at={ms} />, {duration(Math.max(0, (now - ms) / 1000))} ago; how it is now is not known:
    </p>
  );
}

/** What nobody can say, and what would be needed. */
function Unknown({ lines }: { lines: string[] }) {
  if (lines.length === 0) return null;
  return (
    <ul class="unknown-lines" aria-label="Not known">
      {lines.map((line) => (
        <li key={line}>
          <Mark kind="unknown" label="not known" /> <span>{withCommands(line)}</span>
        </li>
      ))}
    </ul>
  );
}

/** Names with hyphens are not broken at them: "host-" and "2" on two lines read as something else. */
function wholeNames(sentence: string): ComponentChildren {
  return sentence
    .split(/(\S*-\S*)/)
    .map((part, i) => (i % 2 === 1 && part.length < 24 ? <span class="whole">{withHosts(part)}</span> : withHosts(part)));
}

function Facts() {
  const suspects = store.suspectHosts.value;
  const since = store.health.value?.since;
  const live = store.jobs.value.items.filter((job) => job.state !== "ended");
  const rate = live.reduce((sum, job) => sum + job.completed_bytes_per_s, 0);
  const processes = live.reduce((sum, job) => sum + job.n_processes, 0);
  const killed = live.reduce((sum, job) => sum + job.n_killed, 0);
  return (
    <dl class="facts">
      {since !== undefined && (
        <Fact name="Since">
          <b><Time at={since} /></b>
          <small>{duration(Math.max(0, (store.nowMs.value - Date.parse(since)) / 1000))} ago</small>
        </Fact>
      )}
      {suspects.length > 0 && (
        <Fact name="Look at">
          {suspects.slice(0, MAX_SUSPECTS).map((host) => (
            <a key={host} href={store.link({ page: "host", host })}>
              <b><HostName of={host} /></b>
            </a>
          ))}
          {suspects.length > MAX_SUSPECTS && <small>and {suspects.length - MAX_SUSPECTS} more</small>}
        </Fact>
      )}
      {live.length > 0 && (
        <>
          <Fact name="Completed, all jobs">
            <b>{bandwidth(rate)}</b>
          </Fact>
          <Fact name="Processes">
            <b>{integer(processes)}</b>
            {killed > 0 ? <small class="bad">{integer(killed)} killed</small> : <small>none killed</small>}
          </Fact>
        </>
      )}
      <Dropped />
    </dl>
  );
}

/** What ringscope itself lost: the numbers beside it are too low by that. */
function Dropped() {
  const reasons = Object.entries(store.job.value?.dropped ?? {}).filter(([, count]) => count > 0);
  if (reasons.length === 0) return null;
  const total = reasons.reduce((sum, [, count]) => sum + count, 0);
  return (
    <Fact name="Dropped by ringscope">
      <b>{plural(total, "event")}</b>
      <small>{reasons.map(([reason, count]) => `${words(reason)} ${integer(count)}`).join(", ")}</small>
    </Fact>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
