import { expect, test } from "vitest";
import { actionWords, auditRows, outcome, placeOf, subjectWords } from "../../src/pure/audit";

test("what was done is said in words, also what a newer daemon calls otherwise", () => {
  expect(actionWords("token_create", 201)).toBe("made a token");
  expect(actionWords("rotate_key", 200)).toBe("rotate key");
});

test("what was refused is not said to be done", () => {
  expect(actionWords("token_create", 403)).toBe("was refused making a token");
  expect(actionWords("sign_in", 429)).toBe("was refused signing in");
  expect(actionWords("import", 503)).toBe("failed at importing files");
  expect(actionWords("level", 404)).toBe("failed at setting a level");
  expect(actionWords("silence", 499)).toBe("began silencing an incident");
  expect(actionWords("token_refused", 401)).toBe("sent a token that opens nothing");
  expect(actionWords("rotate_key", 403)).toBe("was refused rotate key");
  for (const [status, words, refused] of [
    [200, "done", false], [204, "done", false], [401, "not known", true], [403, "not allowed", true], [418, "refused", true], [499, "not known whether it was done", true], [503, "failed", true],
  ] as const) {
    expect(outcome(status)).toEqual({ words, refused });
  }
});

test("incidents and jobs have pages, whatever their names are", () => {
  expect(placeOf("incidents/ab12/notes")).toEqual({ page: "incident", incident: "ab12" });
  expect(placeOf("jobs/acme%3A%3Atrain/level")).toEqual({ page: "job", job: "acme::train" });
  expect(subjectWords("jobs/acme%3A%3Atrain/level")).toBe("jobs/acme::train/level");
  for (const none of ["tokens/12", "session", "jobs/", "", "jobs"]) expect(placeOf(none)).toBeUndefined();
  expect(subjectWords("jobs/%zz")).toBe("jobs/%zz");
});

test("a table to take along has every field", () => {
  const one = { id: 7, at: "2026-01-31T12:00:00Z", who: "ann", token: "0123456789abcdef", tenant: "", role: "admin", address: "::1", action: "level", subject: "jobs/x/level", detail: "steps", status: 200 };
  expect(auditRows([one])).toEqual([
    ["id", "at", "who", "token", "tenant", "role", "address", "action", "subject", "detail", "status"],
    [7, "2026-01-31T12:00:00Z", "ann", "0123456789abcdef", "", "admin", "::1", "level", "jobs/x/level", "steps", 200],
  ]);
});
