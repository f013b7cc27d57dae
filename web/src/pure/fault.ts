/** Why an answer did not come, and what to do about it, for who reads it at night. Pure. */

import type { Problem } from "../api";

export type FaultKind =
  /** Nobody answers. */
  | "away"
  /** The daemon itself says no. */
  | "refused"
  /** Something between the browser and the daemon answered in its place. */
  | "between";

export interface Fault {
  kind: FaultKind;
  /** Of HTTP. Absent: there was no answer at all. */
  status?: number;
  /** What happened, with the status. */
  words: string;
  /** What to do. */
  advice: string;
}

const NAMES: Record<number, string> = {
  401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 407: "Proxy Authentication Required", 429: "Too Many Requests",
  500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
};

const SIGN_IN = "Reload this page to sign in again.";
const IS_IT_RUNNING = "Is the daemon running? `ringscope status` on its host says so. The page tries again by itself.";

/** Nobody answered: the connection failed, or took too long. */
export function away(timeoutS?: number): Fault {
  return {
    kind: "away",
    words: timeoutS === undefined ? "The daemon does not answer." : `The daemon did not answer within ${timeoutS} s.`,
    advice: IS_IT_RUNNING,
  };
}

/** A connection that stood has ended: why, the next attempt says. */
export function ended(): Fault {
  return { kind: "away", words: "The connection to the daemon has ended.", advice: IS_IT_RUNNING };
}

/** What HTTP said that is no good answer: `contentType` of its body, and the daemon's own words if they are in it. */
export function faultOf(status: number, contentType: string, problem?: Problem): Fault {
  const said = NAMES[status] === undefined ? `Status ${status}` : `Status ${status} ${NAMES[status]}`;
  if (problem !== undefined) return { kind: "refused", status, words: `${said}: ${problem.detail || problem.title}`, advice: refusedAdvice(status) };
  const between = (words: string, advice: string): Fault => ({ kind: "between", status, words: `${said}: ${words}`, advice });
  if (status === 401 || status === 407) return between("a proxy in front of the daemon wants a login.", SIGN_IN);
  if (status === 403) return between("a proxy in front of the daemon does not let you in.", "Sign in as somebody who may, or ask whoever runs the proxy.");
  if (status === 502 || status === 503 || status === 504) return between("the proxy in front of the daemon cannot reach it.", IS_IT_RUNNING);
  if (status < 300 && /html/i.test(contentType)) return between("the answer is a web page and not the daemon's: a login of a proxy, probably.", SIGN_IN);
  if (status < 300) return between("the answer is not what the daemon sends: it was cut or changed on the way.", "Look at what stands between this browser and the daemon: `curl -si` of the same address.");
  return between("this answer is not the daemon's.", "Look at what stands between this browser and the daemon, then reload this page.");
}

/** A proxy sends the question elsewhere: the daemon never does. */
export function redirected(): Fault {
  return { kind: "between", words: "A proxy in front of the daemon sends the page elsewhere: to a login, probably.", advice: SIGN_IN };
}

function refusedAdvice(status: number): string {
  if (status === 401 || status === 403) return "Sign in again, or ask for access.";
  return status >= 500 ? "The page tries again by itself. The daemon's log says more." : "Reload this page; if that does not help, the daemon and the page are of different versions.";
}

/** Those that are not the same, the gravest first. */
export function distinct(faults: Fault[]): Fault[] {
  const byWords = new Map(faults.map((fault) => [fault.words, fault]));
  return [...byWords.values()].sort((a, b) => GRAVITY.indexOf(a.kind) - GRAVITY.indexOf(b.kind));
}
const GRAVITY: FaultKind[] = ["away", "between", "refused"];
