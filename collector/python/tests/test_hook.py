"""What `ringscope run` puts first in PYTHONPATH: learns the names of PyTorch's groups, and is otherwise not there."""

from __future__ import annotations

import glob
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).parent.parent
NAMES = HERE.parent.parent / "engine/python/ringscope_engine/c10d/_names.py"
# Stands in for what is preloaded: writes a line for each group that it is told of into the file that TOLD names.
TELLS = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
int ringscope_group(uint64_t id, const char *name, const uint32_t *ranks, uint32_t n_ranks) {
  FILE *file = fopen(getenv("TOLD"), "a");
  fprintf(file, "%s:", name);
  for (uint32_t i = 0; i < n_ranks; i++) fprintf(file, " %u", ranks[i]);
  fprintf(file, "\n");
  fclose(file);
  return id == 0;
}
"""
# A backend whose name says NCCL and that needs no GPU.
GROUPS = r"""
import os, sys
import torch
import torch.distributed as dist
def make(store, rank, size, timeout):
    return dist.ProcessGroupGloo(store, rank, size, timeout)
dist.Backend.register_backend("nccl_by_gloo", make)
dist.init_process_group("nccl_by_gloo", init_method="tcp://127.0.0.1:" + os.environ["PORT"], rank=int(os.environ["RANK"]), world_size=2)
dist.new_group([1])
dist.new_group([0, 1], backend="gloo")
ones = torch.ones(1)
dist.all_reduce(ones)
print(dist.get_rank(), ones.item())
"""
# As PyTorch has them from 2.4 on, and its meshes without a word to their groups as in 2.2: just as much of both as is looked at.
STAND_IN = r"""
class ProcessGroup: pass
class GroupMember: NON_GROUP_MEMBER = -100
class _World:
    pg_names, pg_map, pg_group_ranks = {}, {}, {}
_world = _World()
def _new_process_group_helper(group_size, group_rank, global_ranks_in_group, backend, store, group_name,
                              backend_options=None, timeout=None, group_desc=None):
    if group_name == "broken":
        raise RuntimeError("no such group")
    if 0 not in global_ranks_in_group and global_ranks_in_group:
        return GroupMember.NON_GROUP_MEMBER, None
    made = ProcessGroup()
    _world.pg_names[made], _world.pg_map[made] = group_name, (backend, None)
    return made, None
def is_nccl_available():
    return True
def split_group(parent, ranks):
    made = ProcessGroup()
    made.group_desc = "mesh_pp"
    _world.pg_names[made], _world.pg_map[made] = "split", ("nccl", None)
    _world.pg_group_ranks[made] = {rank: place for place, rank in enumerate(ranks)}
    return made
"""
MESH = r"""
from torch.distributed.distributed_c10d import _new_process_group_helper
class DeviceMesh:
    def __init__(self):
        self.mesh_dim_names, self._dim_group_infos = ("dp", "tp"), []
        self._init_process_groups("unused")
    def _init_process_groups(self, backend):
        for number, ranks in (("21", [0, 8]), ("22", [0, 1])):
            _new_process_group_helper(2, 0, ranks, "nccl", None, number)
            self._dim_group_infos.append(("", ranks))
