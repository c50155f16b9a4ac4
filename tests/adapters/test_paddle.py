"""The PaddlePaddle adapter: the numbers of every operation, its counts, its bytes, its errors."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance.language.load import load_text
from conformance.language.operations import OPERATIONS
from conformance.model.case import Case
from conformance.model.observation import Run
from conformance.model.program import Program
from conformance.observe.worker.loaded import LoadedProgram, load_program
from conformance.run.runner import refused
from tests.adapters.bench import Bench, assert_numpys
from tests.every_program import not_imported
from tests.operation_samples import (
    IN_CASES,
    RANDOM_OR_RAISING,
    NumPy,
    offered,
    operations_of,
    samples_of,
    written,
)
from tests.suite_cases import BY_ID

BENCH = Bench("paddle")
ADAPTER, observer, observe = BENCH.adapter, BENCH.observer, BENCH.observe
os.environ.update(ADAPTER.model.environment)  # before the import, as in the worker
paddle = pytest.importorskip("paddle", reason="PaddlePaddle is not installed here")
VARIANTS = ("reentrant", "hook")


SAMPLES = samples_of(ADAPTER)
CASES = [
    written(f"operation-{i}", statements, shapes)
    for i, (_, statements, shapes, _) in enumerate(SAMPLES)
]
Emit = Callable[[Case, str], Program]


@pytest.fixture(scope="module")
def emit(tmp_path_factory: pytest.TempPathFactory) -> Emit:
    """Gives the program of a case on a variant. Those of `CASES` are written in one batch."""
    folder = tmp_path_factory.mktemp("programs")
    return BENCH.emitting(folder, [(case, name) for case in CASES for name in VARIANTS])


def test_every_operation_is_emitted_and_has_its_numbers_checked() -> None:
    assert offered(ADAPTER) <= operations_of(ADAPTER) <= set(OPERATIONS)
    elsewhere = {"uniform_from", "numpy_uniform", "python_uniform"}  # see the tests of graphs
    assert (
        offered(ADAPTER) <= {row[0] for row in SAMPLES} | RANDOM_OR_RAISING | IN_CASES | elsewhere
    )


def test_programs_read_nothing_that_they_do_not_import() -> None:
    assert not_imported(ADAPTER) == []


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("case", "row"), list(zip(CASES, SAMPLES, strict=True)), ids=[row[1][-1] for row in SAMPLES]
)
def test_an_operation_and_its_gradients_are_numpys(
    case: Case, row: tuple[str, list[str], dict[str, Any], NumPy], variant: str, emit: Emit
) -> None:
    program = emit(case, variant)
    arrays = {name: t.numpy() for name, t in load_program(program).inputs().items()}
    assert_numpys(observe(program), row, arrays)


def test_batch_norm_keeps_the_share_of_running_statistics_that_the_case_says(
    emit: Emit,
) -> None:
    case = next(c for c, row in zip(CASES, SAMPLES, strict=True) if row[0] == "batch_norm")
    program = emit(case, "hook")
    x = load_program(program).inputs()["a"].numpy()
    state = observe(program).plain.state
    np.testing.assert_allclose(state["mean"], 0.75 + 0.25 * x.mean((0, 2, 3)), rtol=1e-10)
    np.testing.assert_allclose(state["var"], 0.75 + 0.25 * x.var((0, 2, 3)), rtol=1e-10)


def test_dropout_drops_its_share_and_scales_the_rest(emit: Emit) -> None:
    program = emit(written("dropout", ["y = dropout(a, p=0.25)"], {"a": (100, 100)}), "hook")
    x = load_program(program).inputs()["a"].numpy()
    run = observe(program).plain
    (draw,) = run.samples
    kept = draw.array != 0
    np.testing.assert_allclose(draw.array[kept], x[kept] / 0.75, rtol=1e-12)
    assert abs(kept.mean() - 0.75) < 0.02


def test_uniform_stays_within_its_bounds_and_fills_them(emit: Emit) -> None:
    body = ["u = uniform(shape=[100, 100], low=2.0, high=6.0)", "y = multiply(a, u)"]
    program = emit(written("uniform", body, {"a": (1,)}), "hook")
    (draw,) = observe(program).plain.samples
    assert draw.array.shape == (100, 100)
    assert 2 <= draw.array.min() < 2.01
    assert 5.99 < draw.array.max() <= 6
    assert abs(draw.array.mean() - 4) < 0.06


# -- counts and bytes ------------------------------------------------------------------------------

#: Operations whose kernel runs for nothing else, and its name.
UNIQUE = ("matmul", "sin", "exp", "log", "tanh", "relu", "gelu", "softmax", "dropout", "conv2d")
KERNELS = {"linear": "matmul", **dict(zip(UNIQUE, UNIQUE, strict=True))}
_LAUNCH = re.compile(r"^(?:pd_op\.)?(\w+?) kernel launch\[")


def launches(work: Callable[[], object], file: Path) -> Counter[str]:
    """How often each kernel was launched, as Paddle's own profiler saw it."""
    from paddle.profiler import Profiler, ProfilerTarget

    profiler = Profiler(targets=[ProfilerTarget.CPU], on_trace_ready=lambda _: None)
    profiler.start()
    work()
    profiler.stop()
    profiler.export(str(file), "json")
    events = json.loads(file.read_text("utf-8"))["traceEvents"]
    found = Counter(m[1] for e in events if (m := _LAUNCH.match(e.get("name", ""))))
    return Counter({name: n for name, n in found.items() if name in KERNELS.values()})


def counted(program: Program, run: Run) -> Counter[str]:
    """The same counts, from the executions of statements."""
    ops = {(s.region, s.label): s.op for s in program.lines.values() if s.kind != "phase"}
    found: Counter[str] = Counter()
    for execution in run.executions or ():
        kernel = KERNELS.get(ops.get((execution.region, execution.statement), ""))
        if kernel is not None:
            found[kernel] += execution.count
    return found


