"""The MindSpore adapter: every operation's numbers, its counts in both modes, and its bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frameworks import framework

ms = framework("mindspore", "mindspore")

from conformance.language.load import load_text  # noqa: E402
from conformance.language.operations import OF_CALLABLES, OPERATIONS  # noqa: E402
from conformance.model.case import Case  # noqa: E402
from conformance.model.observation import Leaf, Run  # noqa: E402
from conformance.observe.worker.loaded import load_program  # noqa: E402
from conformance.oracle.expected import expect  # noqa: E402
from tests.adapters.bench import Bench  # noqa: E402
from tests.every_program import not_imported  # noqa: E402
from tests.operation_samples import IN_CASES, offered, operations_of, samples_of  # noqa: E402
from tests.operation_samples import written as sample  # noqa: E402
from tests.suite_cases import BY_ID  # noqa: E402

BENCH = Bench("mindspore")
ADAPTER, observer, emitted, observed = BENCH.adapter, BENCH.observer, BENCH.emitted, BENCH.observed
EAGER = ("pynative-reentrant", "pynative-non-reentrant")
GRAPH = ("graph-function", "jit", "graph-cell")
UNIT = 2048 * 64 * 4


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MindSpore writes into the current folder."""
    monkeypatch.chdir(tmp_path)


def reruns(run: Run) -> dict[tuple[str, str], int]:
    """What ran again, by region and statement."""
    assert run.executions is not None
    again = [e for e in run.executions if e.phase == "rerun" and e.count]
    return {(e.region, e.statement): e.count for e in again}


# -- the numbers of each operation ---------------------------------------------------------------

#: Written below in another way; or, of the loop, that ends the process in graph mode where it is the
#: last of a program (see known.yaml), and is checked in the cases of `control`.
APART = ("astype", "loop_sin")
#: Statements that make y, and the shapes of what they read.
STATEMENTS = [
    *((statements, shapes) for op, statements, shapes, _ in samples_of(ADAPTER) if op not in APART),
    (['b = astype(a, dtype="float64")', 'y = astype(b, dtype="float32")'], {"a": (3, 4)}),
]
#: Checked in tests of their own, or lacked.
ELSEWHERE = {
    *("dropout", "uniform", "uniform_from", "numpy_uniform", "python_uniform"),
    *("raise_if", "loop_sin"),
}


def written(statements: list[str], shapes: Mapping[str, tuple[int, ...]]) -> Case:
    """A case in float32 that runs statements in a region and squares y."""
    return sample("one", statements, shapes, "float32")


def test_every_operation_is_emitted_and_has_its_numbers_checked() -> None:
    assert offered(ADAPTER) <= operations_of(ADAPTER) | OF_CALLABLES
    text = " ".join(s for statements, _ in STATEMENTS for s in statements)
    checked = {op for op in OPERATIONS if f" {op}(" in text} | ELSEWHERE | IN_CASES
    assert offered(ADAPTER) <= checked


def test_programs_read_nothing_that_they_do_not_import() -> None:
    assert not_imported(ADAPTER) == []


@pytest.mark.parametrize("variant", ["pynative-reentrant", "graph-cell"])
@pytest.mark.parametrize(("statements", "shapes"), STATEMENTS, ids=[s[0][-1] for s in STATEMENTS])
def test_an_operation_and_its_gradients_are_the_references(
    statements: list[str], shapes: dict[str, tuple[int, ...]], variant: str, tmp_path: Path
) -> None:
    case = written(statements, shapes)
    seen = observed(case, variant, tmp_path)
    expected = expect(case, "whole")
    for run in (seen.plain, seen.recomputed):
        assert run.error is None
        assert isinstance(run.outputs, Leaf)
        np.testing.assert_allclose(run.outputs.array, expected.outputs.array, rtol=1e-5, atol=1e-5)
        for name in shapes:
            np.testing.assert_allclose(
                run.gradients[name], expected.gradients[name], rtol=5e-5, atol=2e-5
            )
    for name, array in expected.state.items():
        # What MindSpore adds to the running variance is the unbiased one.
        share = 40 / 39 if name == "var" else 1
        grown = 0.75 + (array - 0.75) * share
        np.testing.assert_allclose(seen.plain.state[name], grown, rtol=1e-5)


