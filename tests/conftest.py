"""What the suite's own tests share."""

from __future__ import annotations

import gc
import os

import pytest

# The arrays of tests are small, and threads of NumPy's BLAS would spend more on waiting for each other
# than they save. It is read when NumPy is imported, which comes later; processes of tests take it on.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """As a worker does before each program: observing collects often, and looks at all that is alive.
    What was there before the test is not looked through each time."""
    gc.collect()
    gc.freeze()
