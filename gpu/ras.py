"""NCCL's RAS (2.24 and later) over its text protocol: what NCCL itself counts."""

import json
import socket

ADDRESS = ("localhost", 28028)
TIMEOUT_S = 15
JSON_SINCE, SINCE = 22807, 22400
# Collectives that RAS counts, as it names them and as ringscope does.
NAMES = {
    "Broadcast": "broadcast",
    "Reduce": "reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "AllReduce": "all_reduce",
}


class NoRas(Exception):
    """RAS cannot be asked; the text says why."""


def communicators(version):
    """[{hash, counts: {rank: {primitive: calls}}}] of the running job."""
    if version < SINCE:
        raise NoRas("NCCL has RAS from 2.24 on")
    if version < JSON_SINCE:
        raise NoRas("RAS answers in JSON from 2.28.7 on")
    status = json.loads(_ask())
    found = []
    for communicator in status.get("communicators") or []:
        counts = {}
        for rank in communicator.get("ranks", []):
            of_rank = rank.get("collective_counts", {})
            counts[rank["rank"]] = {NAMES[name]: calls for name, calls in of_rank.items() if name in NAMES and calls}
        found.append({"hash": communicator.get("hash"), "size": communicator.get("size"), "counts": counts})
    return found


def _ask():
    try:
        with socket.create_connection(ADDRESS, TIMEOUT_S) as connection:
            connection.settimeout(TIMEOUT_S)
            lines = connection.makefile("rw", encoding="utf-8", newline="\n")
            for question in ("CLIENT PROTOCOL 2", "TIMEOUT 10", "SET FORMAT json"):
                lines.write(question + "\n")
                lines.flush()
                answer = lines.readline().strip()
                if not answer or answer.startswith("ERROR"):
                    raise NoRas("RAS answers %r to %s" % (answer, question))
            lines.write("VERBOSE STATUS\n")
            lines.flush()
            text = lines.read()
    except OSError as error:
        raise NoRas("RAS does not answer on %s:%d: %s" % (ADDRESS + (error,)))
    if "{" not in text:
        raise NoRas("RAS answers no JSON: " + text[:200])
    return text[text.index("{"):]
