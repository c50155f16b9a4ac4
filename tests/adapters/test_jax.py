"""The JAX adapter: what it reads out of jaxprs and of optimised modules, and its bytes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frameworks import framework

jax = framework("jax", "jax")

from conformance.language.load import load_text  # noqa: E402
from conformance.language.operations import OF_CALLABLES, OPERATIONS  # noqa: E402
from conformance.model.case import Case  # noqa: E402
from conformance.model.observation import Leaf, Observation, Run  # noqa: E402
from conformance.model.program import Program  # noqa: E402
from conformance.oracle.expected import expect  # noqa: E402
from conformance.oracle.interpreter import make_inputs  # noqa: E402
from tests.adapters.bench import ROOT, Bench, reruns  # noqa: E402
from tests.every_program import not_imported  # noqa: E402
from tests.operation_samples import IN_CASES, offered, operations_of, samples_of  # noqa: E402
from tests.operation_samples import written as sample  # noqa: E402
from tests.samples_together import alone, part, together  # noqa: E402
from tests.suite_cases import BY_ID  # noqa: E402

BENCH = Bench("jax")
ADAPTER, emitted, observed = BENCH.adapter, BENCH.emitted, BENCH.observed
VARIANTS = ("eager", "jit", "jit-two-phase")
ACTIVATION = 2048 * 64 * 4  # bytes of one activation of the memory family


def written(*body: str, **shapes: tuple[int, ...]) -> Case:
    """A case that runs statements in a region and squares y; its arrays are float64."""
    return sample("one", list(body), shapes)


def one_case(nodes: str, procedure: str = "backward") -> Case:
    """A case of these nodes, with a tensor `x` and two flags."""
    text = f"""\
family: fam
cases:
  one:
    title: A title
    source: Somewhere
    why: A reason
    procedure: {procedure}
    inputs: {{x: {{shape: [3, 4], normal: 0.5}}, v: {{value: true}}, u: {{value: false}}}}
    program:
      - {nodes}
