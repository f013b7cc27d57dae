// What a daemon would say of made-up clusters, as the objects of daemon/api. `now` is milliseconds since the epoch.

import { connections } from "./fixtures-rdma.mjs";
import { HANGS, hangFinding, judge } from "./fixtures-incidents.mjs";
import { hardware, rails } from "./fixtures-ring.mjs";
import { SUMMATIONS } from "./fixtures-summation.mjs";
import { slowFinding } from "./fixtures-time.mjs";

const MIB = 1024 * 1024;
const iso = (ms) => new Date(ms).toISOString();

/** One communicator over `nHosts` hosts with `perHost` ranks each, and everything that hangs on it. */
function cluster(now, options) {
  const {
    job = "llm-7b-pretrain", id = "9f3b5c6d7e8f", name = "world", nHosts = 4, perHost = 2, channels = 4,
    slowHost = null, killed = [], missing = [], startedS = 1980, hostName = (i) => `host-${i}`,
    transport = "NET/IB", rate = 11.8e9, ended = false, findingS = 840, graph = true, tick = 0, nicDown = [], partly = false, oddHost = null,
    hang = undefined, slow = undefined,
  } = options;
  const nRanks = nHosts * perHost;
  const host = (rank) => hostName(Math.floor(rank / perHost));
  const degraded = slowHost === null ? null : hostName(slowHost);
  const init = (i) => (slowHost === null ? channels / 2 : i === slowHost ? 1 : channels / 2);
  const final = slowHost === null ? channels : 2;
  const stuck = killed.length > 0 || hang !== undefined;
  const stuckS = hang === undefined ? 41.3 : hang.sinceS;
  const late = new Set(hang?.culprits ?? []);
  const seq = stuck ? 1042 : 1042 + tick;
  const calls = seq + 1;
  // Counters that grow as the rates say.
  const endedMs = now - 600_000;
  const runS = ((now % 1e7) + 3e6) / 1000;
  const message = `${degraded} found 1 channel, the others ${channels / 2}: every rank runs on 2 channels instead of ${channels}`;

  const operation = (rank) => {
    const dead = killed.includes(rank);
    const done = ended || (!dead && !stuck && (rank + tick) % 3 === 0) || (!dead && late.has(rank) && hang.blocked);
    return {
      rank, host: host(rank), primitive: "all_reduce", seq_number: dead || (late.has(rank) && hang.blocked) ? seq - 1 : seq, bytes: 64 * MIB, count: 16 * MIB,
      datatype: "float32", state: done ? "completed" : "in_flight", issued_at: iso(now - (stuck ? stuckS * 1000 : 18)),
      duration_s: dead || done ? 0.012 : stuck ? stuckS + tick : 0.0184, channels_done: stuck ? 0 : 1, channels_expected: final,
    };
  };
  const hosts = Array.from({ length: nHosts }, (_, i) => hostName(i));
  const odd = oddHost === null ? [] : [
    finding({
      id: "f-odd", finding: "rail_mismatch", severity: "warning", host: hostName(oddHost), rank: oddHost * perHost + perHost - 1, channel: 0, cause: "cross_rail",
      message: `rank ${oddHost * perHost + perHost - 1} on ${hostName(oddHost)} sends from mlx5_0 to mlx5_1 on channel 0, most hops keep their rail`,
      evidence: [{ file: "/dev/shm/ringscope/nccl-4f2c-host-1-20021.log", line: 214, text: "host-1:20021:20080 [1] NCCL INFO Channel 00/0 : 3[1] -> 4[0] [send] via NET/IB/0/GDRDMA" }],
    }),
  ];
  const findings = degraded === null ? [...odd] : [
    finding({ id: "f-1", finding: "channel_shortfall", severity: "critical", host: degraded, cause: "fewer_nics", message,
      advice: `Probably a NIC or a GPU link of ${degraded} is down or hidden: compare \`ip -br link\`, \`ibstat\` and \`nvidia-smi topo -m\` there with a healthy host.` }),
    ...hosts.filter((h) => h !== degraded).map((h, i) => finding({
      id: `f-c${i}`, finding: "capped_by_peer", severity: "info", host: h, cause: "peer_limits", culprits: [degraded],
      message: `${h} found ${channels / 2} channels and uses as many as ${degraded} allows: 2 instead of ${channels}`,
    })),
  ];
  if (hang !== undefined) findings.push(hangFinding(hang, { id, job, nRanks, host, now }));
  if (slow !== undefined) findings.push(slowFinding(slow, { id, job, nRanks, host, now }));
  for (const i of nicDown) {
    findings.push(finding({
      id: `f-nic${i}`, finding: "nic_degraded", severity: "warning", job: "", comm: "", host: hostName(i), nic: "mlx5_3", cause: "nic_down",
      message: `mlx5_3 of ${hostName(i)} is down; its peers have 4 NICs up`,
      evidence: [{ file: "/sys/class/infiniband/mlx5_3/ports/1/state", line: 1, text: "1: DOWN" }, { file: "/sys/class/infiniband/mlx5_3/ports/1/phys_state", line: 1, text: "2: Polling" }],
    }));
  }
  function finding(rest) {
    return { state: "firing", job, comm: id, first_seen: iso(now - findingS * 1000), last_seen: iso(now), ...rest };
  }
  const byHost = new Map();
  for (const one of findings) byHost.set(one.host, [...(byHost.get(one.host) ?? []), one]);
  const counts = (list) => ({
    critical: list.filter((f) => f.severity === "critical").length,
    warning: list.filter((f) => f.severity === "warning").length,
    info: list.filter((f) => f.severity === "info").length,
  });
  const seen = nRanks - missing.length;
  const coverage = partly
    ? { state: "partly", ranks: seen, calls: 0, plugin: seen, log: seen,
        lacks: ["The calls of 8 ranks bypass the collector: start the job with `ringscope run --shim`. Issued counts are what the profiler tells."] }
    : { state: "full", ranks: seen, calls: seen, plugin: seen, log: seen, lacks: [] };
  const perS = ended || stuck ? 0 : slowHost === null ? rate : rate / 2.1;
  const bytes = calls * 64 * MIB * nRanks;
  const summary = {
    id, comm_hash: `0x${id}9a0b`, job, name, state: ended ? "ended" : hang?.absent ? "forming" : killed.length > 0 ? "broken" : "active",
    created: iso(now - startedS * 1000), ...(ended ? { ended: iso(endedMs) } : {}), n_ranks: nRanks, n_ranks_seen: nRanks - missing.length, n_nodes: nHosts, hosts,
    base: graph ? (slowHost === null ? channels / 2 : 1) : null, final_channels: graph ? final : null,
    culprits: degraded ? [degraded] : [], degraded: degraded !== null, findings: counts(findings),
    coverage, completion: "profiler",
    issued_bytes: bytes + 64 * MIB, completed_bytes: bytes, completed_bytes_per_s: perS,
  };
  const ranks = Array.from({ length: nRanks }, (_, rank) => rank).filter((rank) => !missing.includes(rank)).map((rank) => ({
    rank, global_rank: rank, host: host(rank), pid: 20_000 + rank * 7, gpu: `${rank % perHost}`,
    state: killed.includes(rank) ? "killed" : ended ? "exited" : "running",
    init_channels: graph ? init(Math.floor(rank / perHost)) : null, final_channels: graph ? final : null,
    sources: ["calls", "plugin", "log"], completion: "profiler", cause: !graph ? "unknown" : slowHost === null || Math.floor(rank / perHost) === slowHost ? "doubled" : "capped_by_peer",
    causes: [!graph ? "unknown" : slowHost === null || Math.floor(rank / perHost) === slowHost ? "doubled" : "capped_by_peer"], node: Math.floor(rank / perHost),
    operation: operation(rank),
  }));
  const running = new Map();
  for (const one of ranks) if (one.state === "running") running.set(one.host, (running.get(one.host) ?? 0) + 1);
  const ring = (channel) => {
    const order = [];
    for (let h = 0; h < nHosts; h += 1) {
      for (let l = 0; l < perHost; l += 1) {
        const rank = h * perHost + ((l + (h === 0 ? 0 : channel)) % perHost);
        order.push(rank);
      }
    }
    // As the daemon: the longest piece known, here from behind the missing ranks round to them.
    const last = Math.max(-1, ...missing.map((rank) => order.indexOf(rank)));
    const place = new Map(order.map((rank, i) => [rank, i]));
    const known = [...order.slice(last + 1), ...order.slice(0, last + 1)].filter((rank) => !missing.includes(rank));
    return {
      channel, complete: missing.length === 0, missing_ranks: missing,
      ...(missing.length > 0 ? { problem: `ranks ${missing.join(" and ")} have not said who follows them on channel ${channel}` } : {}),
      order: known.map((rank) => {
        const next = order[(place.get(rank) + 1) % order.length];
        const between = host(next) !== host(rank);
        return {
          rank, host: host(rank), gpu: `${rank % perHost}`, next,
          transport: between ? transport : channel % 2 === 1 && perHost === 2 ? "SHM" : "P2P/CUMEM",
          nic: between ? (transport === "NET/IB" ? `mlx5_${channel % 4}` : "eth0") : null,
          ...(between && oddHost === Math.floor(rank / perHost) ? { odd: ["cross_rail"], recv_nic: `mlx5_${(channel + 1) % 4}` } : {}),
          sent_bytes: between ? Math.round(bytes / nRanks * 1.75) : 0,
        };
      }),
    };
  };
  const moved = (share, n) => Math.round((stuck || ended ? rate : perS) * share * (n / nRanks) * (stuck || ended ? 3000 : runS));
  const totals = (primitive, share, factor, n) => ({
    primitive, issued_calls: Math.round(calls * share) + 1, issued_bytes: moved(share, n) + 64 * MIB,
    completed_calls: Math.round(calls * share), completed_bytes: moved(share, n), failed_calls: 0,
    captured_calls: partly ? 24 : 0, captured_bytes: partly ? 24 * MIB : 0, replayed_calls: 0, replayed_bytes: 0,
    intra_bytes: Math.round(moved(share, n) * factor * 0.6), inter_bytes: Math.round(moved(share, n) * factor * 0.4),
    backlog_bytes: 64 * MIB, completed_bytes_per_s: perS * share * (n / nRanks) * (1 + 0.03 * Math.sin(tick)),
    bus_bytes_per_s: perS * share * factor / nRanks,
  });
  const untold = { intra_bytes: null, inter_bytes: null, reason: "NCCL 2.30.7 does not tell what a broadcast sends between hosts" };
  const all = (n) => [
    totals("all_gather", 0.25, 0.875, n), totals("all_reduce", 1, 1.75, n), ...(partly ? [{ ...totals("broadcast", 0.1, 0.875, n), ...untold }] : []),
    totals("reduce_scatter", 0.25, 0.875, n),
  ];
  return {
    job: {
      id: job, state: ended ? "ended" : "running", first_seen: iso(now - startedS * 1000 - 9000),
      last_seen: iso(ended ? now - 600_000 : now), world_size: nRanks, n_processes: ranks.length, n_killed: killed.length, hosts,
      active_communicators: ended ? 0 : 1, n_communicators: 1, findings: counts(findings), coverage, issued_bytes: bytes + 64 * MIB,
      completed_bytes: bytes, completed_bytes_per_s: perS * 1.5, dropped: {},
    },
    hosts: hosts.map((h, i) => {
      const mine = byHost.get(h) ?? [];
      return {
        host: h, degraded: mine.some((f) => f.severity !== "info"), reasons: mine.filter((f) => f.severity !== "info").map((f) => f.message), findings: counts(mine),
        jobs: ended ? [] : [job], n_processes: ended ? 0 : running.get(h) ?? 0,
        init_channels: graph ? init(i) : null, final_channels: graph ? final : null,
        n_nics: 5, n_nics_down: 0, n_gpus: perHost,
        completed_bytes_per_s: (perS * 1.5 / nHosts) * (0.86 + 0.14 * Math.abs(Math.sin(i * 2.7))), last_seen: iso(ended ? now - 600_000 : now),
        n_nics: 4, n_nics_down: nicDown.includes(i) ? 1 : 0, n_gpus: perHost,
      };
    }),
    communicator: summary,
    detail: {
      ...summary,
      prediction: {
        finals: graph ? [final] : [], explained: graph ? true : null, unknown: [],
        steps: graph ? [{ cause: "doubled", channels: final, text: "NCCL doubles what its search found", inferred: false }] : [],
      },
      ranks,
    },
    get rings() {
      return { id, rings: graph ? Array.from({ length: final }, (_, channel) => ring(channel)) : [] };
    },
    get primitives() {
      return { id, primitives: all(nRanks), ranks: ranks.map((r) => ({ rank: r.rank, host: r.host, primitives: all(1) })) };
    },
    findings,
    perS, findingS: stuck ? 41 : degraded ? findingS : null, rate,
  };
}

