import { expect, test } from "vitest";
import { returning } from "../../src/pure/returning";

test("a sign-in elsewhere leads back to where one was", () => {
  const begin = "https://ring.example/api/v1/session/oidc";
  expect(returning(begin, "", "")).toBe(`${begin}?return=%2F`);
  expect(returning(begin, "?a=1", "#/hosts/a b&c")).toBe(`${begin}?return=%2F%3Fa%3D1%23%2Fhosts%2Fa%20b%26c`);
  expect(returning(begin, "", `#/${"ä".repeat(1000)}`)).toBe(`${begin}?return=%2F`);
});
