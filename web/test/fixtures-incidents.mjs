// Incidents of made-up clusters, and how everything stands because of them, as the daemon's judge would say it.

const iso = (ms) => new Date(ms).toISOString();
const SEVERITIES = ["critical", "warning", "info"];
const CONDITIONS = ["healthy", "unknown", "degraded", "hung", "failed"];
const FAILED = new Set(["rank_dead", "host_lost", "async_error"]);
const HUNG = new Set(["rank_missing", "call_mismatch", "order_deadlock", "p2p_unmatched", "transfer_stalled", "device_stalled", "init_stuck", "teardown_stuck"]);

/** What cluster() wants to know of a hang, by scenario; `nRanks` and `host(rank)` of that cluster. */
export const HANGS = {
  hang: {
    finding: "rank_missing", cause: "in_no_call", culprits: [5], sinceS: 754, blocked: true,
    message: "rank 5 on host-2 has not called AllReduce #1042 that 7 ranks wait in: it is blocked reading /mnt/nfs/shards/train-00017.tar",
    doing: "in no call; its last one returned 12 min ago; blocked in read of /mnt/nfs/shards/train-00017.tar",
    advice: "Look at /mnt/nfs on host-2: its server does not answer (`dmesg -T | grep nfs`). When it answers, the job goes on by itself.",
    details: [
      { title: "Rank 5, thread MainThread", lines: ["__next__ (/srv/train/dataloader.py:214)", "read_shard (/srv/train/shards.py:88)", "train_step (/srv/train/loop.py:140)", "main (/srv/train/main.py:31)"] },
      { title: "Rank 5, process 20035", lines: ["state: D (waits for a device or a file server)", "system call: read, fd 17", "blocked in: /mnt/nfs/shards/train-00017.tar on nfs4, nas-3:/shards", "wait channel: rpc_wait_bit_killable", "cgroup memory: 41 GiB of 96 GiB, no OOM kill"] },
      { title: "Kernel of host-2", lines: ["03:14:02 nfs: server nas-3 not responding, still trying", "03:14:32 nfs: server nas-3 not responding, still trying"] },
    ],
    timeline: [[0, "rank 5 is the last to come to AllReduce #1042"], [2.1, "rank 5 on host-2 is waited for: `waiting` (info)"], [2.3, "its stacks were read: dataloader.py:214 __next__"], [30.4, "the wait is longer than any of this job: `rank_missing` (critical)"], [33, "the kernel of host-2 says: nfs: server nas-3 not responding"]],
  },
  dead: {
    finding: "rank_dead", cause: "killed", culprits: [3], dead: true, sinceS: 41,
    message: "rank 3 on host-1 was killed in AllReduce #1041; 7 ranks wait in AllReduce #1042",
    doing: "gone: killed by signal 9, by the kernel for lack of memory",
    advice: "The others will wait for ever: look into `dmesg -T` on host-1 (out of memory, Xid), then start the job again.",
    details: [{ title: "Kernel of host-1", lines: ["Out of memory: Killed process 20021 (python) total-vm:214011904kB"] }],
    timeline: [[0, "the process of rank 3 is gone"], [0.9, "rank 3 on host-1 was killed: `rank_dead` (critical)"]],
  },
  mismatch: {
    finding: "call_mismatch", cause: "count", culprits: [2], sinceS: 95,
    message: "rank 2 on host-1 called AllReduce #1042 with 1025 elements, 7 others with 262144",
    doing: "called AllReduce #1042 of 1025 float32, sum; waits in it",
    advice: "Look at what makes this rank's tensor another: a last batch of another size, or a branch on a value that only this rank has. Then start the job again.",
    details: [
      { title: "Call #1042", lines: ["rank 2: all_reduce of 1025 float32 (sum)", "ranks 0, 1, 3, 4 and 3 more: all_reduce of 262144 float32 (sum)"] },
      { title: "Last calls of rank 2", lines: ["#1040 all_gather of 4096 float32", "#1041 all_reduce of 262144 float32 (sum)", "#1042 all_reduce of 1025 float32 (sum)"] },
      { title: "Last calls of rank 0", lines: ["#1040 all_gather of 4096 float32", "#1041 all_reduce of 262144 float32 (sum)", "#1042 all_reduce of 262144 float32 (sum)"] },
      { title: "Rank 2, thread MainThread", lines: ["all_reduce (/usr/lib/python3/torch/distributed/distributed_c10d.py:2810)", "reduce_metrics (/srv/train/metrics.py:61)"] },
    ],
    timeline: [[0, "rank 2 calls #1042 with another count"], [0.8, "the first call that differs is #1042: `call_mismatch` (critical)"]],
  },
  cycle: {
    finding: "order_deadlock", cause: "other_order", culprits: [1, 2, 4], sinceS: 312,
    message: "rank 1 on host-0 makes its calls in another order: ranks 1, 2 and 4 wait for each other in world, tensor-0 and data-1, and 5 ranks wait for them",
    doings: ["is in all_reduce #1042 of 9f3b5c6d7e8f (world)", "is in all_gather #318 of 1a2b3c4d5e6f (tensor-0)", "is in reduce_scatter #77 of 2b3c4d5e6f70 (data-1)"],
    details: [
      { title: "The circle", lines: ["rank 1 in all_reduce #1042 of 9f3b5c6d7e8f (world)", "rank 2 in all_gather #318 of 1a2b3c4d5e6f (tensor-0)", "ranks 4 to 7 in reduce_scatter #77 of 2b3c4d5e6f70 (data-1)"] },
      { title: "Open calls of rank 1 (host-0, pid 20007), oldest first", lines: ["all_reduce #1042 of 9f3b5c6d7e8f (world)", "reduce_scatter #77 of 2b3c4d5e6f70 (data-1)"] },
    ],
    advice: "Give all ranks one order of calls over these communicators, or put both calls into one group.",
    timeline: [[0, "rank 1 waits in world"], [0.2, "rank 4 waits in data-1"], [1.1, "the circle is closed: `order_deadlock` (critical)"]],
  },
  init: {
    finding: "init_stuck", cause: "not_come", culprits: [6, 7], absent: true, sinceS: 187,
    message: "ranks 6 and 7 have not called ncclCommInitRank that 6 ranks wait in; nothing was ever heard of them",
    doing: "never heard of", advice: "See whether the processes of ranks 6 and 7 were started: `ringscope run` on their hosts writes where they are. All ranks need the same number of ranks and the same id.",
    details: [{ title: "Who is in which phase", lines: ["ranks 0–5 wait in ncclCommInitRank with 8 ranks, bootstrap: they have sent their addresses to rank 0", "ranks 6, 7 nothing heard"] }],
    timeline: [[0, "rank 0 calls ncclCommInitRank"], [10, "6 of 8 ranks have come"], [60, "ranks 6 and 7 have not: `init_stuck` (critical)"]],
  },
};

