"""The scenarios: which jobs run, in which modes, and what must hold of each."""

import os
import xml.etree.ElementTree as ElementTree

import checks
import machine
import operations
from jobs import MODES, Job

N_RANKS = 4
ALL = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "send_recv"]
GROUPED = ["all_reduce", "all_gather", "broadcast", "send_recv"]
CAPTURED = ["all_reduce", "all_gather"]
REPLAYS = 10
JOB_S = 120
# Several ranks of one NCCL node on one GPU.
SHARED_GPU_SINCE = 23003


class Scenarios:
    """Runs them on a stage, with a daemon, into a report."""

    def __init__(self, stage, daemon, report, quick, version, torch):
        self.stage, self.daemon, self.report = stage, daemon, report
        self.quick, self.version, self.torch = quick, version, torch
        self.count = 8192 if quick else 65536
        self.rounds = 2 if quick else 5

    def steps(self):
        return [
            {"step": "eager", "primitives": ALL, "count": self.count, "rounds": self.rounds},
            {"step": "group", "primitives": GROUPED, "count": self.count, "rounds": self.rounds},
            {"step": "graph", "primitives": CAPTURED, "count": self.count, "replays": REPLAYS},
        ]

    def run(self, name, mode, steps, then, n_ranks=N_RANKS, **options):
        """One job as a scenario; `then` gets (scenario, job, results) while the ranks still live."""
        scenario = self.report.add(name, mode)
        job_name = "-".join(filter(None, [name, mode, options.get("level")]))
        try:
            with Job(self.stage, job_name, mode, n_ranks, steps, **options) as job:
                results = job.results(JOB_S)
                then(scenario, job, results)
                job.let_go()
        except Exception as error:  # whatever breaks one scenario, the others run: the machine may be lent once
            scenario.fail("%s: %s" % (type(error).__name__, error))
        return scenario

    def four_nodes(self):
        """Four processes as four NCCL nodes: every primitive, in every mode."""

        def then(scenario, job, results):
            _, processes, _ = checks.check_all(scenario, job, self.daemon, results)
            scenario.equal("NCCL nodes in its log", {one.get("n_nodes") for one in processes} == {N_RANKS}, True)
            if job.mode in ("neither", "both"):
                checks.check_import(scenario, job, processes)

        for mode in MODES:
            self.run("four-nodes", mode, self.steps(), then)

    def steps_level(self):
        """Bytes of each network step, with the ring and the protocol fixed: their sum is known."""
        steps = self.steps()[:2]

        def then(scenario, job, results):
            wanted = network_bytes(steps)

            def sent(found):
                sums = {}
                for rank in found[0]["primitives"] if found else []:
                    for totals in rank["primitives"]:
                        both = (totals["intra_bytes"] or 0) + (totals["inter_bytes"] or 0)
                        sums[totals["primitive"]] = sums.get(totals["primitive"], 0) + both
                return {name: size for name, size in sums.items() if size}

            found = self.daemon.await_communicators(job.name, lambda found: sent(found) == wanted, checks.PATIENCE_S)
            scenario.equal("bytes sent over the network by primitive = the ring's formula", sent(found), wanted)
            checks.check_all(scenario, job, self.daemon, results)

        settings = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"}
        self.run("network-steps", "both", steps, then, level="steps", extra=lambda rank: settings)

    def two_by_two(self):
        """Two NCCL nodes of two ranks each, on one GPU."""

        def then(scenario, job, results):
            communicators, processes, _ = checks.check_all(scenario, job, self.daemon, results)
            scenario.equal("NCCL nodes in its log", sorted({one.get("n_nodes") for one in processes}), [2])
            for one in communicators[:1]:
                scenario.equal("node of each rank", [rank["node"] for rank in one["detail"]["ranks"]], [0, 0, 1, 1])

        settings = {} if self.stage.is_engine else {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
        for mode in ("plugin", "both"):
            if not self.can_share_gpu(self.report, "two-by-two", mode):
                continue
            self.run("two-by-two", mode, self.steps(), then, per_host=2, extra=lambda rank: settings)

    def can_share_gpu(self, report, name, mode):
        if self.stage.is_engine or self.version >= SHARED_GPU_SINCE:
            return True
        words = "NCCL %s refuses two ranks of one node on one GPU; 2.30.3 is the first that does not"
        report.add(name, mode).skip(words % machine.version_text(self.version))
        return False

    def unequal(self):
        """The last rank's own search finds fewer channels than the others'."""
        last = N_RANKS - 1
        wanted = [2] * last + [1]

        def then(scenario, job, results):
            communicators, processes, findings = checks.check_all(scenario, job, self.daemon, results, healthy=False)
            scenario.equal("init channels in NCCL's log", [one["init"] for one in processes], wanted)
            for one in communicators[:1]:
                scenario.equal("base", one["detail"]["base"], 1)
                causes = [rank["causes"] for rank in one["detail"]["ranks"]]
                held_back = ["capped_by_peer" in of_rank for of_rank in causes]
                scenario.equal("ranks held back by a peer", held_back, [True] * last + [False])
                if self.stage.has_hosts:
                    culprit = [self.stage.host_name(last)]
                    scenario.equal("culprits", one["detail"]["culprits"], culprit)
                    named = [found["host"] for found in findings if found["finding"] == "channel_shortfall"]
                    scenario.equal("hosts that a channel_shortfall names", named, culprit)
            document = checks.check_import(scenario, job, processes, healthy=False)
            if document and self.stage.has_hosts:
                named = [found["host"] for found in document["findings"] if found["finding"] == "channel_shortfall"]
                scenario.equal("hosts that the import names", named, [self.stage.host_name(last)])

        extra = self.fewer_nics if self.stage.is_engine else self.graph_files(wanted)
        if extra is None:
            return
        self.run("unequal-init", "both", self.steps()[:1], then, extra=extra)

    def fewer_nics(self, rank):
        return {"RSCCL_NICS": self.stage.nics(rank, 1 if rank == N_RANKS - 1 else 2)}

    def graph_files(self, wanted):
        """Each rank's own search, dumped once and given back with as many channels as wanted."""

        def dump(rank):
            return {"NCCL_GRAPH_DUMP_FILE": path(rank), "NCCL_GRAPH_DUMP_FILE_RANK": str(rank)}

        def path(rank):
            return os.path.join(self.stage.dir, "graph-%d.xml" % rank)

        def then(scenario, _job, _results):
            for rank, channels in enumerate(wanted):
                edit_graphs(path(rank), channels)
            scenario.equal("graphs dumped", all(os.path.exists(path(rank)) for rank in range(N_RANKS)), True)

        scenario = self.run("dump-graphs", "neither", [], then, extra=dump)
        return None if scenario.failures else lambda rank: {"NCCL_GRAPH_FILE": path(rank)}

    def topologies(self):
        """The last rank's NIC is said to be slow: the search itself finds other counts, which the log tells."""
        if self.stage.is_engine:
            self.report.add("unequal-topology", "both").skip("the engine knows no NCCL_TOPO_FILE; see unequal-init")
            return

        def path(rank):
            return os.path.join(self.stage.dir, "topology-%d.xml" % rank)

        def dump(rank):
            return {"NCCL_TOPO_DUMP_FILE": path(rank), "NCCL_TOPO_DUMP_FILE_RANK": str(rank)}

        def edit(scenario, _job, _results):
            dumped = all(os.path.exists(path(rank)) for rank in range(N_RANKS))
            scenario.equal("topologies dumped", dumped, True)
            for rank in range(N_RANKS):
                tree = ElementTree.parse(path(rank))
                for net in tree.iter("net"):
                    net.set("speed", "1000" if rank == N_RANKS - 1 else "400000")
                tree.write(path(rank))

        def then(scenario, job, results):
            _, processes, findings = checks.check_all(scenario, job, self.daemon, results, healthy=False)
            inits = [one["init"] for one in processes]
            scenario.facts["the search differs"] = "yes" if len(set(inits)) > 1 else "no"
            scenario.facts["findings"] = [found["finding"] for found in findings]

        if not self.run("dump-topologies", "neither", [], edit, extra=dump).failures:
            steps = self.steps()[:1]
            self.run("unequal-topology", "both", steps, then, extra=lambda rank: {"NCCL_TOPO_FILE": path(rank)})

    def pytorch(self):
        """Distributed data-parallel training: the library is linked, and the calls are PyTorch's."""
        modes = ("neither", "plugin", "preload", "both", "shim")
        reason = self.no_pytorch()
        for mode in modes:
            if reason:
                self.report.add("pytorch-ddp", mode).skip(reason)
            else:
                self.run("pytorch-ddp", mode, [], self.check_pytorch, script="ddp.py")

    def no_pytorch(self):
        if self.stage.is_engine:
            return "PyTorch's NCCL backend takes CUDA tensors only"
        if not self.torch or not self.torch.get("sees_gpu"):
            return "no PyTorch that sees the GPU: %s" % (self.torch or {}).get("problem", "it is not installed")
        return None

    def check_pytorch(self, scenario, job, results):
        """Which calls PyTorch makes is its own affair: all ranks must make the same, and all must be completed."""
        checks.check_results(scenario, results)
        scenario.equal("parameters are equal on all ranks", len({result["parameters"] for result in results}), 1)
        if job.mode == "neither":
            scenario.equal("communicators that the daemon knows", self.daemon.communicators(job.name), [])
            return
        issues, completes = checks.sees_issued(job, self.version), checks.sees_completed(job, self.version)

        def counts(found):
            return [
                checks.seen_counts(found, rank, stage)[0]
                for rank in range(job.n_ranks)
                for stage in ("issued", "completed")
            ]

        def is_told(found):
            each = counts(found)
            return each[0].get("all_reduce", 0) >= results[0]["buckets"] and each[0] == each[1]

        found = self.daemon.await_communicators(job.name, is_told, checks.PATIENCE_S)
        each = counts(found)
        scenario.facts["calls of rank 0"] = each[0]
        if issues:
            n_issued = each[0].get("all_reduce", 0)
            scenario.equal("all_reduce of rank 0 >= its gradient buckets", n_issued >= results[0]["buckets"], True)
            scenario.equal("all ranks issue the same", all(one == each[0] for one in each[::2]), True)
        if issues and completes:
            scenario.equal("completed = issued", each[1::2], each[::2])
        checks.check_findings(scenario, job, self.daemon, found)


def edit_graphs(path, channels):
    """Makes the ring (id 0) and the tree (id 1) of a graph dump have this many channels."""
    tree = ElementTree.parse(path)
    for graph in tree.iter("graph"):
        rows = graph.findall("channel")
        if graph.get("id") not in ("0", "1") or not rows:
            continue
        for row in rows:
            graph.remove(row)
        for number in range(channels):
            graph.append(rows[number % len(rows)])
        graph.set("nchannels", str(channels))
    tree.write(path)


def network_bytes(steps):
    """Bytes that all ranks together send, by primitive, over rings all of whose hops are network."""
    sums = {}
    for step in steps:
        for primitive in step["primitives"]:
            size = step["count"] * 4 * step["rounds"]
            others = N_RANKS - 1
            factor = {"all_reduce": 2 * others, "all_gather": N_RANKS * others, "reduce_scatter": N_RANKS * others,
                      "send_recv": N_RANKS}.get(primitive, others)
            name = operations.counts_as(primitive, step["count"])[0][0]
            sums[name] = sums.get(name, 0) + factor * size
    return sums
