// What a daemon would say of made-up summation groups. `now` is milliseconds since the epoch.

const MS = 1e6;
const PART = 4_096_000;
const MODEL = 553_430_176;
const iso = (ms) => new Date(ms).toISOString();
const CAUSES = { sum_straggler: "late_start", sum_round_stuck: "not_submitted", sum_share_imbalance: "uneven_placement", sum_fingerprint_mismatch: "different_sums", sum_parameters_differ: "differs_from_most", sum_server_lost: "server_lost" };
const STAGES = { compress: [0, 0], push: [0.6, 2.9], sum: [0.1, 31], pull: [0.2, 3.1], decompress: [0, 0] };

/** A group of `n` workers and `k` servers with everything that hangs on it; shares by the optimum for equal NICs. */
export function summationGroup(now, options) {
  const {
    n = 4, k = 2, tick = 0, job = "resnet50-digits", id = "5d1c09ab77e2", session = "41c2d7708be60f93", epoch = 1, state = "running", late = null, stuck = false,
    lost = null, over = null, mismatch = false, compared = false, differs = null, bound = undefined, startedS = 3300, perWorker = 4.5e9,
    worker = (i) => `train-${i}`, server = (i) => `sum-${i}`,
  } = options;
  const live = state === "running" && lost === null;
  const begun = state !== "starting";
  const d = n * n + k * n - 2 * k;
  const optimum = (role) => (role === "server" ? (2 * (n - 1)) / d : Math.max(0, n - k) / d);
  const wave = (i) => 1 + 0.02 * Math.sin(tick * 0.7 + i * 1.3);
  const findings = [];
  const found = (finding, severity, rank, host, message) => findings.push({
    id: `f-${id}-${finding}`, finding, severity, state: "firing", job, comm: "", group: id, host, rank, cause: CAUSES[finding], message, first_seen: iso(now - 94_000), last_seen: iso(now),
  });
  const services = !begun ? [] : [...Array(k).fill("server"), ...Array(n).fill("worker")].map((role, service) => {
    const index = role === "server" ? service : service - k;
    const factor = over === service ? 1.27 : over === null ? 1 + 0.004 * Math.sin(service * 2.1) : 1 - 0.27 * optimum("server") * 0.8;
    const share = optimum(role) * factor;
    const rate = live ? perWorker * n * share * wave(service) : 0;
    return {
      service, role, index, rank: role === "server" ? n + index : index, host: role === "server" ? server(index) : worker(index), process: null,
      optimal_share: optimum(role), share, owned_bytes: Math.round(MODEL * share), predicted_sent_bytes: Math.round(1.2 * MODEL), predicted_received_bytes: Math.round(1.2 * MODEL),
      pushed_bytes_per_s: rate, pulled_bytes_per_s: rate, summed_bytes_per_s: rate, sum_ns_per_mib: role === "server" ? 61_000 : 98_000,
      finished_rounds: Math.round((331_000 + tick * 40) * share), waits: 0, loopback_bytes: role === "worker" ? 4.5e12 : 0,
      lost: lost?.role === role && lost?.index === index,
    };
  });
  const workers = Array.from({ length: n }, (_, index) => {
    const isLate = index === late;
    const rest = late === null ? 1 / n : 0.24 / Math.max(1, n - 1);
    return {
      index, rank: index, host: worker(index), global_rank: index, last_arrivals: begun ? Math.round(1.3e6 * (isLate ? 0.76 : rest)) : 0,
      last_share: begun ? (isLate ? 0.76 : rest * (1 + 0.3 * Math.sin(index * 3.3))) : 0, mean_late_ns: begun ? Math.round((isLate ? 21.8 : 1.1 + 0.3 * Math.sin(index)) * MS) : 0,
      contributions: begun ? 1_325_812 : 0, unanswered: live ? (index * 7) % 5 : 0, credits_used_bytes: live ? PART * (1 + ((index + tick) % 4)) : 0, credit_bytes: PART * 4,
      stages: !begun ? [] : Object.entries(STAGES).map(([stage, [wait, work]]) => ({
        stage, waiting_parts: live && wait > 0 ? Math.round((stage === "push" ? (isLate ? 17 : 5) : 1) * wave(index)) : 0, running_parts: live && work > 0 ? Math.ceil(work) : 0,
        parts_per_s: live && work > 0 ? 1093.5 * wave(index) : 0, mean_wait_ns: wait * MS * (isLate && stage === "push" ? 4 : 1), mean_work_ns: work * MS, longest_wait_ns: wait * MS * 60,
      })),
    };
  });
  const flows = services.flatMap((service) => workers.map((from) => {
    const rate = live && !(stuck && from.index === late) ? perWorker * service.share * wave(from.index) : 0;
    return { worker: from.index, service: service.service, push_bytes_per_s: rate, pull_bytes_per_s: rate, push_backlog_bytes: from.index === late && service.role === "server" ? PART * (1 + (service.service % 3)) : 0 };
  }));
  const waiting = stuck ? 11 : late === null || !live ? 0 : 3;
  const ageOf = (i) => (stuck ? (6.2 + tick) * 1e9 - i * 24 * MS : 41 * MS - i * 3 * MS);
  const waits = Array.from({ length: waiting }, (_, i) => ({
    service: i % Math.max(1, k || n), key: 93 + i * 3, tensor: `gradient.features.${24 + i}.weight`, round: 8182, for_push: true, workers: [late], age_ns: ageOf(i),
  }));
  if (late !== null && !stuck) found("sum_straggler", "warning", late, worker(late), `worker ${late} on ${worker(late)} comes last in 76 % of rounds, 21.8 ms after the first`);
  if (stuck) found("sum_round_stuck", "critical", late, worker(late), `round 8182 of gradient.features.24.weight has waited for worker ${late} on ${worker(late)} for more than 1 s`);
  if (over !== null) found("sum_share_imbalance", "warning", services[over].rank, services[over].host, `${services[over].host} owns 1.27 × its optimal share: the others wait for it`);
  if (mismatch) found("sum_fingerprint_mismatch", "critical", n, server(0), "the result of key 107 in round 8181 differs: server 0 made 1229886369b1bf26, worker 3 pulled 90ab11cd22ef3344");
  if (differs !== null) found("sum_parameters_differ", "critical", differs, worker(differs), `parameter layers.1.bias of worker ${differs} (${worker(differs)}, rank ${differs}) is another one than that of the other ${n - 1} workers (found after 8100 steps, at ${iso(now - 94_000)}; it became so in steps 8001 to 8100); at least 3 of 32 parameters differ in all`);
  if (lost !== null) found("sum_server_lost", "critical", lost.rank, lost.host, `${lost.role} ${lost.index} on ${lost.host} was lost`);
  const rounds = Array.from({ length: begun ? 60 : 0 }, (_, i) => ({
    key: 93 + ((i * 7) % 160), round: 8181 + tick - Math.floor(i / 23), fingerprint: `0x${(0x32cab12fedef3580n + BigInt(i) * 0x9e3779b97f4a7n).toString(16)}`,
    at: iso(now - 200 - i * 61), made_by: i % Math.max(1, services.length), contributors: n, last_arriver: late ?? i % n, spread_ns: 21.4 * MS + i * 310_000, took_ns: 24.9 * MS + i * 420_000,
    agree: i < 2 ? null : !(mismatch && i === 4),
  }));
  const sum = flows.reduce((all, flow) => all + flow.push_bytes_per_s, 0);
  const moved = 1.8e13 + tick * 1e9;
  const group = {
    id, session, job, membership_epoch: epoch, placement_epoch: epoch, state, n_workers: n, n_servers: k, asynchronous: bound !== undefined, model_bytes: begun ? MODEL : 0,
    started_at: iso(now - startedS * 1000), push_bytes_per_s: sum, pull_bytes_per_s: sum, rounds_per_s: live ? 1312.2 : 0, n_findings: findings.length,
    oldest_wait: waits[0] ?? null, worst_share_ratio: Math.max(0, ...services.map((one) => one.share / one.optimal_share).filter(Number.isFinite)),
  };
  const detail = {
    ...group, n_tensors: begun ? 32 : 0, n_parts: begun ? 162 : 0, partition_bytes: PART, staleness_bound: bound ?? null, lost,
    comparison: !compared && differs === null ? null : {
      every: 100, steps: 8100, at: iso(now - 94_000), n_parameters: 32, n_different: differs === null ? 0 : 3, equal_steps: differs === null ? 8100 : 8000,
      difference: differs === null ? null : {
        steps: 8100, at: iso(now - 94_000), parameter: "layers.1.bias",
        parties: [{ hash: "0x1229886369b1bf26", workers: Array.from({ length: n }, (_, i) => i).filter((i) => i !== differs) }, { hash: "0x90ab11cd22ef3344", workers: [differs] }],
      },
    },
    services, workers, flows, waits,
    staleness: bound === undefined ? [] : [...[880_412, 310_220, 96_141, 12_003].slice(0, bound + 1), 0],
    key_classes: !begun ? [] : [
      { key_class: "gradient", push_issued_bytes: moved + 16e6, push_completed_bytes: moved, pull_issued_bytes: moved, pull_completed_bytes: moved - 4e6 },
      { key_class: "parameter", push_issued_bytes: 2.2e9, push_completed_bytes: 2.2e9, pull_issued_bytes: 2.2e9, pull_completed_bytes: 2.2e9 },
      { key_class: "other", push_issued_bytes: 0, push_completed_bytes: 0, pull_issued_bytes: 0, pull_completed_bytes: 0 },
    ],
    findings: findings.map((one) => one.id),
  };
  return { group, detail, rounds, findings };
}

