"""PaddlePaddle's variants that make graphs, and its sequences: counts, bytes, draws made by hand."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from conformance.model.case import Case
from conformance.model.observation import Run
from conformance.model.program import Program
from conformance.observe.worker.loaded import LoadedProgram, load_program
from tests.adapters.bench import Bench
from tests.operation_samples import written
from tests.suite_cases import BY_ID

BENCH = Bench("paddle")
ADAPTER, observe = BENCH.adapter, BENCH.observe
os.environ.update(ADAPTER.model.environment)  # before the import, as in the worker
os.environ.update(ADAPTER.variant("pir-pass").model.environment)
paddle = pytest.importorskip("paddle", reason="PaddlePaddle is not installed here")
# Paddle reads the environment once, and another test may have imported it before. By default several
# threads run a graph: two that begin to record for the profiler at one time end the process.
paddle.set_flags({f: v == "1" for f, v in ADAPTER.variant("pir-pass").model.environment.items()})
graphs: Any = ADAPTER.load("graphs")
GRAPHS = ("to-static-ast", "pir-pass")
#: SOT goes on in a function of its own after what it cannot translate: the generators of NumPy and of
#: Python, and the call of `recompute`.
REWRITTEN = ("randomness/numpy-global", "randomness/python-random", "randomness/uniform-seeded")
SINES = ["h = matmul(a, w)", "s = sin(h)", "t = sin(s)", "y = sin(t)"]
Emit = Callable[[Case, str], Program]


@pytest.fixture(scope="module")
def emit(tmp_path_factory: pytest.TempPathFactory) -> Emit:
    folder = tmp_path_factory.mktemp("programs")
    return lambda case, variant: BENCH.emitted(case, variant, folder)


def sines(statements: list[str]) -> Case:
    return written("sines", statements, {"a": (50, 20), "w": (20, 30)})


def reruns(run: Run) -> dict[str, int]:
    """Executions in backward, by statement."""
    found: Counter[str] = Counter()
    for e in run.executions or ():
        if e.statement and e.region and e.phase == "rerun":
            found[e.statement] += e.count
    return dict(found)


def forwards(run: Run) -> dict[str, int]:
    return {
        e.statement: e.count
        for e in run.executions or ()
        if e.statement and e.region and e.phase == "forward"
    }


def test_the_pass_reruns_all_but_the_end_and_one_operation_more_is_one_more(emit: Emit) -> None:
    found = reruns(observe(emit(sines(SINES), "pir-pass")).recomputed)
    assert found == {"h": 1, "s": 1, "t": 1, "y": 0}
    longer = [*SINES[:-1], "u = sin(t)", "y = sin(u)"]
    found = reruns(observe(emit(sines(longer), "pir-pass")).recomputed)
    assert found == {"h": 1, "s": 1, "t": 1, "u": 1, "y": 0}


def test_recompute_compiled_whole_is_seen_as_inert(emit: Emit) -> None:
    observation = observe(emit(sines(SINES), "to-static-ast"))
    assert reruns(observation.recomputed) == dict.fromkeys("hsty", 0)
    assert forwards(observation.recomputed) == dict.fromkeys("hsty", 1)
    assert observation.recomputed.retained == observation.plain.retained
    assert observation.recomputed.retained == 4 * 50 * 30 * 8  # h, s, t, and y for its square


def test_two_programs_of_one_source_text_are_told_apart(emit: Emit) -> None:
    """to_static keeps what it has made of a text, with the file in which it first was."""
    for identity in ("captures/captured-parameter", "procedures/inference"):
        run = observe(emit(BY_ID[identity], "to-static-ast")).recomputed
        assert forwards(run) == dict.fromkeys("hsa", 1)


def test_an_inert_pass_is_seen_as_inert(emit: Emit) -> None:
    program = emit(sines(SINES), "pir-pass")
    module = load_program(program)
    module.recompute = lambda function, *arguments: function(*arguments)
    module.apply_recompute = lambda *_: None
    try:
        watching = BENCH.observer("pir-pass")
        unobserved = dict(watching.unobserved(program))
        inert = watching.run(LoadedProgram.of(program, module, "recomputed"), unobserved)
    finally:
        paddle.disable_static()
    assert reruns(inert) == dict.fromkeys("hsty", 0)
    assert forwards(inert) == dict.fromkeys("hsty", 1)


@pytest.mark.parametrize("variant", [*GRAPHS, "to-static-sot"])
@pytest.mark.parametrize(
    "identity",
    ["basics/conv-relu-block", "regions/separate", "regions/called-repeatedly", "procedures/train"],
)
def test_executions_are_those_that_the_profiler_counts(
    identity: str, variant: str, emit: Emit
) -> None:
    """Forward and reruns together. The pass runs the product of a last linear again without its sum;
    such a half is no execution of the statement, so products of `linear` are left out."""
    kernels = {"matmul": "matmul", "conv2d": "conv2d", "sin": "sin", "exp": "exp", "tanh": "tanh"}
    program = emit(BY_ID[identity], variant)
    run = observe(program).recomputed
    ops = {s.label: s.op for s in program.lines.values() if s.kind == "statement"}
    counted: Counter[str] = Counter()
    for e in run.executions or ():
        kernel = kernels.get(ops.get(e.statement, ""))
        if kernel is not None:
            counted[kernel] += e.count
    module = load_program(program)
    try:
        module.run(module.recomputed)
        launched = graphs.launches(lambda: module.run(module.recomputed))[""]
    finally:
        paddle.disable_static()
    assert counted
    assert counted == {name: launched[name] for name in counted}


def test_counts_that_the_kernels_contradict_are_refused(emit: Emit) -> None:
    program = emit(sines(SINES), "pir-pass")
    lines = [line for line, site in program.lines.items() if site.kind == "statement"]
    ops = [graphs.Operation("sin", ((lines[1], "block"),), False)] * 3
    assert graphs.times(program, ops, {"sin": 6}) == 2
    with pytest.raises(RuntimeError, match="are not the program's operations"):
        graphs.times(program, ops, {"sin": 4})


@pytest.mark.parametrize(("missed", "given_up"), [(0, False), (2, False), (3, True)])
def test_a_record_that_misses_a_kernel_is_taken_anew(
    missed: int, given_up: bool, emit: Emit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three looks at most, the plain run's first."""
    observer = BENCH.observer("pir-pass")
    # the module as the observer knows it
    of = type(observer)._seen.__globals__["graphs"]
    launches, looks = of.launches, []

    def now_and_then(work: Callable[[], object]) -> Any:
        looks.append(work)
        found = launches(work)
        return {"": Counter({"sin": 1})} if len(looks) <= missed else found

    monkeypatch.setattr(of, "launches", now_and_then)
    program = emit(sines(SINES), "pir-pass")
    if given_up:
        with pytest.raises(RuntimeError, match="are not the program's operations"):
            observer.observe(program)
        return
    seen = {e.statement: e.count for e in observer.observe(program).recomputed.executions or ()}
    assert len(looks) == 2 + missed
    assert seen["s"] > 0


