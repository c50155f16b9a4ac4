"""The MLX adapter: the numbers of its operations, what it reads out of graphs, and its bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frameworks import framework

mx = framework("mlx", "mlx.core")

from conformance.emit.programs import Text, texts  # noqa: E402
from conformance.language.operations import OF_CALLABLES  # noqa: E402
from conformance.model.observation import Leaf  # noqa: E402
from conformance.oracle.expected import expect  # noqa: E402
from tests.adapters.bench import Bench, reruns  # noqa: E402
from tests.every_program import not_imported  # noqa: E402
from tests.operation_samples import offered, operations_of, samples_of, written  # noqa: E402
from tests.suite_cases import BY_ID  # noqa: E402
from tests.test_generated import case  # noqa: E402

BENCH = Bench("mlx")
ADAPTER, emitted, observed = BENCH.adapter, BENCH.emitted, BENCH.observed
VARIANTS = ("module", "function")
ACTIVATION = 2048 * 64 * 4  # bytes of one activation of the memory family
#: MLX computes sines and others in float32 whatever the dtype is.
RTOL, ATOL = 2e-5, 2e-6


# -- the numbers of each operation ---------------------------------------------------------------


def test_every_operation_is_emitted() -> None:
    assert offered(ADAPTER) <= operations_of(ADAPTER) | OF_CALLABLES


def test_programs_read_nothing_that_they_do_not_import() -> None:
    assert not_imported(ADAPTER) == []


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("statements", "shapes"),
    [(statements, shapes) for _, statements, shapes, _ in samples_of(ADAPTER)],
    ids=[row[1][-1] for row in samples_of(ADAPTER)],
)
def test_an_operation_and_its_gradients_are_the_references(
    statements: list[str], shapes: Mapping[str, tuple[int, ...]], variant: str, tmp_path: Path
) -> None:
    text = " ".join(statements)
    if "embedding" in text:
        pytest.skip("integers that a region takes are differentiated, see known.yaml")
    case = written("one", statements, shapes, "float64" if "astype" in text else "float32")
    seen = observed(case, variant, tmp_path)
    expected = expect(case, "minimal")
    for run in (seen.plain, seen.recomputed):
        assert run.error is None
        assert isinstance(run.outputs, Leaf)
        np.testing.assert_allclose(run.outputs.array, expected.outputs.array, RTOL, ATOL)
        for name in shapes:
            given, wanted = run.gradients[name], expected.gradients[name]
            np.testing.assert_allclose(given, wanted, RTOL, 10 * ATOL)
    for name, array in expected.state.items():
        np.testing.assert_allclose(seen.plain.state[name], array, rtol=1e-6)


# -- executions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_one_more_operation_is_one_more_rerun(variant: str, tmp_path: Path) -> None:
    shapes = {"a": (3, 4), "w": (4, 4)}
    short = written("short", ["h = matmul(a, w)", "y = tanh(h)"], shapes)
    long = written("long", ["h = matmul(a, w)", "t = tanh(h)", "y = tanh(t)"], shapes)
    found = observed(short, variant, tmp_path)
    assert reruns(found.plain) == {}
    assert reruns(found.recomputed) == {"block.": 1, "block.h": 1}
    found = observed(long, variant, tmp_path)
    assert reruns(found.recomputed) == {"block.": 1, "block.h": 1, "block.t": 1}


def test_what_no_gradient_reads_is_built_again_and_not_computed(tmp_path: Path) -> None:
    """The gradient of a tanh is made of its argument, that of an exponential of its result."""
    shapes = {"a": (3, 4), "w": (4, 4)}
    for op, again in (("tanh", ["h"]), ("exp", ["h", "y"])):
        case = written(op, ["h = matmul(a, w)", f"y = {op}(h)"], shapes)
        found = reruns(observed(case, "module", tmp_path).recomputed)
        assert found == {"block.": 1, **{f"block.{label}": 1 for label in again}}


def test_the_derivative_of_a_sine_is_no_rerun_of_it(tmp_path: Path) -> None:
    statements = ["h = matmul(a, w)", "g = gelu(h)", "y = sin(g)"]
    case = written("one", statements, {"a": (3, 4), "w": (4, 4)}, "float32")
    seen = observed(case, "module", tmp_path)
    assert reruns(seen.plain) == {}
    assert reruns(seen.recomputed) == {"block.": 1, "block.h": 1, "block.g": 1}


def test_a_loop_runs_again_without_its_last_iteration(tmp_path: Path) -> None:
    case = written("one", ["y = loop_sin(a, times=2)"], {"a": (3, 4)})
    seen = observed(case, "module", tmp_path).recomputed
    assert reruns(seen) == {"block.": 1, "block.y": 1}


def test_an_operation_that_gives_its_argument_back_is_none(tmp_path: Path) -> None:
    statements = ["h = exp(a)", "y = reshape(h, shape=[3, 4])"]
    seen = observed(written("one", statements, {"a": (3, 4)}), "function", tmp_path).recomputed
    assert "y" not in {e.statement for e in seen.executions or ()}
    assert reruns(seen) == {"block.": 1, "block.h": 1}


def test_a_slice_of_all_of_an_argument_is_none(tmp_path: Path) -> None:
    case = written("one", ["s = slice(a)", "y = sin(a)"], {"a": (3, 4)})
    assert reruns(observed(case, "module", tmp_path).recomputed) == {}


def test_a_sum_over_no_elements_is_not_offered() -> None:
    empty = {"a": (0, 4), "b": (3, 4)}
    asked = {"sum(a, axis=0)": False, "sum(b, axis=0)": True, "sin(a)": False}  # the loss is a sum
    for op, offered_too in asked.items():
        case = written("one", [f"s = {op}", "y = sin(s)"], empty)
        (made,) = texts(ADAPTER, [(case, ADAPTER.variant("module"))]).values()
        assert isinstance(made, Text) is offered_too


def test_a_region_runs_again_once_where_two_operations_make_one_name(tmp_path: Path) -> None:
    """The last sine does not run again, as its gradient reads its argument."""
    case = written("one", ["h = exp(a)", "h = sin(h)", "y = sin(h)"], {"a": (3, 4)})
    seen = observed(case, "module", tmp_path).recomputed
    assert reruns(seen) == {"block.": 1, "block.h": 2}


def test_a_region_inside_another_runs_again_twice(tmp_path: Path) -> None:
    found = reruns(observed(BY_ID["regions/nested"], "module", tmp_path).recomputed)
    assert {found["inner.h2"], found["inner.s2"]} == {2}
    assert {found["outer.h1"], found["outer.s1"], found["outer.h3"]} == {1}


def test_counts_come_in_the_order_of_the_program(tmp_path: Path) -> None:
    """Not in one that is drawn anew in every process."""
    case = BY_ID["models/lenet"]
    seen = observed(case, "module", tmp_path).recomputed.executions or ()
    labels = [s.label for region, s in case.statements() if region == "features"]
    for phase in ("forward", "rerun"):
        found = [e.statement for e in seen if e.region == "features" and e.phase == phase]
        assert found == ["", *(label for label in labels if label in found)]
        assert len(found) > 5


def test_a_callable_that_is_called_three_times_runs_again_three_times(tmp_path: Path) -> None:
    seen = observed(BY_ID["regions/called-repeatedly"], "module", tmp_path).recomputed
    assert set(reruns(seen).values()) == {3}
    counts = {(e.region, e.statement, e.phase): e.count for e in seen.executions or ()}
    assert counts["layer", "", "forward"] == 3


def test_counts_are_those_of_the_primitives_in_the_graph(tmp_path: Path) -> None:
    """Against a graph that nothing ties to lines: products of plain and recomputed gradients."""
    program = emitted(BY_ID["memory/chain-each"], "module", tmp_path)
    space: dict[str, Any] = {"__name__": "written"}
    exec(compile(program.text, program.file, "exec"), space)
    observer = BENCH.observer("module")
    products = []
    for path in ("plain", "recomputed"):
        values = space["inputs"]()
        loss = mx.grad(lambda x, p=path, v=values: space[p](**{**v, "x": x}).sum())
        names = observer.graph([loss(values["x"])]).names.values()
        products.append(list(names).count("Matmul"))
    again = reruns(observed(BY_ID["memory/chain-each"], "module", tmp_path).recomputed)
    of_products = [n for label, n in again.items() if label.split(".")[1].startswith("p")]
    assert products[1] - products[0] == sum(of_products) == 8


def test_an_inert_checkpoint_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = BY_ID["memory/chain-each"]
    good = observed(case, "module", tmp_path)
    assert reruns(good.recomputed)["layer."] == 8
    monkeypatch.setattr(mx, "checkpoint", lambda function: function)
    seen = observed(case, "module", tmp_path)
    assert reruns(seen.recomputed) == {}
    assert seen.recomputed.retained == seen.plain.retained == good.plain.retained


# -- memory --------------------------------------------------------------------------------------


def test_bytes_between_forward_and_backward_are_those_of_results(tmp_path: Path) -> None:
    # Each of the 8 layers keeps what it gives; x was there before.
    seen = observed(BY_ID["memory/chain-each"], "module", tmp_path)
    kept = (seen.recomputed.retained or 0) / ACTIVATION
    assert kept == pytest.approx(9, abs=0.01)
    assert (seen.plain.retained or 0) / ACTIVATION > 20


def test_an_array_that_is_only_asked_for_takes_no_bytes() -> None:
    observer = BENCH.observer("module")
    x = mx.array([1.0, 2.0])
    y = mx.sin(x)
    assert observer.nbytes(x) == 8
    assert observer.nbytes(y) == 0
    mx.eval(y)
    assert observer.nbytes(y) == 8
    assert observer.identity(y) == observer.identity(y) != observer.identity(x)


# -- draws ---------------------------------------------------------------------------------------


def test_the_rerun_draws_anew_and_its_draws_are_those_of_the_gradient(tmp_path: Path) -> None:
    seen = observed(BY_ID["randomness/uniform-noise"], "function", tmp_path)
    samples = {d.phase: d.array for d in seen.recomputed.samples or ()}
    assert set(samples) == {"forward", "rerun"}
    assert not np.array_equal(samples["forward"], samples["rerun"])
    assert {d.phase for d in seen.plain.samples or ()} == {"forward"}


def test_a_draw_that_nothing_needs_has_its_sample(tmp_path: Path) -> None:
    """Of three calls, the second one's result is not used."""
    call = "{call: r, takes: x, gives: %s}"
    drawn = (
        "{recompute: r, takes: x, gives: t, body: 'u = uniform(shape=[3, 4]); t = multiply(u, x)'}"
    )
    one = case(drawn, call % "s", call % "p", "z = add(t, p)")
    samples = observed(one, "module", tmp_path).recomputed.samples or ()
    assert len({d.array.tobytes() for d in samples if d.phase == "forward"}) == 3
