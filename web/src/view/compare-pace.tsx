import type { CommunicatorDetail, CommunicatorSummary, PaceSeries, Series } from "../api";
import { meanOf, paceRows, windowOf } from "../pure/compare-pace";
import { useApi, useList } from "../state/api";
import * as store from "../state/store";
import { Mark } from "./mark";

/** How fast the communicator is, beside how fast the one was that its rings are held against. */
export function PaceChanges({ before: id, after }: { before: string; after: CommunicatorDetail }) {
  const all = useList<CommunicatorSummary>(`communicators?job=${encodeURIComponent(after.job)}`, { on: "lists" });
  const before = all.value?.items.find((one) => one.id === id);
  const measured = { before: useMeasured(before), after: useMeasured(after) };
  const rows = paceRows(measured.before, measured.after);
  return (
    <section class="how-fast" aria-label="How fast, before and now">
      <h3>How fast</h3>
      <table class="stacking pace-changes">
        <thead>
          <tr>
            <th scope="col">Of the last minutes of each</th>
            <th scope="col" class="number">Before</th>
            <th scope="col" class="number">Now</th>
            <th scope="col" class="number">Difference</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((one) => (
            <tr key={one.name}>
              <th scope="row">{one.name}</th>
              <td data-label="Before" class="number">{one.before}</td>
              <td data-label="Now" class="number">{one.after}</td>
              <td data-label="Difference" class={one.worse ? "number bad" : "number"}>
                {one.difference === "" ? <small class="quiet">{one.why}</small> : <>{one.worse && <Mark kind="warning" label="slower" />} {one.difference}</>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function useMeasured(one: CommunicatorSummary | undefined) {
  const span = one === undefined ? undefined : windowOf(one, store.nowMs.peek());
  const path = (metric: string) => (one === undefined || span === undefined ? undefined : `series?metric=${metric}&comm=${encodeURIComponent(one.id)}&${span}&rate=true`);
  const bytes = useApi<Series>(path("completed_bytes"), { on: "never" }).value;
  const calls = useApi<Series>(path("completed_calls"), { on: "never" }).value;
  const pace = useApi<PaceSeries>(one === undefined || span === undefined ? undefined : `jobs/${encodeURIComponent(one.job)}/pace/series?${span}`, { on: "never" }).value;
  return { bytesPerS: meanOf(bytes), callsPerS: meanOf(calls), nRanks: one?.n_ranks ?? 0, pace };
}