const resolvedFinding = (now) => ({
  id: "f-old", finding: "channel_regression", severity: "warning", state: "resolved", job: "llm-7b-pretrain", host: "host-1",
  comm: "9f3b5c6d7e8f", cause: "fewer_nics", message: "host-1 found 1 channel, 2 in its last communicator of this shape",
  first_seen: iso(now - 86_400_000), last_seen: iso(now - 82_000_000), resolved_at: iso(now - 82_000_000),
});

const rack = (i) => `gpu-r${String(Math.floor(i / 16) + 1).padStart(2, "0")}n${String((i % 16) + 1).padStart(2, "0")}`;

/** By name; each takes (now, tick) and yields a list of clusters. */
export const SCENARIOS = {
  empty: () => [],
  healthy: (now, tick) => [
    cluster(now, { tick }),
    cluster(now, { tick, id: "1a2b3c4d5e6f", name: "tensor-0", nHosts: 1, perHost: 2, channels: 8, rate: 3.1e9 }),
  ],
  degraded: (now, tick) => [cluster(now, { tick, slowHost: 2 })],
  rails: (now, tick) => rails(now, tick, cluster),
  killed: (now, tick) => [cluster(now, { tick, killed: [3], hang: HANGS.dead })],
  slow: (now, tick) => [cluster(now, { tick, slow: 5 })],
  "slow-many": (now, tick) => [cluster(now, { tick, job: "moe-pretrain", nHosts: 128, perHost: 8, channels: 16, hostName: rack, rate: 1.42e12, slow: 613 })],
  hang: (now, tick) => [cluster(now, { tick, hang: HANGS.hang })],
  mismatch: (now, tick) => [cluster(now, { tick, hang: HANGS.mismatch })],
  cycle: (now, tick) => [
    cluster(now, { tick, hang: HANGS.cycle }),
    cluster(now, { tick, id: "1a2b3c4d5e6f", name: "tensor-0", nHosts: 2, perHost: 2, channels: 8, rate: 3.1e9 }),
    cluster(now, { tick, id: "2b3c4d5e6f70", name: "data-1", nHosts: 4, perHost: 1, channels: 8, rate: 3.1e9 }),
  ],
  init: (now, tick) => [cluster(now, { tick, hang: HANGS.init, missing: [6, 7], graph: false, startedS: 187 })],
  off: (now, tick) => [cluster(now, { tick })],
  "no-nccl": (now, tick) => [cluster(now, { tick, graph: false })],
  "not-watched": (now, tick) => [cluster(now, { tick, graph: false, rate: 0 })],
  // Hundreds of ranks that wait for one.
  crowd: (now, tick) => [cluster(now, {
    tick, job: "moe-pretrain", id: "aaaabbbbcccc", nHosts: 128, perHost: 8, channels: 16, hostName: rack, rate: 1.42e12,
    hang: { ...HANGS.hang, culprits: [613], message: "rank 613 on gpu-r05n13 has not called AllReduce #1042 that 1023 ranks wait in: it is stopped (SIGSTOP)", doing: "stopped (SIGSTOP) for 12 min", advice: "`kill -CONT 24291` on gpu-r05n13 lets it go on." },
  })],
  "long-names": (now, tick) => [cluster(now, {
    tick, job: "team_foundation_models_pretraining_405b_phase_2_restart_17_with_a_name_that_nobody_can_remember", name: "expert_model_parallel_group_of_the_mixture_of_experts_layers_0_to_47",
    hostName: (i) => `ip-10-128-${i}-17.us-west-2.compute.internal.training-cluster-blue.example.com`,
    hang: { ...HANGS.hang, message: "rank 5 on ip-10-128-2-17.us-west-2.compute.internal.training-cluster-blue.example.com has not called AllReduce #1042 that 7 ranks wait in: it is blocked reading /mnt/shared-filesystem/projects/foundation-models/pretraining/data/shards/tokenized/train-00017-of-16384.tar.zst" },
  })],
  // As long as the name of a host may be, and nothing that could be cut.
  "long-hosts": (now, tick) => [cluster(now, { tick, perHost: 4, hostName: (i) => `${"accelerated-pretraining-machine-".repeat(3).slice(0, 59 - i)}x${"-0042".slice(0, 3 + i)}`, hang: { ...HANGS.hang, message: `rank 5 on ${"accelerated-pretraining-machine-".repeat(3).slice(0, 58)}x-004 has not called AllReduce #1042 that 15 ranks wait in: it is blocked reading /mnt/nfs/shards/train-00017.tar` } })],
  partly: (now, tick) => [cluster(now, { tick, partly: true, oddHost: 1 })],
  incomplete: (now, tick) => [cluster(now, { tick, missing: [5, 6], transport: "NET/Socket" })],
  unknown: (now, tick) => [cluster(now, { tick, graph: false })],
  ended: (now) => [cluster(now, { ended: true })],
  large: (now, tick) => [
    cluster(now, { tick, job: "moe-pretrain", id: "aaaabbbbcccc", nHosts: 128, perHost: 8, channels: 16, slowHost: 77, hostName: rack, rate: 1.42e12 }),
    cluster(now, { tick, job: "rlhf-sweep", id: "ddddeeeeffff", nHosts: 172, perHost: 4, channels: 8, hostName: (i) => rack(i + 128), rate: 4.1e11 }),
  ],
};