/** Figures of a group over time: even, with a while of lateness where its findings began. */
export function summationSeries({ services, findings, started_at }, metric, byService, fromMs, toMs, stepS) {
  const stepMs = stepS * 1000;
  const times_ms = [];
  for (let t = Math.ceil(fromMs / stepMs) * stepMs; t <= toMs; t += stepMs) times_ms.push(t);
  const troubled = (t) => findings.length > 0 && t > toMs - 94_000;
  const wave = (t, i) => (1 + 0.04 * Math.sin(t / 7000 + i * 1.7)) * (troubled(t) ? 0.72 : 1);
  const of = {
    summed_bytes: (one, t) => one.summed_bytes_per_s * wave(t, one.service), pushed_bytes: (one, t) => one.pushed_bytes_per_s * wave(t, one.service),
    pulled_bytes: (one, t) => one.pulled_bytes_per_s * wave(t, one.service), finished_rounds: (one, t) => 1312 * one.share * wave(t, 0),
    share_ppm: (one) => Math.round(one.share * 1e6), optimal_share_ppm: (one) => Math.round(one.optimal_share * 1e6),
    spread_ns: (one, t) => (troubled(t) ? 34 : 2.1) * MS * (1 + 0.3 * Math.sin(t / 3100)),
  }[metric];
  const began = Date.parse(started_at);
  const line = (ones) => times_ms.map((t) => (t < began ? null : ones.reduce((sum, one) => (metric === "spread_ns" ? Math.max(sum, of(one, t)) : sum + of(one, t)), 0)));
  const lines = services.length === 0 ? [] : byService ? services.map((one) => ({ service: one.service, host: one.host, values: line([one]) })) : [{ values: line(services) }];
  return { metric, unit: "bytes_per_second", step_s: stepS, times_ms, lines };
}

