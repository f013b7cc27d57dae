/** Names of hosts as lists, tables and pictures show them: without what tells nothing apart. Pure. */

/** Longer names lose what all have in common at the beginning. */
const MAX_WHOLE = 24;
/** What is left then has at least so many characters: "…" and two digits name nothing. */
const MIN_REST = 8;
/** A name that is still longer loses its middle. */
const MAX_SHORT = 30;
const HEAD = 12;
const TAIL = 15;

/** A name for each, as short as tells them all apart. Every name stays what it is where nothing is to be cut. */
export function shortNames(hosts: string[]): Map<string, string> {
  const all = [...new Set(hosts)];
  const own = ownNames(all);
  const cut = prefix([...own.values()]);
  const short = all.map((host) => [host, middle(cut === 0 ? own.get(host)! : `…${own.get(host)!.slice(cut)}`)] as const);
  const isTaken = repeated(short.map(([, name]) => name));
  return new Map(short.map(([host, name]) => [host, isTaken.has(name) ? own.get(host)! : name]));
}

/** As many of the leading labels as no other host has: "gpu-17" of gpu-17.rack3.example.com, but 10.0.3.17 whole. */
function ownNames(all: string[]): Map<string, string> {
  const own = new Map(all.map((host) => [host, isAddress(host) ? host : host.split(".", 1)[0]!]));
  for (let labels = 2; ; labels += 1) {
    const isTaken = repeated([...own.values()]);
    const same = all.filter((host) => isTaken.has(own.get(host)!) && own.get(host) !== host);
    if (same.length === 0) return own;
    for (const host of same) own.set(host, host.split(".").slice(0, labels).join("."));
  }
}

/** Addresses of version 4 and 6: every part of them counts. */
function isAddress(host: string): boolean {
  return /^[\d.]+$/.test(host) || host.includes(":");
}

/** Characters that all begin with, up to a stop between words, where that is worth the "…". */
function prefix(names: string[]): number {
  if (names.length < 2 || Math.max(...names.map((name) => name.length)) <= MAX_WHOLE) return 0;
  let common = names[0]!.length;
  for (const name of names) while (!name.startsWith(names[0]!.slice(0, common))) common -= 1;
  const most = Math.min(common, Math.min(...names.map((name) => name.length)) - MIN_REST);
  const stop = /^.*[-_.]/.exec(names[0]!.slice(0, Math.max(0, most)));
  return stop === null || stop[0].length < 3 ? 0 : stop[0].length;
}

function middle(name: string): string {
  return name.length <= MAX_SHORT ? name : `${name.slice(0, HEAD)}…${name.slice(-TAIL)}`;
}

function repeated(names: string[]): Set<string> {
  const seen = new Set<string>();
  return new Set(names.filter((name) => (seen.has(name) ? true : (seen.add(name), false))));
}

/** Words with hosts as lists call them, for where the whole name cannot be had by pointing. */
export function shortened(words: string, short: ReadonlyMap<string, string>): string {
  return hostsIn(words, short).map((part, i) => (i % 2 === 1 ? short.get(part)! : part)).join("");
}

/** Words with the hosts in them apart: what stands at an odd place is the name of a host that `short` cuts. */
export function hostsIn(words: string, short: ReadonlyMap<string, string>): string[] {
  const parts = [""];
  for (const part of words.split(/([\w][\w.:-]*\w)/)) {
    const name = short.get(part);
    if (name === undefined || name === part) parts[parts.length - 1] += part;
    else parts.push(part, "");
  }
  return parts;
}
