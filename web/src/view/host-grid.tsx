import { signal } from "@preact/signals";
import type { HostSummary } from "../api";
import { bandwidth } from "../pure/format";
import { grid } from "../pure/grid";
import * as store from "../state/store";
import { hostMark } from "./hosts";

const pointed = signal<HostSummary | null>(null);

/** Hundreds of hosts: a cell each, by name; shade is bandwidth, a shape is trouble. */
export function HostGrid({ hosts }: { hosts: HostSummary[] }) {
  const { prefix, cells } = grid(hosts);
  const widest = Math.max(3, ...cells.map((cell) => cell.short.length));
  return (
    <div class="host-grid-box">
      <p class="grid-legend">
        <span>{prefix !== "" && <code>{prefix}…</code>}</span>
        <span class="ramp" aria-hidden="true">
          0 <i class="heat-0" />
          <i class="heat-1" />
          <i class="heat-2" />
          <i class="heat-3" />
          <i class="heat-4" /> {bandwidth(Math.max(0, ...hosts.map((host) => host.completed_bytes_per_s)))}
        </span>
      </p>
      <ul
        class="host-grid"
        style={{ gridTemplateColumns: `repeat(auto-fill, minmax(${widest * 7 + 8}px, 1fr))` }}
        aria-label="Hosts"
        onPointerLeave={() => (pointed.value = null)}
        onKeyDown={arrows}
      >
        {cells.map(({ host, short, heat }, index) => {
          const mark = hostMark(host, store.nowMs.peek());
          return (
            <li key={host.host}>
              <a
                class={`cell heat-${heat} is-${mark.kind}`}
                href={store.link({ page: "host", host: host.host })}
                tabIndex={index === 0 ? 0 : -1}
                aria-label={`${host.host}, ${mark.label}, ${bandwidth(host.completed_bytes_per_s)}`}
                data-host={host.host}
                onPointerEnter={() => (pointed.value = host)}
                onFocus={() => (pointed.value = host)}
              >
                {short}
              </a>
            </li>
          );
        })}
      </ul>
      <Pointed />
    </div>
  );
}

function Pointed() {
  const host = pointed.value;
  if (host === null) return <p class="quiet pointed">Point at a host, or use the arrow keys.</p>;
  const channels = host.init_channels === null ? "channels not known" : `init ${host.init_channels}, final ${host.final_channels ?? "–"}`;
  return (
    <p class="pointed">
      <b>{host.host}</b> {channels} · {bandwidth(host.completed_bytes_per_s)}
      {host.reasons.length > 0 && ` · ${host.reasons[0]}`}
    </p>
  );
}

/** One stop for Tab; arrows move inside. */
function arrows(event: KeyboardEvent): void {
  const cells = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("a")];
  const at = cells.indexOf(document.activeElement as HTMLElement);
  if (at < 0) return;
  const top = cells[0]!.offsetTop;
  const perRow = cells.findIndex((cell) => cell.offsetTop > top);
  const row = perRow < 0 ? cells.length : perRow;
  const steps: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: row, ArrowUp: -row };
  const step = steps[event.key];
  if (step === undefined) return;
  event.preventDefault();
  const next = cells[at + step];
  if (next) {
    cells[at]!.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
}
