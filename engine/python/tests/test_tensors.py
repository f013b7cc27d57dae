"""Tensors as remote memory: two processes, arrays without a copy."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from _job import BUILD, LIMIT_S, PACKAGE, free_address

LIBRARY = Path(os.environ.get("RTENSOR_LIBRARY", BUILD / "librtensor.so"))

COMMON = """
import sys
import numpy
from ringscope_engine import tensors
from ringscope_engine import Error
device, address, listens = sys.argv[1], sys.argv[2], sys.argv[3] == "listens"
link = tensors.Link(device, address, listens=listens, timeout_s=60)
"""

STEPS = COMMON + """
if listens:
    out, back = link.send("parameters", (3, 5), held_by="gradients"), link.receive("gradients", (3, 5))
    late = link.receive("tokens")
    link.ready()
    before = link.counts()
    memory = out.array.ctypes.data
    for step in range(50):
        out.array[...] = step
        assert out.array.ctypes.data == memory
        out.send()
        try:
            out.send()
            raise AssertionError("a send that is too early")
        except tensors.TooEarly as error:
            assert "edge parameters" in str(error)
        assert (back.wait() == 2 * step).all()
        assert not back.array.flags.writeable
        back.release()
        tokens = late.wait()
        assert tokens.dtype == numpy.int64 and (tokens == numpy.arange(step)).all(), tokens
        late.release()
    after = link.counts()
    print(after.registrations - before.registrations, after.hits - before.hits)
else:
    received, out = link.receive("parameters", (3, 5)), link.send("gradients", (3, 5), held_by="parameters")
    late = link.send("tokens")
    link.ready()
    for step in range(50):
        out.array[...] = 2 * received.wait()
        received.release()
        out.send()
        late.wait()
        if step == 0:
            try:
                link.set_arena(4096)
                raise AssertionError("an arena after set-up")
            except Error as error:
                assert "set up already" in str(error)
        late.begin((step,), "int64")[...] = numpy.arange(step)
        late.send()
link.finish()
"""

LEAVING = COMMON + """
edge = link.receive("large", (16 << 20,)) if listens else link.send("large", (16 << 20,))
link.ready()
if listens:
    # Nothing is taken from the connection, which holds less than the tensor, before the sender has looked.
    with open(sys.argv[4]) as looked:
        looked.read()
    assert edge.wait().shape == (16 << 20,)
    edge.release()
else:
    array = edge.array
    edge.send()
    try:
        edge.array
        raise AssertionError("memory that a tensor still leaves")
    except tensors.TooEarly as error:
        assert "edge large: the last transfer still leaves" in str(error), error
    finally:
        open(sys.argv[4], "w").close()
    edge.wait()
    assert edge.array.ctypes.data == array.ctypes.data
link.finish()
"""

GONE = COMMON + """
edge = link.receive("gradients", (3,)) if listens else link.send("gradients", (3,))
link.ready()
if listens:
    try:
        edge.wait()
    except tensors.LostPeer as error:
        print(error)
"""

MISMATCH = COMMON + """
edge = link.receive("gradients", (3,)) if listens else link.send("gradients", (4,))
try:
    link.ready()
except Error as error:
    print(error)
"""

SHAPES = COMMON + """
from unittest import TestCase
refused = TestCase().assertRaisesRegex
for declare in (link.send, link.receive):
    with refused(ValueError, "a dimension of shape .3, -1. is -1"):
        declare("x", (3, -1))
    with refused(ValueError, "less than 2.63"):
        declare("x", 1 << 64)
    with refused(ValueError, "more than 8 dimensions"):
        declare("x", (1,) * 9)
    for wrong in (3.5, "3", (3, 1.5)):
        with refused(TypeError, "a shape is an int or a sequence of ints"):
            declare("x", wrong)
    with refused(ValueError, "limit_bytes is -1"):
        declare("x", limit_bytes=-1)
with refused(ValueError, "size in bytes is -1"):
    link.set_arena(-1)
with link:
    edge = link.receive("x", numpy.int64(3)) if listens else link.send("x", 3)
    with refused(Error, "call ready") as caught:
        edge.wait()
    assert caught.exception.code == 2
    link.ready()
    if listens:
        array = edge.wait()
    else:
        edge.array[...] = 7
        edge.send()
    link.finish()
