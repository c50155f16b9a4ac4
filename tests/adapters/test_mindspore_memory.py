"""MindSpore's peak, what a step leaves over, draws from Python, and schedules of regions in regions."""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frameworks import framework

ms = framework("mindspore", "mindspore")

from conformance.language.load import load_text  # noqa: E402
from conformance.model.case import Case  # noqa: E402
from conformance.model.observation import Run  # noqa: E402
from conformance.observe.worker.loaded import LoadedProgram, load_program  # noqa: E402
from tests.adapters.test_mindspore import (  # noqa: E402
    ADAPTER,
    EAGER,
    UNIT,
    emitted,
    observed,
    observer,
    reruns,
)
from tests.suite_cases import BY_ID  # noqa: E402


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MindSpore writes into the current folder."""
    monkeypatch.chdir(tmp_path)


def chain(body: list[str], more: str = "", inputs: str = "") -> Case:
    """A case that runs statements from a to y in a region, on activations of UNIT bytes."""
    lines = "".join(f"\n          - {statement}" for statement in body)
    text = f"""
family: made
cases:
  chain:
    title: A chain of operations in a region
    source: made for this test
    why: Its counts and bytes are known.
    inputs:
      x: {{shape: [2048, 64], normal: 1.0}}
      {inputs}
    program:
      - a = negative(x)
      - recompute: block
        takes: a
        gives: y
        body: {lines}
      - z = sum(y)
    outputs: z
    gradients: {{of: z}}
    {more}
"""
    (case,) = load_text(text, "made.yaml")
    return case


def sines(depth: int, more: str = "") -> Case:
    names = ["a", *(f"s{i}" for i in range(1, depth)), "y"]
    return chain([f"{new} = sin({old})" for old, new in pairwise(names)], more)


def peaks(case: Case, variant: str, folder: Path) -> tuple[int, int]:
    seen = observed(case, variant, folder)
    assert seen.plain.peak is not None
    assert seen.recomputed.peak is not None
    return seen.plain.peak, seen.recomputed.peak


@pytest.mark.parametrize("variant", [*EAGER, "graph-function", "jit"])
def test_one_more_activation_raises_the_peak_by_one(variant: str, tmp_path: Path) -> None:
    lower = peaks(sines(4), variant, tmp_path / "four")
    higher = peaks(sines(5), variant, tmp_path / "five")
    for less, more in zip(lower, higher, strict=True):
        assert more - less == pytest.approx(UNIT, abs=2**12)


@pytest.mark.parametrize("variant", EAGER)
def test_the_peak_is_known_exactly_and_twice_the_same(variant: str, tmp_path: Path) -> None:
    first = peaks(BY_ID["memory/chain-each"], variant, tmp_path)
    assert first == peaks(BY_ID["memory/chain-each"], variant, tmp_path)
    assert first[0] - first[1] > 16 * UNIT


class Recorded:
    """What MindSpore's CPU profiler records of the memory pool, read as the pool itself is.

    The profiler notes the total after each allocation and each free. Whenever it is stopped it writes
    all notes since the process began; only the new ones are read. Use as a context manager.
    """

    def __init__(self) -> None:
        self._profiler = ms._c_expression.Profiler.get_instance("CPU")
        self._ours = ADAPTER.load("profiler")
        self._read = 0  # time of the last note read, ns since the epoch
        self._latest = self._highest = 0

    def __enter__(self) -> Recorded:
        self._folder = tempfile.TemporaryDirectory()
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._folder.cleanup()

    def allocated(self) -> int:
        """Bytes now."""
        self._stop()
        self._start()
        return self._latest

    def reset_peak(self) -> None:
        """Forget the peak: it is what is allocated now."""
        self._highest = self.allocated()

    def peak(self) -> int:
        """The most bytes at any time since `reset_peak`."""
        self.allocated()
        return self._highest

    def _start(self) -> None:
        self._ours.synchronize()
        self._profiler.init(self._folder.name)
        self._profiler.step_profiling_enable(True)
        self._profiler.enable_op_time()
        self._profiler.enable_profile_memory()

    def _stop(self) -> None:
        self._ours.touch()
        self._profiler.stop()
        path = Path(self._folder.name) / "cpu_ms_memory_record_0.txt"
        head, *lines = path.read_text().splitlines()
        column = head.split(",").index("Total Allocated(Byte)")
        notes = [(int(line.split(",", 1)[0]), int(line.split(",")[column])) for line in lines]
        self._highest = max([self._highest, *(n for time, n in notes if time > self._read)])
        self._read, self._latest = notes[-1]


@pytest.mark.parametrize("variant", [*EAGER, "graph-cell"])
@pytest.mark.parametrize("name", ["memory/chain-segments", "growth/halving-16"])
def test_the_pool_says_what_the_profiler_recorded(
    name: str, variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In graph mode the peak is that of the run that gives the values."""
    watcher = observer(variant)
    program = emitted(BY_ID[name], variant, tmp_path)
    loaded = LoadedProgram.of(program, load_program(program), "recomputed")
    pool = watcher._pool
    found: list[Run] = []
    for watching, meter in ((nullcontext(), pool), (recorded := Recorded(), recorded)):
        monkeypatch.setattr(watcher, "_pool", meter)
        monkeypatch.setattr(watcher, "watching", lambda watching=watching: watching)
        monkeypatch.setattr(watcher, "together", False)  # the profiler records one thing at a time
        for _ in range(2):  # the first run fills caches
            run = watcher.run(loaded, watcher.unobserved(program))
        found.append(run)
    assert type(pool).__name__ == "Pool"
    assert found[0].retained == found[1].retained
    assert abs(found[0].peak - found[1].peak) <= 1024


