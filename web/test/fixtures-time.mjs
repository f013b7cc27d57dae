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
