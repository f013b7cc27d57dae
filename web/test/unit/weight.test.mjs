import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";

/** All a browser may ever load of the page, gzip. */
const LIMIT_BYTES = 150_000;

test("the whole page as it is built stays below its weight", () => {
  const files = readdirSync("dist", { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const bytes = files.map((file) => gzipSync(readFileSync(join(file.parentPath, file.name))).length);
  expect(bytes.length).toBeGreaterThan(3);
  expect(bytes.reduce((sum, one) => sum + one)).toBeLessThan(LIMIT_BYTES);
});
