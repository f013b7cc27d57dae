/** Writes the built files into `dashboards/`. */

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { files } from "./files.js";

for (const [path, text] of files()) {
  const file = join(import.meta.dirname, "../..", path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}