SCENARIOS.single = (now, tick) => [cluster(now, { tick, nHosts: 1, perHost: 8, channels: 16 })];
SCENARIOS.huge = (now, tick) => [
  cluster(now, { tick, job: "pretrain-405b", id: "eeeeffff0001", nHosts: 1000, perHost: 8, channels: 16, slowHost: 613, nicDown: [77, 812], hostName: rack, rate: 9.1e12 }),
];

/** What a search finds, the nearest first. */
export function search(all, q, limit) {
  const wanted = q.toLowerCase();
  const hits = [
    ...all.jobs.map((job) => ({ kind: "job", title: job.id, detail: `${job.hosts.length} hosts`, job: job.id })),
    ...all.nodes.map((host) => ({ kind: "host", title: host.host, detail: host.jobs.length > 0 ? `job ${host.jobs.join(", ")}` : "no job", host: host.host })),
    ...all.communicators.map((one) => ({ kind: "communicator", title: one.name, detail: `${one.comm_hash}, job ${one.job}`, job: one.job, comm: one.id })),
  ];
  hits.push(...all.summations.map(({ group, detail }) => ({
    kind: "summation", title: `summation group ${group.id}`, detail: `job ${group.job}, session ${group.session}, ${detail.services.map((one) => one.host).join(" ")}`, job: group.job, group: group.id,
  })));
  const place = (hit) => [hit.title, hit.detail].map((words) => words.toLowerCase().indexOf(wanted)).filter((at) => at >= 0)[0];
  return hits.filter((hit) => place(hit) !== undefined).sort((a, b) => place(a) - place(b) || a.title.length - b.title.length).slice(0, limit);
}