const rack = (i) => `gpu-r${String(Math.floor(i / 16) + 1).padStart(2, "0")}n${String((i % 16) + 1).padStart(2, "0")}`;
const LOST = { rank: 5, role: "server", index: 1, host: "sum-1", why: "the connection to rank 5 (sum-1) ended without a goodbye" };

/** By name of a scenario; each takes (now, tick) and yields groups. */
export const SUMMATIONS = {
  "sum-4-2": (now, tick) => [
    summationGroup(now, { tick, late: 2 }),
    summationGroup(now, { tick, n: 8, k: 4, id: "c0417d9be35a", session: "77e0915fa2d3c841", job: "bert-async", bound: 3, worker: (i) => `node-${i}`, server: (i) => `cpu-${i}` }),
  ],
  "sum-8-4": (now, tick) => [summationGroup(now, { tick, n: 8, k: 4, over: 1 })],
  "sum-16-8": (now, tick) => [summationGroup(now, { tick, n: 16, k: 8, late: 3, worker: rack, server: (i) => `cpu-${i}.sum.example.net` })],
  "sum-stuck": (now, tick) => [summationGroup(now, { tick, late: 2, stuck: true, mismatch: true })],
  "sum-failed": (now, tick) => [
    summationGroup(now, { tick, state: "failed", lost: LOST }),
    summationGroup(now, { tick, id: "a93fe07c1142", epoch: 2, k: 1, startedS: 61 }),
  ],
  "sum-differ": (now, tick) => [summationGroup(now, { tick, differs: 2 })],
  "sum-same": (now, tick) => [summationGroup(now, { tick, compared: true })],
  "sum-starting": (now, tick) => [summationGroup(now, { tick, state: "starting", startedS: 2 })],
  "sum-128-32": (now, tick) => [summationGroup(now, { tick, n: 128, k: 32, late: 77, over: 9, job: "pretrain-70b", worker: rack, server: (i) => `cpu-${String(i).padStart(2, "0")}` })],
};
