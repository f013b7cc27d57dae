// What axe-core finds wrong with a page.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const SOURCE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/**
 * Serious and critical faults by all rules or only these, each as one line: rule, and where. The page's policy allows no
 * script of others: it is evaluated by the debugger.
 */
export async function faults(page, rules) {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(SOURCE);
  const violations = await page.evaluate(async (rules) => {
    const { violations } = await globalThis.axe.run(document, { resultTypes: ["violations"], ...(rules && { runOnly: rules }) });
    return violations.map(({ id, impact, nodes }) => ({ id, impact, at: nodes.slice(0, 3).map((node) => `${node.target.join(" ")} (${node.failureSummary})`) }));
  }, rules);
  const bad = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  return bad.map(({ id, impact, at }) => `${impact} ${id}: ${at.join("; ").replace(/\s+/g, " ")}`);
}