@pytest.mark.parametrize("variant", EAGER)
@pytest.mark.parametrize("name", ["memory/chain-segments", "regions/nested", "hooks/parameter"])
def test_one_run_tells_of_executions_and_memory_what_two_do(
    name: str, variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = observer(variant)
    program = emitted(BY_ID[name], variant, tmp_path)
    assert watcher.together
    once = watcher.observe(program).recomputed
    monkeypatch.setattr(watcher, "together", False)
    apart = watcher.observe(program).recomputed
    assert (once.executions, once.retained, once.peak) == (
        apart.executions,
        apart.retained,
        apart.peak,
    )


@pytest.mark.parametrize("variant", EAGER)
def test_what_an_error_leaves_does_not_raise_the_next_peak(variant: str, tmp_path: Path) -> None:
    case = BY_ID["memory/chain-segments"]
    before = peaks(case, variant, tmp_path)
    error = observed(BY_ID["errors/raised-in-region"], variant, tmp_path)
    assert error.plain.error is not None
    assert peaks(case, variant, tmp_path) == before


def slopes(run: Run) -> tuple[float, float]:
    """Live tensors and bytes per step."""
    assert run.alive is not None
    assert run.held is not None
    return (run.alive[-1] - run.alive[3]) / 4, (run.held[-1] - run.held[3]) / 4


@pytest.mark.parametrize("variant", EAGER)
def test_a_tensor_left_over_per_step_is_counted(
    variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = emitted(sines(2, "release: 8"), variant, tmp_path)
    honest = slopes(observer(variant).observe(program).recomputed)
    kept: list[Any] = []
    recompute = ms.recompute

    def leaking(block: Any, *arguments: Any, **options: Any) -> Any:
        found = recompute(block, *arguments, **options)
        kept.append(ms.ops.stop_gradient(found) * 2)
        return found

    monkeypatch.setattr(ms, "recompute", leaking)
    leaked = slopes(observer(variant).observe(program).recomputed)
    assert leaked[0] - honest[0] == 1
    assert leaked[1] - honest[1] == pytest.approx(UNIT, abs=2**12)


SOURCES = {
    "numpy_uniform(shape=[2048, 64], low=2.0, high=3.0)": "",
    "uniform_from(g, shape=[2048, 64], low=2.0, high=3.0)": "g: {generator: numpy, seed: 3}",
    "python_uniform(low=2.0, high=3.0)": "",
}


@pytest.mark.parametrize("variant", EAGER)
@pytest.mark.parametrize("source", SOURCES, ids=[s.partition("(")[0] for s in SOURCES])
def test_draws_from_python_are_seen_one_by_one(source: str, variant: str, tmp_path: Path) -> None:
    for count in (1, 2):
        drawn = [f"u{i} = {source}" for i in range(count)]
        used = ["m0 = multiply(a, u0)", *(["m1 = multiply(m0, u1)"] if count == 2 else [])]
        case = chain([*drawn, *used, f"y = sin(m{count - 1})"], inputs=SOURCES[source])
        run = observed(case, variant, tmp_path / str(count)).recomputed
        assert run.samples is not None
        assert [d.phase for d in run.samples] == ["forward"] * count + ["rerun"] * count
        for draw in run.samples:
            assert 2 <= draw.array.min() <= draw.array.max() <= 3
        assert not np.array_equal(run.samples[0].array, run.samples[count].array)


def test_a_recursive_schedule_reruns_as_often_as_derived(tmp_path: Path) -> None:
    """Halving 16 sines: all but the last of each level once more per level, n log2(n) / 2 in all."""
    case = BY_ID["growth/halving-16"]
    again = reruns(observed(case, EAGER[0], tmp_path).recomputed)
    assert sum(count for (_, statement), count in again.items() if statement) == 32


@pytest.mark.parametrize(
    ("variant", "sines_in_region", "expected"),
    [
        (EAGER[0], 2, [False, True, False, True]),
        (EAGER[0], 60, [False, True, True, True]),
        ("graph-cell", 2, [False, False]),
    ],
)
def test_a_program_runs_its_operations_asynchronously_where_nothing_watches(
    variant: str, sines_in_region: int, expected: list[bool], tmp_path: Path
) -> None:
    """The values pass is as a user runs it, but over the recomputed run of a deep program; the other
    pass waits for each operation. In graph mode there is no other: what is compiled once tells all."""
    watcher = observer(variant)
    program = emitted(sines(sines_in_region), variant, tmp_path)
    module = load_program(program)
    modes: list[bool] = []
    run = module.run

    def noting(*arguments: Any, **options: Any) -> Any:
        modes.append(ms.get_context("pynative_synchronize"))
        return run(*arguments, **options)

    module.run = noting
    for path in ("plain", "recomputed"):
        loaded = LoadedProgram.of(program, module, path)
        watcher.run(loaded, dict(watcher.unobserved(program)))
    assert modes == expected
