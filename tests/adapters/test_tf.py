"""The TensorFlow adapter: every operation's numbers, its counts and its bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frameworks import framework

tf = framework("tf", "tensorflow")

from conformance.language.operations import OF_CALLABLES, OPERATIONS  # noqa: E402
from conformance.model.case import Case  # noqa: E402
from conformance.model.observation import Leaf, Observation, Run  # noqa: E402
from conformance.observe.worker.loaded import load_program  # noqa: E402
from conformance.oracle.expected import expect  # noqa: E402
from conformance.oracle.interpreter import make_inputs  # noqa: E402
from tests.adapters.bench import Bench  # noqa: E402
from tests.every_program import not_imported  # noqa: E402
from tests.operation_samples import IN_CASES, offered, operations_of, samples_of  # noqa: E402
from tests.operation_samples import written as sample  # noqa: E402
from tests.samples_together import alone, part, together  # noqa: E402
from tests.suite_cases import BY_ID  # noqa: E402

BENCH = Bench("tf")
ADAPTER, observer, emitted, observed = BENCH.adapter, BENCH.observer, BENCH.emitted, BENCH.observed
VARIANTS = ("eager", "function", "forward-function", "xla")


def counts(run: Run) -> dict[tuple[str, str, str], int]:
    assert run.executions is not None
    return {(e.region, e.statement, e.phase): e.count for e in run.executions if e.count}


# -- the numbers of each operation ---------------------------------------------------------------

#: Statements that make y, and the shapes of what they read.
STATEMENTS = [(statements, shapes) for _, statements, shapes, _ in samples_of(ADAPTER)]
#: The same of operations that draw, whose plain run alone has the reference's numbers.
DRAWN: dict[str, tuple[list[str], dict[str, tuple[int, ...]]]] = {
    "dropout": (["y = dropout(a, p=0.25)"], {"a": (100, 100)}),
    "uniform": (
        ["u = uniform(shape=[3, 4])", 'v = astype(u, dtype="float64")', "y = add(a, v)"],
        {"a": (3, 4)},
    ),
}
#: Operations whose numbers are checked in `test_tf_graphs.py`, or that have none.
ELSEWHERE = {"raise_if", *OF_CALLABLES, "uniform_from", "numpy_uniform", "python_uniform"}


def written(statements: list[str], shapes: Mapping[str, tuple[int, ...]]) -> Case:
    """A case that runs statements in a region and squares y."""
    return sample("one", statements, shapes)


def test_every_operation_is_emitted_and_has_its_numbers_checked() -> None:
    assert offered(ADAPTER) <= operations_of(ADAPTER) | OF_CALLABLES | {"uniform_from"}
    text = " ".join(s for statements, _ in (*STATEMENTS, *DRAWN.values()) for s in statements)
    checked = {op for op in OPERATIONS if f" {op}(" in text} | ELSEWHERE | IN_CASES
    assert offered(ADAPTER) <= checked


def test_programs_read_nothing_that_they_do_not_import() -> None:
    assert not_imported(ADAPTER) == []


Seen = Callable[[Case, str], Observation]
TOGETHER = together(STATEMENTS)
INPUTS = make_inputs(TOGETHER)
DROPPED = written(*DRAWN["dropout"])


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Gives what is observed of a case on a variant, observed once for all tests."""
    folder = tmp_path_factory.mktemp("programs")
    seen: dict[tuple[int, str], Observation] = {}

    def observed_once(case: Case, variant: str) -> Observation:
        key = id(case), variant
        if key not in seen:
            seen[key] = observed(case, variant, folder)
        return seen[key]

    return observed_once


def assert_the_references(case: Case, run: Run, *, samples: Any = None) -> None:
    """A run has the outputs, gradients and state that the reference comes to."""
    text = str(case.program)
    expected = expect(case, "whole", samples=samples)
    assert isinstance(run.outputs, Leaf)
    tolerance = 1e-6 if samples is not None or "astype" in text else 1e-10
    if "gelu" in text:  # tf.nn.gelu rounds sqrt(1 / 2) to float32 in every dtype
        tolerance = 1e-7
    np.testing.assert_allclose(run.outputs.array, expected.outputs.array, rtol=tolerance)
    assert run.gradients.keys() == expected.gradients.keys()
    for name, gradient in expected.gradients.items():
        np.testing.assert_allclose(run.gradients[name], gradient, rtol=tolerance, atol=1e-9)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("place", range(len(STATEMENTS)), ids=[s[0][-1] for s in STATEMENTS])
def test_an_operation_and_its_gradients_are_the_references(
    place: int, variant: str, once: Seen
) -> None:
    seen = once(TOGETHER, variant)
    case = alone(STATEMENTS[place], place, INPUTS)
    for run in (seen.plain, seen.recomputed):
        assert run.error is None
        assert_the_references(case, part(run, place))
    state = part(seen.plain, place).state
    for name, array in expect(case, "whole").state.items():
        np.testing.assert_allclose(state[name], array, rtol=1e-10)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", DRAWN)
