"""The summation service on tensors of a GPU, of a driver without a device."""

import subprocess
import tempfile
import unittest

from _job import PACKAGE, Job


class Gpu(unittest.TestCase):
    def test_tensors_of_a_gpu_are_summed_behind_the_work_of_their_stream(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            driver = f"{folder}/libcuda.so.1"
            source = PACKAGE.parent / "tests/c/fake_cuda.c"
            options = ["-shared", "-fPIC", "-pthread", "-Wl,-soname,libcuda.so.1"]
            subprocess.run(["cc", *options, str(source), "-o", driver], check=True)
            settings = {"FAKE_CUDA": driver, "RSUM_PARTITION_BYTES": "65536"}
            for n_workers, n_servers in ((2, 1), (3, 0)):
                with self.subTest(n_workers=n_workers, n_servers=n_servers):
                    Job("gpu_worker.sums", n_workers, n_servers, settings).expect_success(self)


if __name__ == "__main__":
    unittest.main()
