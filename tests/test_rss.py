"""Memory as pages tell it, on NumPy programs that keep as much as they are told to."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from conformance.drivers.adapter import read_adapter
from conformance.drivers.modules import load_file
from conformance.errors import BrokenAdapterError
from conformance.language.load import load_text
from conformance.model.case import Array, Case
from conformance.model.program import Program
from tests import suite_cases

from .test_trace import program

ROOT = Path(__file__).resolve().parents[1]
BENCHMARK: Any = load_file(ROOT / "benchmarks" / "rss.py", "conformance_benchmark_rss")
PAGES: Any = BENCHMARK.PAGES
measure, scaled, unavailable = PAGES.measure, PAGES.scaled, PAGES.unavailable
COMMAND = typer.Typer()
COMMAND.command()(BENCHMARK.main)
#: Bytes of one array, as in the comparison with frameworks.
ONE = 4 * 2**20
#: Of one array: pages, and what Python itself allocates meanwhile.
EXACT = 0.06
#: The kernel counts for the peak in batches of 32 pages or more for each CPU.
PEAK = 0.25
measured = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

NUMPY = """
    import numpy as np

    from conformance.model.observation import Leaf
    from conformance.observe.worker.observer import Observer as Base


    class Observer(Base):
        def leaf(self, value):
            return Leaf(value, str(value.dtype)) if isinstance(value, np.ndarray) else None
"""
#: `keeps` arrays are behind what `forward` returns, `drops` are let go before it returns, `needs` are
#: made in backward. What `run` has in variables is no part of what is kept.
TEXT = """
    import numpy as np

    KEEPS, DROPS, NEEDS = {keeps}, {drops}, {needs}

    def several(count):
        return [np.full((8192, 128), 1.0 + i, np.float32) for i in range(count)]

    def plain(x):
        several(DROPS)
        kept = several(KEEPS)
        outputs = np.array(x)
        return outputs, lambda: kept

    def recomputed(x):
        return plain(x)

    def run(forward):
        x = np.ones((8192, 128), np.float32)
        outputs, kept = forward(x)  #p forward
        made = several(NEEDS)  #p backward
        return {{"outputs": outputs, "losses": [], "gradients": {{"x": made, "kept": kept}}}}
"""


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    """A folder with NumPy's observer."""
    folder = tmp_path / "adapter"
    folder.mkdir()
    return written(folder, "observe.py", NUMPY).parent


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(textwrap.dedent(text).lstrip("\n"), "utf-8")
    return file


@pytest.fixture
def measuring(adapter: Path, tmp_path: Path) -> Callable[..., Any]:
    """Measure a program that keeps, drops and needs so many arrays."""

    def one(keeps: int, drops: int = 0, needs: int = 0) -> Any:
        text = TEXT.format(keeps=keeps, drops=drops, needs=needs)
        return measure(adapter, program(tmp_path, text), "plain", {})

    return one


@measured
@pytest.mark.parametrize("keeps", [0, 1, 2, 9])
def test_retained_is_what_forward_keeps(measuring: Callable[..., Any], keeps: int) -> None:
    assert measuring(keeps).retained / ONE == pytest.approx(keeps, abs=EXACT)


@measured
def test_what_forward_lets_go_is_not_retained_but_counts_for_the_peak(
    measuring: Callable[..., Any],
) -> None:
    found = measuring(keeps=2, drops=8)
    assert found.retained / ONE == pytest.approx(2, abs=EXACT)
    assert found.peak is not None
    assert found.peak / ONE == pytest.approx(8, abs=PEAK)


@measured
@pytest.mark.parametrize("needs", [0, 1, 5])
def test_peak_is_what_forward_keeps_and_backward_makes(
    measuring: Callable[..., Any], needs: int
) -> None:
    found = measuring(keeps=3, needs=needs)
    assert found.retained / ONE == pytest.approx(3, abs=EXACT)
    assert found.peak is not None
    assert found.peak / ONE == pytest.approx(3 + 1 + needs, abs=PEAK)  # 1: the outputs


@measured
def test_the_environment_is_set_before_the_import(tmp_path: Path, adapter: Path) -> None:
    text = TEXT.replace("{keeps}", "int(os.environ['KEEPS'])")
    text = text.replace("import numpy as np", "import os\n\n    import numpy as np", 1)
    found = measure(
        adapter, program(tmp_path, text.format(drops=0, needs=0)), "recomputed", {"KEEPS": "4"}
    )
    assert found.retained / ONE == pytest.approx(4, abs=EXACT)


# -- a pool that never gives back ------------------------------------------------------------------

