/** What Grafana would not say, but a reader would notice. That panels have data is tested against a real Prometheus. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Dashboard, GridPos, Panel, RowPanel } from "@grafana/schema";
import { dashboards } from "../src/grafana/index.js";

const each = (check: (name: string, one: Dashboard) => void) => () => Object.entries(dashboards).forEach(([name, one]) => check(name, one));
const isPanel = (panel: Panel | RowPanel): panel is Panel => panel.type !== "row";
const panels = (one: Dashboard): Panel[] => (one.panels ?? []).filter(isPanel);

test("panels lie side by side, within 24 columns", each((name, one) => {
  const places = (one.panels ?? []).map((panel) => panel.gridPos!);
  for (const [i, a] of places.entries()) {
    assert.ok(a.x + a.w <= 24, `${name}: a panel leaves the grid`);
    for (const b of places.slice(i + 1)) assert.ok(!overlap(a, b), `${name}: ${JSON.stringify(a)} overlaps ${JSON.stringify(b)}`);
  }
}));

test("ids and titles are unique, and every panel says what it shows", each((name, one) => {
  const ids = (one.panels ?? []).map((panel) => panel.id);
  assert.equal(new Set(ids).size, ids.length, `${name}: ids`);
  const titles = panels(one).map((panel) => panel.title);
  assert.equal(new Set(titles).size, titles.length, `${name}: titles ${titles.join(", ")}`);
  for (const panel of panels(one)) assert.ok((panel.description ?? "").length > 10, `${name}: ${panel.title} has no description`);
}));

test("every variable of a query is one of the dashboard's or Grafana's", each((name, one) => {
  const known = new Set((one.templating?.list ?? []).map((variable) => variable.name));
  const texts = [...panels(one).flatMap((panel) => panel.targets ?? []), ...(one.templating?.list ?? []).map(({ query }) => query)];
  for (const [, used] of JSON.stringify(texts).matchAll(/\$\{?(\w+)/g)) {
    assert.ok(used!.startsWith("__") || known.has(used!), `${name}: $${used} is no variable`);
  }
}));

test("every query asks the chosen daemons of the chosen clusters", each((name, one) => {
  const exprs = panels(one).flatMap((panel) => panel.targets ?? []).map((target) => String(target["expr"]));
  const marks = JSON.stringify(one.annotations).match(/ringscope_finding\{.*? offset/)?.[0].replaceAll('\\"', '"');
  for (const expr of [...exprs, marks ?? ""]) {
    for (const [metric, selector] of expr.matchAll(/ringscope_\w+(\{[^}]*\})?/g)) {
      assert.match(selector ?? "", /cluster=~"\$cluster",instance=~"\$instance"/, `${name}: ${metric}`);
    }
  }
  const names = one.templating?.list?.map((variable) => variable.name) ?? [];
  assert.deepEqual(names.slice(0, 4), ["datasource", "ringscope_url", "cluster", "instance"]);
}));

test("a dashboard is found by its uid, leads to ringscope and to the others, and marks findings", each((name, one) => {
  assert.equal(one.uid, `ringscope-${name}`);
  assert.deepEqual(one.links?.map((link) => link.type), ["dashboards", "link"]);
  assert.match(one.links?.[1]?.url ?? "", /^\$\{ringscope_url\}\/#\//);
  assert.equal(one.annotations?.list?.length, 1);
}));

function overlap(a: GridPos, b: GridPos): boolean {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}
