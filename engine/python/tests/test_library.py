"""Finding the library."""

import os
import subprocess
import sys
import tempfile
import unittest

from _job import PACKAGE, library


def told(setting: "str | None", code: str, **more: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), **more}
    # Cargo names its folders in the linker's path, and the library is in one of them.
    for variable in ("RSCCL_LIBRARY", "LD_LIBRARY_PATH"):
        environment.pop(variable, None)
    if setting is not None:
        environment["RSCCL_LIBRARY"] = setting
    command = [sys.executable, "-c", f"import ringscope_engine as engine\n{code}"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


CAUGHT = "try: engine.init()\nexcept engine.Error as error: print(error)"


class Library(unittest.TestCase):
    def test_outside_a_group_there_is_no_rank(self) -> None:
        self.assertEqual(told(str(library()), "print(engine.rank(), engine.size(), engine.epoch())"), "-1 -1 -1\n")

    def test_a_library_that_is_not_there_is_named(self) -> None:
        self.assertIn("/nowhere/librsccl.so", told("/nowhere/librsccl.so", CAUGHT))
        self.assertIn("RSCCL_LIBRARY", told(None, CAUGHT))

    def test_another_library_is_told_from_ours(self) -> None:
        self.assertIn("the library has no rsum_rank", told("libm.so.6", CAUGHT))

    def test_what_is_preloaded_sees_the_calls(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            watcher = f"{folder}/watcher.so"
            compile_it = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", watcher]
            subprocess.run(compile_it, input="int rsum_rank(void) { return 42; }", text=True, check=True)
            self.assertEqual(told(str(library()), "print(engine.rank())", LD_PRELOAD=watcher), "42\n")

    def test_importing_needs_neither_the_library_nor_torch(self) -> None:
        self.assertEqual(told("/nowhere", "import sys; print('torch' in sys.modules)"), "False\n")


if __name__ == "__main__":
    unittest.main()