@pytest.mark.parametrize("variant", EAGER)
def test_dropout_drops_its_share(variant: str, tmp_path: Path) -> None:
    case = written(["y = dropout(a, p=0.25)"], {"a": (100, 100)})
    samples = observed(case, variant, tmp_path).plain.samples or ()
    (array,) = (draw.array for draw in samples)
    assert abs((array != 0).mean() - 0.75) < 0.02


@pytest.mark.parametrize("variant", EAGER)
def test_uniform_stays_within_its_bounds_and_fills_them(variant: str, tmp_path: Path) -> None:
    body = ["u = uniform(shape=[100, 100], low=2.0, high=6.0)", "y = multiply(a, u)"]
    samples = observed(written(body, {"a": (1,)}), variant, tmp_path).plain.samples or ()
    (array,) = (draw.array for draw in samples)
    assert 2 <= array.min() < 2.01
    assert 5.99 < array.max() <= 6
    assert abs(array.mean() - 4) < 0.06


# -- counts ----------------------------------------------------------------------------------------


def test_reentrant_reruns_the_whole_region_and_a_nested_one_once_more(tmp_path: Path) -> None:
    seen = reruns(observed(BY_ID["regions/nested"], EAGER[0], tmp_path).recomputed)
    assert {n for (region, _), n in seen.items() if region == "outer"} == {1}
    assert {n for (region, _), n in seen.items() if region == "inner"} == {2}
    assert len(seen) == 9


def test_early_stop_comes_when_the_last_value_is_saved(tmp_path: Path) -> None:
    body = ["h = sin(a)", "y = negative(h)"]  # a negative saves nothing
    case = written(body, {"a": (3, 4)})
    whole = reruns(observed(case, EAGER[0], tmp_path).recomputed)
    assert whole == {("block", ""): 1, ("block", "h"): 1, ("block", "y"): 1}
    stopped = reruns(observed(case, EAGER[1], tmp_path).recomputed)
    assert stopped == {("block", ""): 1, ("block", "h"): 1}


