import type { Finding } from "../api";
import { plural } from "../pure/format";
import { group, type FindingGroup } from "../pure/findings";
import { useList } from "../state/api";
import * as store from "../state/store";
import { FindingLine } from "./finding-line";
import { Mark } from "./mark";
import { Panel } from "./panel";

/** Lines shown of what is firing, and of what was resolved. */
const MAX_LINES = 30;

export function Findings({ job }: { job?: string }) {
  const of = job === undefined ? "" : `&job=${encodeURIComponent(job)}`;
  const past = useList<Finding>(`findings?state=resolved${of}`, { on: "findings" });
  const firing = group(store.firing.value.items.filter((one) => job === undefined || one.job === job));
  const resolved = group(past.value?.items ?? []);
  return (
    <Panel id="findings" title="Findings" aside={<Counts groups={firing} />}>
      {firing.length === 0 && <p class="quiet">Nothing is firing.</p>}
      <ul class="findings">
        {firing.slice(0, MAX_LINES).map((one) => (
          <FindingLine key={one.key} group={one} />
        ))}
      </ul>
      {firing.length > MAX_LINES && <p class="quiet">{firing.length - MAX_LINES} more are firing.</p>}
      {resolved.length > 0 && (
        <details class="resolved">
          <summary>{plural(resolved.length, "finding")} resolved</summary>
          <ul class="findings">
            {resolved.slice(0, MAX_LINES).map((one) => (
              <FindingLine key={one.key} group={one} />
            ))}
          </ul>
        </details>
      )}
    </Panel>
  );
}

function Counts({ groups }: { groups: FindingGroup[] }) {
  const count = (severity: string) => groups.filter(({ first }) => first.severity === severity).length;
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
