"""The PyTorch adapter: the numbers of every operation, its counts, its bytes, against hand-made ones."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance.emit.programs import write_programs
from conformance.language.load import load_text
from conformance.language.operations import OPERATIONS
from conformance.model.case import Case
from conformance.model.observation import Leaf, Run
from conformance.model.program import Program
from conformance.observe.worker.loaded import LoadedProgram, load_program
from tests.adapters.bench import Bench, assert_numpys
from tests.every_program import not_imported
from tests.frameworks import framework
from tests.operation_samples import (
    IN_CASES,
    NUMBERS,
    RANDOM_OR_RAISING,
    NumPy,
    offered,
    operations_of,
    written,
)
from tests.suite_cases import BY_ID as SUITE

torch = framework("torch", "torch")

BENCH = Bench("torch")
ADAPTER, observe = BENCH.adapter, BENCH.observe
VARIANTS = ("reentrant", "non-reentrant")
#: Every variant that takes a function and runs eagerly.
FUNCTIONS = (*VARIANTS, "non-reentrant-whole", "selective", "wrapper")
#: Operations whose numbers are drawn from a generator that is not torch's implicit one.
DRAWN_ELSEWHERE = {"uniform_from", "numpy_uniform", "python_uniform"}
SAMPLES = [written(f"operation-{i}", row[1], row[2]) for i, row in enumerate(NUMBERS)]
Emit = Callable[[Case, str], Program]


@pytest.fixture(scope="module")
def emit(tmp_path_factory: pytest.TempPathFactory) -> Emit:
    """Gives the program of a case on a variant. Those of the samples are written in one batch."""
    folder = tmp_path_factory.mktemp("programs")
    return BENCH.emitting(folder, [(case, name) for case in SAMPLES for name in VARIANTS])


def reruns(run: Run) -> dict[str, int]:
    """Reruns by statement, `` for the region."""
    assert run.executions is not None
    return {e.statement: e.count for e in run.executions if e.region and e.phase == "rerun"}


def test_every_operation_is_emitted_and_has_its_numbers_checked() -> None:
    assert offered(ADAPTER) <= operations_of(ADAPTER) <= set(OPERATIONS)
    checked = {row[0] for row in NUMBERS} | RANDOM_OR_RAISING | DRAWN_ELSEWHERE | IN_CASES
    assert offered(ADAPTER) <= checked


def test_programs_read_nothing_that_they_do_not_import() -> None:
    assert not_imported(ADAPTER) == []


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("case", "row"), list(zip(SAMPLES, NUMBERS, strict=True)), ids=[row[1][-1] for row in NUMBERS]
)
def test_an_operation_and_its_gradients_are_numpys(
    case: Case, row: tuple[str, list[str], dict[str, Any], NumPy], variant: str, emit: Emit
) -> None:
    program = emit(case, variant)
    arrays = {name: t.detach().numpy() for name, t in load_program(program).inputs().items()}
    assert_numpys(observe(program), row, arrays)


def test_dropout_drops_its_share_and_scales_the_rest(emit: Emit) -> None:
    program = emit(written("dropout", ["y = dropout(a, p=0.25)"], {"a": (100, 100)}), "reentrant")
    x = load_program(program).inputs()["a"].detach().numpy()
    samples = observe(program).plain.samples
    assert samples is not None
    kept = samples[0].array != 0
    np.testing.assert_allclose(samples[0].array[kept], x[kept] / 0.75, rtol=1e-12)
    assert abs(kept.mean() - 0.75) < 0.02


DRAWS = {
    "explicit": ("y = uniform_from(g, shape=[2000], low=0.5, high=2.5)", "framework"),
    "numpy-generator": ("y = uniform_from(g, shape=[2000], low=0.5, high=2.5)", "numpy"),
    "numpy-global": ("y = numpy_uniform(shape=[2000], low=0.5, high=2.5)", ""),
    "uniform": ("y = uniform(shape=[2000], low=0.5, high=2.5)", ""),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_uniform_and_leave_their_generator_where_it_says(name: str, emit: Emit) -> None:
    """The numbers lie in the range, and the generator that is read next is the one drawn from."""
    statement, library = DRAWS[name]
    generator = f"\n      g: {{generator: {library}, seed: 3}}" if library else ""
    text = f"""