"""


class Hook(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.hook = self.folder / "hook"
        self.hook.mkdir()
        for file in HERE.glob("*.py"):
            shutil.copy(file, self.hook)
        shutil.copy(NAMES, self.hook / "ringscope_names.py")

    def preloaded(self) -> str:
        source, library = self.folder / "tells.c", self.folder / "tells.so"
        source.write_text(TELLS)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        return str(library)

    def file(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def run_python(self, code: str, *options: str, python: str = sys.executable, **settings: str) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "PYTHONPATH": f"{self.hook}:{self.folder}", "TOLD": str(self.folder / "told"), "PYTHONDONTWRITEBYTECODE": "1", **settings}
        return subprocess.run([python, *options, "-c", code], env=environment, capture_output=True, text=True, timeout=120)

    def said(self, code: str, *options: str, **settings: str) -> str:
        done = self.run_python(code, *options, **settings)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout.strip()

    def told(self) -> "list[str]":
        file = self.folder / "told"
        return file.read_text().splitlines() if file.exists() else []

    def with_stand_in(self) -> None:
        self.file("torch/__init__.py", "")
        self.file("torch/distributed/__init__.py", "from .distributed_c10d import *\nfrom .distributed_c10d import _new_process_group_helper")
        self.file("torch/distributed/distributed_c10d.py", STAND_IN)
        self.file("torch/distributed/device_mesh.py", MESH)

    def test_groups_of_pytorch_are_told_with_their_ranks(self) -> None:
        try:
            import torch
        except ImportError:
            self.fail("PyTorch is missing: apt-get install python3-torch, and /usr/bin/python3 to run this")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        code, preload = GROUPS, self.preloaded()
        environment = {**os.environ, "PYTHONPATH": str(self.hook), "LD_PRELOAD": preload, "PORT": port, "PYTHONDONTWRITEBYTECODE": "1"}
        ranks = [
            subprocess.Popen([sys.executable, "-c", code], env={**environment, "RANK": str(rank), "TOLD": str(self.folder / f"told{rank}")}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for rank in range(2)
        ]
        for rank, process in enumerate(ranks):
            output, complaints = process.communicate(timeout=120)
            self.assertEqual((process.returncode, output), (0, f"{rank} 2.0\n"), complaints)
        told = [(self.folder / f"told{rank}").read_text().splitlines() for rank in range(2)]
        self.assertEqual((told[0], told[1][0], len(told[1])), (["world: 0 1"], "world: 0 1", 2))
        self.assertRegex(told[1][1], r"^group \S+ 1: 1$")

    def test_descriptions_splits_and_meshes_are_told(self) -> None:
        self.with_stand_in()
        code = """
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
made = dist._new_process_group_helper(16, 0, [], "nccl", None, "0")
dist._new_process_group_helper(4, 0, group_rank_list := [0, 4, 8, 12], "cpu:gloo,cuda:nccl", None, group_name="1", group_desc="TENSOR_MODEL_PARALLEL_GROUP")
dist._new_process_group_helper(2, 0, [3, 5], "nccl", None, "2")
dist._new_process_group_helper(2, 0, [0, 5], "gloo", None, "3")
dist._new_process_group_helper(3, 0, [0, 5, 9], "undefined", None, "4")
dist.split_group(None, [0, 2])
DeviceMesh()
try:
    dist._new_process_group_helper(2, 0, [0, 5], "nccl", None, "broken")
except RuntimeError as error:
    print(error)
