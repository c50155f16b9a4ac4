"""Compiled PyTorch: counts and bytes derived by hand, and what else tells them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from conformance.language.load import load_text
from conformance.model.case import Case
from conformance.model.observation import Run
from conformance.model.program import Program
from conformance.observe.worker.loaded import LoadedProgram, load_program
from tests.adapters.bench import Bench
from tests.frameworks import framework
from tests.suite_cases import BY_ID as SUITE

torch = framework("torch", "torch")

BENCH = Bench("torch")
ADAPTER, emitted, observer, observe = BENCH.adapter, BENCH.emitted, BENCH.observer, BENCH.observe
TAGGED = "compiled-aot-eager"
BUDGET = "memory-budget"
UNIT = 64 * 8 * 4


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What Inductor compiles goes to a folder of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        patch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")
        yield


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    """Dynamo gives up on code that it has compiled too often, and runs it as it is; a program that
    sets the memory budget sets it for the process."""
    torch._dynamo.reset()
    torch._functorch.config.activation_memory_budget = 1.0


def graphs() -> Any:
    """What the process has noted of compiled graphs."""
    return ADAPTER.load("compiled").GRAPHS


def counts(run: Run, phase: str) -> dict[str, int]:
    """Executions by statement."""
    assert run.executions is not None
    return {e.statement: e.count for e in run.executions if e.statement and e.phase == phase}


def chain(statements: list[str]) -> Case:
    """One region of statements from x to y, then a sum, which reads nothing."""
    lines = "\n".join(f"          - {statement}" for statement in statements)
    (case,) = load_text(
        f"""
family: made
cases:
  chain:
    title: A chain of operations
    source: made up
    why: Its counts and bytes are derived by hand.
    inputs:
      x: {{shape: [64, 8], normal: 0.5}}
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
""",
        "made",
    )
    return case


#: Statements, what runs again, and activations that plain keeps: what a product made, and what the
#: next one reads; all else is cheap to make again. With the region run again only its input is kept.
BY_HAND: list[tuple[list[str], set[str], int]] = [
    (["h = matmul(x, w)", "y = sin(h)"], {"h"}, 1),
    (["h = matmul(x, w)", "a = sin(h)", "y = sin(a)"], {"h", "a"}, 1),
    (["h = matmul(x, w)", "a = sin(h)", "g = matmul(a, w)", "y = sin(g)"], {"h", "a", "g"}, 3),
    (
        [
            "h = matmul(x, w)",
            "a = sin(h)",
            "g = matmul(a, w)",
            "b = sin(g)",
            "f = matmul(b, w)",
            "y = sin(f)",
        ],
        {"h", "a", "g", "b", "f"},
        5,
    ),
    (["h = matmul(x, w)", "y = negative(h)"], set(), 0),
]


@pytest.mark.parametrize("variant", [TAGGED, BUDGET])
@pytest.mark.parametrize(("statements", "again", "kept"), BY_HAND, ids=[r[0][-1] for r in BY_HAND])
def test_counts_and_bytes_derived_by_hand(
    statements: list[str], again: set[str], kept: int, variant: str, tmp_path: Path
) -> None:
    seen = observe(emitted(chain(statements), variant, tmp_path))
    made = {statement.partition(" ")[0] for statement in statements} | {"z"}
    assert counts(seen.recomputed, "forward") == dict.fromkeys(made, 1)
    assert {k for k, n in counts(seen.recomputed, "rerun").items() if n} == again
    # of plain, too, the compiler makes again what is cheap, and never a product
    assert not {k for k, n in counts(seen.plain, "rerun").items() if n} & {"h", "g", "f", "y"}
    assert seen.plain.retained == kept * UNIT
    assert seen.recomputed.retained == 0


def test_inductor_by_hand(tmp_path: Path) -> None:
    statements, again, kept = BY_HAND[2]
    seen = observe(emitted(chain(statements), "compiled-inductor", tmp_path))
    assert {k for k, n in counts(seen.recomputed, "rerun").items() if n} == again
    assert (seen.plain.retained, seen.recomputed.retained) == (kept * UNIT, 0)


HITS: Counter[tuple[str, str]] = Counter()
PHASE = ["forward"]


@pytest.fixture(scope="module")
def hit() -> Any:
    """A custom operation, opaque to every compiler, that counts when it really runs."""

    @torch.library.custom_op("conformance::hit", mutates_args=())  # type: ignore[untyped-decorator]
    def counted(x: torch.Tensor, tag: str) -> torch.Tensor:  # type: ignore[name-defined]
        HITS[tag, PHASE[0]] += 1
        return x.clone()

    counted.register_fake(lambda x, tag: torch.empty_like(x))
    counted.register_autograd(lambda ctx, g: (g, None))
    return counted


@contextmanager
def backward_is_rerun(patch: pytest.MonkeyPatch) -> Iterator[None]:
    original = torch.Tensor.backward

    def backward(*args: Any, **kwargs: Any) -> None:
        PHASE[0] = "rerun"
        try:
            original(*args, **kwargs)
        finally:
            PHASE[0] = "forward"

    patch.setattr(torch.Tensor, "backward", backward)
    yield
    patch.undo()


def probed(made: Program, hit: Any) -> tuple[Program, ModuleType]:
    """The program with a probe behind every statement of `recomputed`, on the same lines."""
    lines = made.text.splitlines()
    for number, site in made.lines.items():
        if site.kind == "statement" and site.path == "recomputed":
            statement = re.fullmatch(r"(\s*)(\w+ =|return) (.*)", lines[number - 1])
            assert statement, lines[number - 1]
            space, start, value = statement.groups()
            lines[number - 1] = f'{space}{start} hit({value}, "{number}")'
    Path(made.file).write_text("\n".join(lines) + "\n", "utf-8")
    module = load_program(made)
    module.hit = hit  # type: ignore[attr-defined]
    return made, module


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("basics/conv-relu-block", TAGGED),
        ("regions/adjacent", TAGGED),
        ("regions/nested", TAGGED),
        ("regions/nested-pair", TAGGED),
        ("regions/called-repeatedly", TAGGED),
        ("structure/unused-output", TAGGED),
        ("procedures/train", TAGGED),
        ("regions/nested", BUDGET),
        ("regions/separate", BUDGET),
        ("regions/nested", "compiled-inductor"),
        ("structure/unused-output", "compiled-inductor"),
    ],
)
def test_probes_count_at_run_time_what_graphs_say(
    name: str, variant: str, hit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, module = probed(emitted(SUITE[name], variant, tmp_path), hit)
    reading, noted = ADAPTER.load("graphs"), graphs()
    observer(variant)
    noted.forget()
    with noted.watched(), backward_is_rerun(monkeypatch):
        module.run(module.recomputed)
        HITS.clear()
        noted.restart()
        module.run(module.recomputed)
    seen, _ = reading.counts(noted.compiled, made, "recomputed")
    ran: Counter[Any] = Counter()
    for (tag, phase), count in HITS.items():
        ran[made.lines[int(tag)], phase] += count
    assert {key: n for key, n in seen.items() if n} == dict(ran)
    assert any(phase == "rerun" for _, phase in ran)
    noted.forget()


def test_bytes_agree_with_what_autograd_holds(tmp_path: Path) -> None:
    """A second method: the distinct storages of what the compiled function's node has saved."""
    for name in ("memory/chain-segments", "regions/adjacent", "basics/normalised-attention"):
        made = emitted(SUITE[name], TAGGED, tmp_path)
        seen = observe(made)
        module = load_program(made)
        for path in ("plain", "recomputed"):
            values = module.inputs()
            outputs = torch.compile(getattr(module, path), backend="aot_eager")(**values)
            given = torch.utils._pytree.tree_leaves([values, outputs])
            saved = {
                t.untyped_storage().data_ptr(): t.untyped_storage().nbytes()
                for t in outputs.grad_fn.saved_tensors
            }
            for tensor in given:
                saved.pop(tensor.untyped_storage().data_ptr(), None)
            assert getattr(seen, path).retained == sum(saved.values()), (name, path)


