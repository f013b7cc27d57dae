"""What a job's ranks, NCCL's log, RAS, `ringscope import` and the daemon say, held against each other."""

import json
import subprocess
import time

import nccl_log
import ras
from daemon import counted
from jobs import MODES

PATIENCE_S = 20
# v5 of the profiler interface, the first with API events.
API_EVENTS_SINCE = 22800
# The first with an event for each channel's end.
CHANNEL_EVENTS_SINCE = 22600
# Broadcasts of these versions have no event but the API's.
SILENT_BROADCAST = range(22902, 23008)


def sees_issued(job, version):
    mode = MODES[job.mode]
    return mode["calls"] or (mode["plugin"] and version >= API_EVENTS_SINCE)


def sees_completed(job, version):
    """By CUDA events behind the calls, or by the plugin."""
    mode = MODES[job.mode]
    by_events = mode["calls"] and not job.stage.is_engine
    return by_events or (mode["plugin"] and version >= CHANNEL_EVENTS_SINCE)


def own(result, field):
    return {primitive: totals[field] for primitive, totals in result["issued"].items()}


def minus(left, right):
    """Calls that were replays taken out."""
    rest = {primitive: value - right.get(primitive, 0) for primitive, value in left.items()}
    return {primitive: value for primitive, value in rest.items() if value}


def seen_counts(communicators, rank, stage):
    """Issued or completed by primitive without runs of captured calls: (calls, bytes)."""
    return tuple(
        minus(counted(communicators, rank, "%s_%s" % (stage, unit)), counted(communicators, rank, "replayed_" + unit))
        for unit in ("calls", "bytes")
    )


def own_counts(result):
    return own(result, "calls"), own(result, "bytes")


def observe(daemon, job, results, patience_s=PATIENCE_S):
    """The communicators as the daemon shows them, once it has heard what it is to hear (or never will)."""
    version = results[0]["nccl_version"]
    stages = (["issued"] if sees_issued(job, version) else []) + (["completed"] if sees_completed(job, version) else [])

    def is_told(found):
        if not found or found[0]["detail"]["n_ranks_seen"] < job.n_ranks:
            return False
        if job.n_ranks > 1 and found[0]["detail"]["coverage"]["log"] < job.n_ranks:
            return False
        wanted = [own_counts(result) for result in results]
        return all(
            seen_counts(found, rank, stage) == wanted[rank] for rank in range(job.n_ranks) for stage in stages
        ) and all(ring["complete"] for ring in found[0]["rings"])

    if job.mode == "neither":
        return daemon.communicators(job.name)
    return daemon.await_communicators(job.name, is_told, patience_s)


def check_results(scenario, results):
    scenario.equal("wrong results", [words for result in results for words in result["wrong"]], [])
    scenario.facts["results verified"] = sum(result["n_verified"] for result in results)
    for not_run in results[0]["not_run"]:
        scenario.facts["no " + not_run["step"]] = not_run["reason"]


def check_counts(scenario, job, results, communicators):
    """Issued = the ranks' own; completed = issued."""
    version = results[0]["nccl_version"]
    if job.mode == "neither":
        scenario.equal("communicators that the daemon knows", len(communicators), 0)
        return
    for result in results:
        rank, (calls, sizes) = result["rank"], own_counts(result)
        issued, completed = (seen_counts(communicators, rank, stage) for stage in ("issued", "completed"))
        if sees_issued(job, version):
            scenario.equal("rank %d: issued calls = its own" % rank, issued[0], calls)
            scenario.equal("rank %d: issued bytes = its own" % rank, issued[1], sizes)
        wanted = dict(calls)
        if not MODES[job.mode]["calls"] and version in SILENT_BROADCAST:
            wanted.pop("broadcast", None)
            completed[0].pop("broadcast", None)
        if sees_completed(job, version):
            scenario.equal("rank %d: completed calls = its own" % rank, completed[0], wanted)
        else:
            scenario.equal("rank %d: nothing completed is claimed" % rank, completed[0], {})
    replays = {rank: counted(communicators, rank, "replayed_calls") for rank in range(job.n_ranks)}
    captured = {rank: counted(communicators, rank, "captured_calls") for rank in range(job.n_ranks)}
    if results[0]["captured"] and MODES[job.mode]["calls"]:
        own_captured = {primitive: totals["calls"] for primitive, totals in results[0]["captured"].items()}
        scenario.equal("rank 0: captured calls = its own", captured[0], own_captured)
    if results[0]["captured"]:
        scenario.facts["replayed calls of rank 0"] = replays[0]