family: drawn
cases:
  {name}:
    title: Draws
    source: the tests
    why: Their range is known.
    inputs:
      x: {{shape: [2000], normal: 1.0}}{generator}
    program:
      - {statement}
      - {{recompute: block, takes: x, gives: n, body: [n = negative(x)]}}
      - z = multiply(n, y)
    outputs: [z, y]
    gradients: {{of: sum(z)}}
"""
    (case,) = load_text(text, "drawn")
    run = observe(emit(case, "non-reentrant")).plain
    assert isinstance(run.outputs, tuple)
    drawn = run.outputs[1]
    assert isinstance(drawn, Leaf)
    assert drawn.dtype == "float32"
    assert drawn.array.min() >= 0.5
    assert drawn.array.max() <= 2.5
    assert abs(drawn.array.mean() - 1.5) < 0.05
    assert abs(drawn.array.std() - 2 / 12**0.5) < 0.03
    np.testing.assert_allclose(run.gradients["x"], -drawn.array)
    (standing,) = run.generators.values()
    if library == "framework":
        np.testing.assert_array_equal(standing, _after(torch.Generator().manual_seed(3)))
    elif library == "numpy":
        own = np.random.default_rng(3)
        own.uniform(size=2000)
        np.testing.assert_array_equal(standing, own.random(4))
    elif name == "numpy-global":
        own_global = np.random.RandomState(case.seed)
        own_global.uniform(size=2000)
        np.testing.assert_array_equal(standing, own_global.uniform(size=4))


def _after(generator: Any) -> Any:
    torch.empty(2000).uniform_(0.5, 2.5, generator=generator)
    return torch.rand(4, generator=generator).numpy()


def chain(statements: list[str], shape: str = "[64, 8]") -> Case:
    """One region of statements from x to y, then a product that keeps y."""
    lines = "\n".join(f"          - {statement}" for statement in statements)
    text = f"""
family: made
cases:
  chain:
    title: A chain of operations
    source: made up
    why: Its counts and bytes are derived by hand.
    inputs:
      x: {{shape: {shape}, normal: 0.5}}
    parameters:
      w: {{shape: [8, 8], normal: 0.3}}
    program:
      - recompute: block
        takes: x
        gives: y
        body:
{lines}
      - z = sum(y)
    outputs: z
    gradients: {{of: z}}
"""
    (case,) = load_text(text, "made")
    return case


#: A region's statements, what runs again without reentry, and activations kept by the plain run:
#: an operation that keeps its result ends the rerun after it, one that keeps its input before it.
BY_HAND: list[tuple[list[str], dict[str, int], int]] = [
    (["h = matmul(x, w)", "y = sin(h)"], {"h": 1, "y": 0}, 1),
    (["h = matmul(x, w)", "y = tanh(h)"], {"h": 1, "y": 1}, 1),
    (["h = matmul(x, w)", "a = sin(h)", "y = sin(a)"], {"h": 1, "a": 1, "y": 0}, 2),
    (["h = matmul(x, w)", "a = sin(h)", "b = sin(a)", "y = tanh(b)"], dict.fromkeys("haby", 1), 3),
    (["h = matmul(x, w)", "a = sin(h)", "y = negative(a)"], {"h": 1, "a": 0}, 1),
]


@pytest.mark.parametrize(("statements", "again", "kept"), BY_HAND, ids=[r[0][-1] for r in BY_HAND])
def test_counts_and_bytes_derived_by_hand(
    statements: list[str], again: dict[str, int], kept: int, emit: Emit, tmp_path: Path
) -> None:
    activation = 64 * 8 * 4
    case = chain(statements)
    chosen = [ADAPTER.variant(variant) for variant in FUNCTIONS]
    programs = write_programs(ADAPTER, [(case, variant) for variant in chosen], tmp_path)
    for (_, variant), written_ in programs.items():
        assert isinstance(written_, Program)
        seen = observe(written_)
        found = reruns(seen.recomputed)
        assert found.pop("") == 1
        whole = {statement.label: 1 for region, statement in case.statements() if region}
        wanted = whole if variant in ("torch/reentrant", "torch/non-reentrant-whole") else again
        assert {k: n for k, n in found.items() if n} == {k: n for k, n in wanted.items() if n}
        assert not any(reruns(seen.plain).values())
        assert seen.plain.retained == kept * activation
        assert seen.recomputed.retained == 0  # the region's input is the program's


def test_bytes_agree_with_what_saved_tensor_hooks_see(emit: Emit) -> None:
    """A second method: everything that autograd saves, less the inputs and what `run` returns."""
    for name in ("basics/mlp-block", "basics/normalised-attention", "memory/chain-segments"):
        program = emit(SUITE[name], "non-reentrant")
        module = load_program(program)
        values = module.inputs()
        saved: dict[int, int] = {}

        def pack(tensor: Any, saved: dict[int, int] = saved) -> Any:
            storage = tensor.untyped_storage()
            saved[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            outputs = module.plain(**values)
            loss = outputs.sum()
        held = torch.utils._pytree.tree_leaves([values, outputs, loss])
        for tensor in held:
            saved.pop(tensor.untyped_storage().data_ptr(), None)
        assert observe(program).plain.retained == sum(saved.values())
        del outputs, loss
        gc.collect()


def test_totals_agree_with_the_profiler_where_nothing_stops_early(emit: Emit) -> None:
    """Reentrant reruns are whole, so that the profiler's events can be counted."""
    program = emit(SUITE["basics/conv-relu-block"], "reentrant")
    module = load_program(program)
    module.run(module.recomputed)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        module.run(module.recomputed)
    events = Counter(event.name for event in profile.events())
    run = observe(program).recomputed
    assert run.executions is not None
    counted = Counter[str]()
    for execution in run.executions:
        counted[execution.statement] += execution.count
    assert events["aten::conv2d"] == counted["c"] + counted["y"] == 4
    assert events["aten::relu"] == counted["r"] == 2