/** The finding of a hang in a cluster. */
export function hangFinding(hang, { id, job, nRanks, host, now }) {
  const began_at = iso(now - hang.sinceS * 1000);
  const first = iso(now - hang.sinceS * 1000 + (hang.timeline.at(-1)?.[0] ?? 0) * 1000);
  const [culprit] = hang.culprits;
  return {
    id: `f-${hang.finding}`, finding: hang.finding, severity: "critical", state: "firing", job, host: hang.absent ? host(0) : host(culprit), rank: culprit, comm: id, cause: hang.cause,
    message: hang.message, advice: hang.advice, n_victims: nRanks - hang.culprits.length, incident: `f-${hang.finding}`,
    accused: hang.culprits.map((rank, i) => ({ host: hang.absent ? "" : host(rank), ...(hang.absent ? {} : { pid: 20_000 + rank * 7 }), rank, global_rank: rank, doing: hang.doings?.[i] ?? hang.doing })),
    details: hang.details ?? [], evidence: hang.evidence ?? [], began_at, first_seen: first, last_seen: iso(now),
  };
}

/** Gives every object of the world its standing, and adds incidents and health. */
export function judge(all, clusters, scenario, now, said) {
  const firing = all.firing;
  const incidents = incidentsOf(firing, clusters, now, said);
  for (const finding of firing) finding.incident = finding.severity === "info" ? "" : (finding.incident ?? finding.id);
  const well = { condition: "healthy", reason: "its last call completed 0.2 s ago" };
  const off = scenario === "off" ? { condition: "unknown", reason: "not watched since 02:11:40: its collector was switched off by anna; `ringscope level` switches it on" } : undefined;
  const no = scenario === "no-nccl" ? { condition: "unknown", reason: "no call of NCCL so far; `ringscope doctor` says whether its calls can be seen" } : undefined;
  const refused = scenario === "not-watched" ? { condition: "unknown", reason: "2 of 2 processes unknown: process 4711 on node-1: no call of it is seen; on its host 8 processes are not watched since 02:11:40, because /scratch lies on a disk, which could hold up the job: set RINGSCOPE_DIR (`--dir`) to a folder on tmpfs" } : undefined;
  const base = no ?? off ?? refused ?? well;
  const worst = (list) => list.filter((one) => one.severity !== "info").sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity) || score(a) - score(b))[0];
  const byHost = new Map();
  for (const finding of firing) byHost.set(finding.host, [...(byHost.get(finding.host) ?? []), finding]);
  const score = (one) => -CONDITIONS.indexOf(conditionOf(one));
  const standing = (finding, words) => (finding === undefined ? base : { condition: conditionOf(finding), reason: words ?? finding.message });
  for (const one of clusters) {
    const mine = one.findings.filter((finding) => finding.severity !== "info");
    const hang = mine.find((finding) => FAILED.has(finding.finding) || HUNG.has(finding.finding));
    const top = worst(one.findings);
    const over = one.communicator.ended !== undefined;
    const whole = over ? { condition: "healthy", reason: "it ended by itself" } : standing(hang ?? top);
    one.communicator.standing = one.detail.standing = whole;
    one.job.standing = whole;
    const accused = new Set(hang?.accused?.map(({ rank }) => rank));
    for (const rank of one.detail.ranks) {
      rank.standing = over ? { condition: "healthy", reason: "it ended by itself" } : hang === undefined ? base
        : rank.state === "killed" ? { condition: "failed", reason: hang.message }
        : accused.has(rank.rank) ? { condition: "hung", reason: hang.message } : waits(hang);
    }
    const dead = new Set(one.detail.ranks.filter((rank) => rank.state === "killed").map((rank) => rank.host));
    const members = new Set(one.detail.ranks.map((rank) => rank.host));
    for (const host of one.hosts) {
      const here = byHost.get(host.host) ?? [];
      const killed = dead.has(host.host);
      host.standing = over ? { condition: "healthy", reason: "no process of it runs" } : killed ? { condition: "failed", reason: hang?.message ?? "a process was killed" }
        : worst(here) !== undefined ? standing(worst(here)) : hang !== undefined && members.has(host.host) ? waits(hang) : base;
    }
  }
  // A host may be in several clusters: the last word counts.
  const known = new Map(clusters.flatMap((one) => one.hosts).map((host) => [host.host, host.standing]));
  for (const host of all.nodes) {
    const mine = worst(byHost.get(host.host) ?? []);
    host.standing = mine !== undefined && known.get(host.host)?.condition === "healthy" ? standing(mine) : (known.get(host.host) ?? base);
  }
  return { ...all, incidents, health: healthOf(all, incidents.filter((one) => one.state === "firing"), scenario, base) };
}

