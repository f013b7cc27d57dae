import { expect, test } from "vitest";
import document from "../../openapi.json?raw";
import text from "../../src/api.gen.ts?raw";
import type * as told from "../../src/api";
import type * as documented from "../../src/api.gen";
// @ts-expect-error A script without types of its own.
import { types } from "../../types.mjs";

test("the types are made from the API's document of today", () => {
  expect(text, "npm run types").toBe(types(JSON.parse(document)));
});

/** Compiles only while what the page reads is what the document says. */
type Fits<Told extends Documented, Documented> = Told;
export type Checked = [
  Fits<told.Changed, documented.Changed>,
  Fits<told.CommunicatorDetail, documented.CommunicatorDetail>,
  Fits<told.CommunicatorSummary, documented.CommunicatorSummary>,
  Fits<told.Finding, documented.Finding>,
  Fits<told.FindingKind, documented.FindingKind>,
  Fits<documented.FindingKind, told.FindingKind>,
  Fits<told.Hardware, documented.Hardware>,
  Fits<told.HostDetail, documented.HostDetail>,
  Fits<told.HostSummary, documented.HostSummary>,
  Fits<told.Job, documented.Job>,
  Fits<told.Primitives, documented.Primitives>,
  Fits<told.Problem, documented.Problem>,
  Fits<told.Rings, documented.Rings>,
  Fits<told.RunbookEntry, documented.RunbookEntry>,
  Fits<told.SearchHit, documented.SearchHit>,
  Fits<told.Series, documented.Series>,
];
