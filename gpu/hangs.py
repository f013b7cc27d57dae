"""A rank that misses a call: who is named, and whether the others can leave as fast as without ringscope.

The launch queue of the waiting rank is full, so that the next call of the driver on its stream blocks: what PyTorch's watchdog
meets when it aborts.
"""

import json
import os
import time

from jobs import Job

N_RANKS = 2
JOB_S = 60
# The daemon says who is waited for after ten seconds.
NAMED_S = 40
# How much longer than without ringscope it may take to leave: a second, and of a long abort a part. NCCL takes 26 s for a
# thousand calls that wait behind the hung one, and the event behind each takes its time too.
MORE_S = 1.0
MORE_SHARE = 0.1
MODES = ("neither", "plugin", "preload", "both")
# PyTorch's watchdog looks now and then, and writes what it knows before it ends the process.
WATCHDOG_MORE_S = 10
WATCHDOG_PATIENCE_S = 100


def hangs(scenarios):
    fills = ["calls"] if scenarios.stage.is_engine else ["calls", "memsets"]
    for fill in fills:
        for leave in ("abort", "exit"):
            bare = None
            for mode in MODES:
                if mode != "neither" and bare is None:
                    reason = "without ringscope it does not end either"
                    scenarios.report.add("hang-%s-%s" % (fill, leave), mode).skip(reason)
                    continue
                took = leave_a_hang(scenarios, fill, leave, mode, bare)
                bare = took if mode == "neither" else bare


def watchdog(scenarios):
    """PyTorch's watchdog aborts and ends a rank that waits too long, with ringscope as without."""
    reason, bare = scenarios.no_pytorch(), None
    for mode in ("neither", "both"):
        scenario = scenarios.report.add("pytorch-watchdog", mode)
        if reason:
            scenario.skip(reason)
            continue
        try:
            # 1: abort the communicators, then end the process. Without the dump before it.
            settings = {
                "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
                "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
                "TORCH_NCCL_ENABLE_MONITORING": "0",
            }
            with Job(scenarios.stage, scenario.name + "-" + mode, mode, N_RANKS, [], script="ddp_hang.py",
                     extra=lambda rank: settings) as job:
                job.results(JOB_S)
                started = time.monotonic()
                try:
                    status = job.processes[0].wait(WATCHDOG_PATIENCE_S)
                    took = time.monotonic() - started
                finally:
                    scenario.facts["said"] = job.said(0, 12)
        except Exception as error:  # whatever breaks one scenario, the others run
            status, took = "%s: %s" % (type(error).__name__, error), None
        scenario.facts.update(status=status, took_s=took)
        if mode == "neither":
            bare = status, took
            if took is None:
                reason = "without ringscope the watchdog does not end it either"
        else:
            scenario.equal("status of the rank that waited", status, bare[0])
            is_late = took is None or took > bare[1] + WATCHDOG_MORE_S
            scenario.equal("ended %d s later than without ringscope" % WATCHDOG_MORE_S, is_late, False)


def leave_a_hang(scenarios, fill, leave, mode, bare):
    """One job; returns what leaving took."""
    scenario = scenarios.report.add("hang-%s-%s" % (fill, leave), mode)
    steps = [
        {"step": "eager", "primitives": ["all_reduce"], "count": 1024, "rounds": 5},
        {"step": "hang", "count": 1024, "fill": fill},
    ]
    took = None
    try:
        with Job(scenarios.stage, scenario.name + "-" + mode, mode, N_RANKS, steps, leave=leave) as job:
            results = job.results(JOB_S)
            scenario.facts["enqueued behind the hung call"] = results[0]["n_filled"]
            if (fill, leave, mode) == ("calls", "abort", "both"):
                check_named(scenario, scenarios.daemon, job)
            started = time.monotonic()
            job.let_go()
            took = dict(left(job), ended_s=time.monotonic() - started)
    except Exception as error:  # whatever breaks one scenario, the others run
        scenario.facts["error"] = "%s: %s" % (type(error).__name__, error)
    scenario.facts["leaving"] = took
    if mode == "neither" and took is None:
        scenario.skip("it does not end: %s" % scenario.facts["error"])
    else:
        scenario.equal("ends", took is not None, True)
    if took and bare:
        for what in ("left_s", "ended_s"):
            most = bare.get(what, 0) * (1 + MORE_SHARE) + MORE_S
            scenario.equal("%s is more than %.1f s" % (what, most), took.get(what, 0) > most, False)
        scenario.equal("the blocked thread ends", took.get("filler_ended"), bare.get("filler_ended"))
    return took


def left(job):
    """What the rank that waited says of leaving; nothing if it just ended."""
    path = os.path.join(job.dir, "left-0.json")
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        return json.load(file)


def check_named(scenario, daemon, job):
    """A finding accuses the last rank and nobody else."""
    accused = []
    ends = time.monotonic() + NAMED_S
    while not accused and time.monotonic() < ends:
        firing = [one for one in daemon.findings(job.name) if one["state"] == "firing"]
        accused = sorted({culprit["rank"] for one in firing for culprit in one.get("accused", [])})
        scenario.facts["findings"] = [one["message"] for one in firing]
        time.sleep(0.5)
    scenario.equal("ranks accused", accused, [N_RANKS - 1])
