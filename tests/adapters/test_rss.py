"""What adapters read as retained memory is what the kernel says is there.

The second way of measuring asks no framework (`benchmarks/pages.py`), so an observer that
misses what a framework keeps, or sees what is gone, does not agree with it. Both are blind to what lies
below a page, and so everything is in activations of 4 MiB.
"""

from __future__ import annotations

import importlib.util
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conformance.drivers.adapter import read_adapter
from conformance.drivers.modules import load_file
from conformance.model.case import Case, Region
from conformance.observe.worker import entry
from tests import suite_cases
from tests.frameworks import framework

ROOT = Path(__file__).resolve().parents[2]
BENCHMARK: Any = load_file(ROOT / "benchmarks" / "rss.py", "conformance_benchmark_rss")
unavailable = BENCHMARK.PAGES.unavailable
#: For each adapter, the module that it needs and a variant with memory between two passes.
VARIANTS = {
    "torch": ("torch", "non-reentrant"),
    "paddle": ("paddle", "hook"),
    "tf": ("tensorflow", "eager"),
    "jax": ("jax", "eager"),
    "mindspore": ("mindspore", "pynative-non-reentrant"),
}
#: Activations that the plain program and the recomputed one keep, derived by hand. Plain keeps what
#: each sine and each matmul reads, recomputed what each region takes. Each figure needs a process that
#: imports the framework, so that one case is enough here; `benchmarks/rss.py` has the others.
KEPT = {"memory/chain-segments": (32, 4)}
#: The same where a framework does otherwise outside regions.
OWN_WAY = {
    # A sum keeps its input.
    "tf": {"memory/chain-segments": (32 + 1, 4 + 1)},
}


def cases() -> list[Case]:
    return [case for case in suite_cases.CASES if case.id in KEPT]


def test_every_case_has_activations_of_the_size_that_is_counted() -> None:
    found = cases()
    assert [case.id for case in found] == list(KEPT)
    for case in found:
        large = BENCHMARK.PAGES.scaled(case, BENCHMARK.LARGE)
        largest = max(4 * array.shape[0] * array.shape[1] for array in large.arrays)
        assert largest == BENCHMARK.ACTIVATION
        assert any(isinstance(node, Region) for node in case.program)


@pytest.mark.parametrize(
    ("adapter", "retained", "peak", "misses"),
    [
        ("torch", 4.24, 10.49, ()),
        ("torch", 4.26, 10.0, ("retained",)),
        ("torch", 3.74, 9.49, ("retained", "peak")),
        ("torch", 4.0, None, ()),
        ("jax", 4.0, 11.24, ()),
        ("jax", 4.0, 11.26, ("peak",)),
    ],
)
def test_what_lies_too_far_apart_is_named(
    adapter: str, retained: float, peak: float | None, misses: tuple[str, ...]
) -> None:
    row = BENCHMARK.Compared(f"{adapter}/any", "memory/one", "plain", 4.0, retained, 10.0, peak)
    assert row.misses() == misses


@pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))
@pytest.mark.parametrize("name", VARIANTS)
def test_an_adapter_reads_what_pages_tell(name: str, tmp_path: Path) -> None:
    module, variant = VARIANTS[name]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed here")
    framework(name, module)
    adapter = read_adapter(ROOT / "adapters" / name)
    pairs = [(case, adapter.variant(variant)) for case in cases()]
    observe = partial(entry.observe, str(adapter.folder))  # this process has the framework already
    rows = list(BENCHMARK.compared(adapter, pairs, tmp_path, peak=False, observe=observe))
    assert [(row.case, row.path) for row in rows] == [(c, p) for c in KEPT for p in BENCHMARK.PATHS]
    for row in rows:
        kept = OWN_WAY.get(name, KEPT)[row.case][BENCHMARK.PATHS.index(row.path)]
        what = f"{row.case} {row.path}: {row.retained:.3f}, by pages {row.retained_pages:.3f}"
        assert row.retained_pages == pytest.approx(kept, abs=BENCHMARK.TOLERANCE), what
        assert row.misses() == (), what