@pytest.mark.parametrize("variant", EAGER)
def test_an_inert_recompute_is_seen(
    variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = emitted(BY_ID["memory/chain-segments"], variant, tmp_path)
    honest = observer(variant).observe(program)
    assert reruns(honest.recomputed)
    monkeypatch.setattr(ms, "recompute", lambda block, *arguments, **_: block(*arguments))
    inert = observer(variant).observe(program)
    assert not reruns(inert.recomputed)
    assert inert.recomputed.retained == honest.plain.retained


#: For operations of the cases below, the kernels that do their work.
KERNELS = {
    "matmul": "MatMul",
    "sin": "Sin",
    "cos": "Cos",
    "exp": "Exp",
    "tanh": "Tanh",
    "conv2d": "Conv2D",
    "batch_norm": "BatchNorm",
    "relu": "ReLU",
}


@pytest.mark.parametrize(
    ("identity", "variant"),
    [
        *(
            (identity, variant)
            for identity in ("regions/nested-pair", "regions/called-repeatedly", "state/batch-norm")
            for variant in GRAPH
        ),
        ("regions/adjacent-merged", "graph-cell"),
        ("basics/conv-relu-block", "graph-cell"),
        ("documents/resnet-blocks", "graph-cell"),
        ("documents/resnet-single-relu", "graph-primitive"),
        *(("policies/save-two-operations", variant) for variant in GRAPH),
        *(("policies/save-dropout", variant) for variant in GRAPH),
        ("sequences/uneven-segments", "graph-cell"),
    ],
)
def test_nodes_that_run_again_are_kernels_that_run(
    identity: str, variant: str, tmp_path: Path
) -> None:
    """The profiler counts more kernels than in the plain run by what the graph says runs again."""
    case = BY_ID[identity]
    program = emitted(case, variant, tmp_path)
    seen = observer(variant).observe(program)
    operation = {(region, s.label): s.op for region, s in case.statements()}
    said: Counter[str] = Counter()
    for key, count in reruns(seen.recomputed).items():
        if key[1] and operation[key] in KERNELS:
            said[KERNELS[operation[key]]] += count
    module, profiler = load_program(program), ADAPTER.load("profiler")
    ran: list[Counter[str]] = []
    for forward in (module.plain, module.recomputed):
        with profiler.recorded_kernels() as kernels:
            module.run(forward)
        ran.append(Counter(kernel.name for kernel in kernels))
    more = {name: ran[1][name] - ran[0][name] for name in KERNELS.values()}
    # A sine's gradient is a cosine, of the same argument whether or not that was made again.
    assert {name: n for name, n in more.items() if n} == dict(said)
    assert said


# -- graphs that the compiler writes in another way ------------------------------------------------

HEAD = """
family: graph
cases:
  one:
    title: A graph
    source: the test
    why: The adapter finds its statements.
    inputs:
      x: {shape: [3, 4], normal: 0.5}
    parameters:
      w: {shape: [4, 4], normal: 0.5}
    state:
      total: {shape: [4], full: 0.5}
    outputs: z
    gradients: {of: sum(z)}
    program:
"""
ACCUMULATING = ["h = matmul(x, w)", "s = accumulate_sin(h, total)", "a = exp(s)"]


def _region(name: str, takes: str, gives: str, body: list[str]) -> str:
    lines = [f"- recompute: {name}", f"  takes: {takes}", f"  gives: {gives}", "  body:"]
    return "".join(f"      {line}\n" for line in (*lines, *(f"    - {line}" for line in body)))


def _said(program: str, variant: str, folder: Path) -> tuple[dict[str, int], dict[str, int]]:
    """How often each statement runs in forward, by its name, and how often it runs again."""
    (case,) = load_text(HEAD + program, "test.yaml")
    run = observed(case, variant, folder).recomputed
    assert run.error is None
    assert run.executions is not None
    forward = {e.statement: e.count for e in run.executions if e.phase == "forward" and e.statement}
    return forward, {statement: n for (_, statement), n in reruns(run).items() if statement}


@pytest.mark.parametrize("variant", GRAPH)
@pytest.mark.parametrize(
    ("program", "forward", "again"),
    [
        (
            _region("r", "x", "a", ACCUMULATING) + "      - z = multiply(a, total)\n",
            {"h": 1, "s": 1, "a": 1, "z": 1},
            {"h": 1},
        ),
        (
            _region("r", "x", "[a, t]", [*ACCUMULATING, "t = multiply(total, 2.0)"])
            + "      - z = multiply(a, t)\n",
            {"h": 1, "s": 1, "a": 1, "t": 1, "z": 1},
            {"h": 1},
        ),
        (
            _region("r", "x", "a", ["h = matmul(x, w)", "g = add_in_place(h, 0.5)", "a = sin(g)"])
            + _region("q", "[a, x]", "b", ["k = exp(x)", "b = multiply(a, k)"])
            + "      - z = multiply(b, b)\n",
            {"h": 1, "g": 1, "a": 1, "k": 1, "b": 1, "z": 1},
            {"k": 1},
        ),
    ],
    ids=["after the region", "in the region", "written over"],
)
def test_a_buffer_is_read_after_it_was_changed(
    program: str, forward: dict[str, int], again: dict[str, int], variant: str, tmp_path: Path
) -> None:
    assert _said(program, variant, tmp_path) == (forward, again)


@pytest.mark.parametrize("op", ["loop_sin", "branch_sin"])
@pytest.mark.parametrize("variant", GRAPH)
def test_loops_and_conditionals_in_several_segments_are_told_apart(
    variant: str, op: str, tmp_path: Path
) -> None:
    """They stay graphs of their own, that the program's graph calls."""
    times = ", times=3" if op == "loop_sin" else ""
    body = ["h{0} = matmul({1}, w)", f"s{{0}} = {op}(h{{0}}{times})", "a{0} = exp(s{0})"]
    program = "".join(
        _region(f"r{i}", taken, f"a{i}", [line.format(i, taken) for line in body])
        for i, taken in ((1, "x"), (2, "a1"))
    )
    forward, again = _said(program + "      - z = multiply(a2, a2)\n", variant, tmp_path)
    assert forward == dict.fromkeys(["h1", "s1", "a1", "h2", "s2", "a2", "z"], 1)
    # What is in a loop is kept, and what leads to it runs again; see known.yaml.
    assert again == ({"h1": 1, "h2": 1} if op == "loop_sin" else {})


@pytest.mark.parametrize("variant", GRAPH)
def test_a_cell_with_a_loop_that_is_called_twice_runs_twice(variant: str, tmp_path: Path) -> None:
    """Such a cell stays a graph of its own, which nodes of the program's graph call."""
    body = ["h = matmul(x, w)", "s = loop_sin(h, times=3)", "a = exp(s)"]
    program = _region("r", "x", "a", body) + "      - {call: r, takes: a, gives: b}\n"
    forward, _ = _said(program + "      - z = multiply(b, b)\n", variant, tmp_path)
    assert forward == {"h": 2, "s": 2, "a": 2, "z": 1}


@pytest.mark.parametrize("variant", GRAPH)
def test_a_call_whose_result_is_dropped_is_no_part_of_the_graph(
    variant: str, tmp_path: Path
) -> None:
    body = ["h = matmul(x, w)", "s = sin(h)", "a = exp(s)"]
    program = _region("r", "x", "a", body) + "      - {call: r, takes: a, gives: _b}\n"
    said = _said(program + "      - z = multiply(a, a)\n", variant, tmp_path)
    assert said == ({"h": 1, "s": 1, "a": 1, "z": 1}, {"h": 1})


def test_a_cast_to_the_dtype_that_a_tensor_has_is_counted(tmp_path: Path) -> None:
    """No kernel runs for it, but one runs for the same statement in another call."""
    body = ["c = astype(x, dtype='float16')", "a = exp(c)"]
    program = _region("r", "x", "a", body) + "      - {call: r, takes: a, gives: b}\n"
    program += "      - z = multiply(b, b)\n"
    said = _said(program, "pynative-reentrant", tmp_path)
    assert said == ({"c": 2, "a": 2, "z": 1}, {"c": 2, "a": 2})


def test_a_draw_that_a_policy_keeps_is_the_same_in_both_runs(tmp_path: Path) -> None:
    """Its primitive has seeds of its own, and draws what the operation is to draw."""
    module = load_program(emitted(BY_ID["policies/save-dropout"], "graph-cell", tmp_path))
    kept = [module.run(f)["outputs"][1].asnumpy() for f in (module.plain, module.recomputed)]
    values = {name: value.asnumpy() for name, value in module.inputs().items()}
    product = values["x"] @ values["w"]
    dropped = kept[0] == 0
    assert 0.3 < dropped.mean() < 0.7
    # Sums of float32 terms of about 1, added up in another order than NumPy's: atol is 8 of their eps.
    np.testing.assert_allclose(kept[0][~dropped], 2 * product[~dropped], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(*kept)
    module = load_program(emitted(BY_ID["policies/save-draw"], "graph-cell", tmp_path))
    kept = [module.run(f)["outputs"][1].asnumpy() for f in (module.plain, module.recomputed)]
    assert (kept[0] >= 0).all()
    assert (kept[0] < 1).all()
    assert len(np.unique(kept[0])) > 100
    np.testing.assert_array_equal(*kept)


def test_the_comparison_page_recomputes_its_relu_alone_in_graph_mode(tmp_path: Path) -> None:
    case = BY_ID["documents/torch-mindspore-comparison-cells"]
    assert reruns(observed(case, "graph-cell", tmp_path).recomputed) == {}
    both = {("fc2", ""): 1, ("fc2", "h2"): 1, ("relu2", ""): 1, ("relu2", "r2"): 1}
    seen = reruns(observed(case, "graph-primitive", tmp_path).recomputed)
    assert seen.items() <= both.items()
    assert ("relu2", "r2") in seen


def test_a_layer_that_is_a_region_is_seen_to_run_again(tmp_path: Path) -> None:
    case = BY_ID["basics/conv-relu-gradient"]
    seen = observed(case, "pynative-layers", tmp_path)
    assert reruns(seen.plain) == {}
    assert reruns(seen.recomputed) == {("conv", ""): 1, ("conv", "y"): 1}


def test_of_a_cell_and_a_primitive_in_one_network_the_primitive_runs_again(tmp_path: Path) -> None:
    case = BY_ID["documents/torch-mindspore-comparison-cells"]
    program = emitted(case, "graph-layers", tmp_path)
    assert "network.fc2.recompute()" in program.text
    assert "self.relu2 = ops.ReLU()" in program.text
    seen = observer("graph-layers").observe(program)
    assert reruns(seen.recomputed) == {("relu2", ""): 1, ("relu2", "r2"): 1}


def test_a_network_that_model_trains_is_seen_line_by_line(tmp_path: Path) -> None:
    seen = observed(BY_ID["training/dense"], "model-train", tmp_path)
    assert reruns(seen.plain) == {}
    assert reruns(seen.recomputed) == {("block", ""): 2, ("block", "h"): 2, ("block", "y"): 2}
    assert seen.plain.losses == seen.recomputed.losses


def test_a_step_that_model_compiles_is_one_graph_that_runs_in_each_step(tmp_path: Path) -> None:
    case = BY_ID["procedures/train"]
    seen = observed(case, "model-train-graph", tmp_path)
    assert reruns(seen.plain) == {}
    # Nothing needs the last product again.
    assert reruns(seen.recomputed) == {("block", ""): 5, ("block", "h"): 5, ("block", "t"): 5}
    executions = seen.recomputed.executions or ()
    assert {e.count for e in executions if e.phase == "forward"} == {5}
    expected = expect(case, "minimal")
    for run in (seen.plain, seen.recomputed):
        np.testing.assert_allclose(run.losses, expected.losses, rtol=1e-5)
        assert isinstance(run.outputs, Leaf)
        np.testing.assert_allclose(run.outputs.array, expected.outputs.array, rtol=1e-5, atol=1e-6)


def test_a_step_that_model_compiles_is_that_of_its_own_step(tmp_path: Path) -> None:
    """A program makes the step that `Model` makes of a network and an optimizer, for its gradients."""
    program = emitted(BY_ID["training/dense"], "model-train-graph", tmp_path)
    module = load_program(program)
    own: list[Any] = []
    for step in ("ms.Model(step)", "ms.Model(loss, optimizer=optimizer)"):
        text = program.text.replace("ms.Model(step)", step)
        text = text.replace("loss, self.gradients = ", "loss = ") if "optimizer=" in step else text
        text = (
            text.replace("list(kept.gradients.values())", "[0, 0]")
            if "optimizer=" in step
            else text
        )
        path = tmp_path / f"step{len(own)}.py"
        path.write_text(text)
        module = load_program(replace(program, text=text, file=str(path)))
        own.append(module.run(module.recomputed))
    assert own[0]["losses"] == own[1]["losses"]
    for name, parameter in own[0]["parameters"].items():
        np.testing.assert_array_equal(parameter.asnumpy(), own[1]["parameters"][name].asnumpy())


def test_a_primitive_is_recomputed_by_the_compiler_alone_as_its_page_says(tmp_path: Path) -> None:
    """Variants in PyNative mode lack it for that: it is accepted there, and has no effect."""
    case = BY_ID["documents/resnet-single-relu"]
    again = {("activation", ""): 1, ("activation", "r1"): 1}
    for variant in ("graph-primitive", "jit-primitive"):
        assert reruns(observed(case, variant, tmp_path / variant).recomputed) == again
    program = emitted(case, "graph-primitive", tmp_path)
    assert "network.activation.recompute()" in program.text
    path = tmp_path / "pynative.py"
    path.write_text(program.text.replace("GRAPH_MODE", "PYNATIVE_MODE"))
    eager = replace(program, text=path.read_text(), file=str(path))
    seen = observer("pynative-reentrant").observe(eager)
    assert reruns(seen.recomputed) == {}
    assert seen.recomputed.retained == seen.plain.retained
    said = " ".join(ms.ops.Primitive.recompute.__doc__.split())
    assert "Should only be used in Graph mode or in gradient functions that are decorated" in said


MANY = """
family: parameters
cases:
  many:
    title: Parameters of which three are alike
    source: the test
    why: A network is given a list of these, and the others one by one.
    inputs: {x: {shape: [2, 4], normal: 0.5}}
    parameters:
      w1: {shape: [4, 4], normal: 0.5}
      w2: {shape: [4, 4], normal: 0.5}
      w3: {shape: [4, 4], normal: 0.5}
      a: {shape: [4], normal: 0.5}
      b: {shape: [4], normal: 0.5}
      c: {shape: [4], normal: 0.5}
      d: {shape: [4], normal: 0.5}
    program:
      - p1 = matmul(x, w1); p2 = matmul(p1, w2); p3 = matmul(p2, w3)
      - recompute: r(p3)
        body: s = add(p3, a); t = multiply(s, b); y = tanh(t)
      - u = add(y, c); z = multiply(u, d)
    gradients: {of: sum(z), wrt: [x, w1, w2, w3, a, b, c, d]}
"""


@pytest.mark.parametrize("variant", ["pynative-reentrant", "pynative-layers", "graph-cell"])
def test_a_network_of_many_parameters_is_given_lists_of_them_too(
    variant: str, tmp_path: Path
) -> None:
    (case,) = load_text(MANY, "test.yaml")
    text = emitted(case, variant, tmp_path).text
    assert "ws = [" in text
    assert "network = forward(**held)" in text
    seen = observed(case, variant, tmp_path)
    expected = expect(case, "whole")
    for run in (seen.plain, seen.recomputed):
        assert run.error is None
        for name, array in expected.gradients.items():
            np.testing.assert_allclose(run.gradients[name], array, rtol=5e-5, atol=2e-5)
    assert ("r", "s") in reruns(seen.recomputed)


# -- bytes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", EAGER)
@pytest.mark.parametrize(
    ("name", "plain", "recomputed"),
    # All activations but the program's input; the inputs of regions.
    [("chain-each", 32, 8), ("chain-segments", 32, 4), ("chain-whole", 16, 0)],
)
def test_bytes_kept_are_the_activations_that_were_published(
    name: str, plain: int, recomputed: int, variant: str, tmp_path: Path
) -> None:
    """Beside them the pool keeps blocks of 512 bytes for matrix products and scalars."""
    seen = observed(BY_ID[f"memory/{name}"], variant, tmp_path)
    for run, units in ((seen.plain, plain), (seen.recomputed, recomputed)):
        assert run.retained is not None
        assert units * UNIT <= run.retained < units * UNIT + 2**14


def test_a_merged_region_keeps_nothing_of_its_result(tmp_path: Path) -> None:
    variant = EAGER[1]
    apart = observed(BY_ID["regions/adjacent"], variant, tmp_path)
    merged = observed(BY_ID["regions/adjacent-merged"], variant, tmp_path)
    unit = 1024 * 64 * 4
    assert apart.recomputed.retained is not None
    assert merged.recomputed.retained is not None
    assert unit <= apart.recomputed.retained < unit + 2**14
    assert 0 <= merged.recomputed.retained < 2**14


# -- keywords --------------------------------------------------------------------------------------


@pytest.mark.parametrize("keyword", ["mp_comm_recompute", "parallel_optimizer_comm_recompute"])
def test_keywords_about_communication_are_bools_and_nothing_else(keyword: str) -> None:
    for value in (True, False):
        ms.nn.Dense(2, 2).recompute(**{keyword: value})
    for value in ("yes", 1, []):  # None is taken for left out
        with pytest.raises(TypeError):
            ms.nn.Dense(2, 2).recompute(**{keyword: value})
