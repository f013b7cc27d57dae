"""Runs every scenario on this machine and writes the report. Started by run.sh.

Exit status: 0 all checks passed, 1 a check failed, 64 the machine lacks what is needed.
"""

import argparse
import os
import platform
import subprocess
import sys

import machine
from blind import BlindSpots
from daemon import Daemon
from hangs import hangs, watchdog
from hardware import hardware
from jobs import Job, JobFailed
from overhead import measure
from report import Report
from scenarios import JOB_S, Scenarios
from stage import Stage
from summation import push_pull_of_device_tensors

FAILED, USAGE = 1, 64
PARTS = ["hardware", "nodes", "steps", "two-by-two", "unequal", "pytorch", "summation", "hangs", "watchdog", "blind",
         "overhead"]


def arguments():
    parser = argparse.ArgumentParser(prog="run.sh", description="Holds ringscope against NCCL on this machine.")
    parser.add_argument("--out", default="ringscope-report", help="folder for report.json and report.md")
    parser.add_argument("--quick", action="store_true", help="small messages, one round of timings")
    parser.add_argument("--minutes", type=float, default=8, help="begin no round of timings after this [default: 8]")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; can be given again")
    parser.add_argument("--engine", action="store_true", help="no GPU: ringscope's own engine in NCCL's place")
    parser.add_argument("--bundle", default=os.path.dirname(os.path.abspath(__file__)),
                        help="folder with ringscope and librsccl.so [default: that of this script]")
    return parser.parse_args()


def versions(stage, torch, probe):
    """Versions of all that takes part."""
    found = {
        "machine": "the collective engine, no GPU" if stage.is_engine else machine.gpu().get("name", "a GPU"),
        "nccl": machine.version_text(probe["nccl_version"]) + (" (librsccl)" if stage.is_engine else ""),
        "ringscope": said([stage.ringscope, "--version"]),
        "python": platform.python_version(),
        "hosts": "each node its own" if stage.has_hosts else "all ranks on one",
    }
    if not stage.is_engine:
        found.update({"gpu_" + name: value for name, value in machine.gpu().items()})
        found.update(probe["device"])
        found["kernel"] = platform.release()
        found["torch"] = (torch or {}).get("version") or "none"
    return found


def said(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, universal_newlines=True, timeout=30)
    return done.stdout.strip()


def probe(stage):
    """One rank with nothing else: whether NCCL works here at all, and which it is."""
    with Job(stage, "probe", "neither", 1, []) as job:
        result = job.results(JOB_S)[0]
        job.let_go()
    return result


def run(stage, options):
    torch = machine.torch_version() if not stage.is_engine and machine.has_torch() else None
    first = probe(stage)
    report = Report(versions(stage, torch, first), options.quick, options.minutes)
    with Daemon(stage) as daemon:
        scenarios = Scenarios(stage, daemon, report, options.quick, first["nccl_version"], torch)
        parts = {
            "hardware": lambda: hardware(scenarios),
            "nodes": scenarios.four_nodes,
            "steps": scenarios.steps_level,
            "two-by-two": scenarios.two_by_two,
            "unequal": lambda: (scenarios.unequal(), scenarios.topologies()),
            "pytorch": scenarios.pytorch,
            "summation": lambda: push_pull_of_device_tensors(scenarios),
            "hangs": lambda: hangs(scenarios),
            "watchdog": lambda: watchdog(scenarios),
            "blind": BlindSpots(scenarios).ask_all,
            "overhead": lambda: measure(scenarios),
        }
        for name, part in parts.items():
            if options.part and name not in options.part:
                continue
            before = len(report.scenarios)
            part()
            # What is there if the machine is taken away.
            report.write(options.out)
            tell(report.scenarios[before:])
    return report


def tell(scenarios):
    for one in scenarios:
        status = one.as_json()["status"].replace("_", " ")
        print("%-32s %-8s %s" % (one.title, status, one.reason or ""), flush=True)
        for check in one.failures:
            print("    %(check)s: found %(found)r, wanted %(wanted)r" % check, flush=True)


def main():
    options = arguments()
    try:
        with Stage(os.path.abspath(options.bundle), options.engine) as stage:
            report = run(stage, options)
    except (machine.NotThere, JobFailed, RuntimeError) as error:
        print("run.sh: %s" % error, file=sys.stderr)
        return USAGE
    verdict = "%d checks failed" % len(report.failures) if report.failures else "all passed"
    print("%s/report.md: %s" % (options.out, verdict))
    return FAILED if report.failures else 0


sys.exit(main())
