import { duration, moment, zone } from "../../pure/format";
import { fieldMs, fieldWords, showsPast } from "../../pure/past";
import { backToNow, goTo } from "../../state/past";
import * as store from "../../state/store";

/** Steps offered beside the field. */
const STEP_MS = 60_000;

/** Says of when the page is, and leads to other times and back. Nothing while it shows what is now. */
export function PastBanner() {
  const atMs = store.atMs.value;
  if (atMs === undefined) return null;
  const nowMs = store.nowMs.value;
  const { page } = store.route.value;
  return (
    <div class="banner past-banner" role="status" aria-label="Time shown">
      <strong>
        As of <time dateTime={new Date(atMs).toISOString()}>{moment(atMs, nowMs)}</time> {zone(atMs)}
      </strong>
      <span aria-hidden="true">{duration((nowMs - atMs) / 1000)} ago; updates are paused</span>
      <span class="past-steps">
        <button type="button" class="plain" onClick={() => goTo(atMs - STEP_MS)}>1 min earlier</button>
        <label>
          <span class="unseen">Time shown, {zone(atMs)}</span>
          <input
            type="datetime-local"
            step="1"
            value={fieldWords(atMs)}
            max={fieldWords(nowMs)}
            onChange={(event) => {
              const ms = fieldMs(event.currentTarget.value, store.nowMs.peek());
              if (ms === undefined) event.currentTarget.value = fieldWords(atMs);
              else goTo(ms);
            }}
          />
        </label>
        <button type="button" class="plain" disabled={atMs + STEP_MS > nowMs} onClick={() => goTo(atMs + STEP_MS)}>1 min later</button>
        <button type="button" class="back-to-now" onClick={backToNow}>Back to now</button>
      </span>
      {!showsPast(page) && <span class="past-not">{NOT_SHOWN[page] ?? "This page shows what was known when it was opened, not how things stood then."}</span>}
    </div>
  );
}

const NOT_SHOWN: Record<string, string> = {
  summation: "This page shows now: of summation groups the daemon keeps no states of the past. Their bytes and rounds over time are on the page of each.",
  "summation-group": "This page shows now, but for its charts: of summation groups the daemon keeps no states of the past.",
  incident: "This page shows the incident as it is told now; its timeline says what was known when.",
  communicator: "Rings stay as they were made, so they are as they were then. Ranks, bytes and findings on this page are those of now.",
};