@pytest.mark.parametrize(
    ("procedure", "body", "counts"),
    [
        ("gradient_of_jvp", "h = max_pool2d(x, size=2)", {"": 1, "h": 1}),
        ("jvp_of_gradient", "h = sin(x)", {"": 1, "h": 0}),  # tangents are computed again
    ],
)
def test_a_rerun_after_forward_mode_computes_no_tangents(
    procedure: str, body: str, counts: dict[str, int], emit: Emit
) -> None:
    text = f"""
      family: fam
      cases:
        {procedure.replace("_", "-")}:
          title: A title
          source: Somewhere
          why: A reason
          procedure: {procedure}
          inputs: {{x: {{shape: [1, 1, 2, 2], normal: 1.0}}, y: {{shape: [1], normal: 1.0}}}}
          program:
            - {{recompute: block, takes: [x], gives: [h], body: ['{body}']}}
            - z = multiply(h, y)
    """
    (one,) = load_text(text, "a case")
    assert reruns(observe(emit(one, "non-reentrant")).recomputed) == counts


@pytest.mark.parametrize("variant", VARIANTS)
def test_inert_recompute_is_seen(variant: str, emit: Emit, monkeypatch: Any) -> None:
    program = emit(SUITE["memory/chain-whole"], variant)
    observer = BENCH.observer(variant)
    module = load_program(program)
    monkeypatch.setattr(module, "checkpoint", lambda function, *args, **options: function(*args))
    recomputed = LoadedProgram.of(program, module, "recomputed")
    run = observer.count(recomputed, Run())
    assert not any(reruns(run).values())
    kept = observer.retained(recomputed)
    assert kept == observer.retained(LoadedProgram.of(program, module, "plain"))
    assert kept == 16 * 2048 * 64 * 4


def test_a_rerun_in_another_dtype_is_a_rerun(emit: Emit, monkeypatch: Any) -> None:
    """A checkpoint that loses autocast runs the products again, in float32."""
    original, calls = torch.utils.checkpoint.checkpoint, 0

    def loses_autocast(function: Any, *args: Any, **options: Any) -> Any:
        def uncast(*given: Any) -> Any:
            nonlocal calls
            calls += 1
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=calls % 2 == 1):
                return function(*given)

        return original(uncast, *args, **options)

    monkeypatch.setattr(torch.utils.checkpoint, "checkpoint", loses_autocast)
    found = observe(emit(SUITE["autocast/block"], "reentrant"))
    assert calls  # by the program
    assert reruns(found.recomputed) == {"": 1, "h": 1, "t": 1, "p": 1, "a": 1}


def test_program_runs_alone(emit: Emit) -> None:
    program = emit(SUITE["basics/conv-relu-gradient"], "non-reentrant")
    done = subprocess.run(
        [sys.executable, "-I", program.file], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("plain {")
    assert done.stdout.count("tensor([[[[2., 4.],") == 2
