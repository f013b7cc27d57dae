"""What a communicator is called, so that who looks at it knows which part of the parallel design it serves.

PyTorch's own words are taken: the description of a group (`group_desc`, which DeviceMesh sets to `mesh_tp` and Megatron to
`TENSOR_MODEL_PARALLEL_GROUP`), else its number; behind it, which ranks of the job are in it.
"""

from __future__ import annotations

from typing import Sequence

# As long as a watcher keeps of it (`wire::segment::layout`), in bytes.
LONGEST = 63
# So many ranks are named one by one.
MOST_LISTED = 8
# What PyTorch calls a group of which nothing is known.
_NOTHING = ("", "undefined")
_OF_A_MESH = "mesh_"


def name_of(description: str, number: str, ranks: Sequence[int], *, is_world: bool, pair: str = "") -> str:
    """`tp 4-7`; `pair` is added for the communicator of two ranks that send to each other."""
    kind = "world" if is_world else description
    if kind in _NOTHING:
        kind = f"group {number}"
    if kind.startswith(_OF_A_MESH):
        kind = kind[len(_OF_A_MESH) :]
    tail = pair if is_world else " ".join(filter(None, (ranks_in_words(ranks), pair)))
    room = LONGEST - len(tail.encode()) - 1
    return f"{kind.encode()[: max(room, 1)].decode(errors='ignore')} {tail}".strip()


def ranks_in_words(ranks: Sequence[int]) -> str:
    """`0-3`; `0,4,8`; of more than eight `0-60:4`, every fourth one, or, without an order, the first ones."""
    step = ranks[1] - ranks[0] if len(ranks) > 1 else 0
    is_even = step > 0 and list(ranks) == list(range(ranks[0], ranks[0] + step * len(ranks), step))
    if is_even and step == 1:
        return f"{ranks[0]}-{ranks[-1]}"
    if len(ranks) <= MOST_LISTED:
        return ",".join(map(str, ranks))
    return f"{ranks[0]}-{ranks[-1]}:{step}" if is_even else f"{','.join(map(str, ranks[:MOST_LISTED]))},..."
