import { CHOICES, rangeWords } from "../pure/range";
import { lookBack } from "../state/past";
import * as store from "../state/store";
import { isZoomed, reset } from "../state/zoom";

const NAMES: Record<string, string> = { "5m": "5 min", "15m": "15 min", "1h": "1 h", "6h": "6 h", "1d": "1 day", "7d": "7 days" };
const DEFAULT = "15m";

/** To a moment of the past; the banner that says of when the page is leads on and back. */
export function LookBack() {
  if (store.atMs.value !== undefined) return null;
  return (
    <button type="button" class="plain look-back" title="Shows hosts, findings and rings as they were at a time that you choose" onClick={lookBack}>
      <b aria-hidden="true">↶</b>
      <span>Look back</span>
    </button>
  );
}

/** The time that charts and histories span; it stands in the address and stays from page to page. */
export function TimeRange() {
  const route = store.route.value;
  const back = route.from?.startsWith("-") ? route.from.slice(1) : route.from === undefined ? DEFAULT : undefined;
  const value = back !== undefined && CHOICES.includes(back) ? back : "fixed";
  const pick = (choice: string) => {
    const from = choice === DEFAULT ? undefined : choice === "fixed" ? new Date(store.range.value.fromMs).toISOString() : `-${choice}`;
    const to = choice === "fixed" ? new Date(store.range.value.toMs).toISOString() : undefined;
    store.replace({ ...route, from, to });
  };
  return (
    <span class="time-range">
      {isZoomed.value && (
        <button type="button" class="plain" title="A double click on a chart does it as well" onClick={reset}>
          Reset zoom
        </button>
      )}
      <label title="Time that charts and histories span; draw one on any chart">
        <span class="unseen">Time range</span>
        <select value={value} onChange={(event) => pick(event.currentTarget.value)}>
          {CHOICES.map((choice) => (
            <option key={choice} value={choice}>
              {store.atMs.value === undefined ? `last ${NAMES[choice]}` : `${NAMES[choice]} around it`}
            </option>
          ))}
          <option value="fixed">{value === "fixed" ? rangeWords(route, store.nowMs.peek()) : "stand still here"}</option>
        </select>
      </label>
    </span>
  );
}
