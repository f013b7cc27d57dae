import type { Gpu } from "../api";
import { plural, size } from "../pure/format";
import { distanceWords } from "../pure/hardware";

/** NICs named of each GPU: the close ones are those that its channels should use. */
const MAX_NEAR = 4;

export function Gpus({ gpus }: { gpus: Gpu[] }) {
  return (
    <div class="scroller" tabIndex={0} role="region" aria-label="GPUs">
      <table class="gpus stacking">
        <thead>
          <tr>
            <th scope="col" class="number">GPU</th>
            <th scope="col">Model</th>
            <th scope="col" class="number">Memory</th>
            <th scope="col">PCI</th>
            <th scope="col" class="number">NUMA</th>
            <th scope="col">NICs, closest first</th>
          </tr>
        </thead>
        <tbody>
          {gpus.map((gpu) => (
            <tr key={gpu.pci}>
              <th scope="row" class="number">{gpu.index}</th>
              <td data-label="Model" title={gpu.uuid ?? ""}>{gpu.name ?? "not said"}</td>
              <td data-label="Memory" class="number">{gpu.memory_bytes == null ? "–" : size(gpu.memory_bytes)}</td>
              <td data-label="PCI"><code>{gpu.pci}</code></td>
              <td data-label="NUMA" class="number">{gpu.numa_node ?? "–"}</td>
              <td data-label="NICs, closest first">
                {gpu.nics.slice(0, MAX_NEAR).map(({ nic, distance }, i) => (
                  <span key={nic} title={distanceWords(distance)}>
                    {i > 0 && ", "}
                    {nic} <small>{distance}</small>
                  </span>
                ))}
                {gpu.nics.length > MAX_NEAR && <small> and {plural(gpu.nics.length - MAX_NEAR, "more NIC")}</small>}
                {gpu.nics.length === 0 && "–"}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
