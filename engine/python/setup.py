"""What pyproject.toml cannot say: with libraries beside the package a wheel is for one kind of machine, and not for any."""

import os
import sysconfig
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.dist import Distribution

HAS_LIBRARIES = any((Path(__file__).parent / "ringscope_engine").glob("*.so"))


class WithLibraries(Distribution):
    def has_ext_modules(self) -> bool:
        return HAS_LIBRARIES


class OfAnyPython(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        """Libraries that no Python is linked into run with each."""
        if not HAS_LIBRARIES:
            return ("py3", "none", "any")
        machine = os.environ.get("RINGSCOPE_WHEEL_ARCH") or sysconfig.get_platform().rsplit("-", 1)[-1]
        return ("py3", "none", f"linux_{machine}")


setup(distclass=WithLibraries, cmdclass={"bdist_wheel": OfAnyPython})
