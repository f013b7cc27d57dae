import type { RunbookEntry } from "../api";
import { useApi } from "../state/api";
import * as store from "../state/store";
import { Panel } from "../view/panel";
import { withCommands } from "../view/with-commands";

/** What to do about each kind of finding. */
export function RunbookPage() {
  const { value, refused } = useApi<RunbookEntry[]>("runbook", { on: "never", everyMs: 600_000 });
  const route = store.route.value;
  const kind = route.page === "runbook" ? route.kind : undefined;
  const entries = (value ?? []).filter((one) => kind === undefined || one.finding === kind);
  if (value === undefined) return <p class="quiet">{refused ?? "Asking for the runbook …"}</p>;
  return (
    <>
      {entries.map((entry) => (
        <Panel key={entry.finding} id={`runbook-${entry.finding}`} title={entry.title}>
          <p>{withCommands(entry.meaning)}</p>
          <h3>Check</h3>
          <ol class="steps">{entry.checks.map((step) => <li key={step}>{withCommands(step)}</li>)}</ol>
          <h3>Do</h3>
          <ol class="steps">{entry.actions.map((step) => <li key={step}>{withCommands(step)}</li>)}</ol>
        </Panel>
      ))}
    </>
  );
}
