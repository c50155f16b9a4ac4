"""The TensorFlow adapter's methods for graphs, held to second methods and to counts made by hand."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import pytest

from tests.frameworks import framework

tf = framework("tf", "tensorflow")

from tensorflow.python.eager import context  # noqa: E402

from conformance.language.load import load_text  # noqa: E402
from conformance.model.case import Case  # noqa: E402
from conformance.model.observation import Leaf  # noqa: E402
from conformance.observe.worker.loaded import LoadedProgram, load_program  # noqa: E402
from tests.adapters.test_tf import (  # noqa: E402
    ADAPTER,
    VARIANTS,
    counts,
    emitted,
    observed,
    observer,
)
from tests.suite_cases import BY_ID  # noqa: E402

MIB = 2**20


def chain(statements: list[str], *, shape: str = "[64, 8]", extra: str = "") -> Case:
    """One region of statements from h to y, between two operations that keep it apart."""
    body = "\n".join(f"          - {statement}" for statement in statements)
    text = f"""
family: made
cases:
  chain:
    title: A chain of operations
    source: made up
    why: Its counts and bytes are derived by hand.
    inputs:
      x: {{shape: {shape}, normal: 0.5}}{extra}
    program:
      - h = negative(x)
      - recompute: block
        takes: h
        gives: y
        body:
{body}
      - z = sum(y)
    outputs: z
    gradients: {{of: z}}
"""
    (case,) = load_text(text, "made")
    return case


TWO = ["s = sin(h)", "t = tanh(s)", "y = sin(t)"]
THREE = ["s = sin(h)", "t = tanh(s)", "u = tanh(t)", "y = sin(u)"]


def optimised_text(module: ModuleType, forward: Any) -> str:
    """The optimised HLO of the program's function, compiled once more by TensorFlow to be printed."""
    texts: list[str] = []
    original = tf.function

    def function(**options: Any) -> Any:
        def made(body: Any) -> Any:
            compiled = original(**options)(body)

            def call(*arguments: Any) -> Any:
                if not texts:
                    ir = compiled.experimental_get_compiler_ir(*arguments)
                    texts.append(ir(stage="optimized_hlo"))
                return compiled(*arguments)

            return call

        return made

    with mock.patch.object(tf, "function", function):
        module.run(forward)
    (text,) = texts
    return text


