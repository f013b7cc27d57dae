// Screenshots of the page of any running daemon: node test/screenshots.mjs URL OUTDIR [NAME]
// Writes NAME-{1440,390}-{light,dark}.png.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { launch, openPage, still } from "./chromium.mjs";

const WIDTHS = [1440, 390];

export async function shoot(browser, url, outdir, name, widths = WIDTHS) {
  mkdirSync(outdir, { recursive: true });
  for (const width of widths) {
    for (const dark of [false, true]) {
      const { page, close } = await openPage(browser, { width, height: width < 500 ? 844 : 900, dark, url });
      await still(page);
      await page.screenshot({ path: join(outdir, `${name}-${width}-${dark ? "dark" : "light"}.png`), fullPage: true });
      await close();
    }
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [url, outdir, name = "ringscope"] = process.argv.slice(2);
  if (url === undefined || outdir === undefined) {
    process.stderr.write("usage: node test/screenshots.mjs URL OUTDIR [NAME]\n");
    process.exit(64);
  }
  const browser = await launch();
  try {
    await shoot(browser, url, outdir, name);
  } finally {
    await browser.close();
  }
}
