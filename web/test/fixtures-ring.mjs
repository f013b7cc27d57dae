// What the pages of jobs, communicators and hosts show beyond the clusters of fixtures.mjs: NICs and GPUs, what a host found
// each time, and an earlier communicator to compare with.

const GIB = 1024 ** 3;
const GB = 1e9;
const iso = (ms) => new Date(ms).toISOString();
const RATE = 400 * GB / 8;

/** NICs of a healthy host: four rails and a management port. `down`: the name of one that is down. */
export function hardware(now, tick, { down = null, channels = 4, comm = null, idle = false, gpus = 2 } = {}) {
  const rail = (i) => {
    const name = `mlx5_${i}`;
    const dead = name === down;
    const through = dead || comm === null ? [] : Array.from({ length: channels }, (_, channel) => channel).filter((channel) => channel % 4 === i);
    const sent = dead || idle || through.length === 0 ? 0 : 11.2 * GB + 0.3 * GB * Math.sin(tick + i);
    return {
      name, rdma: true, port: 1, up: !dead, state: dead ? "DOWN" : "ACTIVE", physical_state: dead ? "Polling" : "LinkUp", rate_bytes_per_s: RATE,
      link_layer: "InfiniBand", interface: `ibs${i}f0`, pci: `0000:${(0x18 + i * 0x20).toString(16)}:00.0`, numa_node: i < 2 ? 0 : 1, model: "MT4129",
      sent_bytes: Math.round(4e14 + now / 1e3), received_bytes: Math.round(3.9e14 + now / 1e3), sent_bytes_per_s: sent, received_bytes_per_s: sent * 0.99,
      payload_bytes_per_s: through.length === 0 ? null : sent * 0.97, payload_estimated: false, link_downs: dead ? 3 : 0,
      errors: dead ? [{ name: "symbol_error", value: 18_204, risen: 1_912 }, { name: "port_rcv_errors", value: 7, risen: 0 }] : [],
      retransmits: dead ? [{ name: "local_ack_timeout_err", value: 412, risen: 212 }] : [],
      failures: dead ? [{ name: "req_transport_retries_exceeded", value: 4, risen: 4 }] : [],
      congestion: [{ name: "np_cnp_sent", value: 812, per_s: 0.2 }], mtu_bytes: 4096,
      gids: ["infiniband", "roce_v2"].map((kind, index) => ({ index, gid: `fe80::a288:c203:10:${i + 1}`, kind, ...(index > 0 ? { interface: `ibs${i}f0` } : {}) })),
      ...(dead ? { severity: "critical" } : {}), reasons: dead ? [`${name} is down (Polling) for 14 min; the other hosts have it up`] : [],
      channels: through.length === 0 ? [] : [{ comm, channels: through }],
    };
  };
  const management = {
    name: "eno1", rdma: false, port: 0, up: true, state: "up", rate_bytes_per_s: 25 * GB / 8, link_layer: "Ethernet", pci: "0000:01:00.0", numa_node: 0,
    model: "bnxt_en", sent_bytes: 8.1e9, received_bytes: 9.4e9, sent_bytes_per_s: 41_000, received_bytes_per_s: 52_000, payload_bytes_per_s: null,
    payload_estimated: false, link_downs: null, errors: [], retransmits: [], failures: [], congestion: [], mtu_bytes: null, gids: [], reasons: [], channels: [],
  };
  return {
    read_at: iso(now - 4_000),
    nics: [0, 1, 2, 3].map(rail).concat(management),
    gpus: Array.from({ length: gpus }, (_, index) => ({
      index, name: "NVIDIA H100 80GB HBM3", uuid: `GPU-6f1c-${index}`, pci: `0000:${(0x19 + index * 0x20).toString(16)}:00.0`, numa_node: index < 2 ? 0 : 1,
      memory_bytes: 80 * GIB,
      nics: [0, 1, 2, 3].map((i) => ({ nic: `mlx5_${i}`, distance: i === index % 4 ? "PIX" : i < 2 === index < 2 ? "NODE" : "SYS" })).sort((a, b) => (a.distance === "PIX" ? -1 : b.distance === "PIX" ? 1 : 0)),
    })),
  };
}

/** The finding about a NIC that is down. */
export function nicFinding(now, host, nic) {
  return {
    id: `f-nic-${host}`, finding: "nic_degraded", severity: "critical", state: "firing", job: "", host, nic, comm: "", cause: "nic_down",
    message: `${nic} of ${host} is down (Polling), 3 other hosts have it up`, first_seen: iso(now - 850_000), last_seen: iso(now),
    evidence: [{ file: `/sys/class/infiniband/${nic}/ports/1/state`, line: 1, text: "1: DOWN" }],
  };
}

