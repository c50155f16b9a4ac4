"""PyTorch traced by Dynamo and run kernel by kernel: counts and bytes against what else tells them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance.model.observation import Observation, Run
from conformance.observe.worker.loaded import LoadedProgram
from tests.frameworks import framework
from tests.suite_cases import BY_ID as CASES

torch = framework("torch", "torch")

from tests.adapters.test_torch_variants import (  # noqa: E402 (it needs PyTorch)
    ADAPTER,
    BENCH,
    CHAIN,
    DEFINED,
    NESTED,
    SEQUENCE,
    by_operation,
    kernels_counted,
    made,
    saving,
    written,
)

EAGER, INSIDE = "compiled-eager", "compiled-inside"
UNIT = 6 * 8 * 4


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    """What a test has compiled is not met by the next one."""
    graphs = ADAPTER.load("kernels").Kernels.noted
    graphs.forget()
    with graphs.watched():
        yield
    graphs.forget()


def observe(case: str, variant: str, folder: Path, *swaps: tuple[str, str]) -> Observation:
    """What the worker sees of a case of the suite, with parts of its text swapped."""
    program = made(CASES[case], variant, folder)[0]
    text = program.text
    for old, new in swaps:
        assert old in text
        text = text.replace(old, new)
    Path(program.file).write_text(text, "utf-8")
    return BENCH.observe(program)


def reruns(run: Run, *, regions: bool = False) -> dict[str, int]:
    """Executions in backward, by statement or by region."""
    assert run.executions is not None
    told = [e for e in run.executions if e.phase == "rerun" and bool(e.statement) != regions]
    return {e.region if regions else e.statement: e.count for e in told if e.count}


def words(case: Any, variant: str, folder: Path) -> str:
    """A program's text on one line."""
    text = " ".join(made(case, variant, folder)[0].text.replace("(\n", "(").split())
    return text.replace("( ", "(")


def test_programs_are_what_their_variants_say(tmp_path: Path) -> None:
    text = words(written(NESTED), EAGER, tmp_path)
    assert 'forward = torch.compile(forward, backend="eager")' in text
    assert "checkpoint(outer, x, use_reentrant=False)" in text
    assert "context_fn" not in text
    text = words(saving("exp"), EAGER, tmp_path)
    assert "context_fn=partial(create_selective_checkpoint_contexts, [" in text
    # a dropout ends in a product like the case's own; AOTAutograd traces one operator of it
    text = words(CASES["policies/save-dropout"], EAGER, tmp_path)
    assert "keep_calls({torch.ops.aten.mul.Tensor: [0]})" in text
    text = words(CASES["policies/save-dropout"], "compiled-aot-eager", tmp_path)
    assert "torch.ops.aten.native_dropout.default" in text
    text = words(written(NESTED), INSIDE, tmp_path)
    # once in each path; the region inside is compiled with the one around it
    assert text.count('@torch.compile(backend="aot_eager") def outer(x):') == 2
    assert text.count("torch.compile") == 2
    assert "checkpoint(outer, x, use_reentrant=False)" in text
    assert "checkpoint(inner, s, use_reentrant=False)" in text
    text = words(CASES["procedures/second-backward"], INSIDE, tmp_path)
    assert "functorch_config.donated_buffer = False" in text


#: A program, a variant, and how often its kernels run again; derived by hand.
BY_HAND = [
    (CHAIN, EAGER, {"sin": 2, "tanh": 1, "exp": 1}),
    (NESTED, EAGER, {"sin": 2, "tanh": 2, "exp": 2}),
    (DEFINED, EAGER, {"sin": 2, "tanh": 3, "exp": 3}),
    (SEQUENCE, EAGER, {"tanh": 7}),
    (CHAIN, INSIDE, {"sin": 2, "tanh": 1, "exp": 1}),
    (SEQUENCE, INSIDE, {"tanh": 7}),
]


@pytest.mark.parametrize(("program", "variant", "again"), BY_HAND)
def test_counts_agree_with_kernels_and_with_the_hand(
    program: str, variant: str, again: dict[str, int], tmp_path: Path
) -> None:
    case = written(program)
    emitted, module, observer = made(case, variant, tmp_path)
    module.run(module.recomputed)
    module.run(module.plain)  # compiled before anything is counted
    run = observer.count(LoadedProgram.of(emitted, module, "recomputed"), Run())
    seen = by_operation(case, run)
    with kernels_counted() as (counted, _):
        module.run(module.recomputed)
    assert seen == counted
    assert {op: n for (op, phase), n in counted.items() if phase == "rerun"} == again
    plain = by_operation(case, observer.count(LoadedProgram.of(emitted, module, "plain"), Run()))
    forward = {op: n for (op, phase), n in counted.items() if phase == "forward"}
    assert {op: n for (op, phase), n in plain.items() if phase == "forward"} == forward
    assert not any(n for (_, phase), n in plain.items() if phase == "rerun")