function conditionOf({ finding, severity }) {
  if (FAILED.has(finding) && severity === "critical") return "failed";
  return HUNG.has(finding) && severity === "critical" ? "hung" : "degraded";
}

function incidentsOf(firing, clusters, now, said) {
  const open = firing.filter((one) => one.severity !== "info").map((one) => {
    const began = one.began_at ?? one.first_seen;
    const hang = Object.values(HANGS).find((known) => `f-${known.finding}` === one.id && one.message === (known.message));
    const timeline = (hang?.timeline ?? [[0, `${one.finding} was found`]]).map(([s, text]) => ({ at: iso(Date.parse(began) + s * 1000), text }));
    return {
      id: one.id, state: "firing", severity: one.severity, finding: one.finding, sentence: one.message, advice: one.advice ?? "", job: one.job, host: one.host,
      ...(one.rank === undefined ? {} : { rank: one.rank }), comm: one.comm, culprits: one.accused ?? [], n_victims: one.n_victims ?? 0, ...(one.cost === undefined ? {} : { cost: one.cost }), began_at: began, first_seen: one.first_seen,
      last_seen: one.last_seen, findings: [one.id], timeline, notes: [], ...said.get(one.id),
    };
  });
  const over = clusters.length === 0 ? [] : [{
    id: "f-old", state: "resolved", severity: "critical", finding: "rank_missing", sentence: "rank 4 on host-2 had not called AllReduce #17 that 7 ranks waited in: it wrote a checkpoint", advice: "", job: clusters[0].job.id, host: "host-2",
    rank: 4, comm: clusters[0].communicator.id, culprits: [{ host: "host-2", rank: 4, pid: 20_028, doing: "in no call; writes /ckpt/step-4000.pt" }], n_victims: 7, began_at: iso(now - 86_400_000), first_seen: iso(now - 86_398_000),
    last_seen: iso(now - 86_200_000), resolved_at: iso(now - 86_200_000), findings: ["f-old"], timeline: [{ at: iso(now - 86_400_000), text: "rank 4 is waited for" }, { at: iso(now - 86_200_000), text: "rank 4 has come" }],
    acknowledged: { by: "anna", at: iso(now - 86_300_000) }, notes: [{ by: "anna", at: iso(now - 86_290_000), text: "The checkpoint goes to the slow disk. Moved it." }],
  }];
  return [...open, ...over];
}

