"""Tensors as remote memory: two processes, arrays without a copy."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
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


def run(code: str, device: str) -> str:
    """What the end that listens says."""
    address = f"python-{secrets.token_hex(4)}" if device == "local" else free_address()
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "RTENSOR_LIBRARY": str(LIBRARY)}

    def start(role: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", code, device, address, role]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    ends = [start("listens"), start("calls")]
    try:
        said = [end.communicate(timeout=LIMIT_S) for end in ends]
    finally:
        for end in ends:
            end.kill()
    for end, (_, wrong) in zip(ends, said):
        if end.returncode != 0:
            raise AssertionError(wrong)
    return said[0][0]


class Tensors(unittest.TestCase):
    def test_arrays_are_the_memory_that_is_written(self) -> None:
        for device in ("local", "tcp"):
            with self.subTest(device=device):
                self.assertEqual(run(STEPS, device), "0 100\n")

    def test_memory_that_a_tensor_still_leaves_is_not_given(self) -> None:
        run(LEAVING, "tcp")

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

    def test_what_cannot_be_sent_is_refused(self) -> None:
        told = COMMON.split("link =")[0] + "tensors._shape((1,), 'complex64')"
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
        command = [sys.executable, "-c", told, "local", "x", "calls"]
        output = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        self.assertIn("elements of type complex64 cannot be sent", output.stderr)


if __name__ == "__main__":
    unittest.main()