def check_log(scenario, job, communicators):
    """Channels and rings: the daemon against NCCL's own log, read apart. Returns what the log says, by rank."""
    processes = processes_of(job)
    if job.n_ranks == 1:
        return processes
    scenario.equal("ranks in NCCL's log", [one["rank"] for one in processes], list(range(job.n_ranks)))
    rings = nccl_log.join(processes)
    scenario.facts["channels"] = "init %s, final %s" % (
        [one["init"] for one in processes], sorted({one.get("final") for one in processes}, key=str))
    scenario.facts["rings"] = len(rings)
    if job.mode == "neither" or not communicators:
        return processes
    detail = communicators[0]["detail"]
    for field, words in (("init", "init_channels"), ("final", "final_channels")):
        found = [rank[words] for rank in detail["ranks"]]
        scenario.equal("%s channels of each rank = NCCL's log" % field, found, [one.get(field) for one in processes])
    scenario.equal("rings = NCCL's log", drawn(communicators[0]["rings"]), {str(key): rings[key] for key in rings})
    broken = [one["channel"] for one in communicators[0]["rings"] if not one["complete"]]
    scenario.equal("rings that do not close", broken, [])
    if processes and processes[0]["comm_hash"]:
        scenario.equal("communicator hash = NCCL's log", detail["comm_hash"], processes[0]["comm_hash"])
    return processes


def processes_of(job):
    """What NCCL's log says, by rank, once all of it is there: under ringscope a process of its own copies it."""
    ends = time.monotonic() + PATIENCE_S
    while True:
        found = [one for path in job.logs() for one in nccl_log.read(path) if one["n_ranks"] == job.n_ranks]
        is_whole = len(found) >= job.n_ranks and all(one["complete"] for one in found)
        if is_whole or job.n_ranks == 1 or time.monotonic() > ends:
            return sorted(found, key=lambda one: one["rank"])
        time.sleep(0.2)


def drawn(rings):
    """{channel: next of each rank} of the daemon's rings."""
    def by_rank(ring):
        return sorted(ring["order"], key=lambda hop: hop["rank"])

    return {str(ring["channel"]): [hop["next"] for hop in by_rank(ring)] for ring in rings}


def check_import(scenario, job, processes, healthy=True):
    """`ringscope import` on the same log."""
    command = [job.stage.ringscope, "import", "--json"] + job.logs()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=60)
    scenario.equal("import's exit status", done.returncode, 0 if healthy else 2)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        scenario.fail("import prints no JSON: " + done.stderr[-300:])
        return None
    # The job still runs, and its log does not tell whether its calls end.
    scenario.equal("import's verdict", document["verdict"], "unknown" if healthy else "findings")
    communicators = [one for one in document["communicators"] if one["n_ranks"] == job.n_ranks]
    scenario.equal("communicators in the import", len(communicators), 1)
    for one in communicators[:1]:
        finals = [rank["final_channels"] for rank in one["ranks"]]
        scenario.equal("final channels in the import = NCCL's log", finals, [each.get("final") for each in processes])
        wanted = {str(key): following for key, following in nccl_log.join(processes).items()}
        scenario.equal("rings in the import = NCCL's log", drawn(one["rings"]), wanted)
    return document


def check_ras(scenario, job, results):
    """What NCCL counts itself: the collectives, and runs of captured ones where a plugin asks for each channel's end."""
    if job.stage.is_engine:
        scenario.facts["RAS"] = "the engine has none"
        return
    try:
        found = ras.communicators(results[0]["nccl_version"])
    except (ras.NoRas, ValueError, KeyError) as error:
        scenario.facts["RAS"] = "not asked: %s" % error
        return
    ours = [one for one in found if one["size"] == job.n_ranks]
    scenario.equal("communicators in RAS", len(ours), 1)
    for one in ours[:1]:
        for result in results:
            calls = own(result, "calls")
            if job.mode == "plugin":
                for name, totals in result.get("replayed", {}).items():
                    calls[name] = calls.get(name, 0) + totals["calls"]
            wanted = {name: n_calls for name, n_calls in calls.items() if name in ras.NAMES.values()}
            scenario.equal("rank %d: RAS counts = its own" % result["rank"], one["counts"].get(result["rank"]), wanted)


def check_findings(scenario, job, daemon, communicators):
    """Coverage is told, and an equal job has no finding but that it is partly seen."""
    if not communicators:
        return
    detail = communicators[0]["detail"]
    scenario.facts["coverage"] = detail["coverage"]["state"]
    scenario.facts["completion"] = detail["completion"]
    if detail["coverage"]["lacks"]:
        scenario.facts["lacks"] = detail["coverage"]["lacks"]
    seen = detail["coverage"]
    mode = MODES[job.mode]
    wanted = [job.n_ranks if mode["calls"] else 0, job.n_ranks if mode["plugin"] else 0, job.n_ranks]
    scenario.equal("ranks seen by calls, plugin, log", [seen["calls"], seen["plugin"], seen["log"]], wanted)
    return [one for one in daemon.findings(job.name) if one["state"] == "firing"]


def check_all(scenario, job, daemon, results, healthy=True):
    """Everything that holds of any job. Returns (communicators, log, findings)."""
    communicators = observe(daemon, job, results)
    check_results(scenario, results)
    check_counts(scenario, job, results, communicators)
    processes = check_log(scenario, job, communicators)
    check_ras(scenario, job, results)
    findings = check_findings(scenario, job, daemon, communicators) or []
    if healthy:
        bad = [one for one in findings if one["severity"] != "info" and one["finding"] != "partly_seen"]
        scenario.equal("findings of an equal job", [one["message"] for one in bad], [])
    return communicators, processes, findings
