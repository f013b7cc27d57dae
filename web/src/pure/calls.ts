/** Calls side by side, and circles of waits, out of what a finding tells in lines. Pure. */

import type { Culprit, Detail } from "../api";

export interface CallRow {
  who: string;
  /** What was called, piece by piece: the call, how much, of what, … */
  fields: { words: string; differs: boolean }[];
}

export interface CallTable {
  title: string;
  rows: CallRow[];
}

/** A detail whose lines read "who: what" under a title about calls, or "who has called what", as a table; the first that does. */
export function callTable(details: Detail[]): CallTable | undefined {
  for (const { title, lines } of details) {
    if (!/\bcall(s|ed)?\b|side by side|differ|^From rank/i.test(title)) continue;
    const rows = lines.map(rowOf).filter((row) => row !== undefined);
    if (rows.length >= 2 && rows.length === lines.length) return { title, rows: marked(rows) };
  }
  return undefined;
}

function rowOf(line: string): { who: string; fields: string[] } | undefined {
  const pair = /^(ranks? .+?) has called (\w+) (.+)$/.exec(line);
  if (pair !== null) return { who: `${pair[1]}, ${pair[2]}`, fields: pair[3]!.split(/,\s+/) };
  const call = /^(\D[^:]*\d[^:]*|[^:]*others?):\s+(.+)$/.exec(line);
  return call === null ? undefined : { who: call[1]!, fields: fieldsOf(call[2]!) };
}

export interface LastCalls {
  /** Whose: "rank 3". */
  heads: string[];
  /** By number, the oldest first; "" where one did not say. */
  rows: { number: string; cells: string[]; differs: boolean }[];
}

const LAST_CALLS = /^Last calls of (.+)$/;

/** The last calls of two ranks or more beside each other. */
export function lastCalls(details: Detail[]): LastCalls | undefined {
  const told = details.filter(({ title }) => LAST_CALLS.test(title));
  if (told.length < 2) return undefined;
  const columns = told.map(({ lines }) => new Map(lines.flatMap((line) => {
    const match = /^#(\d+) (.+)$/.exec(line);
    return match === null ? [] : [[match[1]!, match[2]!] as const];
  })));
  const numbers = [...new Set(columns.flatMap((column) => [...column.keys()]))].sort((a, b) => Number(a) - Number(b));
  const rows = numbers.map((number) => {
    const cells = columns.map((column) => column.get(number) ?? "");
    return { number, cells, differs: new Set(cells.filter((cell) => cell !== "")).size > 1 };
  });
  return { heads: told.map(({ title }) => LAST_CALLS.exec(title)![1]!), rows };
}

/** Those that no table and no drawing shows. */
export function otherDetails(details: Detail[]): Detail[] {
  const shown = [callTable(details)?.title, ...(lastCalls(details) === undefined ? [] : details.map(({ title }) => title).filter((title) => LAST_CALLS.test(title)))];
  return details.filter(({ title }) => !shown.includes(title) && title !== CIRCLE);
}
const CIRCLE = "The circle";

/** "all_reduce #7 of 1024 float32 (sum) to root 0" by its pieces, else what stands between commas. */
function fieldsOf(what: string): string[] {
  const match = /^(\w+)( #\d+)? of (\d+) (\w+)(?: \(([^)]*)\))?(?: (.*))?$/.exec(what);
  if (match === null) return what.split(/,\s+/);
  const [, primitive, number = "", count, type, op = "", rest = ""] = match;
  return [`${primitive}${number}`, count!, type!, op, rest];
}

/** What is not as most ranks called it; where no side has more, nobody knows which is right. */
function marked(rows: { who: string; fields: string[] }[]): CallRow[] {
  const width = Math.max(...rows.map((row) => row.fields.findLastIndex((field) => field !== "") + 1));
  const columns = Array.from({ length: width }, (_, i) => {
    const votes = new Map<string, number>();
    for (const { who, fields } of rows) votes.set(fields[i] ?? "", (votes.get(fields[i] ?? "") ?? 0) + ranksIn(who));
    const [first, second] = [...votes].sort((a, b) => b[1] - a[1]);
    return second === undefined ? undefined : { usual: second[1] === first![1] ? undefined : first![0] };
  });
  return rows.map(({ who, fields }) => ({
    who,
    fields: columns.map((column, i) => ({ words: fields[i] ?? "", differs: column !== undefined && column.usual !== (fields[i] ?? "") })),
  }));
}

/** How many ranks these words name: "rank 3", "ranks 0–2, 5", "ranks 0 to 7", "ranks 1, 4 and 12 more", "7 others". */
export function ranksIn(who: string): number {
  let rest = who;
  let count = 0;
  const take = (pattern: RegExp, worth: (match: RegExpExecArray) => number) => {
    rest = rest.replace(pattern, (...args) => {
      count += worth(args as unknown as RegExpExecArray);
      return " ";
    });
  };
  take(/\([^)]*\)/g, () => 0);
  take(/(\d+)\s*(?:–|-|to)\s*(\d+)/g, ([, from, to]) => Math.abs(Number(to) - Number(from)) + 1);
  take(/(\d+) (?:more|others?)/g, ([, n]) => Number(n));
  take(/(\d+)/g, () => 1);
  return Math.max(1, count);
}

export interface Link {
  /** Who waits. */
  from: string;
  /** In which communicator, as far as the words name one. `id` is absent where the page knows none of that name. */
  communicator?: { id?: string; name: string } | undefined;
  /** For whom: the next in the circle. */
  to: string;
  /** In what they wait. */
  words: string;
}

/**
 * The circle of an order deadlock: each waits for the next, the last for the first. From the lines "WHO in CALL of
 * COMMUNICATOR" where a detail has them, else from what the culprits do. `known`: names of communicators by id.
 */
export function circle(culprits: Culprit[], details: Detail[], known: ReadonlyMap<string, string>): Link[] {
  const told = details.find(({ title }) => title === CIRCLE)?.lines.map((line) => /^(ranks? .+?) in (.+)$/.exec(line)) ?? [];
  const waits = told.length >= 2 && told.every((match) => match !== null)
    ? told.map((match) => ({ from: match![1]!, words: match![2]! }))
    : culprits.map((one) => ({ from: nameOf(one), words: one.doing.replace(/^is in /, "") }));
  if (waits.length < 2) return [];
  return waits.map(({ from, words }, i) => ({ from, words, to: waits[(i + 1) % waits.length]!.from, communicator: communicatorIn(words, known) }));
}

function nameOf({ rank, global_rank: global, host }: Culprit): string {
  return rank !== undefined ? `rank ${rank}` : global !== undefined ? `rank ${global}` : host;
}

/** The longest name, or the id, that stands in the words as a word; else what stands where one would. */
function communicatorIn(words: string, known: ReadonlyMap<string, string>): Link["communicator"] {
  const stands = (part: string) => part !== "" && new RegExp(`(^|[^\\w-])${part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}($|[^\\w-])`).test(words);
  const found = [...known].filter(([id, name]) => stands(id) || stands(name) || stands(name.split(" · ")[0]!));
  const [id, name] = found.sort((a, b) => Number(stands(b[0])) - Number(stands(a[0])) || b[1].length - a[1].length)[0] ?? [];
  if (id !== undefined) return { id, name: name! };
  const said = / of ([\w./-]+)(?: \(([^)]+)\))?$/.exec(words);
  return said === null ? undefined : { name: said[2] ?? said[1]! };
}