# -- what is compiled ------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["function", "forward-function", "xla"])
def test_all_passes_look_at_what_was_traced_once(
    variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program's regions are wrapped once for each trace of its function, but for the draws."""
    made: list[object] = []
    observer(variant)  # its warm-up wraps a function, too
    original = tf.recompute_grad

    def recompute(function: Any) -> Any:
        made.append(function)
        return original(function)

    monkeypatch.setattr(tf, "recompute_grad", recompute)
    case = chain(TWO, shape="[1024, 256]")
    seen = observed(case, variant, tmp_path).recomputed
    assert len(made) == 1
    assert seen.executions
    assert seen.peak is not None
    assert (seen.retained is not None) == (variant == "forward-function")


def test_a_function_that_holds_a_tensor_of_its_run_is_traced_anew(tmp_path: Path) -> None:
    compiled = ADAPTER.load("compiled")
    file = tmp_path / "holding.py"
    file.write_text(
        "import tensorflow as tf\n\n\n"
        "def run(held):\n"
        "    @tf.function(autograph=False)\n"
        "    def step():\n"
        "        traced.append(None)\n"
        "        return 2 * held\n\n"
        "    return step()\n",
        "utf-8",
    )
    names: dict[str, Any] = {"traced": []}
    exec(compile(file.read_text("utf-8"), str(file), "exec"), names)
    functions = compiled.Functions(str(file))
    for number in (1.0, 3.0):
        with functions.active():
            assert names["run"](tf.constant(number)) == 2 * number
    assert len(names["traced"]) == 2
    with functions.active():  # a number is part of the graph, and none of its run's
        assert names["run"](3.0) == 6
    with functions.active():
        assert names["run"](3.0) == 6
    assert len(names["traced"]) == 3


@pytest.mark.parametrize("name", ["regions/nested-pair", "control/loop", "basics/conv-relu-block"])
def test_noting_operations_changes_nothing_of_a_graph(name: str, tmp_path: Path) -> None:
    """The graphs that the values come from are those that the program makes by itself."""
    program = emitted(BY_ID[name], "function", tmp_path)
    module = load_program(program)
    lines, following = ADAPTER.load("lines"), ADAPTER.load("following")
    compiled = ADAPTER.load("compiled")

    def nodes(*followers: Any) -> list[list[tuple[str, str, list[str]]]]:
        functions = compiled.Functions(program.file)
        noting = following.following(*followers) if followers else nullcontext()
        with functions.active(), noting:
            module.run(module.recomputed)
        (function,) = functions.known
        (one,) = function.graphs()
        graph = one.graph.as_graph_def()
        parts = [graph.node, *(f.node_def for f in graph.library.function)]
        return sorted([(node.name, node.op, list(node.input)) for node in part] for part in parts)

    operations = lines.Operations(program, module.recomputed)
    assert nodes(operations) == nodes()
    assert operations.traced


@pytest.mark.parametrize("name", ["regions/nested-pair", "control/loop", "procedures/train"])
def test_the_instructions_that_ran_are_those_that_tensorflow_prints(
    name: str, tmp_path: Path
) -> None:
    program = emitted(BY_ID[name], "xla", tmp_path)
    module = load_program(program)
    functions = ADAPTER.load("compiled").Functions(program.file)
    with functions.active():
        module.run(module.recomputed)
    seen = ADAPTER.load("hlo").ran(functions)
    steps = functions.known[0].calls
    assert steps == (5 if name == "procedures/train" else 1)
    printed = re.findall(
        r'^\s+(?:ROOT )?%?[\w.\-]+ = .*? ([a-z][a-z\-]*)\(.*op_name="([^"]*)"',
        optimised_text(module, module.recomputed),
        re.MULTILINE,
    )
    assert seen == dict.fromkeys({(node, opcode) for opcode, node in printed}, steps)


# -- executions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["function", "forward-function", "xla"])
def test_counts_are_those_made_by_hand(variant: str, tmp_path: Path) -> None:
    """All runs forward; again runs what gradients read: not the last sine, but what it reads."""
    for number, statements in enumerate((TWO, THREE)):
        seen = counts(observed(chain(statements), variant, tmp_path / str(number)).recomputed)
        names = [statement[0] for statement in statements]
        assert {label for _, label, phase in seen if phase == "forward"} >= set(names)
        again = {label: n for (_, label, phase), n in seen.items() if phase == "rerun"}
        assert again == {"": 1, **dict.fromkeys(names[:-1], 1)}


@pytest.mark.parametrize("name", ["regions/nested-pair", "regions/separate"])
def test_the_optimized_graphs_of_forward_and_backward_hold_what_was_counted(
    name: str, tmp_path: Path
) -> None:
    """Sines have no other source than statements: a gradient of sine computes a cosine."""
    program = emitted(BY_ID[name], "forward-function", tmp_path)
    seen = counts(observer("forward-function").observe(program).recomputed)
    sines = {site.label for site in program.sites("statement", "recomputed") if site.op == "sin"}
    module = load_program(program)
    context.context().enable_run_metadata()
    try:
        with ADAPTER.load("profiler").no_rewrites():
            module.run(module.recomputed)
        graphs = context.context().export_run_metadata().partition_graphs
    finally:
        context.context().disable_run_metadata()
    held = [sum(node.op == "Sin" for node in graph.node) for graph in graphs]
    for phase in ("forward", "rerun"):
        assert sum(n for (_, label, p), n in seen.items() if p == phase and label in sines) in held


def test_a_chain_of_calls_is_one_loop_and_computes_what_the_chain_does(tmp_path: Path) -> None:
    case = BY_ID["growth/sqrt-segments[n=16]"]
    text = emitted(case, "loop", tmp_path).text
    assert text.count("tf.while_loop(") == 2
    assert text.count("recomputed_segment(h)") == 1
    loop, chain = (observed(case, v, tmp_path / v).recomputed for v in ("loop", "function"))
    found, wanted = loop.gradients["x"], chain.gradients["x"]
    assert found is not None
    assert wanted is not None
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert loop.executions is None


@pytest.mark.parametrize("name", ["regions/nested-pair", "regions/adjacent", "memory/chain-each"])
def test_optimised_instructions_are_as_many_more_than_plains_as_statements_ran_again(
    name: str, tmp_path: Path
) -> None:
    """The matrix products of a rerun are counted without names of nodes; a fusion repeats none."""
    program = emitted(BY_ID[name], "xla", tmp_path)
    module = load_program(program)

    def opcodes(forward: Any) -> Counter[str]:
        return Counter(re.findall(r" (dot)\(", optimised_text(module, forward)))

    more = opcodes(module.recomputed) - opcodes(module.plain)
    seen = counts(observer("xla").observe(program).recomputed)
    sites = {(s.region, s.label): s.op for s in program.sites("statement", "recomputed")}
    again: Counter[str] = Counter()
    for (region, label, phase), number in seen.items():
        if phase == "rerun" and sites.get((region, label)) == "matmul":
            again["dot"] += number
    assert again["dot"]
    assert more == again


# -- draws -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_draws_of_the_rerun_are_those_that_the_gradient_was_made_with(
    variant: str, tmp_path: Path
) -> None:
    """The gradient of the sum of a product with uniform numbers is the numbers themselves."""
    case = chain(["u = uniform(shape=[64, 8], low=0.5, high=2.5)", "y = multiply(h, u)"])
    run = observed(case, variant, tmp_path).recomputed
    found = {draw.phase: draw.array for draw in run.samples or ()}
    np.testing.assert_allclose(run.gradients["x"], -found["rerun"], rtol=1e-6)
    # With the tape outside, one region draws alike in both graphs by chance: the counters of their
    # random operations start alike, and two regions show it.
    differ = np.abs(found["rerun"] - found["forward"]).max() > 0.1
    assert differ == (variant != "forward-function")


