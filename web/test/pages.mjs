// The pages of a running daemon, by name: what a look at all of them goes through.

import { json } from "./real.mjs";

/** Addresses of every page, with the subjects that a person in trouble would open. */
export async function pagesOf(url) {
  const [jobs, communicators, hosts, findings] = await Promise.all(
    ["jobs", "communicators", "nodes", "findings"].map(async (what) => (await json(url, `/api/v1/${what}?limit=1000`)).items),
  );
  const groups = await json(url, "/api/v1/summation/groups?limit=1000").then((page) => page.items, () => []);
  const incidents = (await json(url, "/api/v1/incidents?limit=1000")).items;
  const finding = worst(findings);
  const job = finding?.job || jobs[0]?.id;
  const inUse = communicators.filter((one) => one.state !== "ended");
  const comm = communicators.find((one) => one.id === finding?.comm) ?? largest(inUse) ?? communicators[0];
  // Open ones come first, the worst in front.
  const host = (incidents[0]?.host || finding?.host) ?? hosts[0]?.host;
  const pages = { overview: "#/", jobs: "#/jobs" };
  if (job) pages.job = `#/jobs/${encodeURIComponent(job)}`;
  if (comm) {
    pages.communicator = `#/communicators/${comm.id}`;
    pages["communicator-ranks"] = `#/communicators/${comm.id}?view=ranks`;
  }
  pages.summation = "#/summation";
  if (groups[0]) pages["summation-group"] = `#/summation/${encodeURIComponent(groups[0].id)}`;
  pages.hosts = "#/hosts";
  if (host) pages.host = `#/hosts/${encodeURIComponent(host)}`;
  pages.incidents = "#/incidents";
  if (incidents[0]) pages.incident = `#/incidents/${encodeURIComponent(incidents[0].id)}`;
  pages.findings = "#/findings";
  if (finding) pages.finding = `#/findings?id=${encodeURIComponent(finding.id)}`;
  pages.runbook = `#/runbook/${finding?.finding ?? "channel_shortfall"}`;
  return pages;
}

function worst(findings) {
  const firing = findings.filter((one) => one.state === "firing");
  for (const severity of ["critical", "warning", "info"]) {
    const found = firing.find((one) => one.severity === severity && one.comm !== "");
    if (found) return found;
  }
  return firing[0];
}

function largest(communicators) {
  return communicators.reduce((best, one) => (best && best.n_ranks >= one.n_ranks ? best : one), undefined);
}
