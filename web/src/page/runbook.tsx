import type { RunbookEntry } from "../api";
import { useApi } from "../state/api";
import * as store from "../state/store";
import { Export } from "../view/export";
import { Steps } from "../view/finding-detail";
import { Panel } from "../view/panel";

/** What to do about each kind of finding. */
export function RunbookPage() {
  const { value, refused } = useApi<RunbookEntry[]>("runbook", { on: "never", everyMs: 600_000 });
  const route = store.route.value;
  const kind = route.page === "runbook" ? route.kind : undefined;
  if (value === undefined) return <p class="quiet">{refused ?? "Asking for the runbook …"}</p>;
  const shown = kind === undefined ? value : value.filter((one) => one.finding === kind);
  const firing = new Set(store.firing.value.items.map((one) => one.finding));
  return (
    <div class="runbook">
      <nav aria-label="Runbook">
        <ul>
          <li>
            <a href={store.link({ page: "runbook" })} aria-current={kind === undefined ? "true" : undefined}>Everything</a>
          </li>
          {value.map((one) => (
            <li key={one.finding}>
              <a href={store.link({ page: "runbook", kind: one.finding })} aria-current={kind === one.finding ? "true" : undefined}>
                {one.title}
                {firing.has(one.finding) && <small class="bad"> firing</small>}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <div class="column">
        {shown.length === 0 && <p class="notice">The runbook has no entry {kind}.</p>}
        {shown.map((entry) => (
          <Panel key={entry.finding} id={`runbook-${entry.finding}`} title={entry.title}
            aside={
              <>
                {firing.has(entry.finding) && <a href={store.link({ page: "findings", kind: entry.finding })}>firing now</a>}
                <Export path="runbook" name="runbook" />
              </>
            }>
            <Steps entry={entry} />
          </Panel>
        ))}
      </div>
    </div>
  );
}
