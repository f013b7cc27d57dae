// What a user sees comes a frame after what the user did, and on a busy machine much later. Every check reads the page
// through these: each waits until what it says is so, and only then, or after PATIENCE_MS, compares. Nothing here keeps an
// element: the page draws anew, and each look asks for it again.

import assert from "node:assert/strict";

/** Longer than anything takes on a machine that is busy with other work. What is never so fails that late. */
export const PATIENCE_MS = Number(process.env.PATIENCE_MS ?? 180_000);
const LOOK_MS = 50;

/** Asks until `ask` says yes (or yields anything but undefined and false); yields that, or undefined in the end. */
export async function until(ask, patienceMs = PATIENCE_MS) {
  const end = Date.now() + patienceMs;
  for (;;) {
    // In the middle of a navigation the page answers nothing: that is no answer, and no error.
    const answer = await ask().catch(() => undefined);
    if (answer !== undefined && answer !== false) return answer;
    if (Date.now() > end) return undefined;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

/** Text of the first of `selector`, spaces as one; undefined if there is none now. */
async function now(page, selector) {
  const all = await page.locator(selector).evaluateAll((all) => all.slice(0, 1).map((one) => (one.innerText ?? one.textContent).trim().replace(/\s+/g, " ")));
  return all[0];
}

/** Waits until `is` says yes to what `ask` yields; the last that it yielded, for `compare` to say what is wrong with it. */
async function comesTo(ask, is, compare) {
  let seen;
  const came = await until(async () => {
    seen = await ask();
    return is(seen);
  });
  // Never asked again: what was so once is enough, however quickly the page goes on.
  if (came === undefined) compare(seen);
}

/** Waits until the text of the first of `selector` matches. */
export async function says(page, selector, words) {
  await comesTo(() => now(page, selector), (seen) => words.test(seen ?? ""), (seen) => assert.match(seen ?? `no ${selector}`, words));
}

/** Waits until it is exactly that. */
export async function reads(page, selector, expected) {
  await comesTo(() => now(page, selector), (seen) => seen === expected, (seen) => assert.equal(seen ?? `no ${selector}`, expected));
}

/** Text of the first of `selector`, as soon as there is any. */
export async function text(page, selector) {
  const seen = await until(async () => (await now(page, selector)) || undefined);
  assert.ok(seen !== undefined, `no text in ${selector}`);
  return seen;
}

/** Waits until there are so many. */
export async function counts(page, selector, expected, what = selector) {
  await comesTo(() => page.locator(selector).count(), (seen) => seen === expected, (seen) => assert.equal(seen, expected, what));
}

/** Waits until the attribute of the first of `selector` matches. */
export async function has(page, selector, attribute, words) {
  const ask = () => page.locator(selector).evaluateAll((all, attribute) => all.slice(0, 1).map((one) => one.getAttribute(attribute) ?? "")[0], attribute);
  await comesTo(ask, (seen) => words.test(seen ?? ""), (seen) => assert.match(seen ?? `no ${selector}`, words));
}

/** Waits until the address matches. */
export async function goesTo(page, words) {
  await comesTo(async () => page.url(), (seen) => words.test(seen), (seen) => assert.match(seen, words));
}

/** Waits until the browser's tab says so. */
export async function titled(page, words) {
  await comesTo(() => page.title(), (seen) => words.test(seen), (seen) => assert.match(seen ?? "no title", words));
}

/** Waits until what `look` yields in the page, called with `argument`, equals `expected`. */
export async function yields(page, look, expected, argument) {
  const same = (seen) => JSON.stringify(seen) === JSON.stringify(expected);
  await comesTo(() => page.evaluate(look, argument), same, (seen) => assert.deepEqual(seen, expected));
}

/** Waits until nothing is wider than the window. */
export async function fits(page, what) {
  const over = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  await comesTo(over, (px) => px <= 0, (px) => assert.fail(`${what}: ${px} px too wide`));
}

/** Nothing of `selector` is cut by what scrolls it, or by the screen. */
export async function whole(page, selector, what) {
  const cut = () => page.locator(selector).evaluateAll((all) => all.filter((one) => one.getBoundingClientRect().width > 0).filter((one) => {
    const frame = one.closest(".scroller")?.getBoundingClientRect() ?? { left: 0, right: innerWidth };
    const words = document.createRange();
    words.selectNodeContents(one);
    const { left, right } = words.getBoundingClientRect();
    return left < frame.left - 1 || right > frame.right + 1;
  }).map((one) => one.textContent));
  await comesTo(cut, (all) => all.length === 0, (all) => assert.deepEqual(all, [], what));
}

/** Presses a key of the whole page until it has done what it does: the page listens to these a moment after it is drawn. */
export async function presses(page, key, selector) {
  const done = await until(async () => {
    await page.keyboard.press(key);
    return until(async () => (await page.locator(selector).count()) > 0, 2_000);
  });
  assert.ok(done, `${key} does not bring ${selector}`);
}

/** Presses the two keys one after the other until they lead there: the page takes them together only if they come together. */
export async function chord(page, key, words) {
  const there = await until(async () => {
    await page.keyboard.press("g");
    await page.keyboard.press(key);
    return until(async () => words.test(page.url()), 2_000);
  });
  assert.ok(there, `g ${key} does not lead to ${words}`);
}

/** Waits until the page has drawn what it will draw: it is there, and asks for nothing that it does not show yet. */
export async function drawn(page) {
  await page.waitForFunction(() => {
    const main = document.querySelector("main");
    if (main === null || main.querySelector("h1") === null || main.querySelector(".loading") !== null) return false;
    if (main.querySelector(".unreadable") !== null) return true;
    if (main.querySelector(".panel, nav, .notice, .empty") === null) return false;
    return [...main.querySelectorAll(".quiet, .notice")].every((one) => !/Asking/.test(one.textContent));
  });
}