@pytest.mark.parametrize("variant", ["eager", "function", "xla"])
@pytest.mark.parametrize(
    ("draw", "library"),
    [
        ("uniform_from(g, shape=[2000], low=0.5, high=2.5)", "framework"),
        ("uniform_from(g, shape=[2000], low=0.5, high=2.5)", "numpy"),
        ("numpy_uniform(shape=[2000], low=0.5, high=2.5)", ""),
        ("python_uniform(low=0.5, high=2.5)", ""),
    ],
)
def test_draws_are_uniform_and_leave_their_generator_where_it_says(
    draw: str, library: str, variant: str, tmp_path: Path
) -> None:
    generator = f"\n      g: {{generator: {library}, seed: 3}}" if library else ""
    text = f"""
family: drawn
cases:
  drawn:
    title: Draws
    source: the tests
    why: Their range is known.
    inputs:
      x: {{shape: [2000], normal: 1.0}}{generator}
    program:
      - y = {draw}
      - recompute: block
        takes: [x, y]
        gives: z
        body:
          - z = multiply(x, y)
    outputs: [z, y]
    gradients: {{of: sum(z)}}
"""
    (case,) = load_text(text, "drawn")
    run = observed(case, variant, tmp_path).plain
    assert isinstance(run.outputs, tuple)
    drawn = run.outputs[1]
    assert isinstance(drawn, Leaf)
    assert drawn.dtype == "float32"
    assert drawn.array.min() >= 0.5
    assert drawn.array.max() <= 2.5
    if drawn.array.size > 1:
        assert abs(drawn.array.mean() - 1.5) < 0.05
    np.testing.assert_allclose(run.gradients["x"], np.broadcast_to(drawn.array, 2000))
    (standing,) = run.generators.values()
    if library == "framework":
        own = tf.random.Generator.from_seed(3)
        own.uniform([2000])
        np.testing.assert_array_equal(standing, own.uniform([4]).numpy())
    elif library == "numpy":
        numpy = np.random.default_rng(3)
        numpy.uniform(size=2000)
        np.testing.assert_array_equal(standing, numpy.random(4))


# -- memory ----------------------------------------------------------------------------------------


def test_one_more_kept_value_is_one_more_kept(tmp_path: Path) -> None:
    """The forward graph puts out what its gradients read: the argument of each sine, which for
    the last one is the tanh's result, read by the tanh as well; of a region its argument alone."""
    for number, (statements, kept) in enumerate(((TWO, 2), (THREE, 3))):
        case = chain(statements, shape="[1024, 256]")
        seen = observed(case, "forward-function", tmp_path / str(number))
        assert (seen.plain.retained, seen.recomputed.retained) == (kept * MIB, MIB)


@pytest.mark.parametrize("path", ["plain", "recomputed"])
def test_the_peak_is_that_of_the_allocators_own_counter(path: str, tmp_path: Path) -> None:
    """With sizes that the allocator does not round, its counter's peak is exact, too."""
    program = emitted(BY_ID["memory/chain-each"], "eager", tmp_path)
    peak = getattr(observer("eager").observe(program), path).peak
    text = program.text.replace(
        "    sources =",
        "    tf.config.experimental.reset_memory_stats('CPU:0')\n"
        "    global before\n"
        "    before = tf.config.experimental.get_memory_info('CPU:0')['current']\n"
        "    sources =",
        1,
    )
    names: dict[str, Any] = {"__name__": "counted"}
    exec(compile(text, "counted.py", "exec"), names)
    for _ in range(2):
        names["run"](names[path])
    info = tf.config.experimental.get_memory_info("CPU:0")
    unit = 2048 * 64 * 4
    # Weights and their gradients are small, and are not among what the two count.
    assert abs(info["peak"] - names["before"] - (peak or 0)) <= unit // 8


def test_one_more_activation_at_the_peak_is_one_more(tmp_path: Path) -> None:
    """A value that the gradient reads after the peak's moment raises it by exactly its bytes."""
    found = []
    for number, statements in enumerate((TWO, THREE)):
        case = chain(statements, shape="[1024, 256]")
        found.append(observed(case, "eager", tmp_path / str(number)).plain.peak)
    assert found[1] - found[0] == MIB


def test_what_a_step_leaves_behind_is_seen(tmp_path: Path) -> None:
    """A tensor of 131072 bytes that each run leaves in a list."""
    program = emitted(BY_ID["release/block"], "eager", tmp_path)
    module = load_program(program)
    left: list[Any] = []

    def leaking(**values: Any) -> Any:
        left.append(tf.zeros([512, 64]))
        return module.recomputed(**values)

    loaded = LoadedProgram.of(program, module, "recomputed")
    held, alive = observer("eager").leftovers(loaded)
    assert len(set(held or ())) == len(set(alive or ())) == 1
    held, alive = observer("eager").leftovers(replace(loaded, run=partial(module.run, leaking)))
    assert set(np.diff(held or ())) == {131072}
    assert set(np.diff(alive or ())) == {1}
