/** Points and arcs on a circle, as the drawings of rings need them: radians, 0 at the top, clockwise. Pure. */

export interface Point {
  x: number;
  y: number;
}

export function point(centre: Point, angle: number, r: number): Point {
  return { x: round(centre.x + r * Math.sin(angle)), y: round(centre.y - r * Math.cos(angle)) };
}

export function arc(centre: Point, r: number, from: number, to: number): string {
  const a = point(centre, from, r);
  const b = point(centre, to, r);
  const large = to - from > Math.PI ? 1 : 0;
  return `M${a.x} ${a.y}A${round(r)} ${round(r)} 0 ${large} 1 ${b.x} ${b.y}`;
}

export function circle(centre: Point, r: number): string {
  const radius = round(r);
  const top = `${centre.x} ${round(centre.y - r)}`;
  return `M${top}A${radius} ${radius} 0 1 1 ${centre.x} ${round(centre.y + r)}A${radius} ${radius} 0 1 1 ${top}`;
}

/** A hundredth of a pixel is enough, and keeps thousands of paths short. */
export function round(value: number): number {
  return Math.round(value * 100) / 100;
}