"""
    return load_text(text, "f.yaml")[0]


# -- the numbers of each operation ---------------------------------------------------------------

MATRIX = (3, 4)
#: Samples that draw numbers; the others run in one program.
DRAWN: list[tuple[tuple[str, ...], dict[str, tuple[int, ...]]]] = [
    (("y = dropout(a, p=0.25)",), {"a": (20, 20)}),
    (("u = uniform(shape=[3, 4], low=2.0, high=6.0)", "y = multiply(a, u)"), {"a": MATRIX}),
    (("u = uniform(shape=[3, 4], seed=7)", "y = multiply(a, u)"), {"a": MATRIX}),
    (("u = numpy_uniform(shape=[3, 4], low=2.0, high=6.0)", "y = multiply(a, u)"), {"a": MATRIX}),
    (("u = python_uniform(low=2.0, high=6.0)", "y = multiply(a, u)"), {"a": MATRIX}),
]
REST = [
    *((tuple(statements), shapes) for _, statements, shapes, _ in samples_of(ADAPTER)),
    (("b = negative(a)", "p = sin(b)", "c = add_in_place(b, p)", "y = exp(c)"), {"a": MATRIX}),
]
TOGETHER = together(REST)
INPUTS = make_inputs(TOGETHER)
ELSEWHERE = {"raise_if", *OF_CALLABLES, "uniform_from"}


def test_every_operation_is_emitted_and_has_its_numbers_checked() -> None:
    assert offered(ADAPTER) <= operations_of(ADAPTER) | OF_CALLABLES
    text = " ".join(line for body, _ in (*REST, *DRAWN) for line in body)
    checked = {op for op in OPERATIONS if f" {op}(" in text} | ELSEWHERE | IN_CASES
    assert offered(ADAPTER) <= checked


def test_programs_read_nothing_that_they_do_not_import() -> None:
    assert not_imported(ADAPTER) == []


@pytest.fixture(scope="module")
def seen_together(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Observation]:
    """What is observed of the samples in one program, once for each variant."""
    return cache(lambda variant: observed(TOGETHER, variant, tmp_path_factory.mktemp("programs")))


def assert_the_references(case: Case, run: Run, samples: Any = None) -> None:
    """A run has the outputs, gradients and state that the reference comes to."""
    text = str(case.program)
    expected = expect(case, "minimal", samples=samples)
    tolerance = 1e-6 if "astype" in text or "uniform" in text else 1e-10
    assert isinstance(run.outputs, Leaf)
    np.testing.assert_allclose(run.outputs.array, expected.outputs.array, rtol=tolerance)
    assert run.gradients.keys() == expected.gradients.keys()
    for name, gradient in expected.gradients.items():
        np.testing.assert_allclose(run.gradients[name], gradient, rtol=tolerance, atol=1e-9)
    for name, array in expected.state.items():
        np.testing.assert_allclose(run.state[name], array, rtol=1e-10)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("place", range(len(REST)), ids=[b[0][-1] for b in REST])
def test_an_operation_and_its_gradients_are_the_references(
    place: int, variant: str, seen_together: Callable[[str], Observation]
) -> None:
    seen = seen_together(variant)
    case = alone(REST[place], place, INPUTS)
    for run in (seen.plain, seen.recomputed):
        assert run.error is None
        assert_the_references(case, part(run, place))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("body", "shapes"), DRAWN, ids=[b[0][-1] for b in DRAWN])
def test_an_operation_that_draws_and_its_gradients_are_the_references(
    body: tuple[str, ...], shapes: dict[str, tuple[int, ...]], variant: str, tmp_path: Path
) -> None:
    case = written(*body, **shapes)
    seen = observed(case, variant, tmp_path)
    for run in (seen.plain, seen.recomputed):
        assert run.error is None
        assert_the_references(case, run, seen.recomputed.samples)


# -- executions ----------------------------------------------------------------------------------


def test_the_derivative_of_a_sine_is_no_rerun_of_it(tmp_path: Path) -> None:
    case = written("h = matmul(a, w)", "g = gelu(h)", "y = sin(g)", a=(3, 4), w=(4, 4))
    seen = observed(case, "eager", tmp_path)
    assert reruns(seen.plain) == {}
    assert reruns(seen.recomputed) == {"block.": 1, "block.h": 1, "block.g": 1}


def test_a_gradient_that_the_forward_takes_is_forward_work(tmp_path: Path) -> None:
    program = emitted(BY_ID["custom/gradient-inside"], "eager", tmp_path)
    assert "jax.grad(lambda x: jnp.sin(x).sum())(x)" in program.text
    seen = observed(BY_ID["custom/gradient-inside"], "eager", tmp_path)
    assert seen.recomputed.executions is not None
    counts = {(e.statement, e.phase): e.count for e in seen.recomputed.executions if e.region}
    assert [counts[name, "forward"] for name in "hesa"] == [1, 1, 1, 1]
    # The sine's gradient reads s, which is made of h and e.
    assert reruns(seen.recomputed) == {"block.": 1, "block.h": 1, "block.e": 1, "block.s": 1}


@pytest.mark.parametrize(
    ("procedure", "names", "backward"),
    [
        ("backward", "jvp(jit(sin))", False),
        ("backward", "transpose(jvp(jvp()))/rematted_computation/transpose(jvp())", True),
        ("backward", "jit(step)/jvp(transpose(jvp()))", False),
        ("backward", "jvp()//transpose(jvp())", False),
        ("backward", "vmap(transpose(jvp()))", True),
        ("second_order", "jvp(transpose(jvp()))", True),
        ("second_order", "jvp(jvp(transpose(jvp())))", False),
        ("inference", "transpose(jvp())", False),
    ],
)
def test_the_outermost_transformations_are_those_of_the_procedure(
    procedure: str, names: str, backward: bool, tmp_path: Path
) -> None:
    jaxprs: Any = ADAPTER.load("jaxprs")
    program = emitted(BY_ID["basics/arithmetic"], "eager", tmp_path)
    assert jaxprs.in_backward(names, replace(program, procedure=procedure)) is backward


BY_RULE = """
def by_rule(function):
    @jax.custom_vjp
    def region(*args):
        return function(*args)

    def backward(args, gradient):
        args = jax.lax.optimization_barrier(args)
        return jax.vjp(function, *args)[1](gradient)

    region.defvjp(lambda *args: (function(*args), args), backward)
    return region