/** The cluster whose communicator carries a summation group. */
function summing(now, tick, { detail }) {
  const hosts = [...new Set([...detail.workers, ...detail.services].map((one) => one.host))];
  return cluster(now, { tick, job: detail.job, id: `${detail.id.slice(0, 11)}f`, name: "summation", nHosts: hosts.length, perHost: 1, channels: 2, hostName: (i) => hosts[i], rate: 9e9 });
}

/** All answers of a scenario, by path below /api/v1/. */
export function world(scenario, now, tick, said = new Map()) {
  const summations = SUMMATIONS[scenario]?.(now, tick) ?? [];
  const clusters = summations.length > 0 ? [...new Map([...summations].reverse().map((one) => [one.group.job, summing(now, tick, one)])).values()] : SCENARIOS[scenario](now, tick);
  const jobs = new Map();
  const hosts = new Map();
  for (const one of clusters) {
    if (!jobs.has(one.job.id)) jobs.set(one.job.id, one.job);
    for (const host of one.hosts) if (!hosts.has(host.host)) hosts.set(host.host, host);
  }
  for (const one of summations.flatMap(({ findings }) => findings)) {
    const host = hosts.get(one.host);
    hosts.set(one.host, { ...host, degraded: true, reasons: [...host.reasons, one.message], findings: { ...host.findings, [one.severity]: host.findings[one.severity] + 1 } });
  }
  const isSeen = scenario !== "not-watched";
  const all = {
    jobs: [...jobs.values()],
    nodes: [...hosts.values()],
    communicators: isSeen ? clusters.map((one) => one.communicator) : [],
    firing: [...clusters, ...summations].flatMap((one) => one.findings),
    summations,
    resolved: scenario === "healthy" || scenario === "degraded" ? [resolvedFinding(now)] : [],
    byId: new Map(clusters.map((one) => [one.communicator.id, one])),
  };
  return judge(all, [...clusters], scenario, now, said);
}

