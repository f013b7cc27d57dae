"""NCCL's log read by plain regular expressions, apart from ringscope's own parser, to hold the two against each other.

Reads the log of one process (2.18 to 2.32). Init lines of one communicator stand between its `Init START` and its
`Init COMPLETE` on one thread.
"""

import re

_PREFIX = re.compile(r"^\S*?:(\d+):(\d+) \[\d+\] NCCL INFO (.*)$")
_INIT = re.compile(
    r"comm (0x[0-9a-f]+) rank (\d+) n[rR]anks (\d+) .*?(?:commId (0x[0-9a-f]+))?.*?- Init (START|COMPLETE)"
)
_COMM_ID = re.compile(r"commId (0x[0-9a-f]+)")
_NODES = re.compile(r"comm (0x[0-9a-f]+) rank \d+ nRanks \d+ nNodes (\d+)")
_PATTERN = re.compile(r"Pattern (\d+), crossNic \d+, nChannels (\d+)")
_RING = re.compile(r"Ring (\d+) : (\d+) -> (\d+) -> (\d+)")
_ROW = re.compile(r"^ *\d+ :(?: NET/\S+)?((?: GPU/\S+)+)")
_BUS_ID = re.compile(r"busId ([0-9a-f]+)")
_FINAL = re.compile(r"(\d+) coll channels")
_VIA = re.compile(r"Channel \d+(?:/\d+)? : \d+\[[^]]*\] -> \d+\[[^]]*\].* via (\S+)")
RING_PATTERN = 4
TREE_PATTERNS = (1, 2, 3)


def read(path):
    """The communicators of one process: a list of dictionaries."""
    found, open_by_thread, last = [], {}, None
    with open(path, errors="replace") as file:
        for line in file:
            match = _PREFIX.match(line.rstrip())
            if not match:
                continue
            thread, words = match.group(2), match.group(3)
            init = _INIT.search(words)
            if init and init.group(5) == "START":
                last = {
                    "rank": int(init.group(2)),
                    "n_ranks": int(init.group(3)),
                    "patterns": [],
                    "rings": {},
                    "via_before": [],
                    "via_after": [],
                    "complete": False,
                }
                comm_id = _COMM_ID.search(words)
                bus_id = _BUS_ID.search(words)
                last["bus_id"] = bus_id.group(1) if bus_id else None
                last["comm_hash"] = comm_id.group(1) if comm_id else None
                open_by_thread[thread] = last
                found.append(last)
            elif init and thread in open_by_thread:
                open_by_thread.pop(thread)["complete"] = True
            else:
                _line(words, open_by_thread.get(thread), last)
    for communicator in found:
        communicator["init"] = _init(communicator.pop("patterns"))
    return found


def _line(words, current, last):
    via = _VIA.search(words)
    if via and last is not None:
        last["via_after" if last["complete"] else "via_before"].append(via.group(1))
    if current is None:
        return
    for expression, keep in _KEEP:
        match = expression.search(words)
        if match:
            keep(current, match)
            return


_KEEP = [
    (_NODES, lambda one, match: one.update(n_nodes=int(match.group(2)))),
    (_PATTERN, lambda one, match: one["patterns"].append((int(match.group(1)), int(match.group(2))))),
    (_RING, lambda one, match: one["rings"].update({int(match.group(1)): (int(match.group(2)), int(match.group(4)))})),
    (_ROW, lambda one, match: one.setdefault("row", match.group(1).strip())),
    (_FINAL, lambda one, match: one.update(final=int(match.group(1)))),
]


def _init(patterns):
    """min(first ring, first tree): what the rank's own search found."""
    ring = next((channels for pattern, channels in patterns if pattern == RING_PATTERN), None)
    tree = next((channels for pattern, channels in patterns if pattern in TREE_PATTERNS), None)
    known = [channels for channels in (ring, tree) if channels is not None]
    return min(known) if known else None


def join(processes):
    """{channel: [next of rank 0, next of rank 1, ...]} of communicators read from all ranks' logs."""
    rings = {}
    for one in sorted(processes, key=lambda one: one["rank"]):
        for channel, (_, following) in one["rings"].items():
            rings.setdefault(channel, []).append(following)
    return rings
