import type { SummationGroupDetail } from "../../api";
import { size, words } from "../../pure/format";
import { Panel } from "../panel";

/** Bytes since the group began, by what tensors are for. */
export function KeyClassesPanel({ group }: { group: SummationGroupDetail }) {
  const used = group.key_classes.filter((one) => one.push_issued_bytes > 0 || one.pull_issued_bytes > 0);
  if (used.length === 0) return null;
  return (
    <Panel id="key-classes" title="Bytes by what tensors are for">
      <table class="key-classes stacking">
        <thead>
          <tr>
            <th scope="col">Tensors</th>
            <th scope="col" class="number">Pushed</th>
            <th scope="col" class="number" title="Submitted and not sent">Not sent</th>
            <th scope="col" class="number">Pulled</th>
            <th scope="col" class="number" title="Asked for and not there">Not there</th>
          </tr>
        </thead>
        <tbody>
          {used.map((one) => (
            <tr key={one.key_class}>
              <th scope="row">{words(one.key_class)}</th>
              <td data-label="Pushed" class="number">{size(one.push_completed_bytes)}</td>
              <td data-label="Not sent" class="number">{size(Math.max(0, one.push_issued_bytes - one.push_completed_bytes))}</td>
              <td data-label="Pulled" class="number">{size(one.pull_completed_bytes)}</td>
              <td data-label="Not there" class="number">{size(Math.max(0, one.pull_issued_bytes - one.pull_completed_bytes))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}