@pytest.mark.parametrize(
    ("identity", "variant"),
    [
        (identity, variant)
        for identity in (
            "basics/conv-relu-block",
            "basics/mlp-block",
            "basics/normalised-attention",
            "captures/frozen-input",
            "randomness/two-dropouts",
            "regions/separate",
            "regions/called-repeatedly",
            "structure/nested-tuple-output",
            "procedures/inference",
            "procedures/train",
        )
        for variant in VARIANTS
    ]
    + [("regions/nested-pair", "reentrant"), ("procedures/second-backward", "hook")]
    + [(f"training/{name}", "model-fit-hook") for name in ("dense", "dropout", "batch-norm")]
    + [("models/lenet", "layers"), ("regions/nested", "layers"), ("state/batch-norm", "layers")],
)
def test_executions_are_those_that_the_profiler_counts(
    identity: str, variant: str, emit: Emit, tmp_path: Path
) -> None:
    program = emit(BY_ID[identity], variant)
    module = load_program(program)
    observation = observe(program)
    for path, run in (("plain", observation.plain), ("recomputed", observation.recomputed)):
        assert run.error is None
        seen = launches(lambda path=path: module.run(getattr(module, path)), tmp_path / "t.json")
        assert seen, "the profiler saw nothing"
        assert counted(program, run) == seen


@pytest.mark.parametrize("variant", [*VARIANTS, "layers"])
def test_an_inert_recompute_reruns_nothing_and_keeps_what_plain_keeps(
    variant: str, emit: Emit
) -> None:
    case = BY_ID["memory/chain-whole"]
    program = emit(case, variant)
    honest = observe(program)
    module = load_program(program)
    module.recompute = lambda function, *arguments, use_reentrant=True: function(*arguments)
    inert = observer(variant).run(LoadedProgram.of(program, module, "recomputed"), {})
    assert any(e.phase == "rerun" for e in honest.recomputed.executions)
    assert not any(e.phase == "rerun" for e in inert.executions)
    assert inert.retained == honest.plain.retained
    assert honest.recomputed.retained < honest.plain.retained


def test_fit_trains_no_parameter_of_a_reentrant_region_on_its_batch(emit: Emit) -> None:
    case = BY_ID["training/dense"]
    frozen = observe(emit(case, "model-fit")).recomputed
    trained = observe(emit(case, "model-fit-hook")).recomputed
    assert frozen.gradients == {"w": None, "b": None}
    assert len(set(frozen.losses)) == 1
    assert len(set(trained.losses)) == 2


@pytest.mark.parametrize("variant", VARIANTS)
def test_retained_bytes_are_exact(variant: str, emit: Emit) -> None:
    """Each sine keeps its argument; the region keeps x, which is an input, and so nothing."""
    body = ["h = matmul(a, w)", "s = sin(h)", "t = sin(s)", "y = sin(t)"]
    program = emit(written("sines", body, {"a": (50, 20), "w": (20, 30)}), variant)
    observation = observe(program)
    activation = 50 * 30 * 8
    assert observation.plain.retained == 4 * activation  # h, s, t, and y for its square
    assert observation.recomputed.retained == activation  # y


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_error_in_the_rerun_spoils_no_later_program(variant: str, emit: Emit) -> None:
    watching = observer(variant)
    program = emit(BY_ID["errors/raised-in-region"], variant)
    module = load_program(program)
    calls = []

    def raise_second(x: object, flag: object) -> object:
        calls.append(flag)
        if len(calls) == 2:
            raise ValueError("raise_if")
        return x

    module.raise_if = raise_second
    run = watching.values(LoadedProgram.of(program, module, "recomputed"))
    assert run.error is not None
    assert run.error.phase == "backward"
    after = observe(emit(BY_ID["basics/mlp-block"], variant))
    assert after.recomputed.error is None
    for name, gradient in after.plain.gradients.items():
        assert gradient is not None
        np.testing.assert_array_equal(after.recomputed.gradients[name], gradient)


def test_a_good_run_without_gradients_is_not_good(emit: Emit) -> None:
    watching = observer("hook")
    program = emit(BY_ID["errors/raised-in-region"], "hook")
    observation = observe(program)
    assert observation.recomputed.good_run_after_error is True
    loaded = LoadedProgram.of(program, load_program(program), "recomputed")
    with paddle.no_grad():
        assert watching.good_run(loaded, Run()).good_run_after_error is False


NESTED_ARGUMENT = """
family: written
cases:
  nested-argument:
    title: A tuple with a tuple in it
    source: the test
    why: A region of reentrant recompute takes tensors one by one, or in flat tuples.
    inputs:
      x: {shape: [2], full: 1.0}
      y: {shape: [2], full: 2.0}
      u: {shape: [2], full: 3.0}
    program:
      - recompute: block
        takes: [[x, [y, u]]]
        gives: a
        body:
          - p = multiply(x, y)
          - a = multiply(p, u)
    outputs: a
    gradients: {of: sum(a)}
"""


@pytest.mark.parametrize(
    ("variant", "case"),
    [
        ("reentrant", load_text(NESTED_ARGUMENT, "test")[0]),
        ("reentrant", BY_ID["structure/dict-output"]),
        ("hook", BY_ID["regions/nested"]),
    ],
    ids=["nested-inputs", "nested-outputs", "nested-regions"],
)
def test_what_the_adapter_calls_refused_is_refused(variant: str, case: Case, emit: Emit) -> None:
    verdict = refused(case, ADAPTER.variant(variant), observe(emit(case, variant)))
    assert verdict is not None
