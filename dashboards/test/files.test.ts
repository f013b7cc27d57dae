/** The committed files: built from the sources, liked by Prometheus and Alertmanager, and true of the daemon. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { alertGroups, files } from "../src/files.js";
import { command, ROOT } from "./promtool.js";

const read = (path: string) => readFileSync(join(ROOT, path), "utf8");

test("the committed files are what the sources build", () => {
  for (const [path, text] of files()) {
    assert.ok(read(path) === text, `${path} is older than src: run \`cargo xtask dashboards\` and commit`);
  }
});

test("Prometheus and Alertmanager like the rules and the examples", () => {
  const rules = [...files().keys()].filter((path) => path.startsWith("rules/"));
  for (const path of rules) command("promtool", ["check", "rules", join(ROOT, path)]);
  command("promtool", ["check", "config", join(ROOT, "prometheus.yml")]);
  command("amtool", ["check-config", join(ROOT, "alertmanager.yml")]);
});

test("every metric that is named is one that the daemon shows", () => {
  const golden = new Set(
    [...read("../fixtures/metrics/small.prom").matchAll(/^# TYPE (\S+)/gm)].map((match) => match[1]),
  );
  const recorded = new Set([...read("rules/recording.yml").matchAll(/record: (\S+)/g)].map((match) => match[1]));
  for (const path of files().keys()) {
    const named = [...read(path).matchAll(/(?<![\w:])((?:[a-z_]+:)?ringscope_\w+(?::\w+)?)/g)].map((match) => match[1]);
    // `ringscope_url` is a variable of the dashboards; only one of several daemons shows whether it leads, or reaches who does.
    // A histogram is scraped as buckets.
    const known = (name: string) => golden.has(name) || golden.has(name.replace(/_bucket$/, "")) || recorded.has(name);
    const others = ["ringscope_url", "ringscope_daemon_leads", "ringscope_daemon_reaches_leader"];
    const unknown = named.filter((name) => !known(name!) && !others.includes(name!));
    assert.deepEqual(unknown, [], path);
  }
});

test("every alert leads to a section of the runbook that says what it means, what to look at and what to do", () => {
  const sections = new Map(
    read("runbook.md")
      .split("\n## ")
      .slice(1)
      .map((section) => [section.slice(0, section.indexOf("\n")).trim(), section]),
  );
  for (const { alert, annotations } of alertGroups.flatMap((group) => group.rules)) {
    const section = sections.get(annotations.runbook_url.split("#")[1]!.replace("{{ $labels.finding }}", "rank_missing"));
    for (const part of ["**Meaning.**", "**Check.**", "**Do.**"]) {
      assert.ok(section?.includes(part), `${alert}: runbook.md has no ${part} at ${annotations.runbook_url}`);
    }
  }
});
