/** Who did what, in words. Pure. */

import type { AuditEntry } from "../api";
import type { CsvValue } from "./csv";
import type { Place } from "./route";

/** What the daemon calls it, and what people do. */
export const ACTIONS: readonly (readonly [string, string])[] = [
  ["sign_in", "signed in"],
  ["sign_out", "signed out"],
  ["token_refused", "sent a token that opens nothing"],
  ["token_create", "made a token"],
  ["token_revoke", "revoked a token"],
  ["level", "set a level"],
  ["import", "imported files"],
  ["acknowledge", "acknowledged an incident"],
  ["unacknowledge", "took back an acknowledgement"],
  ["silence", "silenced an incident"],
  ["unsilence", "ended a silence"],
  ["note", "wrote a note"],
];
const WORDS = new Map(ACTIONS);

/** "set a level": what somebody asked for; whether it was done stands in the outcome. */
export function actionWords(action: string): string {
  return WORDS.get(action) ?? action.replaceAll("_", " ");
}

/** "done", or what kept it from being done. */
export function outcome(status: number): { words: string; refused: boolean } {
  if (status < 400) return { words: "done", refused: false };
  const why: Record<number, string> = { 401: "not known", 403: "not allowed", 404: "no such thing", 409: "not possible", 422: "not acceptable", 429: "too often" };
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
  const head = ["id", "at", "who", "role", "address", "action", "subject", "detail", "status"];
  return [head, ...entries.map((one) => [one.id, one.at, one.who, one.role, one.address, one.action, one.subject, one.detail, one.status])];
}
