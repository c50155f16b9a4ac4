"""Programs that may end their process."""

from __future__ import annotations

import subprocess
import sys

#: Seconds after which a program is given up.
LIMIT = 120


def died(file: str, *, changed: bool) -> bool:
    """Whether `python FILE` ended by a signal; with `changed`, `python FILE changed`.

    Raises `RuntimeError` where the program ended with an error instead.
    """
    words = ["changed"] if changed else []
    done = subprocess.run(
        [sys.executable, file, *words], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    if done.returncode > 0:
        raise RuntimeError(f"{file} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.returncode < 0
