import { colourOf, isOpen, shapeOf, SHAPES } from "../pure/line-style";

/** A line of a chart as its legend shows it. */
export function LineKey({ style }: { style: number }) {
  const shape = shapeOf(style);
  return (
    <svg class={`line-key line-${colourOf(style)}${isOpen(shape) ? " open" : ""}`} width="24" height="10" viewBox="-12 -5 24 10" aria-hidden="true">
      <path class="line" d="M-12 0H12" />
      <path class="shape" d={SHAPES[shape]} />
    </svg>
  );
}
