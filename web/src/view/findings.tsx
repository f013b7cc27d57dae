import type { Incident, Job, Severity } from "../api";
import { concerns, group, type FindingGroup } from "../pure/findings";
import { integer, plural } from "../pure/format";
import { untold } from "../pure/incidents";
import * as store from "../state/store";
import { Export } from "./export";
import { FindingLine } from "./finding-line";
import { subjectRows } from "./finding-detail";
import { Mark } from "./mark";
import { Panel } from "./panel";

/** Lines shown of what is firing; the page of findings has the others. */
const MAX_LINES = 8;

/** What is firing, worst first, everywhere or in one job and on its hosts: but for what the incidents above it tell. */
export function Findings({ job, above }: { job?: Job; above: Incident[] }) {
  const all = store.firing.value.items.filter((one) => job === undefined || concerns(one, job));
  const left = untold(all, above);
  const firing = group(left);
  const told = all.length - left.length;
  const more = firing.length - MAX_LINES;
  return (
    <Panel
      id="findings"
      title="Findings"
      aside={
        <>
          <GroupCounts groups={firing} />
          <Export path={`findings?state=firing${job === undefined ? "" : `&job=${encodeURIComponent(job.id)}`}`} name="findings" rows={() => subjectRows(all)} />
        </>
      }
    >
      {firing.length === 0 && <p class="quiet">{told === 0 ? "Nothing is firing." : "Nothing else is firing."}</p>}
      {told > 0 && <p class="quiet">{plural(told, "finding")} {told === 1 ? "belongs" : "belong"} to the {above.length === 1 ? "incident" : "incidents"} above.</p>}
      <ul class="findings">
        {firing.slice(0, MAX_LINES).map((one) => (
          <FindingLine key={one.key} group={one} />
        ))}
      </ul>
      <p class="more">
        <a href={store.link({ page: "findings", job: job?.id })}>{more > 0 ? `${integer(more)} more, and the history` : "All findings and their history"}</a>
      </p>
    </Panel>
  );
}

function GroupCounts({ groups }: { groups: FindingGroup[] }) {
  const count = (severity: Severity) => groups.filter(({ first }) => first.severity === severity).length;
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
