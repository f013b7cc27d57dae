/**
 * What is shown, as the address says it: `#/communicators/9f3b5c6d7e8f?channel=2&host=host-2`. A link to one place can be
 * pasted into an incident channel. Pure.
 */

export const COMMUNICATOR_VIEWS = ["rings", "ranks", "primitives"] as const;
export type CommunicatorView = (typeof COMMUNICATOR_VIEWS)[number];

/** Of what is measured over time; absent: the last 15 minutes, live. See `range.ts` for the words. */
export interface Span {
  from?: string | undefined;
  to?: string | undefined;
  /** The moment of the past that is shown; absent: now. */
  at?: string | undefined;
}

export interface CommunicatorRoute {
  page: "communicator";
  comm: string;
  channel?: number | undefined;
  rank?: number | undefined;
  host?: string | undefined;
  /** Communicator to compare with. */
  compare?: string | undefined;
  view?: CommunicatorView | undefined;
}

export interface FindingsRoute {
  page: "findings";
  severity?: string | undefined;
  state?: string | undefined;
  kind?: string | undefined;
  job?: string | undefined;
  host?: string | undefined;
  /** The one whose evidence is open. */
  id?: string | undefined;
}

export interface IncidentsRoute {
  page: "incidents";
  state?: string | undefined;
  job?: string | undefined;
  host?: string | undefined;
}

export interface AuditRoute {
  page: "audit";
  /** The whole name of who did it. */
  who?: string | undefined;
  action?: string | undefined;
  /** Only entries before the one with this number. */
  before?: string | undefined;
}

export interface HostsRoute {
  page: "hosts";
  job?: string | undefined;
  q?: string | undefined;
  /** What the cells' shade says. */
  shade?: string | undefined;
  /** Only hosts in trouble. */
  degraded?: string | undefined;
  /** Column, with "-" for the other way round. */
  sort?: string | undefined;
  /** Every row of the table. */
  all?: string | undefined;
}

export interface SummationGroupRoute {
  page: "summation-group";
  group: string;
  /** The one whose pipeline is shown, and the one that is highlighted. */
  worker?: number | undefined;
  service?: number | undefined;
  /** What the cells of a large group say. */
  shade?: string | undefined;
}

export type Place =
  | { page: "overview"; shade?: string | undefined }
  | { page: "jobs"; q?: string | undefined; state?: string | undefined }
  | { page: "job"; job: string; shade?: string | undefined }
  | CommunicatorRoute
  | HostsRoute
  | { page: "host"; host: string; nic?: string | undefined }
  | FindingsRoute
  | IncidentsRoute
  | { page: "incident"; incident: string }
  | { page: "summation"; job?: string | undefined; state?: string | undefined }
  | SummationGroupRoute
  | { page: "runbook"; kind?: string | undefined }
  | AuditRoute
  /** There is no such page. */
  | { page: "nowhere"; address: string };

export type Route = Place & Span;
export type PageName = Route["page"];

/** Of every page: the folder it lives in, the name of what follows it, and of what may stand in the query. */
const PAGES: Record<Exclude<PageName, "nowhere">, { folder: string; part?: string; optional?: true; query: string[] }> = {
  overview: { folder: "", query: ["shade"] },
  jobs: { folder: "jobs", query: ["q", "state"] },
  job: { folder: "jobs", part: "job", query: ["shade"] },
  communicator: { folder: "communicators", part: "comm", query: ["channel", "rank", "host", "compare", "view"] },
  hosts: { folder: "hosts", query: ["job", "q", "shade", "degraded", "sort", "all"] },
  host: { folder: "hosts", part: "host", query: ["nic"] },
  incidents: { folder: "incidents", query: ["state", "job", "host"] },
  incident: { folder: "incidents", part: "incident", query: [] },
  findings: { folder: "findings", query: ["severity", "state", "kind", "job", "host", "id"] },
  summation: { folder: "summation", query: ["job", "state"] },
  "summation-group": { folder: "summation", part: "group", query: ["worker", "service", "shade"] },
  runbook: { folder: "runbook", part: "kind", optional: true, query: [] },
  audit: { folder: "audit", query: ["who", "action", "before"] },
};
const SPAN = ["from", "to", "at"];
const NUMBERS = new Set(["channel", "rank", "worker", "service"]);

export function parse(hash: string): Route {
  const text = hash.replace(/^#?\/?/, "");
  const cut = text.indexOf("?");
  const parts = (cut < 0 ? text : text.slice(0, cut)).split("/").map(decode).filter((part) => part !== "");
  const query = new URLSearchParams(cut < 0 ? "" : text.slice(cut + 1));
  if (parts[0] === "job" || parts[0] === "communicator" || parts[0] === "host") return parseOld(parts);
  const folder = parts[0] ?? "";
  for (const [page, shape] of Object.entries(PAGES)) {
    if (shape.folder !== folder || (shape.part === undefined) !== (parts.length < 2)) {
      if (shape.folder !== folder || shape.optional === undefined) continue;
    }
    const route: Record<string, string | number> = { page };
    if (shape.part !== undefined && parts[1] !== undefined) route[shape.part] = parts[1];
    for (const name of [...shape.query, ...SPAN]) {
      const value = valueOf(name, query.get(name));
      if (value !== undefined) route[name] = value;
    }
    return route as unknown as Route;
  }
  return { page: "nowhere", address: text };
}

export function format(route: Route): string {
  if (route.page === "nowhere") return `#/${route.address}`;
  const shape = PAGES[route.page];
  const values = route as unknown as Record<string, string | number | undefined>;
  const part = shape.part === undefined ? undefined : values[shape.part];
  const query = new URLSearchParams();
  for (const name of [...shape.query, ...SPAN]) {
    const value = values[name];
    if (value !== undefined && value !== "") query.set(name, String(value));
  }
  const folder = shape.folder === "" ? "" : `/${shape.folder}${part === undefined ? "" : `/${encodeURIComponent(part)}`}`;
  const tail = query.size === 0 ? "" : `?${query.toString().replaceAll("%3A", ":").replaceAll("+", "%20")}`;
  return `#${folder || "/"}${tail}`;
}

function valueOf(name: string, text: string | null): string | number | undefined {
  if (text === null || text === "") return undefined;
  if (NUMBERS.has(name)) return /^\d{1,7}$/.test(text) ? Number(text) : undefined;
  if (name === "view") return COMMUNICATOR_VIEWS.find((one) => one === text);
  return text;
}

/** Links of before there were pages: `#/job/J/communicator/C/channel/2/host/H`, every part optional. */
function parseOld(parts: string[]): Route {
  const old = new Map<string, string>();
  for (let i = 0; i + 1 < parts.length; i += 2) old.set(parts[i]!, parts[i + 1]!);
  const [job, comm, host] = [old.get("job"), old.get("communicator"), old.get("host")];
  const channel = valueOf("channel", old.get("channel") ?? null) as number | undefined;
  if (comm !== undefined) {
    return { page: "communicator", comm, ...(channel === undefined ? {} : { channel }), ...(host === undefined ? {} : { host }) };
  }
  if (host !== undefined) return { page: "host", host };
  return job === undefined ? { page: "overview" } : { page: "job", job };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
