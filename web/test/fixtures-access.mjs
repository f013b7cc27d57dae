// Who did what, as a made-up daemon has it.

/** A person, a proxy's person with a long name, the database's machine, a stranger. */
const PEOPLE = [
  ["ann", "operate", "10.0.4.17", "5e0f9a1c22d4b7e6", "acme"],
  ["the-whole-night-shift-of-the-training-cluster-in-frankfurt@example.org", "operate", "fd00:1234:5678:9abc:def0:1234:5678:9abc"],
  ["root", "admin", "local"],
  ["", "", "203.0.113.9"],
];
const DONE = [
  { who: 0, action: "acknowledge", subject: "incidents/f-rank_missing/acknowledge", detail: "by ann", status: 200 },
  { who: 0, action: "note", subject: "incidents/f-rank_missing/notes", detail: `by ann: ${"The cable between leaf 12 and host-2 was reseated; the port has come up and counts no errors since. ".repeat(3)}`, status: 200 },
  { who: 1, action: "level", subject: "jobs/llm-7b-pretrain/level", detail: "steps", status: 200 },
  { who: 1, action: "token_create", subject: "tokens", detail: "", status: 403 },
  { who: 2, action: "token_create", subject: "tokens", detail: "prometheus (0123456789abcdef), read, until 2027-01-31T12:00:00Z", status: 201 },
  { who: 3, action: "token_refused", subject: "jobs", detail: "this token was revoked at 2026-01-30T08:00:00Z: ask for another one", status: 401 },
  { who: 1, action: "import", subject: "import", detail: "job-1234.log as the job yesterday", status: 503 },
  { who: 0, action: "sign_in", subject: "session", detail: "OIDC, login.example.org, sub 8f14e45f", status: 200 },
];

/** The newest first, a minute apart, `n` of them. */
export function audit(nowMs, n = 130) {
  return Array.from({ length: n }, (_, i) => {
    const { who, ...done } = DONE[i % DONE.length];
    const [name, role, address, token = "", tenant = ""] = PEOPLE[who];
    return { id: n - i, at: new Date(nowMs - i * 61_000 - (i > 40 ? 86_400_000 : 0)).toISOString(), who: name, token, tenant, role, address, ...done };
  });
}