import inspect, torch.distributed.distributed_c10d as module
print(list(inspect.signature(dist.split_group).parameters), type(module.__loader__).__name__, module.__spec__.loader is module.__loader__)
""".replace("group_rank_list := ", "")
        said = self.said(code, LD_PRELOAD=self.preloaded())
        self.assertEqual(said, "no such group\n['parent', 'ranks'] SourceFileLoader True")
        self.assertEqual(self.told(), [
            "world: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15",
            "TENSOR_MODEL_PARALLEL_GROUP 0,4,8,12: 0 4 8 12",
            "group 4 0,5,9: 0 5 9",
            "pp 0,2: 0 2",
            "group 21 0,8: 0 8",
            "group 22 0-1: 0 1",
            "dp 0,8: 0 8",
            "tp 0-1: 0 1",
        ])

    def test_without_what_is_preloaded_or_switched_off_nothing_is_wrapped(self) -> None:
        self.with_stand_in()
        code = "import torch.distributed as dist; print(hasattr(dist._new_process_group_helper, '__wrapped__'))"
        self.assertEqual(self.said(code), "False")
        library = self.preloaded()
        self.assertEqual(self.said(code, LD_PRELOAD=library), "True")
        self.assertEqual(self.said(code, LD_PRELOAD=library, RINGSCOPE_GROUP_NAMES="0"), "False")

    def test_the_programs_own_sitecustomize_runs_as_if_there_was_no_other(self) -> None:
        self.file("sitecustomize.py", "import sys\nHERE = __file__\nprint('own', __name__, sys.modules['sitecustomize'].HERE == __file__)")
        said = self.said("import sitecustomize, sys; print(sitecustomize.HERE, sys.path[1:2])")
        self.assertEqual(said, f"own sitecustomize True\n{self.folder / 'sitecustomize.py'} [{str(self.folder)!r}]")
        # What goes wrong in it is told as Python tells it.
        self.file("sitecustomize.py", "raise ValueError('mine')")
        with_hook = self.run_python("print(1)")
        alone = self.run_python("print(1)", PYTHONPATH=str(self.folder))
        self.assertEqual((with_hook.stdout, with_hook.stderr), (alone.stdout, alone.stderr))
        self.assertIn("ValueError: mine", with_hook.stderr)

    def test_programs_that_do_without_it_are_as_they_were(self) -> None:
        code = "import sys; print([name for name in sys.modules if 'ringscope' in name], sys.flags.isolated)"
        for options in ([], ["-S"], ["-E"], ["-I"], ["-B"], ["-s"]):
            self.assertEqual(self.said(code, *options), f"[] {int(options == ['-I'])}")
        self.assertEqual(self.said("import sitecustomize; print('there')", "-S"), "there")

    def test_a_broken_pytorch_and_a_missing_one_fail_as_they_do(self) -> None:
        self.file("torch/__init__.py", "")
        self.file("torch/distributed/__init__.py", "from . import distributed_c10d")
        self.file("torch/distributed/distributed_c10d.py", "import no_such_module")
        for code in ("import torch.distributed", "import torch.nothing"):
            ends = [self.run_python(code, PYTHONPATH=path) for path in (f"{self.hook}:{self.folder}", str(self.folder))]
            self.assertEqual(*[end.stderr.strip().splitlines()[-1] for end in ends])
        # One that has nothing of what is looked for.
        self.file("torch/distributed/distributed_c10d.py", "")
        self.assertEqual(self.said("import torch.distributed; print('there')", LD_PRELOAD=self.preloaded()), "there")

    def test_children_have_it_too(self) -> None:
        self.with_stand_in()
        code = """
import multiprocessing, os, sys
def child():
    import torch.distributed as dist
    dist._new_process_group_helper(4, 0, [], "nccl", None, "0")
if __name__ == "__main__":
    import torch.distributed
    for method in ("fork", "spawn"):
        process = multiprocessing.get_context(method).Process(target=child)
        process.start()
        process.join()
        print(process.exitcode)
"""
        self.file("program.py", code)
        self.assertEqual(self.said("import runpy; runpy.run_path('%s', run_name='__main__')" % (self.folder / "program.py"), LD_PRELOAD=self.preloaded()), "0\n0")
        self.assertEqual(self.told(), ["world: 0 1 2 3"] * 2)

    def test_a_folder_that_is_gone_or_may_not_be_written_to_is_no_fault(self) -> None:
        os.chmod(self.hook, 0o555)
        self.assertEqual(self.said("print(1)", PYTHONDONTWRITEBYTECODE=""), "1")
        os.chmod(self.hook, 0o755)
        shutil.rmtree(self.hook)
        self.assertEqual(self.said("print(1)"), "1")

    def test_it_runs_in_every_python_of_this_machine(self) -> None:
        self.file("sitecustomize.py", "import sys\nsys.stdout.write('own\\n')")
        found = sorted({os.path.realpath(path) for path in glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python[23].*[0-9]")) + glob.glob("/usr/bin/python[23].*[0-9]")})
        for python in [sys.executable, *found]:
            done = self.run_python("import sys, json; sys.stdout.write('done')", python=python)
            self.assertEqual((done.stdout, done.stderr), ("own\ndone", ""), python)


if __name__ == "__main__":
    unittest.main()