function healthOf(all, open, scenario, base) {
  const count = (items) => Object.fromEntries(CONDITIONS.map((one) => [one, items.filter((item) => item.standing?.condition === one).length]));
  const counts = { hosts: count(all.nodes), jobs: count(all.jobs.filter((job) => job.state !== "ended")), incidents: Object.fromEntries(SEVERITIES.map((one) => [one, open.filter((item) => item.severity === one).length])) };
  const top = [...open].sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity) || b.n_victims - a.n_victims)[0];
  const live = all.jobs.filter((job) => job.state !== "ended");
  const answer = (level, sentence, more = {}) => ({ level, sentence, ...more, ...counts, unknown: more.unknown ?? [] });
  if (top !== undefined) {
    const degraded = all.nodes.filter((host) => host.standing.condition === "degraded").length;
    const sentence = top.n_victims > 0 || top.comm === "" ? top.sentence : `${degraded} of ${all.nodes.length} hosts degraded: ${top.sentence}`;
    return answer(top.severity === "critical" ? "critical" : "warning", sentence.charAt(0).toUpperCase() + sentence.slice(1), { since: top.began_at, ...(top.advice === "" ? {} : { advice: top.advice }) });
  }
  if (all.jobs.length === 0) return answer("empty", all.nodes.length > 0 ? `No job yet; ${all.nodes.length} hosts reporting` : "No job yet");
  if (live.length === 0) return answer("idle", `No job is running; the last, ${all.jobs[0].id}, ended at ${new Date(all.jobs[0].last_seen).toTimeString().slice(0, 8)}`);
  if (base.condition === "unknown") return answer("unknown", "Nothing is known to be wrong, and not everything is known", { unknown: [`job ${live[0].id}: ${base.reason}`] });
  return answer("ok", `All ${all.nodes.length} hosts healthy`);
}

/** Of who waits for others, whom a finding names. */
function waits(hang) {
  return { condition: "hung", reason: `it waits: ${hang.message}`, waits: true };
}
