"""Jobs: one process a rank, started the way that a mode says, kept until they are let go."""

import json
import os
import subprocess
import sys
import time

# How ringscope comes to a rank. `calls`: the interposed calls are seen; `plugin`: the profiler plugin is.
MODES = {
    "neither": {"run": None, "calls": False, "plugin": False, "reach": "linked"},
    "plugin": {"run": ["--plugin-only"], "calls": False, "plugin": True, "reach": "linked"},
    "preload": {"run": [], "calls": True, "plugin": False, "reach": "linked"},
    "both": {"run": [], "calls": True, "plugin": True, "reach": "linked"},
    "shim": {"run": ["--shim=%s"], "calls": True, "plugin": True, "reach": "ctypes"},
}
# Settings of whoever starts this that would change what is measured.
FOREIGN = ("NCCL_", "RINGSCOPE_", "RSCCL_", "LD_PRELOAD", "TORCH_NCCL_")
OWN_HOST_NAME = ["unshare", "-u", "sh", "-c", 'hostname "$0" && exec "$@"']


def library_path(nccl):
    """NCCL's folder before those that are set: the GPU's driver may lie there."""
    return ":".join(filter(None, [os.path.dirname(nccl), os.environ.get("LD_LIBRARY_PATH")]))


class JobFailed(Exception):
    """A rank failed or was too slow; the text says which and how."""


class Job:
    """A running job. Use as a context: its processes end with it."""

    def __init__(self, stage, name, mode, n_ranks, steps, extra=None, level=None, script="worker.py", per_host=1,
                 leave="destroy"):
        self.stage, self.name, self.mode = stage, name, mode
        self.n_ranks, self.extra, self.level, self.script = n_ranks, extra or (lambda rank: {}), level, script
        self.per_host = per_host
        self.dir = os.path.join(stage.dir, name)
        os.makedirs(self.dir)
        self.plan_path = os.path.join(self.dir, "plan.json")
        plan = {
            "dir": self.dir,
            "n_ranks": n_ranks,
            "device": stage.device,
            "library": "libnccl.so.2",
            "reach": MODES[mode]["reach"],
            "cudart": stage.cudart,
            "steps": steps,
            "leave": leave,
        }
        with open(self.plan_path, "w") as file:
            json.dump(plan, file)
        self.processes = []

    def __enter__(self):
        try:
            for rank in range(self.n_ranks):
                with open(self.output(rank), "w") as output:
                    process = subprocess.Popen(
                        self.command(rank),
                        env=self.environment(rank),
                        stdin=subprocess.PIPE,
                        stdout=output,
                        stderr=output,
                    )
                self.processes.append(process)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdin.close()

    def output(self, rank):
        return os.path.join(self.dir, "rank-%d.output" % rank)

    def command(self, rank):
        words = [sys.executable, os.path.join(self.stage.scripts, self.script), self.plan_path]
        options = MODES[self.mode]["run"]
        if options is not None:
            if self.mode == "preload":
                words = ["env", "NCCL_PROFILER_PLUGIN=none"] + words
            options = [option % self.stage.nccl if "%s" in option else option for option in options]
            options += ["--level", self.level] if self.level else []
            start = [self.stage.ringscope, "run", "--job", self.name, "--dir", self.stage.segments]
            words = start + ["--cache-dir", self.stage.cache] + options + ["--"] + words
        if self.stage.own_host_names:
            words = OWN_HOST_NAME + [self.stage.host_name(rank // self.per_host)] + words
        return words

    def environment(self, rank):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        environment.update(self.stage.environment(rank // self.per_host))
        environment.update(
            RANK=str(rank),
            WORLD_SIZE=str(self.n_ranks),
            LOCAL_RANK=str(rank % self.per_host),
            LOCAL_WORLD_SIZE=str(self.per_host),
            LD_LIBRARY_PATH=library_path(self.stage.nccl),
            PYTHONDONTWRITEBYTECODE="1",
            # A user's own wish, which must keep its effect whatever ringscope does with the log.
            NCCL_DEBUG="INFO",
            NCCL_DEBUG_SUBSYS="INIT,GRAPH,ENV",
            NCCL_DEBUG_FILE=os.path.join(self.dir, "nccl.%p.log"),
        )
        environment.update(self.extra(rank))
        return environment

    def results(self, patience_s):
        """What each rank says that it did, once all have done it."""
        ends = time.monotonic() + patience_s
        found = {}
        while len(found) < self.n_ranks:
            for rank in range(self.n_ranks):
                path = os.path.join(self.dir, "rank-%d.json" % rank)
                if rank not in found and os.path.exists(path):
                    with open(path) as file:
                        found[rank] = json.load(file)
                elif rank not in found and self.processes[rank].poll() is not None:
                    raise JobFailed(self.words(rank, "ended with %s" % self.processes[rank].returncode))
            if time.monotonic() > ends:
                missing = [rank for rank in range(self.n_ranks) if rank not in found]
                raise JobFailed(self.words(missing[0], "was not done after %d s" % patience_s))
            time.sleep(0.01)
        return [found[rank] for rank in range(self.n_ranks)]

    def let_go(self, patience_s=30):
        """Lets the ranks destroy their communicators and end."""
        for process in self.processes:
            process.stdin.close()
        ends = time.monotonic() + patience_s
        for rank, process in enumerate(self.processes):
            try:
                status = process.wait(max(0.1, ends - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise JobFailed(self.words(rank, "did not end within %d s" % patience_s))
            if status != 0:
                raise JobFailed(self.words(rank, "ended with %d" % status))

    def words(self, rank, what):
        return "%s: rank %d %s: %s" % (self.name, rank, what, " | ".join(self.said(rank, 3)) or "it said nothing")

    def said(self, rank, n_lines):
        """The last lines that a rank wrote."""
        with open(self.output(rank), errors="replace") as file:
            return file.read().strip().splitlines()[-n_lines:]

    def logs(self):
        """Paths of NCCL's own log, one a process."""
        return sorted(os.path.join(self.dir, name) for name in os.listdir(self.dir) if name.startswith("nccl."))
