// Screenshots of the page of any running daemon: node test/screenshots.mjs URL OUTDIR [NAME]
// Writes NAME-{1440,390}-{light,dark}.png.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { launch, openPage, still } from "./chromium.mjs";

const WIDTHS = [1440, 390];

/**
 * Pictures in both widths and themes. `visit` gets a function that opens an address and one that takes the picture of a page.
 */
export async function shoot(browser, outdir, name, visit) {
  mkdirSync(outdir, { recursive: true });
  for (const width of WIDTHS) {
    for (const dark of [false, true]) {
      let view;
      const open = async (url) => {
        view = await openPage(browser, { width, height: width < 500 ? 844 : 900, dark, url });
        await still(view.page);
        return view.page;
      };
      await visit(open, (page) => page.screenshot({ path: join(outdir, `${name}-${width}-${dark ? "dark" : "light"}.png`), fullPage: true }));
      await view?.close();
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
    await shoot(browser, outdir, name, async (open, take) => take(await open(url)));
  } finally {
    await browser.close();
  }
}