def test_the_pass_draws_anew_and_the_gradient_tells(emit: Emit) -> None:
    observation = observe(emit(BY_ID["randomness/uniform-noise"], "pir-pass"))
    plain, recomputed = observation.plain, observation.recomputed
    np.testing.assert_array_equal(recomputed.outputs[1].array, plain.outputs[1].array)  # type: ignore[index, union-attr]
    assert plain.gradients["x"] is not None
    assert not np.allclose(recomputed.gradients["x"], plain.gradients["x"])


@pytest.mark.parametrize("variant", ["reentrant", "hook", "to-static-sot"])
@pytest.mark.parametrize(
    ("identity", "alike"),
    [
        ("randomness/numpy-global", True),
        ("randomness/python-random", True),
        ("randomness/uniform-seeded", True),
        ("randomness/numpy-generator", False),
    ],
)
def test_draws_of_each_source(identity: str, alike: bool, variant: str, emit: Emit) -> None:
    samples = observe(emit(BY_ID[identity], variant)).recomputed.samples
    if variant == "to-static-sot" and identity in REWRITTEN:
        assert samples is None
        return
    assert samples is not None
    first, again = (
        [draw.array for draw in samples if draw.phase == phase] for phase in ("forward", "rerun")
    )
    assert len(first) == len(again) == 1
    assert np.array_equal(first[0], again[0]) is alike


# -- what SOT compiles, and what it does not --------------------------------------------------------


def chained(name: str, count: int) -> Case:
    """A region of so many sines."""
    sines = ["h = sin(x)", *["h = sin(h)"] * (count - 2), "y = sin(h)"]
    return written(name, sines, {"x": (4, 8)})


@pytest.mark.parametrize(("count", "compiled"), [(8, False), (12, True)])
def test_a_region_that_sot_compiles_has_no_lines_to_count(
    count: int, compiled: bool, emit: Emit
) -> None:
    seen = observe(emit(chained(f"chain-{count}", count), "to-static-sot"))
    assert (seen.recomputed.executions is None) is compiled
    assert ("SOT rewrote block()" in seen.unobserved.get("executions", "")) is compiled
    np.testing.assert_allclose(seen.recomputed.gradients["x"], seen.plain.gradients["x"])  # type: ignore[arg-type]


def test_what_sot_does_with_a_program_does_not_depend_on_those_before_it(emit: Emit) -> None:
    """Small regions have taught it to leave `recompute` alone, and a program of the same code, of
    another file, has left it a graph that reads that file's names."""
    for number in range(12):
        observe(emit(chained(f"small-{number}", 4), "to-static-sot"))
    for number in range(24):
        seen = observe(emit(chained(f"large-{number}", 12), "to-static-sot"))
        assert seen.recomputed.error is None
        assert list(seen.unobserved) == ["executions"], number


def test_a_sequence_is_one_call_and_its_default_reruns_nothing(emit: Emit) -> None:
    program = emit(BY_ID["sequences/segments[k=1]"], "sequential")
    assert program.text.count("recompute_sequential(") == 1
    run = observe(program).recomputed
    assert run.error is None
    assert not any(e.count for e in run.executions or () if e.phase == "rerun")
    divided = observe(emit(BY_ID["sequences/segments[k=2]"], "sequential")).recomputed
    assert divided.error is not None
    assert divided.error.type == "TypeError"
