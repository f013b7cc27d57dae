/** RDMA connections of a made-up host: each of its ranks sends over each rail to the next host, and receives from the one before. */

const iso = (ms) => new Date(ms).toISOString();

/** `ranks`: of a communicator, with host and pid; `down`: the rail of this host that is down, whose connections failed. */
export function connections(now, name, job, ranks, down = null) {
  const hosts = [...new Set(ranks.map((one) => one.host))];
  if (hosts.length < 2) return [];
  const at = hosts.indexOf(name);
  const gid = (host, rail) => `fe80::a288:c203:${(0x10 + hosts.indexOf(host)).toString(16)}:${rail + 1}`;
  const end = (rank, rail) => ({
    host: rank.host, pid: rank.pid, global_rank: rank.rank, device: `mlx5_${rail}`, port: 1, gid: gid(rank.host, rail), gid_index: 3, gid_kind: "roce_v2", mtu_bytes: 4096,
  });
  const one = (rank, to, rail, isSend, place) => {
    const failed = down === `mlx5_${rail}`;
    const bytes = failed ? 8_123_456 : Math.round(2e12 + now / 10);
    return {
      id: `${rank.pid}-${place}-1`, job, pid: rank.pid, global_rank: rank.rank, comm_hash: "0x3f21a9c4e5d60718", is_send: isSend, state: failed ? "failed" : "open",
      since: iso(now - (failed ? 840_000 : 7_200_000)), ...(failed ? { error: "transport retry counter exceeded" } : {}), local: end(rank, rail),
      remote: { ...end(to, rail), port: null, gid_index: null }, path_mtu_bytes: 4096, traffic_class: 106, service_level: 0,
      queue_pairs: [0, 1].map((i) => ({ number: 0x100 + place * 2 + i, remote_number: 0x200 + place * 2 + i, state: failed ? "ERR" : "RTS" })),
      bytes, bytes_per_s: failed ? 0 : 11.1e9, requests: 48_001, completed_requests: failed ? 47_990 : 48_000, work_requests: 96_002, waits: failed ? 0 : 311,
      wait_s: failed ? 0 : 1.42, registrations: 16, cached_registrations: 15, last_done: iso(now - (failed ? 840_000 : 10)),
    };
  };
  const of = (host) => ranks.filter((rank) => rank.host === host);
  const [next, before] = [of(hosts[(at + 1) % hosts.length]), of(hosts[(at + hosts.length - 1) % hosts.length])];
  const all = of(name).flatMap((rank, i) => [0, 1, 2, 3].flatMap((rail) => [
    one(rank, next[i % next.length], rail, true, i * 8 + rail * 2), one(rank, before[i % before.length], rail, false, i * 8 + rail * 2 + 1),
  ]));
  // Its other rail could not begin one, as too little memory may be locked.
  if (down != null) {
    const [rank] = of(name);
    const none = { host: "", pid: null, global_rank: null, device: "", port: null, gid: null, gid_index: null, gid_kind: null, mtu_bytes: null };
    const words = "make a queue pair: Cannot allocate memory (os error 12) (queue pairs of a connection: 1)";
    all.push({
      ...one(rank, next[0], 3, true, 900), state: "failed", error: words, local: { ...end(rank, 3), gid: null, gid_index: null, gid_kind: null, mtu_bytes: null },
      remote: none, path_mtu_bytes: null, queue_pairs: [], bytes: 0, bytes_per_s: 0, requests: 0, completed_requests: 0, waits: 0, wait_s: 0,
    });
  }
  return all.sort((a, b) => Number(a.state !== "failed") - Number(b.state !== "failed"));
}
