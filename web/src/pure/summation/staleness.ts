/** How far behind the slowest worker pulls were, as bars. Pure. */

export interface StaleBar {
  /** Rounds; "7+" stands for all from there on. */
  words: string;
  count: number;
  /** Of all pulls. */
  part: number;
  /** Beyond the bound: must never be. */
  beyond: boolean;
}

/** Bars at most; pulls further behind share the last. */
const MAX_BARS = 12;

/** `counts`: by rounds; the last one stands for all from there on, as the API says. */
export function staleBars(counts: number[], bound: number | null): StaleBar[] {
  const all = counts.reduce((sum, one) => sum + one, 0);
  let last = counts.length;
  while (last > 1 && counts[last - 1] === 0) last -= 1;
  const used = counts.slice(0, Math.max(last, Math.min(counts.length, (bound ?? 0) + 1)));
  const shown = used.length <= MAX_BARS ? used : [...used.slice(0, MAX_BARS - 1), used.slice(MAX_BARS - 1).reduce((sum, one) => sum + one, 0)];
  return shown.map((count, i) => ({
    words: i === counts.length - 1 || (used.length > MAX_BARS && i === MAX_BARS - 1) ? `${i}+` : String(i),
    count,
    part: all === 0 ? 0 : count / all,
    beyond: bound !== null && i > bound && count > 0,
  }));
}
