"""The autograd adapter: the numbers of its operations, its counts, and its bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frameworks import framework

autograd = framework("autograd", "autograd")

from autograd.core import defvjp_argnums, make_vjp  # noqa: E402
from autograd.extend import primitive  # noqa: E402

from conformance.language.operations import OF_CALLABLES  # noqa: E402
from conformance.model.case import Case  # noqa: E402
from conformance.model.observation import Leaf, Observation, Run  # noqa: E402
from conformance.oracle.expected import expect  # noqa: E402
from tests.adapters.bench import Bench  # noqa: E402
from tests.equal_runs import differences  # noqa: E402
from tests.every_program import not_imported  # noqa: E402
from tests.operation_samples import offered, operations_of, samples_of, written  # noqa: E402
from tests.suite_cases import BY_ID  # noqa: E402

BENCH = Bench("autograd")
ADAPTER = BENCH.adapter
ACTIVATION = 2048 * 64 * 4  # bytes of one activation of the memory family
Function = Callable[..., Any]


def inert(function: Function) -> Function:
    """Recomputes nothing."""
    return function


def lazy(function: Function) -> Function:
    """Runs the function again when the cotangent has come, which is what is asked for."""

    def rule(numbers: Any, result: Any, args: Any, kwargs: Any) -> Function:
        def vjp(cotangent: Any) -> Any:
            def again(chosen: Any) -> Any:
                given = list(args)
                for number, value in zip(numbers, chosen, strict=True):
                    given[number] = value
                return function(*given, **kwargs)

            return make_vjp(again, tuple(args[n] for n in numbers))[0](cotangent)

        return vjp

    wrapped: Function = primitive(function)
    defvjp_argnums(wrapped, rule)
    return wrapped


def observed(case: Case, folder: Path, variant: str = "arguments") -> Observation:
    return BENCH.observed(case, variant, folder)


def counts(run: Run, phase: str) -> dict[str, int]:
    """Executions by `region.statement`, of what ran at all."""
    assert run.executions is not None
    return {
        f"{e.region}.{e.statement}": e.count
        for e in run.executions
        if e.region and e.phase == phase and e.count
    }


# -- the numbers of each operation ---------------------------------------------------------------


def test_every_operation_is_emitted() -> None:
    assert offered(ADAPTER) <= operations_of(ADAPTER) | OF_CALLABLES


def test_programs_read_nothing_that_they_do_not_import() -> None:
    assert not_imported(ADAPTER) == []


@pytest.mark.parametrize(
    ("statements", "shapes"),
    [(statements, shapes) for _, statements, shapes, _ in samples_of(ADAPTER)],
    ids=[row[1][-1] for row in samples_of(ADAPTER)],
)
def test_an_operation_and_its_gradients_are_the_references(
    statements: list[str], shapes: Mapping[str, tuple[int, ...]], tmp_path: Path
) -> None:
    case = written("one", statements, shapes, "float64")
    seen = observed(case, tmp_path)
    expected = expect(case, "whole")
    for run in (seen.plain, seen.recomputed):
        assert run.error is None
        assert isinstance(run.outputs, Leaf)
        np.testing.assert_allclose(run.outputs.array, expected.outputs.array, 1e-9, 1e-12)
        for name in shapes:
            np.testing.assert_allclose(run.gradients[name], expected.gradients[name], 1e-9, 1e-12)
    for name, array in expected.state.items():
        np.testing.assert_allclose(seen.plain.state[name], array, rtol=1e-6)


# -- executions ----------------------------------------------------------------------------------


def test_the_function_runs_in_forward_once_more_for_each_argument(tmp_path: Path) -> None:
    calls = []

    def block(x: Any, w: Any) -> Any:
        calls.append(1)
        return autograd.numpy.sin(x @ w)

    x, w = np.ones((3, 4)), np.ones((4, 4))
    recomputed = autograd.checkpoint(block)
    vjp, _ = make_vjp(lambda given: autograd.numpy.sum(recomputed(given[0], given[1])), (x, w))
    assert len(calls) == 3
    vjp(1.0)
    assert len(calls) == 3

    case = written("one", ["h = matmul(a, w)", "y = sin(h)"], {"a": (3, 4), "w": (4, 4)})
    seen = observed(case, tmp_path)
    assert set(counts(seen.plain, "forward").values()) == {1}
    assert set(counts(seen.recomputed, "forward").values()) == {3}
    assert counts(seen.recomputed, "rerun") == {}


def test_what_runs_again_in_backward_is_counted_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autograd, "checkpoint", lazy)
    seen = observed(BY_ID["regions/nested"], tmp_path).recomputed
    found = counts(seen, "rerun")
    assert {found["inner.h2"], found["inner.s2"]} == {2}
    assert {found["outer.h1"], found["outer.s1"], found["outer.h3"]} == {1}
    assert set(counts(seen, "forward").values()) == {1}
    assert set(counts(observed(BY_ID["regions/nested"], tmp_path).plain, "rerun")) == set()


# -- memory --------------------------------------------------------------------------------------


def test_bytes_tell_implementations_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the 8 layers keeps what it is given, where nothing is computed ahead."""
    case = BY_ID["memory/chain-each"]
    kept = {}
    for name, implementation in (("inert", inert), ("lazy", lazy)):
        with monkeypatch.context() as patch:
            patch.setattr(autograd, "checkpoint", implementation)
            seen = observed(case, tmp_path)
        kept[name] = seen.recomputed.retained or 0
        assert (counts(seen.recomputed, "rerun") == {}) is (name == "inert")
    assert kept["inert"] == seen.plain.retained
    assert kept["lazy"] / ACTIVATION == pytest.approx(8, abs=0.01)
    assert (observed(case, tmp_path).recomputed.retained or 0) > kept["inert"]


