/** Findings as an operator reads them: one line a conclusion, however many hosts or ranks it holds for. Pure. */

import type { Finding, FindingKind, Severity } from "../api";
import { byName } from "./health";

export interface FindingGroup {
  key: string;
  /** The first of them; its message stands for all. */
  first: Finding;
  all: Finding[];
  hosts: string[];
}

const SEVERITIES: Severity[] = ["critical", "warning", "info"];

const NAMES: Record<FindingKind, string> = {
  init_below_half_final: "Init channels below half of final",
  channel_shortfall: "Channel shortfall",
  capped_by_peer: "Capped by a peer",
  final_disagrees: "Final channels disagree",
  channel_regression: "Channel regression",
};

export function kindName(kind: FindingKind): string {
  return NAMES[kind] ?? kind.replaceAll("_", " ");
}

/** Groups equal conclusions on one communicator; worst first, then newest. */
export function group(findings: Finding[]): FindingGroup[] {
  const groups = new Map<string, FindingGroup>();
  const ordered = [...findings].sort((a, b) => byName(a.host, b.host) || (a.rank ?? -1) - (b.rank ?? -1));
  for (const finding of ordered) {
    const key = [finding.state, finding.severity, finding.finding, finding.job, finding.comm, finding.cause].join("|");
    const found = groups.get(key);
    if (found) {
      found.all.push(finding);
      if (found.hosts.at(-1) !== finding.host) found.hosts.push(finding.host);
    } else groups.set(key, { key, first: finding, all: [finding], hosts: [finding.host] });
  }
  return [...groups.values()].sort(
    (a, b) =>
      SEVERITIES.indexOf(a.first.severity) - SEVERITIES.indexOf(b.first.severity) ||
      time(b.first).localeCompare(time(a.first)) ||
      a.key.localeCompare(b.key),
  );
}

function time(finding: Finding): string {
  return finding.resolved_at ?? finding.first_seen;
}
