import { useMemo } from "preact/hooks";
import type { ChartMark } from "../pure/chart-marks";
import { bandwidth, bandwidthTicks, primitiveName } from "../pure/format";
import { primitiveStyle } from "../pure/line-style";
import type { Columns } from "../pure/series";
import { LineKey } from "./line-key";
import { Lines, type Line } from "./lines";

/** Completed (solid) and issued (dashed) bytes per second. */
export function Chart({ columns, fromMs, endMs, marks }: { columns: Columns; fromMs: number; endMs: number; marks: ChartMark[] }) {
  const lines = useMemo((): Line[] => [
    ...columns.primitives.map((label, i) => ({ label, style: primitiveStyle(label), values: columns.completed[i]! })),
    ...columns.primitives.map((label, i) => ({ label: `${label} issued`, style: primitiveStyle(label), values: columns.issued[i]!, dashed: true })),
  ], [columns]);
  return (
    <Lines
      name="Bandwidth"
      times={columns.times}
      lines={lines}
      fromMs={fromMs}
      endMs={endMs}
      marks={marks}
      ticks={bandwidthTicks}
      leastTop={1000}
      readout={(index) => readout(columns, index)}
    >
      {columns.primitives.map((primitive) => (
        <span key={primitive} class="key-word">
          <LineKey style={primitiveStyle(primitive)} />
          {primitiveName(primitive)}
        </span>
      ))}
      completed <span class="key dashed" /> issued, bytes per second over all ranks
    </Lines>
  );
}

function readout(columns: Columns, index: number): string {
  return columns.primitives
    .map((primitive, i) => {
      const done = columns.completed[i]?.[index];
      const asked = columns.issued[i]?.[index];
      const issued = asked === null || asked === undefined ? "" : ` (issued ${bandwidth(asked)})`;
      return `${primitiveName(primitive)} ${done === null || done === undefined ? "not known" : bandwidth(done)}${issued}`;
    })
    .join(" · ");
}
