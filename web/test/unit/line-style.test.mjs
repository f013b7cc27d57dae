import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { colourOf, primitiveStyle, shapeOf, SHAPES, STYLES } from "../../src/pure/line-style";

/** Machado, Oliveira and Fernandes 2009, severity 1: what linear light becomes for who lacks one kind of cone. */
const SEEN_BY = {
  most: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopes: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopes: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopes: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};
/** Two lines this far apart in CIELAB are not taken for each other; their marks differ besides. */
const MIN_DISTANCE = 10;
/** WCAG 2.2, 1.4.11: graphics against what they lie on. */
const MIN_CONTRAST = 3;

const css = readFileSync("src/styles/base.css", "utf8");
const [light, dark] = [css.slice(0, css.indexOf("@media")), css.slice(css.indexOf(':root[data-theme="dark"]'))];
const token = (theme, name) => new RegExp(`--${name}: (#[0-9a-f]{6})`).exec(theme)[1];

const linear = (hex) => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
const through = (matrix, rgb) => matrix.map((row) => Math.min(1, Math.max(0, row.reduce((sum, x, i) => sum + x * rgb[i], 0))));
const luminance = ([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b;
function lab([r, g, b]) {
  const f = (t) => (t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116);
  const [x, y, z] = [f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047), f(luminance([r, g, b])), f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883)];
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

test.each([["light", light], ["dark", dark]])("lines are told apart by everybody and seen on the panel, %s", (_name, theme) => {
  const colours = Array.from({ length: STYLES }, (_, i) => token(theme, `line-${i}`));
  const panel = luminance(linear(token(theme, "panel"))) + 0.05;
  for (const colour of colours) {
    const own = luminance(linear(colour)) + 0.05;
    expect(Math.max(own, panel) / Math.min(own, panel), colour).toBeGreaterThan(MIN_CONTRAST);
  }
  for (const [who, matrix] of Object.entries(SEEN_BY)) {
    const seen = colours.map((colour) => lab(through(matrix, linear(colour))));
    seen.forEach((a, i) => seen.slice(0, i).forEach((b, j) => {
      expect(Math.hypot(...a.map((x, k) => x - b[k])), `${colours[i]} and ${colours[j]} to ${who}`).toBeGreaterThan(MIN_DISTANCE);
    }));
  }
});

test("the system's dark and the chosen dark are the same", () => {
  const system = css.slice(css.indexOf("@media"), css.indexOf(':root[data-theme="dark"]'));
  for (let i = 0; i < STYLES; i += 1) expect(token(system, `line-${i}`)).toBe(token(dark, `line-${i}`));
});

test("a primitive looks the same everywhere, and no two look alike", () => {
  expect(primitiveStyle("all_reduce")).toBe(0);
  const all = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "send", "recv", "reduce", "all_to_all", "gather", "scatter", "put_signal", "push", "pull", "push_pull", "of_a_newer_daemon"];
  expect(new Set(all.map((one) => `${colourOf(primitiveStyle(one))} ${shapeOf(primitiveStyle(one))}`)).size).toBe(all.length);
  expect(SHAPES).toHaveLength(STYLES);
});