@pytest.mark.parametrize("name", ["memory/chain-segments", "regions/nested"])
def test_inert_recompute_is_seen(name: str, tmp_path: Path) -> None:
    made = emitted(SUITE[name], TAGGED, tmp_path)
    text = made.text.replace(
        "from torch.utils.checkpoint import checkpoint",
        "checkpoint = lambda function, *args, **options: function(*args)",
    )
    assert text != made.text
    Path(made.file).write_text(text, "utf-8")
    seen = observe(made)
    products = {label for label in counts(seen.plain, "forward") if label[0] in "pqh"}
    rerun = counts(seen.recomputed, "rerun")
    assert products
    assert not any(rerun[label] for label in products if label != "h")
    assert seen.recomputed.retained == seen.plain.retained


def test_passes_run_what_was_compiled(tmp_path: Path) -> None:
    """Neither the trace around the pass for memory nor anything else makes Dynamo run eagerly; that pass
    runs what was compiled, once."""
    made = emitted(SUITE["regions/nested"], TAGGED, tmp_path)
    watching, noted = observer(TAGGED), graphs()
    module = load_program(made)
    noted.forget()
    with noted.watched():
        watching.values(LoadedProgram.of(made, module, "recomputed"))
        compiled = len(noted.compiled)
        noted.restart()
        watching.retained(LoadedProgram.of(made, module, "recomputed"))
    assert compiled == 2
    assert [graph.runs for graph in noted.compiled] == [1, 1]
    noted.forget()


def test_watching_changes_no_number(tmp_path: Path) -> None:
    made = emitted(SUITE["randomness/two-dropouts"], TAGGED, tmp_path)
    seen = observe(made)
    module = load_program(made)
    for path in ("plain", "recomputed"):
        run = module.run(getattr(module, path))
        for name, gradient in run["gradients"].items():
            np.testing.assert_array_equal(getattr(seen, path).gradients[name], gradient.numpy())


def test_a_graph_break_is_noticed(tmp_path: Path) -> None:
    """A region that Dynamo leaves to Python is not taken for a compiled one."""
    made = emitted(SUITE["regions/nested"], TAGGED, tmp_path)
    assert "executions" not in observe(made).unobserved
    text = made.text.replace("h3 = a2 @ ws[2]", "torch._dynamo.graph_break(); h3 = a2 @ ws[2]")
    Path(made.file).write_text(text, "utf-8")
    seen = observe(made)
    assert seen.recomputed.error is None
    assert "a graph break left regions to Python" in seen.unobserved["executions"]
    assert "retained memory" in seen.unobserved


def test_programs_that_have_the_same_code_are_told_apart(tmp_path: Path) -> None:
    """Dynamo keeps what it has read of code, and equal code comes from different files here."""
    for name in ("basics/precision[dtype=float64]", "basics/precision[dtype=bfloat16]"):
        assert counts(observe(emitted(SUITE[name], TAGGED, tmp_path)).recomputed, "rerun")["h"] == 1