/** One host, whole; undefined if there is no such host. */
export function hostDetail(all, name) {
  const host = all.nodes.find((one) => one.host === name);
  if (host === undefined) return undefined;
  const clusters = [...all.byId.values()].filter((one) => one.communicator.state !== "ended");
  const ranks = clusters.flatMap((one) => one.detail.ranks.filter((rank) => rank.host === name).map((rank) => ({
    job: one.job.id, comm: one.communicator.id, rank: rank.rank, pid: rank.pid, state: rank.state, standing: rank.standing,
    init_channels: rank.init_channels, final_channels: rank.final_channels,
  })));
  const firing = all.firing.filter((one) => one.host === name);
  const comm = clusters.find((one) => one.communicator.hosts.includes(name))?.communicator;
  const found = { down: firing.find((one) => one.finding === "nic_degraded")?.nic ?? null, comm: comm?.id ?? null, channels: comm?.final_channels ?? 0, gpus: host.n_gpus };
  return { ...host, ranks, firing, hardware: hardware(Date.parse(host.last_seen), 0, found) };
}

/** The RDMA connections of one host. */
export function hostConnections(all, name) {
  const one = [...all.byId.values()].find((known) => known.communicator.state !== "ended" && known.communicator.hosts.includes(name));
  if (one === undefined) return [];
  const host = all.nodes.find((known) => known.host === name);
  const down = all.firing.find((found) => found.host === name && found.finding === "nic_degraded")?.nic ?? null;
  return connections(Date.parse(host.last_seen), name, one.job.id, one.detail.ranks, down);
}

