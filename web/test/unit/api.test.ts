import { expect, test } from "vitest";
import document from "../../openapi.json?raw";
import text from "../../src/api.gen.ts?raw";
// @ts-expect-error A script without types of its own.
import { types } from "../../types.mjs";

test("the types are made from the API's document of today", () => {
  expect(text, "npm run types").toBe(types(JSON.parse(document)));
});
