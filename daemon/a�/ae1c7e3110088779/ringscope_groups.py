"""Tells ringscope's collector which ranks of the job PyTorch's groups have, and what PyTorch calls them.

The library underneath learns neither before PyTorch 2.15. Groups are told when they are made, which is seldom; calls on them
are not touched. Whatever goes wrong here, the group has been made, and the program has it.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import inspect
import os

_NON_MEMBER = -100
# Groups that were told without a word on what they are for: their id, by their ranks.
_nameless: dict = {}


def install(module) -> None:
    """Wraps what makes groups in a module of PyTorch's that has just been loaded."""
    if module.__name__.endswith("device_mesh"):
        _wrap(module.DeviceMesh, "_init_process_groups", _mesh_made)
        return
    # Fails where nothing is preloaded: then nothing is wrapped.
    _told_to()
    _wrap(module, "_new_process_group_helper", functools.partial(_group_made, module))
    _wrap(module, "split_group", functools.partial(_group_split, module))


def _wrap(owner, name, after) -> None:
    original = inspect.getattr_static(owner, name, None)
    # A static method, say, is called otherwise: what is not as it was known is left alone.
    if not inspect.isfunction(original):
        return

    @functools.wraps(original)
    def wrapper(*args, **kwargs):
        made = original(*args, **kwargs)
        try:
            after(original, made, args, kwargs)
        except Exception:
            pass
        return made

    setattr(owner, name, wrapper)


def _group_made(module, original, made, args, kwargs) -> None:
    made = made[0] if isinstance(made, tuple) else made
    # Of a large job's groups a rank is in few, and is told of all.
    if made is None or made is _non_member(module):
        return
    told = inspect.signature(original).bind(*args, **kwargs).arguments
    ranks = list(told.get("global_ranks_in_group") or ())
    # The group of all is made without a list.
    is_world = not ranks
    if is_world:
        ranks = list(range(told["group_size"]))
    if _is_over_nccl(module, told.get("backend")):
        _tell(_number(module, made), told.get("group_desc"), ranks, is_world)


def _group_split(module, original, made, args, kwargs) -> None:
    if made is None or made is _non_member(module):
        return
    world = module._world
    if _is_over_nccl(module, world.pg_map[made][0]):
        by_rank = world.pg_group_ranks[made]
        _tell(_number(module, made), getattr(made, "group_desc", None), sorted(by_rank, key=by_rank.get), False)


def _mesh_made(original, made, args, kwargs) -> None:
    """PyTorch 2.2 and 2.3 know what a mesh's dimensions are called, and do not tell their groups."""
    mesh = args[0]
    for name, info in zip(getattr(mesh, "mesh_dim_names", None) or (), getattr(mesh, "_dim_group_infos", ())):
        number = _nameless.get(tuple(info[1]))
        if number is not None:
            _tell(number, "mesh_" + name, list(info[1]), False)


def _number(module, group) -> str:
    """PyTorch's own, which it may make up on the way; before 2.0 its tables lie in the module itself."""
    names = module._world.pg_names if hasattr(module, "_world") else module._pg_names
    return str(names[group])


def _non_member(module):
    return getattr(module.GroupMember, "NON_GROUP_MEMBER", _NON_MEMBER)


def _is_over_nccl(module, backend) -> bool:
    """Other libraries' groups are nothing to the collector. A group without a word on its library has all that there are."""
    text = str(backend).lower()
    return "nccl" in text or text in ("none", "undefined", "") and module.is_nccl_available()


def _tell(number, description, ranks, is_world) -> None:
    words = _names().name_of(description or "", number, ranks, is_world=is_world)
    if not is_world and description in (None, "", "undefined"):
        _nameless[tuple(ranks)] = number
    # 0 would be an empty place.
    identity = int.from_bytes(hashlib.sha256(number.encode()).digest()[:8], "little") | 1
    _told_to()(identity, words.encode(), (ctypes.c_uint32 * len(ranks))(*ranks), len(ranks))


@functools.lru_cache(maxsize=None)
def _told_to():
    """What is preloaded leads to the collector, and opens it where NCCL was not called yet."""
    function = ctypes.CDLL(None).ringscope_group
    function.argtypes = [ctypes.c_uint64, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint32), ctypes.c_uint32]
    function.restype = ctypes.c_int
    return function


@functools.lru_cache(maxsize=None)
def _names():
    """The words are those of the backend `rsccl`."""
    spec = importlib.util.spec_from_file_location("_ringscope_names", os.path.join(os.path.dirname(__file__), "ringscope_names.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
