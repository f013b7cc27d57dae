// What made-up clusters say about time: a rank that makes the others slow.

const iso = (ms) => new Date(ms).toISOString();

/** The finding about a slow rank and what it costs; `host(rank)` of that cluster. */
export function slowFinding(rank, { id, job, nRanks, host, now }) {
  const began = iso(now - 1_260_000);
  return {
    id: "f-slow", finding: "compute_straggler", severity: "warning", state: "firing", job, host: host(rank), rank, comm: id, cause: "every_step",
    message: `rank ${rank} on ${host(rank)} is outside of collectives 0.31 s longer than the others in every step; ${nRanks - 1} ranks wait for it`,
    advice: `Look at what rank ${rank} does between its calls: its data loader, its clock (\`nvidia-smi -q -d PERFORMANCE\` on ${host(rank)}) and who else runs there.`,
    n_victims: nRanks - 1, incident: "f-slow", cost: { seconds_per_step: 0.31, percent: 18, rank_hours: 4.2 },
    accused: [{ host: host(rank), pid: 20_000 + rank * 7, rank, global_rank: rank, doing: "comes last to 97 % of the calls" }],
    details: [], evidence: [], began_at: began, first_seen: iso(now - 1_240_000), last_seen: iso(now),
  };
}

/**
 * Operations of `nRanks` ranks one after the other in one communicator, as `jobs/J/timeline` tells them: rank `slow` computes
 * `extraUs` longer than the others before every call. `noise(i)`: 0 to 1.
 */
export function timeline({ nRanks = 8, perHost = 2, calls = 200, slow = 5, extraUs = 12_000, stepUs = 40_000, fromMs = 0, stride = 1, hostName = (i) => `host-${i}` } = {}) {
  let seed = 7;
  const noise = () => (seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648) / 2_147_483_648;
  const operations = { rank: [], communicator: [], call_number: [], primitive: [], called_us: [], started_us: [], completed_us: [], last_called_us: [], bytes: [] };
  let doneUs = 1_000;
  for (let call = 0; call < calls; call += 1) {
    const called = Array.from({ length: nRanks }, (_, rank) => Math.round(doneUs + stepUs * (0.5 + 0.06 * noise()) + (rank === slow ? extraUs : 0)));
    const last = Math.max(...called);
    const end = Math.round(last + stepUs * 0.18);
    for (let rank = 0; rank < nRanks; rank += 1) {
      operations.rank.push(rank);
      operations.communicator.push(0);
      operations.call_number.push(1000 + call * stride);
      operations.primitive.push(call % 5 === 4 ? "all_gather" : "all_reduce");
      operations.called_us.push(called[rank]);
      operations.started_us.push(called[rank] + 20);
      operations.completed_us.push(end + Math.round(300 * noise()));
      operations.last_called_us.push(last);
      operations.bytes.push(67_108_864);
    }
    doneUs = end + 300;
  }
  const hosts = [...new Set(Array.from({ length: nRanks }, (_, rank) => hostName(Math.floor(rank / perHost))))];
  return {
    from: iso(fromMs), to: iso(fromMs + Math.ceil(doneUs / 1000)), clocks: hosts.map((host, i) => ({ host, offset_s: i === 1 ? 0.042 : 0, error_s: 0.0003, basis: "collectives" })),
    communicators: [{ id: "9f3b5c6d7e8f", name: "world", n_ranks: nRanks, every: stride }], lacks: [],
    ranks: Array.from({ length: nRanks }, (_, rank) => ({ rank, host: hostName(Math.floor(rank / perHost)), pid: 20_000 + rank * 7 })), operations,
  };
}

/** Where the steps of `nRanks` ranks go, the slowest `limit` of them, as `jobs/J/pace` tells it: rank `slow` computes longer, and its next has long steps. */
export function pace({ job, nRanks, perHost = 2, slow = 5, limit = 64, hostName }) {
  const step = 1.72;
  const ranks = Array.from({ length: nRanks }, (_, i) => {
    const rank = (slow + i) % nRanks;
    const own = i === 0 ? 1.54 : 1.23 + 0.01 * ((rank * 7) % 5) / 5;
    const longer = i === 1 ? 0.06 : 0;
    return {
      process: `${hostName(Math.floor(rank / perHost))}/${20_000 + rank * 7}/1`, host: hostName(Math.floor(rank / perHost)), pid: 20_000 + rank * 7, global_rank: rank, class: 0, step_seconds: step, has_steps: true,
      own_seconds: own, usual_own_seconds: 1.23, in_operations_seconds: step * (1 - longer) - own, longer_share: longer, by_device: true, device_error_seconds: 0.000007,
    };
  });
  return { job, step_seconds: step, n_ranks: nRanks, n_unknown: 3, lacks: [], ranks: ranks.slice(0, limit) };
}

/** What operations of each size reach, as `communicators/C/bandwidth` tells it: of one kind sizes are missing, of the other the best is known of more. */
export function bandwidth({ id, n_ranks: nRanks, hosts }) {
  const of = (primitive, log2s, bestLog2s, topPerS) => {
    const bus = (log2) => topPerS / (1 + 2 ** (21 - log2));
    const best = bestLog2s.map((log2) => ({ from_bytes: 2 ** log2, bytes: 2 ** log2, seconds: 2 ** log2 / bus(log2), bus_bytes_per_s: bus(log2), comm: id }));
    const sizes = log2s.map((log2) => {
      const perS = bus(log2) * (0.7 + 0.1 * (log2 % 3));
      return { from_bytes: 2 ** log2, bytes: 2 ** log2, n_operations: 40 + log2, n_by_clocks: 40 + log2, seconds: 2 ** log2 / perS, least_seconds: 2 ** log2 / bus(log2), algorithm_bytes_per_s: perS / 2, bus_bytes_per_s: perS };
    });
    return { primitive, sizes, best };
  };
  if (nRanks === 1) return { id, n_ranks: nRanks, n_like: 0, curves: [], lacks: ["One rank alone moves no bytes: there is nothing to time."] };
  return {
    id, n_ranks: nRanks, n_hosts: hosts.length, n_like: 3,
    curves: [of("all_reduce", [12, 13, 16, 20, 24], [10, 12, 13, 16, 20, 22, 24, 28], 42e9), of("all_gather", [22, 23], [22, 23], 31e9)],
    lacks: ["Of each communicator one or two operations a second are timed, so sizes that are seldom used may be missing."],
  };
}
