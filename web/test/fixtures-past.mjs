// How a made-up cluster stood at a moment: from what it has now, as a daemon tells it from its database.

/** `jobs` and all else of a world that fixtures.mjs made; `query`: of the request. */
export function past(all, query) {
  const at = query.get("at");
  const ms = Date.parse(at);
  if (Number.isNaN(ms)) return undefined;
  const job = query.get("job");
  const began = (one) => Date.parse(one.began_at ?? one.first_seen);
  const held = (one) => began(one) <= ms && (one.resolved_at == null || Date.parse(one.resolved_at) > ms) && (job === null || one.job === job || one.job === "");
  const findings = [...all.firing, ...all.resolved].filter(held);
  const incidents = all.incidents.filter(held);
  const bad = (host) => findings.find((one) => one.severity !== "info" && one.host === host);
  // Nobody recorded the last host of all.
  const silent = all.nodes.at(-1)?.host;
  const hosts = all.nodes.filter((one) => job === null || one.jobs.includes(job)).map((one) => ({
    host: one.host, jobs: one.jobs, n_processes: one.n_processes, init_channels: one.init_channels, final_channels: one.final_channels,
    completed_bytes_per_s: one.host === silent ? null : one.completed_bytes_per_s,
    standing: bad(one.host) !== undefined ? { condition: "degraded", reason: bad(one.host).message }
      : one.host === silent ? { condition: "unknown", reason: "no completed bytes were recorded then: its processes had nothing to do, or nothing was heard of them; which of the two is not kept" }
      : { condition: "healthy", reason: "operations completed then, and nothing was found against it" },
  }));
  const communicators = all.communicators.filter((one) => (job === null || one.job === job) && Date.parse(one.created) <= ms && (one.ended === undefined || Date.parse(one.ended) > ms)).map((one) => ({
    id: one.id, job: one.job, name: one.name, created: one.created, ended: one.ended, n_ranks: one.n_ranks, n_hosts: one.hosts.length,
    base: one.base, final_channels: one.final_channels, completed_bytes_per_s: one.completed_bytes_per_s,
  }));
  const worst = findings.find((one) => one.severity !== "info");
  return {
    at, level: worst?.severity ?? "unknown", sentence: worst?.message ?? `Nothing was found, but it is not known how 1 of ${hosts.length} hosts did`,
    incidents, findings, hosts, communicators, paces: [...new Set(communicators.map((one) => one.job))].map(paceThen), lacks: ["NICs, GPUs and single operations are not kept over time."],
  };
}

/** Of a job, as `past` tells it. */
function paceThen(job) {
  return { job, step_seconds: 0.42, own_seconds: 0.21, in_operations_share: 0.5, waiting_share: 0.08 };
}

/** How fast a job went over the time that `query` asks for, as `jobs/J/pace/series` tells it; a minute of it nobody recorded. */
export function paceSeries(job, query) {
  const [fromMs, toMs] = ["from", "to"].map((name) => Date.parse(query.get(name)));
  const stepMs = Number.parseInt(query.get("step"), 10) * 1000;
  const n = Math.max(1, Math.floor((toMs - fromMs) / stepMs));
  const times_ms = Array.from({ length: n }, (_, i) => fromMs + i * stepMs);
  const line = (value) => times_ms.map((_, i) => (i % 40 >= 34 ? null : value * (1 + 0.03 * Math.sin(i))));
  return { job, step_s: stepMs / 1000, times_ms, step_seconds: line(0.42), own_seconds: line(0.21), in_operations_share: line(0.5), waiting_share: line(0.08) };
}