"""


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("case", ["basics/arithmetic", "procedures/second-order"])
def test_what_a_rule_runs_again_counts(variant: str, case: str, tmp_path: Path) -> None:
    seen = observed(BY_ID[case], variant, tmp_path)
    assert not reruns(seen.plain)
    program = emitted(BY_ID[case], variant, tmp_path)
    text = program.text.replace("jax.checkpoint(", "by_rule(") + BY_RULE
    Path(program.file).write_text(text)
    ruled = BENCH.observe(replace(program, text=text))
    assert not reruns(ruled.plain)
    if variant == "eager":
        assert set(reruns(ruled.recomputed)) >= set(reruns(seen.recomputed)) != set()
    else:  # an optimised module has the line of the call alone
        assert ruled.recomputed.executions is None


def test_calls_of_one_region_count_each(tmp_path: Path) -> None:
    seen = observed(BY_ID["documents/tensorflow-four-calls"], "eager", tmp_path)
    assert seen.recomputed.executions is not None
    counts = {(e.statement, e.phase): e.count for e in seen.recomputed.executions if e.region}
    # the last product is read by no gradient
    assert counts["z", "forward"] == 4


@pytest.mark.parametrize("procedure", ["second_order", "third_order"])
def test_calls_with_the_same_arguments_count_each(procedure: str, tmp_path: Path) -> None:
    """JAX traces the region once, and both calls have the lines of the first."""
    region = "{recompute: r, takes: x, body: 't = sin(x)'}"
    case = one_case(
        f"{region}\n      - {{call: r, takes: [x], gives: u}}\n      - z = add(t, u)", procedure
    )
    seen = observed(case, "eager", tmp_path).recomputed
    counts = {(e.region, e.statement): e.count for e in seen.executions if e.phase == "forward"}
    assert counts["r", "t"] == counts["r", ""] == 2


@pytest.mark.parametrize(("variant", "read"), [("eager", "w"), ("jit", "w"), ("jit", "c")])
def test_a_scalar_that_training_changes_is_no_number(
    variant: str, read: str, tmp_path: Path
) -> None:
    text = """\
family: fam
cases:
  one:
    title: A title
    source: Somewhere
    why: A reason
    procedure: {train: {steps: 2, learning_rate: 0.5}}
    parameters: {w: {shape: [], normal: 0.5}}
    program:
      - c = astype(w, dtype='bfloat16')
      - {recompute: r, body: "s = sin(w); t = exp(s)"}
    outputs: t
