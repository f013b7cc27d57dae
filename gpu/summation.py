"""The summation service with tensors on the GPU: two workers and a server, held against the same from host memory."""

import os
import secrets
import socket
import subprocess

N_WORKERS, N_SERVERS = 2, 1
INVALID_ARGUMENT, INVALID_USAGE = 4, 5


def push_pull_of_device_tensors(scenarios):
    """Every sum the same both ways, bit by bit; what cannot work is refused and not a crash."""
    stage = scenarios.stage
    settings = group_settings(stage)
    program = os.path.join(stage.bundle, "ringscope-sumd")
    if not os.path.exists(program):
        scenarios.report.add("summation", "neither").skip("no ringscope-sumd in the bundle")
        return

    def then(scenario, _job, results):
        scenario.equal("sums that differ from those of host memory", [words for one in results for words in one["wrong"]], [])
        for rank, one in enumerate(results):
            times = ["%s %.1f ms" % (way, seconds * 1e3) for way, seconds in sorted(one["times"].items())]
            scenario.facts["push and pull of 64 MiB by worker %d" % rank] = ", ".join(times)
        if stage.is_engine:
            scenario.facts["device"] = "none: both ways are from host memory"
            return
        refused = {"refused": INVALID_ARGUMENT, "captured": INVALID_USAGE}
        for name, code in refused.items():
            scenario.equal(name, [one[name][0] for one in results], [code] * N_WORKERS)
            scenario.facts[name] = results[0][name][1]

    environment = {name: value for name, value in os.environ.items() if not name.startswith("RSUM_")}
    environment.update(settings)
    output = os.path.join(stage.dir, "sumd.output")
    with open(output, "w") as file:
        server = subprocess.Popen([program], env=environment, stdout=file, stderr=file)
    try:
        extra = lambda rank: dict(settings, RSUM_RANK=str(rank))  # noqa: E731  as the other scenarios have it
        scenarios.run("summation", "neither", [], then, n_ranks=N_WORKERS, script="summing.py", extra=extra)
    finally:
        server.kill()
        server.wait()


def group_settings(stage):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return {
        "RSUM_ROOT": "127.0.0.1:%d" % port,
        "RSUM_SECRET": secrets.token_hex(16),
        "RSUM_WORKERS": str(N_WORKERS),
        "RSUM_SERVERS": str(N_SERVERS),
        "RSCCL_NICS": "lo=127.0.0.1",
        "RSCCL_HOST": stage.host_name(0),
        "SUMMING_LIBRARY": os.path.join(stage.bundle, "librsccl.so"),
    }
