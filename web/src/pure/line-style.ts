/**
 * How lines of charts are told apart: by a colour that people who see few colours tell apart as well (after Okabe and Ito;
 * `base.css` has them for light and dark), and by the shape of the marks on them. Pure.
 */

/** Colours and shapes there are. */
export const STYLES = 8;

/** Those that are most used first: every chart draws a primitive alike. */
const PRIMITIVES = [
  "all_reduce", "all_gather", "reduce_scatter", "broadcast", "send", "recv", "reduce", "all_to_all", "gather", "scatter", "put_signal", "push", "pull", "push_pull",
];

/** Which style a primitive has; one of a newer daemon has that behind the last. */
export function primitiveStyle(primitive: string): number {
  const at = PRIMITIVES.indexOf(primitive);
  return at < 0 ? PRIMITIVES.length : at;
}

export function colourOf(style: number): number {
  return style % STYLES;
}

/** Of a style that takes a colour anew, another than that of the first. */
export function shapeOf(style: number): number {
  return (style + 3 * Math.floor(style / STYLES)) % STYLES;
}

/** Paths around 0 0, as far as 4 from it; the last two are lines, the others are filled. */
export const SHAPES = [
  "M4 0A4 4 0 1 1 -4 0A4 4 0 1 1 4 0Z",
  "M-3.4-3.4H3.4V3.4H-3.4Z",
  "M0-4.2L4 3.2H-4Z",
  "M0-4.4L4.4 0L0 4.4L-4.4 0Z",
  "M0 4.2L4-3.2H-4Z",
  "M-4-2H4V2H-4Z",
  "M-3.4-3.4L3.4 3.4M3.4-3.4L-3.4 3.4",
  "M0-4V4M-4 0H4",
];
export function isOpen(shape: number): boolean {
  return shape >= 6;
}
