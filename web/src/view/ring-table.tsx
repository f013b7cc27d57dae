import { signal } from "@preact/signals";
import type { Ring } from "../api";
import { plural, size, words } from "../pure/format";
import { link } from "../state/store";
import { HostName } from "./host-name";
import type { Scene } from "./ring-scene";

const open = signal(false);

/** The same ring for who reads tables, or copies names out of them. Filled only while it is open. */
export function RingTable({ ring, scene }: { ring: Ring; scene: Scene }) {
  return (
    <details
      class="ring-table"
      open={open.value}
      onToggle={(event) => {
        open.value = event.currentTarget.open;
      }}
    >
      <summary>{plural(ring.order.length, "hop")} as a table</summary>
      {open.value && (
        <div class="scroller" tabIndex={0} role="region" aria-label="Hops">
          <table>
            <thead>
              <tr>
                <th scope="col" class="number">Rank</th>
                <th scope="col">Host</th>
                <th scope="col">GPU</th>
                <th scope="col">Transport</th>
                <th scope="col">NIC</th>
                <th scope="col" class="number">Next</th>
                <th scope="col" class="number">Sent</th>
              </tr>
            </thead>
            <tbody>
              {ring.order.map((hop) => (
                <tr key={hop.rank} class={`${scene.degraded.has(hop.host) ? "degraded" : ""}${scene.changed.has(hop.rank) ? " changed" : ""}`}>
                  <th scope="row" class="number">{hop.rank}</th>
                  <td>
                    <a href={link({ page: "host", host: hop.host })}><HostName of={hop.host} /></a>
                  </td>
                  <td>{hop.gpu ?? "–"}</td>
                  <td>
                    {hop.transport ?? "not known"}
                    {hop.gpu_direct === true && <small> GPUDirect</small>}
                    {(hop.odd ?? []).length > 0 && <small class="bad"> {hop.odd!.map(words).join(", ")}</small>}
                  </td>
                  <td>
                    {hop.nic === null ? "–" : <a href={link({ page: "host", host: hop.host, nic: hop.nic })}>{hop.nic}</a>}
                    {hop.recv_nic !== undefined && hop.recv_nic !== hop.nic && ` → ${hop.recv_nic}`}
                  </td>
                  <td class="number">{hop.next}</td>
                  <td class="number">{hop.sent_bytes === null ? "not counted" : size(hop.sent_bytes)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}
