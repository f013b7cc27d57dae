// Which pictures docs/ shows, and how they are made small: `cargo xtask screens --docs`.

import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const FOLDER = fileURLToPath(new URL("../../docs", import.meta.url));
/** A picture of a page is few colours: nobody sees the difference. Narrow ones are long, and have twice the pixels. */
const COLOURS = { 1440: "128", 390: "24" };
const MAX_BYTES = 200_000;

const one = (file, stage, page, width, theme) => ({ file, stage, page, width, theme });

/** File in docs/, and the picture that it is. */
export const DOCS = [
  one("overview-light", "demo", "overview", 1440, "light"),
  one("overview-dark", "demo", "overview", 1440, "dark"),
  one("mobile-dark", "demo", "overview", 390, "dark"),
  one("communicator-light", "demo", "communicator", 1440, "light"),
  one("compare-dark", "demo", "compare", 1440, "dark"),
  one("host-light", "demo", "host", 1440, "light"),
  one("thousand-hosts-light", "thousand-hosts", "overview", 1440, "light"),
  one("hang-light", "hang", "incident", 1440, "light"),
  one("mismatch-light", "mismatch", "incident", 1440, "light"),
  one("cycle-dark", "cycle", "incident", 1440, "dark"),
  one("init-light", "init", "incident", 1440, "light"),
  one("unknown-light", "unknown", "overview", 1440, "light"),
  one("proxy-401-dark", "proxy-401", "first", 1440, "dark"),
];

/** Makes those of docs/ anew that were taken; what came of it, in words. */
export function writeDocs(outdir, stages) {
  const taken = DOCS.filter(({ stage }) => stages.includes(stage));
  const sizes = taken.map(({ file, stage, page, width, theme }) => {
    const from = join(outdir, stage, `${page}-${width}-${theme}.png`);
    const to = join(FOLDER, `${file}.png`);
    if (!existsSync(from)) throw new Error(`${from} was not taken`);
    copyFileSync(from, to);
    execFileSync("pngquant", ["--force", "--strip", "--speed", "1", "--ext", ".png", COLOURS[width], to]);
    const bytes = statSync(to).size;
    if (bytes > MAX_BYTES) throw new Error(`${to}: ${bytes} bytes, more than ${MAX_BYTES}`);
    return `${file} ${(bytes / 1000).toFixed(0)} kB`;
  });
  return `docs: ${sizes.join(", ")}`;
}
