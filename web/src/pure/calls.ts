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

/** A detail whose lines read "who: what, how much, …" under a title about calls; the first that does. */
export function callTable(details: Detail[]): CallTable | undefined {
  for (const { title, lines } of details) {
    if (!/\bcalls?\b|side by side|differ/i.test(title)) continue;
    const rows = lines.map((line) => /^(.+?):\s+(.+)$/.exec(line)).filter((match) => match !== null);
    if (rows.length >= 2 && rows.length === lines.length) return { title, rows: marked(rows.map(([, who, what]) => ({ who: who!, fields: what!.split(/,\s+/) }))) };
  }
  return undefined;
}

/** What is not as in most rows; of two rows nobody knows which is right. */
function marked(rows: { who: string; fields: string[] }[]): CallRow[] {
  const width = Math.max(...rows.map((row) => row.fields.length));
  const usual = Array.from({ length: width }, (_, i) => {
    const counts = new Map<string, number>();
    for (const row of rows) counts.set(row.fields[i] ?? "", (counts.get(row.fields[i] ?? "") ?? 0) + 1);
    const [first, second] = [...counts].sort((a, b) => b[1] - a[1]);
    return second !== undefined && second[1] === first![1] ? undefined : first![0];
  });
  const split = usual.map((word, i) => word === undefined && new Set(rows.map((row) => row.fields[i] ?? "")).size > 1);
  return rows.map(({ who, fields }) => ({
    who,
    fields: Array.from({ length: width }, (_, i) => ({ words: fields[i] ?? "", differs: split[i]! || (usual[i] !== undefined && (fields[i] ?? "") !== usual[i]) })),
  }));
}

export interface Link {
  /** Who waits. */
  from: string;
  /** In which communicator, as far as the words name one that is known. */
  communicator?: { id: string; name: string } | undefined;
  /** For whom: the next in the circle. */
  to: string;
  /** The whole in words. */
  words: string;
}

/** The circle: each culprit waits for the next, the last for the first. `known`: names of communicators by id. */
export function circle(culprits: Culprit[], known: ReadonlyMap<string, string>): Link[] {
  if (culprits.length < 2) return [];
  const name = ({ rank, global_rank: global, host }: Culprit) => (rank !== undefined ? `rank ${rank}` : global !== undefined ? `rank ${global}` : host);
  return culprits.map((one, i) => ({
    from: name(one),
    to: name(culprits[(i + 1) % culprits.length]!),
    communicator: communicatorIn(one.doing, known),
    words: one.doing,
  }));
}

/** The longest name, or the id, that stands in the words as a word. */
function communicatorIn(words: string, known: ReadonlyMap<string, string>): { id: string; name: string } | undefined {
  const stands = (part: string) => part !== "" && new RegExp(`(^|[^\\w-])${part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}($|[^\\w-])`).test(words);
  const found = [...known].filter(([id, name]) => stands(id) || stands(name) || stands(name.split(" · ")[0]!));
  const [id, name] = found.sort((a, b) => b[1].length - a[1].length)[0] ?? [];
  return id === undefined ? undefined : { id, name: name! };
}
