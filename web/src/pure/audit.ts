/** Who did what, in words. Pure. */

import type { AuditEntry } from "../api";
import type { CsvValue } from "./csv";
import type { Place } from "./route";

/** What the daemon calls it, what people did, and what they were about to do. */
const WORDS: readonly (readonly [action: string, did: string, doing: string])[] = [
  ["sign_in", "signed in", "signing in"],
  ["sign_out", "signed out", "signing out"],
  ["token_refused", "sent a token that opens nothing", ""],
  ["token_create", "made a token", "making a token"],
  ["token_revoke", "revoked a token", "revoking a token"],
  ["level", "set a level", "setting a level"],
  ["import", "imported files", "importing files"],
  ["acknowledge", "acknowledged an incident", "acknowledging an incident"],
  ["unacknowledge", "took back an acknowledgement", "taking back an acknowledgement"],
  ["silence", "silenced an incident", "silencing an incident"],
  ["unsilence", "ended a silence", "ending a silence"],
  ["note", "wrote a note", "writing a note"],
];
/** To filter by: what the daemon calls it, and what people did. */
export const ACTIONS = WORDS.map(([action, did]) => [action, did] as const);

/** "set a level"; of what was not done: "was refused setting a level". */
export function actionWords(action: string, status: number): string {
  const [, did, doing] = WORDS.find(([name]) => name === action) ?? [action, action.replaceAll("_", " "), action.replaceAll("_", " ")];
  if (status < 400 || doing === "") return did;
  if (status === LEFT) return `began ${doing}`;
  return REFUSALS.has(status) ? `was refused ${doing}` : `failed at ${doing}`;
}
/** Who asks is not known, may not, or asks too often. */
const REFUSALS = new Set([401, 403, 429]);
/** They left before the answer. */
const LEFT = 499;

/** "done", or what kept it from being done. */
export function outcome(status: number): { words: string; refused: boolean } {
  if (status < 400) return { words: "done", refused: false };
  const why: Record<number, string> = { [LEFT]: "not known whether it was done", 401: "not known", 403: "not allowed", 404: "no such thing", 409: "not possible", 422: "not acceptable", 429: "too often" };
  return { words: why[status] ?? (status >= 500 ? "failed" : "refused"), refused: true };
}

/** What it was done to, if that has a page: `incidents/ab12/notes` is an incident. */
export function placeOf(subject: string): Place | undefined {
  const [folder, name] = subject.split("/");
  if (name === undefined || name === "") return undefined;
  const id = decoded(name);
  if (folder === "incidents") return { page: "incident", incident: id };
  if (folder === "jobs") return { page: "job", job: id };
  return undefined;
}

/** The same in words: the path as it was asked for. */
export function subjectWords(subject: string): string {
  return subject.split("/").map(decoded).join("/");
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The table as CSV. */
export function auditRows(entries: AuditEntry[]): CsvValue[][] {
  const head = ["id", "at", "who", "token", "tenant", "role", "address", "action", "subject", "detail", "status"];
  return [head, ...entries.map((one) => [one.id, one.at, one.who, one.token, one.tenant, one.role, one.address, one.action, one.subject, one.detail, one.status])];
}
