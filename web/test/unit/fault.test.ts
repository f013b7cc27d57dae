import { expect, test } from "vitest";
import { away, distinct, faultOf, redirected } from "../../src/pure/fault";

const problem = (detail: string, status: number) => ({ type: "about:blank", title: "Refused", status, detail });

test("each kind of error says its status, what it is and what to do", () => {
  const html = "text/html; charset=utf-8";
  expect(faultOf(401, html)).toEqual({ kind: "between", status: 401, words: "Status 401 Unauthorized: a proxy in front of the daemon wants a login.", advice: "Reload this page to sign in again." });
  expect(faultOf(403, html)).toMatchObject({ kind: "between", words: expect.stringMatching(/^Status 403 Forbidden: .*does not let you in/) });
  for (const status of [502, 503, 504]) {
    expect(faultOf(status, html)).toMatchObject({ kind: "between", words: expect.stringMatching(/cannot reach it/), advice: expect.stringMatching(/`ringscope status`/) });
  }
});

test("a login page with status 200 is an error, as is an answer that was cut", () => {
  expect(faultOf(200, "text/html").words).toMatch(/^Status 200: the answer is a web page and not the daemon's: a login/);
  expect(faultOf(200, "application/json").words).toMatch(/^Status 200: .*cut or changed/);
  expect(redirected().words).toMatch(/to a login/);
});

test("what the daemon itself refuses is told in its words", () => {
  expect(faultOf(503, "application/problem+json", problem("the database is away", 503))).toMatchObject({ kind: "refused", words: "Status 503 Service Unavailable: the database is away" });
});

test("the gravest comes first, each once", () => {
  const refused = faultOf(400, "application/problem+json", problem("step: too small", 400));
  expect(distinct([refused, faultOf(401, ""), refused, away()]).map((one) => one.kind)).toEqual(["away", "between", "refused"]);
});
