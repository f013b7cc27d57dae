import { signal } from "@preact/signals";
import { Component } from "preact";
import type { HostSummary } from "../api";
import { integer } from "../pure/format";
import { racks, scale, SHADE_NAMES, SHADES, shadeWords, type Shade } from "../pure/heat";
import * as store from "../state/store";
import type { MarkKind } from "./mark";
import { hostMark } from "./standing";

/** Above this many hosts the overview's cells are smaller. */
const DENSE = 400;

const pointed = signal<string | null>(null);

/** Every host as a cell: shade is a number, a shape is trouble. */
export function HeatMap({ hosts, shade }: { hosts: HostSummary[]; shade: Shade }) {
  const { heat, low, high } = scale(hosts, shade);
  const all = racks(hosts);
  const first = all[0]?.cells[0]?.host.host;
  const { from = "", to = "", at = "" } = store.route.value;
  const span = `${from} ${to} ${at}`;
  const widest = Math.max(2, ...all.flatMap((rack) => rack.cells.map((cell) => cell.short.length)));
  return (
    <div class={`heat-map width-${widest} ${hosts.length > DENSE ? "many" : ""}`} onPointerLeave={() => (pointed.value = null)} onPointerOver={point} onFocusIn={point} onKeyDown={arrows}>
      <div class="racks" role="list" aria-label={`Hosts by ${SHADE_NAMES[shade].toLowerCase()}`}>
        {all.map((rack, i) => (
          <div class="rack" role="listitem" key={`${rack.label}${i}`}>
            <span class="rack-name">{rack.label}</span>
            <span class="cells">
              {rack.cells.map(({ host, short }) => {
                const { kind, label } = hostMark(host);
                return <Cell key={host.host} host={host} short={short} heat={heat(host)} mark={kind} words={label} shade={shade} span={span} stop={host.host === first} />;
              })}
            </span>
          </div>
        ))}
      </div>
      <p class="grid-legend">
        <Pointed hosts={hosts} shade={shade} />
        <span class="ramp" aria-hidden="true">
          {low} <i class="heat-0" />
          <i class="heat-1" />
          <i class="heat-2" />
          <i class="heat-3" />
          <i class="heat-4" /> {high}
        </span>
      </p>
    </div>
  );
}

interface CellProps {
  host: HostSummary;
  short: string;
  heat: number | null;
  mark: MarkKind;
  /** The mark in words. */
  words: string;
  shade: Shade;
  /** The time range and the moment that the cell's link keeps. */
  span: string;
  /** Whether Tab stops here. */
  stop: boolean;
}

/** Shapes that stand in a cell before its name. */
const GLYPHS: Partial<Record<MarkKind, string>> = { hung: "◆", waits: "◇", warning: "▲", killed: "✕", unknown: "?" };

/** Drawn again only if it would look different: there may be a thousand, and their rates change every second. */
class Cell extends Component<CellProps> {
  override shouldComponentUpdate(next: CellProps): boolean {
    const now = this.props;
    return next.heat !== now.heat || next.mark !== now.mark || next.shade !== now.shade || next.short !== now.short || next.span !== now.span || next.stop !== now.stop;
  }

  override render({ host, short, heat, mark, words, shade, stop }: CellProps) {
    const glyph = GLYPHS[mark];
    return (
      <a class={`cell ${heat === null ? "heat-unknown" : `heat-${heat}`} is-${mark}`} href={store.link({ page: "host", host: host.host })} tabIndex={stop ? 0 : -1}
        aria-label={`${host.host}, ${words}, ${shadeWords(host, shade)}`} data-host={host.host}>
        {glyph !== undefined && <b aria-hidden="true">{glyph}</b>}
        <span>{short}</span>
      </a>
    );
  }
}

function point(event: Event): void {
  const host = (event.target as Element).closest<HTMLElement>("[data-host]")?.dataset.host;
  if (host !== undefined) pointed.value = host;
}

function Pointed({ hosts, shade }: { hosts: HostSummary[]; shade: Shade }) {
  const host = hosts.find((one) => one.host === pointed.value);
  if (host === undefined) return <span class="pointed">Point at a host, or use the arrow keys.</span>;
  return (
    <span class="pointed">
      <b>{host.host}</b> {SHADES.map((one) => shadeWords(host, one)).sort((a, b) => Number(b === shadeWords(host, shade)) - Number(a === shadeWords(host, shade))).join(" · ")}
      {host.final_channels !== null && ` · ${integer(host.final_channels)} final`}
      {` · ${hostMark(host).label}: ${host.standing.reason}`}
    </span>
  );
}

/** One stop for Tab; arrows move inside. */
function arrows(event: KeyboardEvent): void {
  const cells = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("a.cell")];
  const at = cells.indexOf(document.activeElement as HTMLElement);
  if (at < 0) return;
  const next = neighbour(cells, at, event.key);
  if (next === undefined) return;
  event.preventDefault();
  cells[at]!.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

function neighbour(cells: HTMLElement[], at: number, key: string): HTMLElement | undefined {
  if (key === "ArrowRight") return cells[at + 1];
  if (key === "ArrowLeft") return cells[at - 1];
  if (key === "Home") return cells[0];
  if (key === "End") return cells.at(-1);
  if (key !== "ArrowDown" && key !== "ArrowUp") return undefined;
  const from = cells[at]!.getBoundingClientRect();
  const down = key === "ArrowDown";
  // The nearest cell of the next row that way.
  let best: HTMLElement | undefined;
  let bestGap = Infinity;
  for (const cell of cells) {
    const box = cell.getBoundingClientRect();
    const dy = down ? box.top - from.top : from.top - box.top;
    if (dy < from.height / 2) continue;
    const gap = dy * 10 + Math.abs(box.left - from.left);
    if (gap < bestGap) [best, bestGap] = [cell, gap];
  }
  return best;
}
