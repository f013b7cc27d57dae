/** Numbers, sizes and times as the screen shows them. Pure. */

const SIZE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** 1536 -> "1.5 KiB". */
export function size(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1023.95 && unit < SIZE_UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value.toFixed(0) : trimmed(value)} ${SIZE_UNITS[unit]}`;
}

/** 64 stays "64", 1.5 stays "1.5": a round size reads as one. */
function trimmed(value: number): string {
  return Number(value.toFixed(value < 10 ? 2 : 1)).toString();
}

/** Bytes per second as GB/s (10⁹); from 1000 GB/s on as TB/s, below 0.1 GB/s as MB/s or kB/s: a slow trickle does not read as nothing. */
export function bandwidth(bytesPerS: number): string {
  if (bytesPerS <= 0) return "0 GB/s";
  if (bytesPerS >= 1e12) return `${significant(bytesPerS / 1e12)} TB/s`;
  if (bytesPerS >= 1e8) return `${significant(bytesPerS / 1e9)} GB/s`;
  if (bytesPerS >= 1e5) return `${significant(bytesPerS / 1e6)} MB/s`;
  return `${significant(bytesPerS / 1e3)} kB/s`;
}

/** Of something that nothing is seen of it is not known, which is not nothing. */
export function rateOf(one: { standing: { condition: string }; completed_bytes_per_s: number }): string {
  const rate = one.completed_bytes_per_s;
  return rate < 0 || (one.standing.condition === "unknown" && rate === 0) ? "–" : bandwidth(rate);
}

/** Ticks of an axis, all in the unit that suits the largest. */
export function bandwidthTicks(ticks: number[]): string[] {
  const top = Math.max(0, ...ticks);
  const [unit, name] = top >= 1e12 ? [1e12, "TB/s"] : top >= 1e8 ? [1e9, "GB/s"] : top >= 1e5 ? [1e6, "MB/s"] : [1e3, "kB/s"];
  return ticks.map((tick) => `${Number((tick / (unit as number)).toPrecision(4))} ${name}`);
}

function significant(value: number): string {
  if (value >= 100) return value.toFixed(0);
  if (value >= 10) return value.toFixed(1);
  return value.toFixed(2);
}

/** 1234567 -> "1 234 567", with narrow no-break spaces. */
export function integer(value: number): string {
  return Math.trunc(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** "1 host", "2 hosts". */
export function plural(count: number, noun: string): string {
  return `${integer(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Seconds as people say them: "0.4 s", "41 s", "14 min", "3 h 05 min", "2 d 4 h". */
export function duration(seconds: number): string {
  if (seconds < 0.0000005) return "0 s";
  if (seconds < 0.0009995) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 0.0995) return `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 99.5) return `${seconds.toFixed(0)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 100) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Of a step or a part of it: "0.31 s" where people who wait say "0.3 s", as 0.31 s and 0.34 s are not the same step. Else as `duration`. */
export function stepDuration(seconds: number): string {
  return seconds >= 0.0995 && seconds < 9.95 ? `${seconds.toFixed(2)} s` : duration(seconds);
}

/** Local time of day, "03:12:08". */
export function clock(ms: number): string {
  const date = new Date(ms);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((n) => String(n).padStart(2, "0")).join(":");
}

/** Time of day; with the date if it was not on the day of `nowMs`. */
export function moment(ms: number, nowMs: number): string {
  const date = new Date(ms);
  if (date.toDateString() === new Date(nowMs).toDateString()) return clock(ms);
  const day = [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((n) => String(n).padStart(2, "0")).join("-");
  return `${day} ${clock(ms)}`;
}

/** "UTC", "UTC+2", "UTC−3:30": the zone that times of this browser are in at that moment. */
export function zone(ms: number): string {
  const minutes = -new Date(ms).getTimezoneOffset();
  if (minutes === 0) return "UTC";
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return `UTC${minutes < 0 ? "−" : "+"}${hours}${rest === 0 ? "" : `:${String(rest).padStart(2, "0")}`}`;
}

/** ISO 8601 with the offset of this browser's zone: "2026-03-01T05:12:08+02:00". */
export function iso(ms: number): string {
  const minutes = -new Date(ms).getTimezoneOffset();
  const two = (n: number) => String(Math.trunc(Math.abs(n))).padStart(2, "0");
  const local = new Date(ms + minutes * 60_000).toISOString().slice(0, 19);
  return `${local}${minutes < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
}

/** "03:12:08, 14 min ago". */
export function since(ms: number, nowMs: number): string {
  return `${moment(ms, nowMs)}, ${duration(Math.max(0, (nowMs - ms) / 1000))} ago`;
}

/** `all_reduce` -> "AllReduce". */
export function primitiveName(primitive: string): string {
  return primitive
    .split("_")
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join("");
}

/** `peer_limits` -> "peer limits". */
export function words(label: string): string {
  return label.replaceAll("_", " ");
}

/** [0, 1, 2, 5] -> "0–2, 5", cut after `limit` pieces. */
export function rankRanges(ranks: number[], limit = 8): string {
  const sorted = [...ranks].sort((a, b) => a - b);
  const pieces: string[] = [];
  for (let i = 0; i < sorted.length; ) {
    let end = i;
    while (end + 1 < sorted.length && sorted[end + 1] === sorted[end]! + 1) end += 1;
    pieces.push(end === i ? `${sorted[i]}` : `${sorted[i]}${end - i > 1 ? "–" : ", "}${sorted[end]}`);
    i = end + 1;
  }
  return pieces.length > limit ? `${pieces.slice(0, limit).join(", ")} and more` : pieces.join(", ");
}

/** The first letter large. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A sentence that begins with a plain word begins large; one that begins with a name begins as the name does. */
export function opening(sentence: string): string {
  return /^[a-z]+ /.test(sentence) ? capital(sentence) : sentence;
}

/** ["a", "b", "c"] -> "a, b and c", cut after `limit`. */
export function list(items: string[], limit = 4): string {
  if (items.length === 0) return "";
  if (items.length > limit) return `${items.slice(0, limit - 1).join(", ")} and ${items.length - limit + 1} more`;
  if (items.length === 1) return items[0]!;
  return `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`;
}