"""
    seen = observed(
        load_text(text.replace("sin(w)", f"sin({read})"), "f.yaml")[0], variant, tmp_path
    )
    for run in (seen.plain, seen.recomputed):
        counts = {e.statement: e.count for e in run.executions or () if e.phase == "forward"}
        assert counts == dict.fromkeys(["", "s", "t", *read.strip("w")], 2)


def test_two_draws_of_one_seed_run_again_each(tmp_path: Path) -> None:
    inner = "{recompute: q, takes: x, body: 'd = dropout(x, p=0.25, seed=5)'}"
    body = f"[{inner}, {{call: q, takes: d, gives: e}}, s = sin(e)]"
    case = one_case(f"{{recompute: r, takes: x, body: {body}}}\n      - y = sin(s)")
    assert reruns(observed(case, "eager", tmp_path).recomputed)["q.d"] == 4


def test_a_bool_that_python_reads_cannot_be_traced(tmp_path: Path) -> None:
    """The program runs, but the jaxpr in which executions are counted has no value of the bool."""
    inner = "{define: q, takes: x, body: 's = sin(x)'}"
    body = f"[{inner}, t = exp(x), b = hides_variables_of(q)]"
    outer = f"{{recompute: r, takes: x, gives: [t, b], body: {body}}}"
    seen = observed(one_case(f"{outer}\n      - y = sin_or_cos(t, b)"), "eager", tmp_path)
    assert "executions" in seen.unobserved
    assert seen.recomputed.error is None
    assert seen.recomputed.retained is not None


def test_the_derivative_of_a_product_is_no_rerun_of_it(tmp_path: Path) -> None:
    """No gradient reads the product, since those of the sine read it as the result of the region."""
    nodes = """{recompute: r, takes: x, body: "t = tanh(x); p = multiply(t, t)"}
      - y = sin(p)"""
    found = reruns(observed(one_case(nodes, "third_order"), "eager", tmp_path).recomputed)
    assert "r.p" not in found
    assert found["r.t"] > 0


def test_what_runs_again_outside_of_a_recomputed_function_is_seen(tmp_path: Path) -> None:
    """The second derivative of `abs` is zero, so JAX knows all that its rerun reads."""
    case = one_case("{recompute: r, takes: x, body: 'n = negative(x); t = abs(n)'}", "second_order")
    assert reruns(observed(case, "eager", tmp_path).recomputed)["r.n"] == 1


def test_statements_that_differ_from_call_to_call_are_not_counted(tmp_path: Path) -> None:
    region = "{recompute: r, takes: [x, v], gives: [t], body: 't = sin_or_cos(x, v)'}"
    case = one_case(f"{region}\n      - {{call: r, takes: [t, u], gives: [z]}}")
    seen = observed(case, "eager", tmp_path)
    assert seen.recomputed.error is None
    assert seen.recomputed.executions is None


def test_a_number_that_a_traced_region_gives_is_a_number(tmp_path: Path) -> None:
    region = "{recompute: r, takes: x, gives: [t, 7], body: 't = sin(x)', returned: p}"
    case = one_case(f"{region}\n      - z = sin(x)\n    outputs: [z, p]")
    outputs = observed(case, "eager", tmp_path).recomputed.outputs
    assert repr(outputs).endswith(", 7))")


@pytest.mark.parametrize("captured", [True, False])
def test_references_of_a_region_have_no_gradient(captured: bool) -> None:
    """What the adapter says of `in-place`: a reference that a region takes or captures has a gradient
    without checkpoint, and none with it."""
    jax, jnp = pytest.importorskip("jax"), pytest.importorskip("jax.numpy")

    def loss(x: Any, around: Any) -> Any:
        reference = jax.new_ref(2 * x)

        def taking(reference: Any) -> Any:
            reference[...] += 0.5
            return jnp.sin(reference[...])

        if captured:
            return around(lambda x: x * taking(reference))(x).sum()
        return around(taking)(reference).sum()

    x = jnp.ones(3)
    assert jax.grad(loss)(x, lambda block: block).shape == (3,)
    with pytest.raises(ValueError, match="Expected cotangent type Ref"):
        jax.grad(loss)(x, jax.checkpoint)


def test_a_reference_is_followed_to_the_value_that_it_holds(tmp_path: Path) -> None:
    case = written(
        *("h = matmul(a, w)", "p = sin(h)", "g = add_in_place(h, p)", "q = sin(g)"),
        *("k = add_in_place(g, q)", "y = exp(k)"),
        a=(3, 4),
        w=(4, 4),
    )
    seen = observed(case, "eager", tmp_path)
    for run in (seen.plain, seen.recomputed):
        counts = {(e.statement, e.phase): e.count for e in run.executions or () if e.region}
        assert {counts[name, "forward"] for name in "hpgqky"} == {1}
    # The exponential's gradient reads its result, which is made of all the others.
    assert reruns(seen.plain) == {}
    assert reruns(seen.recomputed) == {"block.": 1} | {f"block.{name}": 1 for name in "hpgqky"}


def test_a_nested_region_that_captures_nothing_is_written_once(tmp_path: Path) -> None:
    program = emitted(BY_ID["nested/inference"], "eager", tmp_path)
    assert program.text.count("def outer(") == 2  # it calls another function in each path
    assert program.text.count("\ndef inner(") == 1
    assert "jax.checkpoint(inner)(s1)" in program.text
    for path in ("plain", "recomputed"):
        assert program.inner_regions(path) == {"inner": [], "outer": ["inner"]}


def test_an_inert_checkpoint_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = BY_ID["memory/chain-whole"]
    good = observed(case, "eager", tmp_path).recomputed
    assert reruns(good)["network."] == 1
    assert good.retained == 0
    monkeypatch.setattr(jax, "checkpoint", lambda function: function)
    seen = observed(case, "eager", tmp_path)
    assert reruns(seen.recomputed) == {}
    assert seen.recomputed.retained == seen.plain.retained
    assert (seen.plain.retained or 0) >= 12 * ACTIVATION


def test_bytes_between_forward_and_backward_are_exact(tmp_path: Path) -> None:
    # Each of the 8 layers keeps its input: h0, and the results of the first 7.
    seen = observed(BY_ID["memory/chain-each"], "eager", tmp_path)
    assert seen.recomputed.retained == 8 * ACTIVATION
    leaves = _residual_bytes(emitted(BY_ID["memory/chain-each"], "eager", tmp_path))
    assert leaves == seen.recomputed.retained


def _residual_bytes(program: Program) -> int:
    """Bytes of the distinct buffers that `jax.vjp` of the recomputed forward holds, inputs aside."""
    space: dict[str, Any] = {"__name__": "written"}
    exec(compile(program.text, program.file, "exec"), space)
    values = space["inputs"]()
    wanted = {"ws": values["ws"]}
    _, vjp = jax.vjp(lambda wanted: space["recomputed"](**values | wanted), wanted)
    given = {value.unsafe_buffer_pointer() for value in jax.tree.leaves(values)}
    held = {leaf.unsafe_buffer_pointer(): leaf.nbytes for leaf in jax.tree.leaves(vjp)}
    return sum(size for pointer, size in held.items() if pointer not in given)


def test_a_rerun_that_the_compiler_merged_is_none_and_one_behind_a_barrier_is_one(
    tmp_path: Path,
) -> None:
    case = BY_ID["captures/captured-parameter"]
    assert "block.h" not in reruns(observed(case, "jit", tmp_path).recomputed)
    # The barriers stay only in a process of their own: XLA reads its flags once.
    program = emitted(case, "jit", tmp_path)
    code = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}]
from conformance.model.program import Program, Site
from conformance.observe.worker.entry import observe
program = {program!r}
found = observe({str(ADAPTER.folder)!r}, program).recomputed.executions
print([e.count for e in found if (e.statement, e.phase) == ("h", "rerun")])
"""
    flags = "--xla_disable_hlo_passes=cse_barrier_expander"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("[1]")


# -- draws ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_draws_are_the_arrays_that_the_program_puts_out(variant: str, tmp_path: Path) -> None:
    seen = observed(BY_ID["randomness/two-dropouts"], variant, tmp_path).recomputed
    assert seen.samples is not None
    assert isinstance(seen.outputs, tuple)
    for place, label in ((1, "d1"), (2, "d2")):
        leaf = seen.outputs[place]
        assert isinstance(leaf, Leaf)
        drawn = [d for d in seen.samples if d.statement == label]
        assert {d.phase for d in drawn} == {"forward", "rerun"}
        for draw in drawn:
            np.testing.assert_allclose(draw.array, leaf.array, rtol=1e-6)
