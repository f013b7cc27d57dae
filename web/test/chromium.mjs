// Debian's Chromium under playwright-core, quiet and with a profile of its own.

import { existsSync } from "node:fs";
import { chromium } from "playwright-core";
import { drawn, PATIENCE_MS } from "./reading.mjs";

/** A browser starts in a second, and on a machine that is busy and swaps in minutes. */
const STARTS_MS = 180_000;
const PATH = process.env.CHROMIUM ?? "/usr/bin/chromium";

export async function launch() {
  if (!existsSync(PATH)) {
    throw new Error(`no browser at ${PATH}: apt-get install -y --no-install-recommends chromium (or set CHROMIUM)`);
  }
  return chromium.launch({
    executablePath: PATH,
    headless: true,
    timeout: STARTS_MS,
    args: [
      "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync",
    ],
  });
}

/** A page of `width` pixels; `seen` collects what a user must never meet: console errors, requests elsewhere. */
export async function openPage(browser, { width, height = 900, dark = false, url }) {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: dark ? "dark" : "light",
    reducedMotion: "reduce",
    deviceScaleFactor: width < 500 ? 2 : 1,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const seen = { errors: [], elsewhere: [] };
  const origin = url === "about:blank" ? "" : new URL(url).origin;
  page.on("console", (message) => {
    if (message.type() === "error") seen.errors.push(message.text());
  });
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  page.on("request", (request) => {
    const to = request.url();
    if (!to.startsWith(origin) && !to.startsWith("data:")) seen.elsewhere.push(to);
  });
  await page.goto(url);
  if (url !== "about:blank") await page.waitForSelector("h1");
  return { page, seen, close: () => context.close() };
}

/** Waits until the page is drawn and nothing but numbers moves: no element has come or gone for a third of a second. */
export async function still(page) {
  await drawn(page);
  await page.evaluate(
    () =>
      new Promise((resolve) => {
        let quiet;
        const done = () => {
          clearTimeout(quiet);
          observer.disconnect();
          resolve();
        };
        const again = () => {
          clearTimeout(quiet);
          quiet = setTimeout(done, 300);
        };
        const observer = new MutationObserver((all) => {
          if (all.some((one) => one.addedNodes.length > 0)) again();
        });
        observer.observe(document.body, { childList: true, subtree: true });
        again();
        setTimeout(done, 8000);
      }),
  );
}