#: A framework whose tensors lie in one block, taken best fit, and that keeps what it frees.
POOL = """
    import numpy as np

    BLOCK = np.empty(2**30, np.uint8)
    HOLES = [(0, 2**30)]


    class Tensor:
        def __init__(self, size):
            self.nbytes = size
            start, length = min((h for h in HOLES if h[1] >= size), key=lambda h: h[1])
            HOLES.remove((start, length))
            HOLES.append((start + size, length - size))
            self.start = start
            BLOCK[start : start + size] = 1

        def __neg__(self):
            return Tensor(self.nbytes)

        def sum(self):
            return 0

        def __del__(self):
            if HOLES is None:
                return
            start, end = self.start, self.start + self.nbytes
            for hole in [h for h in HOLES if sum(h) == start or h[0] == end]:
                HOLES.remove(hole)
                start, end = min(start, hole[0]), max(end, sum(hole))
            HOLES.append((start, end - start))
"""
POOLED = """
    import numpy as np
    from pool import Tensor

    ONE = {one}
    SMALL = ONE // 64

    def plain(x, w):
        kept = []
        for size in {sizes}:
            dropped = Tensor(size)
            kept.append(Tensor(size))
            dropped = None
        kept.append(Tensor(2 * SMALL))  # splits the large hole
        return lambda: kept

    def run(forward):
        x, w = Tensor(ONE), Tensor(SMALL)
        held = [Tensor(SMALL) for _ in range(40)][::2]  # and 20 small holes
        kept = forward(x, w)  #p forward
        made = Tensor(ONE)  #p backward
        return {{"outputs": kept, "made": made}}
"""


@measured
@pytest.mark.parametrize("keeps", [1, 2, 6])
def test_what_is_free_in_a_pool_is_not_retained(tmp_path: Path, keeps: int) -> None:
    folder = tmp_path / "pooled"
    folder.mkdir()
    written(folder, "pool.py", POOL)
    observer = NUMPY.replace("isinstance(value, np.ndarray)", "False")
    observer += """
        def nbytes(self, value):
            return value.nbytes if type(value).__name__ == "Tensor" else 0
    """
    written(folder, "observe.py", observer)
    programs = {}
    for name, one in (("large", ONE), ("small", 8192)):
        place = tmp_path / name
        place.mkdir()
        written(place, "pool.py", POOL)
        text = POOLED.format(one=one, sizes=f"[ONE] * {keeps}")
        programs[name] = program(place, text)
    found = measure(folder, programs["large"], "plain", {}, warm_up=programs["small"], pooled=ONE)
    assert found.retained / ONE == pytest.approx(keeps + 2 / 64, abs=EXACT)
    assert found.peak is not None
    # The hole has become too small for what backward makes: such a pool's peak has holes in it.
    assert found.peak / ONE == pytest.approx(keeps + 2, abs=PEAK)


# -- the comparison with adapters, on the reference ------------------------------------------------


@measured
def test_the_reference_reads_what_pages_tell(tmp_path: Path) -> None:
    adapter = read_adapter(ROOT / "adapters" / "reference")
    (whole,) = (c for c in suite_cases.CASES if c.id == "memory/chain-whole")
    pairs = [(whole, adapter.variants[0])]
    plain, recomputed = BENCHMARK.compared(adapter, pairs, tmp_path)
    assert (plain.retained, recomputed.retained) == (16, 0)
    assert plain.retained_pages == pytest.approx(16, abs=EXACT)
    assert recomputed.retained_pages == pytest.approx(0, abs=EXACT)
    assert not plain.misses() + recomputed.misses()


@measured
@pytest.mark.parametrize(("pages", "code"), [(16.2, 0), (15.0, 1)])
def test_the_comparison_fails_where_a_reading_is_far_from_what_is_there(
    pages: float, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = BENCHMARK.Compared("reference/float64", "memory/one", "plain", 16.0, pages, None, 20.0)
    monkeypatch.setattr(BENCHMARK, "compared", lambda *_: [row])
    monkeypatch.setenv("COLUMNS", "200")
    found = CliRunner().invoke(COMMAND, ["reference"])
    assert found.exit_code == code, found.output
    assert found.output.count("retained") == 1 + code  # the column's head, and the miss


# -- what cannot be measured -----------------------------------------------------------------------


@measured
def test_a_program_that_raises_is_told_with_its_traceback(adapter: Path, tmp_path: Path) -> None:
    text = TEXT.format(keeps="[][0]", drops=0, needs=0)
    with pytest.raises(BrokenAdapterError, match="IndexError: list index out of range"):
        measure(adapter, program(tmp_path, text), "plain", {})


@measured
def test_without_phases_there_is_nothing_to_read_between(adapter: Path, tmp_path: Path) -> None:
    whole = program(tmp_path, TEXT.format(keeps=1, drops=0, needs=0))
    bare: Program = replace(whole, lines={})
    with pytest.raises(BrokenAdapterError, match="no forward and backward"):
        measure(adapter, bare, "plain", {})


# -- cases of another size -------------------------------------------------------------------------

CASE = """
family: sizes
cases:
  one:
    title: Two sizes
    source: none
    why: Its arrays have two sizes of axes.
    inputs:
      x: {shape: [2048, 64], normal: 0.5}
      flag: {value: true}
    parameters:
      w: {shape: [64, 64], normal: 0.1}
    program:
      - recompute: block
        takes: x
        gives: y
        body:
          - y = matmul(x, w)
    outputs: y
    gradients: {of: sum(y)}
"""


def case() -> Case:
    (found,) = load_text(CASE, "sizes.yaml")
    return found


def test_a_scaled_case_differs_in_sizes_alone() -> None:
    whole = case()
    large = scaled(whole, {2048: 16, 64: 128})
    assert [array.shape for array in large.arrays] == [(16, 128), (128, 128)]
    back = scaled(large, {16: 2048, 128: 64})
    assert back == whole
    assert all(isinstance(array, Array) for array in large.arrays)


def test_a_size_that_is_not_told_is_an_error() -> None:
    with pytest.raises(ValueError, match="sizes/one: x has no axes to scale"):
        scaled(case(), {64: 128})