for late in (link.ready, link.counts, edge.wait, lambda: edge.array):
    with refused(Error, "the link is closed"):
        late()
link.close()
if listens:
    assert array.shape == (3,) and (array == 7).all()
    del array
"""

CLOSING = COMMON + """
import gc
gc.disable()
edge = link.receive("x", 3) if listens else link.send("x", 3)
back = link.send("y", 3) if listens else link.receive("y", 3)
link.ready()
if listens:
    try:
        edge.wait()
    except tensors.LostPeer:
        print("lost")
else:
    if "after a time-out" in sys.argv:
        try:
            back.wait(0.3)
        except tensors.Timeout:
            pass
    link.close()
# This process is there until the other one has noticed.
tensors.Link(device, address + " again", listens=listens)
"""


def run(code: str, device: str, *arguments: str) -> str:
    """What the end that listens says."""
    address = f"python-{secrets.token_hex(4)}" if device == "local" else free_address()
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "RTENSOR_LIBRARY": str(LIBRARY)}

    def start(role: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", code, device, address, role, *arguments]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    ends = [start("listens"), start("calls")]
    try:
        said = [end.communicate(timeout=LIMIT_S) for end in ends]
    finally:
        for end in ends:
            end.kill()
    wrong = [wrong for end, (_, wrong) in zip(ends, said) if end.returncode != 0]
    if wrong:
        raise AssertionError("\n".join(wrong))
    return said[0][0]


class Tensors(unittest.TestCase):
    def test_arrays_are_the_memory_that_is_written(self) -> None:
        for device in ("local", "tcp"):
            with self.subTest(device=device):
                self.assertEqual(run(STEPS, device), "0 100\n")

    def test_memory_that_a_tensor_still_leaves_is_not_given(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            looked = os.path.join(folder, "looked")
            os.mkfifo(looked)
            run(LEAVING, "tcp", looked)

    def test_both_ends_of_the_example_run(self) -> None:
        text = (PACKAGE.parent / "README.md").read_text()
        ends = text.split("## Tensors as remote memory")[1].split("```python\n")[1:3]
        one, other = (end.split("```")[0].replace('"any name"', "sys.argv[2]") for end in ends)
        split = f"import sys\nexec({one!r} if sys.argv[3] == 'listens' else {other!r})\nprint('whole')"
        self.assertEqual(run(split, "local"), "whole\n")

    def test_a_process_that_goes_is_named_with_what_waits_for_it(self) -> None:
        for device in ("local", "tcp"):
            with self.subTest(device=device):
                self.assertIn("edge gradients waits for the flag of transfer 1", run(GONE, device))

    def test_ends_that_do_not_fit_say_how(self) -> None:
        said = run(MISMATCH, "local")
        self.assertIn("edge gradients does not fit", said)
        self.assertIn(": here it receives float32 [3], there it sends float32 [4]", said)

    def test_shapes_that_make_no_sense_and_closed_links_are_refused(self) -> None:
        run(SHAPES, "local")

    def test_a_link_that_is_closed_is_gone_at_once(self) -> None:
        for when in ("at once", "after a time-out"):
            self.assertEqual(run(CLOSING, "local", when), "lost\n", when)

    def test_all_names_are_there(self) -> None:
        told = "import ringscope_engine.tensors as t; [getattr(t, name) for name in t.__all__]"
        subprocess.run([sys.executable, "-c", told], env={**os.environ, "PYTHONPATH": str(PACKAGE)}, check=True)

    def test_a_library_that_is_not_there_is_told_with_what_makes_it(self) -> None:
        told = "from ringscope_engine.tensors import Link; Link('local', 'x', listens=False)"
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "RTENSOR_LIBRARY": "/nowhere/librtensor.so"}
        command = [sys.executable, "-c", told]
        output = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        self.assertIn("`cargo build --release -p ringscope-tensors` makes it", output.stderr)

    def test_what_cannot_be_sent_is_refused(self) -> None:
        told = COMMON.split("link =")[0] + "tensors._shape((1,), 'complex64')"
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
        command = [sys.executable, "-c", told, "local", "x", "calls"]
        output = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        self.assertIn("elements of type complex64 cannot be sent", output.stderr)


if __name__ == "__main__":
    unittest.main()