/** History of one metric as rates, with a drop where the cluster's trouble began. */
export function series(one, metric, fromMs, toMs, stepS) {
  const times_ms = [];
  for (let t = Math.ceil(fromMs / (stepS * 1000)) * stepS * 1000; t <= toMs; t += stepS * 1000) times_ms.push(t);
  const shares = { all_gather: 0.25, all_reduce: 1, reduce_scatter: 0.25 };
  const lines = Object.entries(shares).map(([primitive, share], i) => ({
    primitive,
    values: times_ms.map((t) => {
      const wave = 1 + 0.05 * Math.sin(t / 9000 + i) + 0.03 * Math.sin(t / 2100 + i * 2);
      const troubled = one.findingS !== null && t > toMs - Math.min(one.findingS, 180) * 1000;
      const level = troubled ? one.perS : one.rate;
      return level * share * wave * (metric === "issued_bytes" ? 1.01 : 1);
    }),
  }));
  return { metric, unit: "bytes_per_second", step_s: stepS, times_ms, lines };
}

/** What to do, for two kinds; the daemon's own texts are dashboards/runbook.md. */
export const RUNBOOK = [
  {
    finding: "channel_shortfall", title: "Channel shortfall",
    meaning: "The host's search found fewer channels than the others', and the job runs on as few as it found.",
    checks: ["Compare `ibstat` and `ip -br link` on the host with a healthy one.", "Look at `nvidia-smi topo -m` for a missing link."],
    actions: ["Mend or drain the host.", "Start the job again: it uses the NIC when it next forms its communicators."],
  },
  {
    finding: "nic_degraded", title: "NIC degraded",
    meaning: "A port is down, slower than its peers, flaps, or counts errors.",
    checks: ["`ibstat` and `dmesg -T` on the host.", "The switch port at the other end."],
    actions: ["Reseat or replace the cable.", "Drain the host until the port holds."],
  },
];
