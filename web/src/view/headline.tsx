import type { ComponentChildren } from "preact";
import { bandwidth, duration, integer, moment, plural, words } from "../pure/format";
import type { Level } from "../pure/health";
import * as store from "../state/store";
import { Mark, type MarkKind } from "./mark";
import { withCommands } from "./with-commands";

const MARKS: Record<Level, MarkKind> = {
  empty: "info",
  idle: "ended",
  ok: "ok",
  warning: "warning",
  critical: "critical",
};
const LEVELS: Record<Level, string> = {
  empty: "No job",
  idle: "Idle",
  ok: "Healthy",
  warning: "Warning",
  critical: "Critical",
};

/** Suspects named by link; the hosts panel has the others. */
const MAX_SUSPECTS = 3;

/** The answer to: is something wrong, where, since when. */
export function Headline() {
  const { level, sentence, advice } = store.headline.value;
  return (
    <section class={`headline level-${level}${store.route.value.page === "overview" ? "" : " compact"}`} aria-label="Health">
      <div class="verdict">
        <Mark kind={MARKS[level]} label={LEVELS[level]} large />
        <div>
          <h1>
            <span role="status">{wholeNames(sentence)}</span>
          </h1>
          {advice !== undefined && (
            <p class="advice">
              <b>What to do:</b> {withCommands(advice)}
            </p>
          )}
        </div>
      </div>
      {level !== "empty" && <Facts />}
    </section>
  );
}

/** Names with hyphens are not broken at them: "host-" and "2" on two lines read as something else. */
function wholeNames(sentence: string): ComponentChildren {
  return sentence
    .split(/(\S*-\S*)/)
    .map((part, i) => (i % 2 === 1 && part.length < 24 ? <span class="whole">{part}</span> : part));
}

function Facts() {
  const { sinceMs, suspects } = store.headline.value;
  const live = store.jobs.value.items.filter((job) => job.state !== "ended");
  const rate = live.reduce((sum, job) => sum + job.completed_bytes_per_s, 0);
  const processes = live.reduce((sum, job) => sum + job.n_processes, 0);
  const killed = live.reduce((sum, job) => sum + job.n_killed, 0);
  return (
    <dl class="facts">
      {sinceMs !== undefined && (
        <Fact name="Since">
          <b>{moment(sinceMs, store.nowMs.value)}</b>
          <small>{duration(Math.max(0, (store.nowMs.value - sinceMs) / 1000))} ago</small>
        </Fact>
      )}
      {suspects.length > 0 && (
        <Fact name="Look at">
          {suspects.slice(0, MAX_SUSPECTS).map((host) => (
            <a key={host} href={store.link({ page: "host", host })}>
              <b>{host}</b>
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