def test_an_operation_that_draws_and_its_gradients_are_the_references(
    name: str, variant: str, once: Seen
) -> None:
    case = DROPPED if name == "dropout" else written(*DRAWN[name])
    run = once(case, variant).plain
    assert run.error is None
    assert run.samples
    assert_the_references(case, run, samples=run.samples)


@pytest.mark.parametrize("variant", VARIANTS)
def test_dropout_drops_its_share(variant: str, once: Seen) -> None:
    (draw,) = once(DROPPED, variant).plain.samples or ()
    assert abs((draw.array != 0).mean() - 0.75) < 0.02


@pytest.mark.parametrize("variant", VARIANTS)
def test_uniform_stays_within_its_bounds_and_fills_them(variant: str, tmp_path: Path) -> None:
    body = ["u = uniform(shape=[100, 100], low=2.0, high=6.0)", 'v = astype(u, dtype="float64")']
    case = written([*body, "y = multiply(a, v)"], {"a": (1,)})
    (draw,) = observed(case, variant, tmp_path).plain.samples or ()
    assert 2 <= draw.array.min() < 2.01
    assert 5.99 < draw.array.max() <= 6
    assert abs(draw.array.mean() - 4) < 0.06


# -- draws -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["two-dropouts", "dropout-around", "dropout-in-two-regions"])
def test_the_draws_are_those_of_the_run_whose_values_are_judged(
    name: str, variant: str, tmp_path: Path
) -> None:
    case = BY_ID[f"randomness/{name}"]
    seen = observed(case, variant, tmp_path)
    for run in (seen.plain, seen.recomputed):
        assert isinstance(run.outputs, tuple)
        drawn = [d.array for d in run.samples or () if d.phase == "forward"]
        assert len(drawn) == len(run.outputs) - 1
        for array, leaf in zip(drawn, run.outputs[1:], strict=True):
            assert isinstance(leaf, Leaf)
            np.testing.assert_array_equal(array, leaf.array)
    assert [d.phase for d in seen.plain.samples or ()].count("rerun") == 0


# -- counts and bytes ------------------------------------------------------------------------------


def test_eager_reruns_the_whole_region_and_a_nested_one_once_more(tmp_path: Path) -> None:
    seen = counts(observed(BY_ID["regions/nested"], "eager", tmp_path).recomputed)
    rerun = {key[:2]: n for key, n in seen.items() if key[2] == "rerun"}
    assert {n for (region, _), n in rerun.items() if region == "outer"} == {1}
    assert {n for (region, _), n in rerun.items() if region == "inner"} == {2}
    assert len(rerun) == 9


def test_a_function_leaves_out_what_no_gradient_needs(tmp_path: Path) -> None:
    seen = counts(observed(BY_ID["regions/nested-pair"], "function", tmp_path).recomputed)
    rerun = {key[:2]: n for key, n in seen.items() if key[2] == "rerun" and key[1]}
    first, second = {"h1", "s1", "a1"}, {"h2", "s2", "y"}
    assert rerun == {
        **{("first", name): 2 for name in first},
        **{("second", name): 1 for name in second},
    }


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_inert_recompute_is_seen(
    variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = BY_ID["memory/chain-each"]
    program = emitted(case, variant, tmp_path)
    honest = observer(variant).observe(program)
    assert any(key[2] == "rerun" for key in counts(honest.recomputed))
    monkeypatch.setattr(tf, "recompute_grad", lambda function: function)
    inert = observer(variant).observe(program)
    assert not any(key[2] == "rerun" for key in counts(inert.recomputed))
    assert inert.recomputed.retained == honest.plain.retained


@pytest.mark.parametrize(
    ("name", "plain", "recomputed"),
    # The last value of the chain is kept as well: the gradient of its sum reads its shape.
    [("chain-each", 32 + 1, 8 + 1), ("chain-segments", 32 + 1, 4 + 1), ("chain-whole", 16 + 1, 0)],
)
def test_bytes_kept_are_the_activations_that_were_published(
    name: str, plain: int, recomputed: int, tmp_path: Path
) -> None:
    unit = 2048 * 64 * 4
    seen = observed(BY_ID[f"memory/{name}"], "eager", tmp_path)
    assert seen.plain.retained == plain * unit
    assert seen.recomputed.retained == recomputed * unit


@pytest.mark.parametrize("name", ["regions/nested-pair", "regions/adjacent", "regions/separate"])
def test_nodes_counted_are_kernels_of_the_optimized_graph(name: str, tmp_path: Path) -> None:
    """Rewriting is off while nodes are counted; with it on, as many matrix products run."""
    case = BY_ID[name]
    program = emitted(case, "function", tmp_path)
    module = load_program(program)
    observe = ADAPTER.load("profiler")

    def products() -> int:
        found: Counter[str] = observe.nodes_run(lambda: module.run(module.recomputed))
        return sum(
            n for node, n in found.items() if node.rpartition("/")[2].lower()[:6] == "matmul"
        )

    rewritten = products()
    with observe.no_rewrites():
        assert products() == rewritten > 0
