"""What ringscope cannot see, asked of this machine: each question with its answer and what it rests on.

Answers: yes, no, not_applicable (with the reason), unknown (it could not be tried).
"""

import checks
from daemon import counted
from scenarios import JOB_S, N_RANKS, REPLAYS
from jobs import Job

# What has not been told by then stays untold: agents send four times a second.
PATIENCE_S = 4
ON_ENGINE = "the engine stands in NCCL's place"


class BlindSpots:
    """Asks them, one job each where the scenarios have not told already."""

    def __init__(self, scenarios):
        self.scenarios, self.stage = scenarios, scenarios.stage
        self.daemon, self.report = scenarios.daemon, scenarios.report
        self.version = scenarios.version

    def ask_all(self):
        self.recipes()
        self.broadcast()
        self.single_rank()
        self.empty_call()
        self.replays()
        self.symmetric()
        self.runtime_connect()
        self.debug_symbols()
        self.graph_rows()

    def answer(self, question, answer, evidence):
        self.report.blind_spots.append({"question": question, "answer": answer, "evidence": evidence})

    def try_job(self, name, mode, steps, look, n_ranks=N_RANKS, **options):
        """What `look` makes of a job: (answer, evidence); unknown if the job fails."""
        try:
            with Job(self.stage, "blind-" + name, mode, n_ranks, steps, **options) as job:
                found = look(job, job.results(JOB_S))
                job.let_go()
                return found
        except Exception as error:  # one question that cannot be tried leaves the others
            return "unknown", "%s: %s" % (type(error).__name__, error)

    def seen(self, job, results):
        """Issued and completed calls of rank 0 once the daemon has heard all, or never will."""
        found = checks.observe(self.daemon, job, results, PATIENCE_S)
        return counted(found, 0, "issued_calls"), counted(found, 0, "completed_calls")

    def recipes(self):
        for name, words in (("four-nodes", "Do 4 processes on one GPU form 4 NCCL nodes over sockets?"),
                            ("two-by-two", "Do 2 x 2 ranks on one GPU form 2 NCCL nodes?")):
            ran = [one for one in self.report.scenarios if one.name == name and one.mode == "both"]
            ok = bool(ran) and not ran[0].reason and not ran[0].failures
            if ran and ran[0].reason:
                self.answer(words, "not_applicable", ran[0].reason)
            elif self.stage.is_engine:
                self.answer(words, "not_applicable", "the engine needs no GPU to share")
            else:
                self.answer(words, "yes" if ok else "no", "scenario %s / both" % name)

    def broadcast(self):
        steps = [{"step": "eager", "primitives": ["broadcast"], "count": 1024, "rounds": 5}]

        def look(job, results):
            _, completed = self.seen(job, results)
            n_completed = completed.get("broadcast", 0)
            evidence = "plugin only: 5 broadcasts, %d told as completed" % n_completed
            return "no" if n_completed == 5 else "yes", evidence

        question = "Is a Broadcast's completion hidden from the plugin (NCCL 2.29.2-2.30.7)?"
        answer, evidence = self.try_job("broadcast", "plugin", steps, look)
        if self.stage.is_engine and answer == "no":
            answer, evidence = "not_applicable", "the engine has no such path; " + evidence
        self.answer(question, answer, evidence)

    def single_rank(self):
        steps = [{"step": "eager", "primitives": ["all_reduce"], "count": 1024, "rounds": 5}]

        def look(job, results):
            issued, completed = self.seen(job, results)
            n_issued = issued.get("all_reduce", 0)
            evidence = "plugin only: 5 all-reduces, issued %d, completed %d" % (n_issued, completed.get("all_reduce", 0))
            return "no" if n_issued == 5 else "yes", evidence

        question = "Are the calls of a communicator of one rank hidden from the plugin?"
        self.answer(question, *self.try_job("single-rank", "plugin", steps, look, n_ranks=1))

    def empty_call(self):
        steps = [{"step": "eager", "primitives": ["all_reduce"], "count": 0, "rounds": 5},
                 {"step": "eager", "primitives": ["all_reduce"], "count": 1024, "rounds": 1}]

        def look(job, results):
            issued, completed = self.seen(job, results)
            evidence = "plugin only: 5 empty all-reduces and 1 other, issued %d, completed %d" % (
                issued.get("all_reduce", 0), completed.get("all_reduce", 0))
            return "no" if issued.get("all_reduce", 0) == 6 else "yes", evidence

        question = "Are calls of no elements hidden from the plugin?"
        self.answer(question, *self.try_job("empty", "plugin", steps, look))

    def replays(self):
        for level in ("counters", "channels"):
            question = "Is every run of a CUDA graph counted at level %s?" % level
            if self.stage.is_engine:
                self.answer(question, "not_applicable", "the engine has no CUDA graphs")
                continue
            steps = [{"step": "eager", "primitives": ["all_reduce"], "count": 1024, "rounds": 2},
                     {"step": "graph", "primitives": ["all_reduce"], "count": 1024, "replays": REPLAYS}]

            def look(job, results):
                found = checks.observe(self.daemon, job, results, PATIENCE_S)
                replayed = counted(found, 0, "replayed_calls").get("all_reduce", 0)
                return "yes" if replayed == REPLAYS else "no", "both: %d of %d runs counted" % (replayed, REPLAYS)

            self.answer(question, *self.try_job("replays-" + level, "both", steps, look, level=level))

    def symmetric(self):
        """Symmetric kernels and copy engines need ranks that reach each other's memory: one node, one GPU."""
        kinds = [
            ("symmetric kernels", "all_reduce", {"NCCL_SYM_KERNEL_ENABLE": "1"}),
            ("copy-engine collectives", "all_gather", {"NCCL_CTA_POLICY": "2"}),
        ]
        for name, primitive, settings in kinds:
            question = "Are %s hidden from the plugin?" % name
            if self.stage.is_engine:
                self.answer(question, "not_applicable", ON_ENGINE)
                continue
            if self.version < 23003:
                words = "needs two ranks of one node, which one GPU holds from NCCL 2.30.3 on"
                self.answer(question, "not_applicable", words)
                continue
            steps = [{"step": "symmetric", "primitive": primitive, "count": 65536}]
            extra = dict(settings, NCCL_MULTI_RANK_GPU_ENABLE="1", NCCL_CUMEM_ENABLE="1", NCCL_WIN_ENABLE="1")

            def look(job, results):
                _, completed = self.seen(job, results)
                told = completed.get(primitive, 0)
                evidence = "plugin only: 1 %s on windows, %d told as completed" % (primitive, told)
                return "no" if told == 1 else "yes", evidence

            job = "windows-" + primitive
            found = self.try_job(job, "plugin", steps, look, n_ranks=2, per_host=2, extra=lambda rank: extra)
            self.answer(question, *found)

    def runtime_connect(self):
        question = "Are connections made after init missing from the rings?"
        if self.stage.is_engine:
            self.answer(question, "not_applicable", "the engine connects at init")
            return
        steps = [{"step": "eager", "primitives": ["all_reduce"], "count": 65536, "rounds": 2}]
        settings = {"NCCL_CUMEM_ENABLE": "1", "NCCL_RUNTIME_CONNECT": "1"}

        def look(job, results):
            scenario = self.report.add("runtime-connect", job.mode)
            communicators, processes, _ = checks.check_all(scenario, job, self.daemon, results)
            late = sum(len(one["via_after"]) for one in processes)
            hops = [hop for one in communicators for ring in one["rings"] for hop in ring["order"]]
            bare = sum(hop["transport"] is None for hop in hops)
            return "yes" if bare else "no", "%d connect lines after init; %d of %d hops without transport" % (
                late, bare, len(hops))

        self.answer(question, *self.try_job("runtime-connect", "both", steps, look, extra=lambda rank: settings))

    def debug_symbols(self):
        if self.stage.is_engine:
            self.answer("Is this libnccl stripped?", "not_applicable", ON_ENGINE)
            return
        with open(self.stage.nccl, "rb") as file:
            content = file.read()
        has = b".debug_info" in content
        evidence = ".debug_info is %s" % ("there" if has else "not there")
        self.answer("Is this libnccl stripped?", "no" if has else "yes", evidence)

    def graph_rows(self):
        question = "Is a GPU's local id in the graph rows its busId?"

        def look(job, _results):
            one = checks.nccl_log.read(job.logs()[0])[0]
            row, bus_id = one.get("row", ""), one["bus_id"]
            answer = "yes" if row.split("-")[-1] == bus_id else "no"
            return answer, "row %r, busId %s" % (row, bus_id)

        steps = []
        if self.stage.is_engine:
            self.answer(question, "not_applicable", "the engine has no PCI devices")
        else:
            self.answer(question, *self.try_job("graph-rows", "neither", steps, look))