def test_regions_of_regions_are_counted(tmp_path: Path) -> None:
    """A region without a statement of its own is entered by the interpreter all the same."""
    seen = observe("regions/nested-pair", EAGER, tmp_path)
    assert reruns(seen.recomputed, regions=True) == {"outer": 1, "first": 2, "second": 2}
    assert not reruns(seen.plain, regions=True)
    seen = observe("sequences/segments[k=3]", EAGER, tmp_path)
    assert reruns(seen.recomputed, regions=True) == {f"segment{n}": 1 for n in (1, 2, 3)}


def test_what_a_policy_keeps_does_not_run_again(tmp_path: Path) -> None:
    case = saving("tanh")
    emitted, module, observer = made(case, EAGER, tmp_path)
    module.run(module.recomputed)
    run = observer.count(LoadedProgram.of(emitted, module, "recomputed"), Run())
    seen = by_operation(case, run)
    assert {op: n for (op, phase), n in seen.items() if phase == "rerun"} == {"sin": 2, "exp": 1}
    kept = observer.retained(LoadedProgram.of(emitted, module, "recomputed"))
    assert kept == 2 * UNIT  # `y` and the tangent


def test_a_compiled_region_is_entered_again_though_a_policy_hands_out_all(tmp_path: Path) -> None:
    case = CASES["policies/save-everything"]
    emitted, module, observer = made(case, INSIDE, tmp_path)
    module.run(module.recomputed)
    run = observer.count(LoadedProgram.of(emitted, module, "recomputed"), Run())
    assert reruns(run, regions=True) == {"block": 1}
    # AOTAutograd saves the product, and its backward makes the cheap sine of it again
    assert reruns(run) == {"s": 1}


@pytest.mark.parametrize("variant", [EAGER, INSIDE])
def test_inert_recompute_is_seen(variant: str, tmp_path: Path) -> None:
    inert = (
        "from torch.utils.checkpoint import checkpoint",
        "checkpoint = lambda function, *args, **options: function(*args)",
    )
    seen = observe("memory/chain-whole", variant, tmp_path, inert)
    assert seen.recomputed.error is None
    assert seen.recomputed.retained == seen.plain.retained
    assert not set(reruns(seen.recomputed, regions=True)) - set(reruns(seen.plain, regions=True))


@pytest.mark.parametrize("variant", [EAGER, INSIDE])
def test_what_is_watched_is_compiled_once(variant: str, tmp_path: Path) -> None:
    """No mode makes Dynamo run eagerly, and passes run what the first one has compiled."""
    emitted, module, observer = made(CASES["basics/mlp-block"], variant, tmp_path)
    observer.values(LoadedProgram.of(emitted, module, "recomputed"))
    graphs = ADAPTER.load("kernels").Kernels.noted
    known, calls = set(graphs.nodes), graphs.calls
    assert known
    observer.count(LoadedProgram.of(emitted, module, "recomputed"), Run())
    observer.retained(LoadedProgram.of(emitted, module, "recomputed"))
    assert set(graphs.nodes) == known
    assert graphs.calls > calls + 1


@pytest.mark.parametrize("variant", [EAGER, INSIDE])
def test_watching_changes_no_number(variant: str, tmp_path: Path) -> None:
    seen = observe("basics/normalised-attention", variant, tmp_path)
    _, module, _ = made(CASES["basics/normalised-attention"], variant, tmp_path / "alone")
    for path in ("plain", "recomputed"):
        run = module.run(getattr(module, path))
        for name, gradient in run["gradients"].items():
            np.testing.assert_array_equal(getattr(seen, path).gradients[name], gradient.numpy())


def test_a_graph_break_is_noticed(tmp_path: Path) -> None:
    """A region that Dynamo leaves to Python is not taken for a traced one."""
    assert "executions" not in observe("regions/nested", EAGER, tmp_path).unobserved
    broken = "torch._dynamo.graph_break(); h3 = a2 @ ws[2]"
    seen = observe("regions/nested", EAGER, tmp_path, ("h3 = a2 @ ws[2]", broken))
    assert seen.recomputed.error is None
    assert "a graph break" in seen.unobserved["executions"]
