import type { SummationGroupDetail } from "../../api";
import { integer } from "../../pure/format";
import { staleBars } from "../../pure/summation/staleness";
import { modeWords, percent } from "../../pure/summation/words";
import { Panel } from "../panel";

/** Pulls by rounds that the slowest worker was behind: only asynchronous sums have it. */
export function StalenessPanel({ group }: { group: SummationGroupDetail }) {
  if (!group.asynchronous) return null;
  const bars = staleBars(group.staleness, group.staleness_bound);
  const most = Math.max(1e-9, ...bars.map((one) => one.part));
  return (
    <Panel id="staleness" title="Staleness" aside={<small>{modeWords(group)}</small>}>
      {bars.length === 0 ? (
        <p class="quiet">Nobody has pulled yet.</p>
      ) : (
        <table class="stale-bars">
          <thead>
            <tr>
              <th scope="col">Rounds behind</th>
              <th scope="col">Pulls</th>
            </tr>
          </thead>
          <tbody>
            {bars.map((one, i) => (
              <tr key={one.words} class={one.beyond ? "is-lost" : ""}>
                <th scope="row">
                  {one.words}
                  {i === group.staleness_bound && <small> bound</small>}
                  {one.beyond && <small class="bad"> beyond the bound</small>}
                </th>
                <td class="last-in" title={`${integer(one.count)} pulls`}>
                  <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
                    <rect class="share-ground" width="100" height="10" />
                    <rect class="share-bar" width={(one.part / most) * 100} height="10" />
                  </svg>
                  <span class="number">{percent(one.part)}</span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}