/** What a host found in the communicators of a list, and in some before them. */
export function hostChannels(now, host, details) {
  const own = details.flatMap((detail) => {
    const here = detail.ranks.filter((rank) => rank.host === host);
    if (here.length === 0) return [];
    return [{
      comm: detail.id, ...(detail.name === undefined ? {} : { name: detail.name }), job: detail.job, created: detail.created,
      ...(detail.ended === undefined ? {} : { ended: detail.ended }), n_ranks: detail.n_ranks, n_ranks_here: here.length,
      init_channels: here[0].init_channels, base: detail.base, final_channels: detail.final_channels, cause: here[0].cause,
    }];
  });
  const first = details[0];
  if (own.length === 0 || first === undefined) return own;
  const before = [1, 2, 3, 4, 5].map((i) => ({
    comm: `${i}0${i}0e5f6a7b8`, name: first.name, job: first.job, created: iso(now - 7_200_000 - i * 3_600_000), ended: iso(now - 7_200_000 - (i - 1) * 3_600_000),
    n_ranks: first.n_ranks, n_ranks_here: own[0].n_ranks_here, init_channels: 2, base: 2, final_channels: 4, cause: "doubled",
  }));
  return [...own, ...before].sort((a, b) => b.created.localeCompare(a.created));
}

/** The same rings with the hops of one host on a slower transport: what a comparison finds. */
export function fallenBack(rings, host) {
  return {
    ...rings,
    rings: rings.rings.map((ring) => ({
      ...ring,
      order: ring.order.map((hop) => (hop.host === host && /^NET/.test(hop.transport) ? { ...hop, transport: "NET/Socket", nic: "eno1", odd: ["fallback"] } : hop)),
    })),
  };
}

/** A job's counters over time, a line for each of what `by` names. */
export function jobSeries(clusters, metric, by, fromMs, toMs, stepS) {
  const times_ms = [];
  for (let t = Math.ceil(fromMs / (stepS * 1000)) * stepS * 1000; t <= toMs; t += stepS * 1000) times_ms.push(t);
  const level = (one, share) => times_ms.map((t) => {
    if (t < Date.parse(one.communicator.created)) return null;
    const wave = 1 + 0.05 * Math.sin(t / 9000 + share) + 0.03 * Math.sin(t / 2100);
    const troubled = one.findingS !== null && t > toMs - Math.min(one.findingS, 180) * 1000;
    if (metric === "backlog_bytes") return (troubled ? 9e8 + (t % 60_000) * 9_000 : 6.7e7 * wave) * share;
    return (troubled ? one.perS : one.rate) * share * wave;
  });
  const lines = clusters.flatMap((one) => {
    if (by === "comm") return [{ primitive: "all_reduce", comm: one.communicator.id, values: level(one, 1) }];
    if (by === "host") return one.communicator.hosts.map((host) => ({ primitive: "all_reduce", host, values: level(one, 1 / one.communicator.hosts.length) }));
    return ["all_gather", "all_reduce", "reduce_scatter"].map((primitive, i) => ({ primitive, values: level(one, [0.25, 1, 0.24][i]) }));
  });
  return { metric, unit: metric === "backlog_bytes" ? "bytes" : "bytes_per_second", step_s: stepS, times_ms, lines };
}

/** A job whose communicator lost a NIC on host-2, and the one before it, which had all. */
export function rails(now, tick, cluster) {
  const shown = cluster(now, { tick, name: "world/2", slowHost: 2, startedS: 900 });
  const before = cluster(now, { id: "0a1b2c3d4e5f", name: "world/1", startedS: 5_400, ended: true });
  const pipeline = cluster(now, { tick, id: "77aa88bb99cc", name: "pp-0/1", nHosts: 4, perHost: 1, channels: 2, startedS: 880, rate: 9e8 });
  Object.assign(shown.job, { first_seen: before.job.first_seen, active_communicators: 2, n_communicators: 3 });
  for (const one of [before.communicator, before.detail]) Object.assign(one, { ended: iso(now - 910_000) });
  Object.defineProperty(shown, "rings", { value: fallenBack(shown.rings, "host-1") });
  for (const one of [shown, before]) for (const summary of [one.communicator, one.detail]) summary.purpose = { dimension: "world", named: true };
  for (const summary of [pipeline.communicator, pipeline.detail]) summary.purpose = { dimension: "pipeline", named: false };
  const shortfall = shown.findings.find((one) => one.finding === "channel_shortfall");
  shortfall.nic = "mlx5_1";
  shortfall.message = "host-2 found 1 channel because mlx5_1 is down, the others 2: every rank runs on 2 channels instead of 4";
  shown.findings.push(nicFinding(now, "host-2", "mlx5_1"));
  const degraded = shown.hosts.find((one) => one.host === "host-2");
  Object.assign(degraded, { reasons: [shortfall.message, shown.findings.at(-1).message], n_nics_down: 1, findings: { critical: 2, warning: 0, info: 0 } });
  return [shown, before, pipeline];
}
