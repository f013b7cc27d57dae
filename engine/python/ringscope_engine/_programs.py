"""Programs that come with the package, under the names that pip puts on the path."""

from __future__ import annotations

import os
import sys
from pathlib import Path

SERVER = Path(__file__).parent / "ringscope-sumd"


def sumd() -> None:
    """`ringscope-sumd`, in place of this process."""
    if not SERVER.exists():
        sys.exit(
            f"ringscope-sumd is not inside this package ({SERVER.parent}): it was not installed from a wheel; build it by cargo build "
            "--release -p ringscope-engine --bin ringscope-sumd"
        )
    os.execv(SERVER, [str(SERVER), *sys.argv[1:]])