def test_arrays_that_a_function_captures_are_left_over(tmp_path: Path) -> None:
    """autograd's tables of primitives keep each function that was recomputed. The parameter that it
    reads knows of the dict that it was taken out of, and so of all that is differentiated."""
    case = BY_ID["release/block"]
    array = sum(np.prod(a.shape) * 4 for a in case.arrays if a.gradient)
    for variant, left in (("closure", array), ("arguments", 0)):
        held = observed(case, tmp_path, variant).recomputed.held or ()
        assert len(held) > 2
        assert held[-1] - held[-2] == pytest.approx(left, abs=0.01 * array)


# -- draws ---------------------------------------------------------------------------------------


def test_a_run_for_the_gradient_draws_anew(tmp_path: Path) -> None:
    seen = observed(BY_ID["randomness/uniform-noise"], tmp_path)
    samples = {d.phase: d.array for d in seen.recomputed.samples or ()}
    assert set(samples) == {"forward", "rerun"}
    assert not np.array_equal(samples["forward"], samples["rerun"])
    assert {d.phase for d in seen.plain.samples or ()} == {"forward"}


def test_a_forward_pass_after_one_without_gradients_is_no_rerun(tmp_path: Path) -> None:
    case = BY_ID["randomness/uniform-noise"]
    after = replace(case, procedure=replace(case.procedure, after="inference"))
    seen = observed(after, tmp_path)
    assert [d.phase for d in seen.plain.samples or ()] == ["forward", "forward"]


def test_a_function_that_is_run_once_draws_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autograd, "checkpoint", inert)
    seen = observed(BY_ID["randomness/uniform-noise"], tmp_path)
    assert {d.phase for d in seen.recomputed.samples or ()} == {"forward"}


@pytest.mark.parametrize(
    "identity",
    [
        *("basics/conv-relu-block", "captures/shared-parameter", "structure/nested-arguments"),
        *("randomness/dropout-preserved", "procedures/second-order", "errors/raised-in-region"),
    ],
)
def test_one_run_tells_values_and_executions(
    identity: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Following the lines changes nothing that is computed."""
    at_once = observed(BY_ID[identity], tmp_path)
    monkeypatch.setattr(type(BENCH.observer("arguments")), "at_once", False)
    apart = observed(BY_ID[identity], tmp_path)
    assert differences(at_once.plain, apart.plain) == []
    assert differences(at_once.recomputed, apart.recomputed) == []
