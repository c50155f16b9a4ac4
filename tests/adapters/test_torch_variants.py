"""The PyTorch adapter's ways to recompute: counts against kernels counted below the dispatcher."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from conformance.cli.app import app
from conformance.language.load import load_text
from conformance.model.case import Case
from conformance.model.observation import Run
from conformance.model.verdict import Status
from conformance.observe.worker.loaded import LoadedProgram
from conformance.store import read
from tests.adapters.bench import Bench
from tests.frameworks import framework
from tests.suite_cases import BY_ID as CASES

torch = framework("torch", "torch")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

BENCH = Bench("torch")
ADAPTER, made = BENCH.adapter, BENCH.made
WHOLE = ("reentrant", "non-reentrant-whole")
EARLY = ("non-reentrant", "selective", "wrapper")
#: Operations whose kernels no gradient runs, with what they compute.
KERNELS = {"sin": np.sin, "tanh": np.tanh, "exp": np.exp}


def written(program: str) -> Case:
    """A case of a program on `x` and two weights, whose output is `z`."""
    text = f"""
family: written
cases:
  one:
    title: A program of the tests
    source: the tests
    why: Its counts are known.
    inputs:
      x: {{shape: [6, 8], normal: 0.5}}
    parameters:
      w: {{shape: [8, 8], normal: 0.3}}
      v: {{shape: [8, 8], normal: 0.3}}
    program:
{program}
    outputs: z
    gradients: {{of: sum(z)}}
"""
    (case,) = load_text(text, "test.yaml")
    return case


@contextmanager
def kernels_counted() -> Iterator[tuple[Counter[tuple[str, str]], list[str]]]:
    """Counts (operation, phase) of kernels that run; the second item is the phase, to be changed."""
    counted: Counter[tuple[str, str]] = Counter()
    phase = ["forward"]
    library = torch.library.Library("aten", "IMPL")

    def instead(name: str) -> Any:
        def kernel(x: Any) -> Any:
            counted[name, phase[0]] += 1
            return torch.from_numpy(KERNELS[name](x.detach().numpy()))

        return kernel

    own = torch.Tensor.backward

    def backward(self: Any, *args: Any, **options: Any) -> None:
        phase[0] = "rerun"
        own(self, *args, **options)

    try:
        for name in KERNELS:
            library.impl(name, instead(name), "CPU", allow_override=True)
        torch.Tensor.backward = backward
        yield counted, phase
    finally:
        torch.Tensor.backward = own
        library._destroy()


def by_operation(case: Case, run: Run) -> Counter[tuple[str, str]]:
    """What the observer counted, by operation and phase."""
    operations = {(region, s.label): s.op for region, s in case.statements()}
    found: Counter[tuple[str, str]] = Counter()
    assert run.executions is not None
    for e in run.executions:
        operation = operations.get((e.region, e.statement))
        if operation in KERNELS and e.count:
            found[operation, e.phase] += e.count
    return found


CHAIN = """
      - recompute: block
        takes: x
        gives: y
        body:
          - p = matmul(x, w)
          - s = sin(p)
          - t = tanh(s)
          - q = matmul(t, v)
          - e = exp(q)
          - y = sin(e)
      - z = multiply(y, y)
"""
NESTED = """
      - recompute: outer
        takes: x
        gives: y
        body:
          - s = sin(x)
          - recompute: inner
            takes: s
            gives: e
            body:
              - t = tanh(s)
              - e = exp(t)
          - y = sin(e)
      - z = multiply(y, y)
"""
DEFINED = """
      - define: leaf
        takes: h
        gives: h
        body:
          - t = tanh(h)
          - h = exp(t)
      - recompute: outer
        takes: x
        gives: y
        body:
          - s = sin(x)
          - {call: leaf, takes: s, gives: l}
          - y = sin(l)
      - {call: leaf, takes: y, gives: l2}
      - z = multiply(l2, l2)
"""
SEQUENCE = """
      - h = sin(x)
      - sequence: part
        segments: 3
        takes: h
        layers:
          - repeat: 7
            layer: ["p$i = matmul(h, w)", "h = tanh(p$i)"]
      - z = multiply(h, h)
"""
#: A program, and for variants how often its kernels run again; derived by hand.
BY_HAND = [
    (CHAIN, WHOLE, {"sin": 2, "tanh": 1, "exp": 1}),
    (CHAIN, EARLY, {"sin": 1, "tanh": 1, "exp": 1}),  # the last sine keeps its input alone
    (NESTED, ("reentrant",), {"sin": 2, "tanh": 2, "exp": 2}),
    (NESTED, ("non-reentrant-whole",), {"sin": 2, "tanh": 2, "exp": 2}),
    (NESTED, EARLY, {"sin": 1, "tanh": 2, "exp": 2}),
    (DEFINED, WHOLE, {"sin": 2, "tanh": 3, "exp": 3}),
    (DEFINED, EARLY, {"sin": 1, "tanh": 3, "exp": 3}),
    (SEQUENCE, (*WHOLE, *EARLY), {"tanh": 7}),
    (SEQUENCE, ("sequential",), {"tanh": 4}),  # two layers, two layers, and three run plainly
]


@pytest.mark.parametrize(
    ("program", "variant", "again"),
    [(program, variant, again) for program, names, again in BY_HAND for variant in names],
)
def test_counts_agree_with_kernels_and_with_the_hand(
    program: str, variant: str, again: dict[str, int], tmp_path: Path
) -> None:
    case = written(program)
    emitted, module, observer = made(case, variant, tmp_path)
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


def saving(words: str) -> Case:
    return written(CHAIN.replace("takes: x\n", f"takes: x\n        save: [{words}]\n", 1))


#: A policy, what runs again under it, and activations of 6 x 8 numbers kept.
POLICIES = [
    ("exp", {"sin": 1, "tanh": 1}, 1),
    ("tanh", {"sin": 1, "exp": 1}, 1),
    ("tanh, exp", {"sin": 1}, 2),
    ("sin", {"tanh": 1, "exp": 1}, 1),  # the last sine is `y`, which is kept for `z` anyway
    ("s", {"tanh": 1, "exp": 1}, 1),  # of two sines one
    ("matmul, s, tanh, exp", {}, 5),
]


@pytest.mark.parametrize(("words", "again", "kept"), POLICIES, ids=[row[0] for row in POLICIES])
def test_a_policy_keeps_what_it_names(
    words: str, again: dict[str, int], kept: int, tmp_path: Path
) -> None:
    case = saving(words)
    emitted, module, observer = made(case, "selective", tmp_path)
    seen = by_operation(
        case, observer.count(LoadedProgram.of(emitted, module, "recomputed"), Run())
    )
    with kernels_counted() as (counted, _):
        module.run(module.recomputed)
    assert seen == counted
    assert {op: n for (op, phase), n in counted.items() if phase == "rerun"} == again
    unit = 6 * 8 * 4
    found = observer.retained(LoadedProgram.of(emitted, module, "recomputed"))
    assert found == unit * (1 + kept)  # the product outside keeps `y`


def test_modules_are_entered_as_often_as_hooks_say(tmp_path: Path) -> None:
    """A second method for `wrapper`: a hook that every module runs before its forward."""
    case = written(DEFINED)
    emitted, module, observer = made(case, "wrapper", tmp_path)
    run = observer.count(LoadedProgram.of(emitted, module, "recomputed"), Run())
    assert run.executions is not None
    seen = {(e.region, e.phase): e.count for e in run.executions if not e.statement}
    hooked: Counter[tuple[str, str]] = Counter()
    with kernels_counted() as (_, phase):

        def entered(entering: Any, given: Any) -> None:
            hooked[type(entering).__name__.lower(), phase[0]] += 1

        handle = torch.nn.modules.module.register_module_forward_pre_hook(entered)
        try:
            module.run(module.recomputed)
        finally:
            handle.remove()
    del hooked["checkpointwrapper", "forward"], hooked["checkpointwrapper", "rerun"]
    assert hooked == seen
    assert seen["leaf", "forward"] == 2
    assert seen["leaf", "rerun"] == 3


@pytest.mark.parametrize(
    ("variant", "case", "name", "instead"),
    [
        ("non-reentrant-whole", "memory/chain-whole", "checkpoint", lambda f, *a, **o: f(*a)),
        ("selective", "memory/chain-whole", "checkpoint", lambda f, *a, **o: f(*a)),
        ("wrapper", "memory/chain-whole", "checkpoint_wrapper", lambda module, **o: module),
    ],
)
def test_inert_recompute_is_seen(
    variant: str, case: str, name: str, instead: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    emitted, module, observer = made(CASES[case], variant, tmp_path)
    monkeypatch.setattr(module, name, instead)
    run = observer.count(LoadedProgram.of(emitted, module, "recomputed"), Run())
    assert not any(e.count for e in run.executions if e.phase == "rerun")
    kept = observer.retained(LoadedProgram.of(emitted, module, "recomputed"))
    assert kept == observer.retained(LoadedProgram.of(emitted, module, "plain"))
    assert kept == 16 * 2048 * 64 * 4


def test_inert_sequence_is_seen(tmp_path: Path, monkeypatch: Any) -> None:
    emitted, module, observer = made(written(SEQUENCE), "sequential", tmp_path)

    def instead(layers: list[Any], segments: int, h: Any, **options: Any) -> Any:
        for layer in layers:
            h = layer(h)
        return h

    assert (
        observer.retained(LoadedProgram.of(emitted, module, "recomputed")) == 6 * 6 * 8 * 4
    )  # h of 0, 2, 4 to 7
    monkeypatch.setattr(module, "checkpoint_sequential", instead)
    run = observer.count(LoadedProgram.of(emitted, module, "recomputed"), Run())
    assert not any(e.count for e in run.executions if e.phase == "rerun")
    assert observer.retained(LoadedProgram.of(emitted, module, "recomputed")) == 8 * 6 * 8 * 4


NOISE = """
      - recompute: block
        takes: x
        gives: y
        body:
          - d = dropout(x, p=0.5)
          - s = sin(d)
          - u = uniform(shape=[6, 8])
          - m = multiply(s, u)
          - y = sin(m)
      - z = multiply(y, y)
"""


@pytest.mark.parametrize("variant", [*WHOLE, *EARLY])
def test_draws_are_seen(variant: str, tmp_path: Path, monkeypatch: Any) -> None:
    """One draw more is one more, in both phases; fresh ones are seen to differ."""
    first, rest = NOISE.split("          - s = sin(d)\n")
    more = first + "          - d2 = dropout(d, p=0.5)\n          - s = sin(d2)\n" + rest
    for program, labels in ((NOISE, ["d", "u"]), (more, ["d", "d2", "u"])):
        emitted, module, observer = made(written(program), variant, tmp_path)
        run = observer.count(LoadedProgram.of(emitted, module, "recomputed"), Run())
        drawn = {(d.statement, d.phase): d.array for d in run.samples}
        assert sorted(drawn) == sorted((n, p) for n in labels for p in ("forward", "rerun"))
        assert all(np.array_equal(drawn[n, "forward"], drawn[n, "rerun"]) for n in labels)
    if variant == "wrapper":
        return
    own = module.checkpoint
    fresh = lambda f, *a, **o: own(f, *a, **{**o, "preserve_rng_state": False})  # noqa: E731
    monkeypatch.setattr(module, "checkpoint", fresh)
    run = observer.count(LoadedProgram.of(emitted, module, "recomputed"), Run())
    drawn = {(d.statement, d.phase): d.array for d in run.samples}
    assert not any(np.array_equal(drawn[n, "forward"], drawn[n, "rerun"]) for n in labels)


def test_programs_are_what_their_variants_say(tmp_path: Path) -> None:
    """The words that make the difference stand in the programs."""
    for variant, words in (
        ("non-reentrant-whole", "checkpoint(block, x, use_reentrant=False, early_stop=False)"),
        ("selective", "context_fn=partial(create_selective_checkpoint_contexts, [])"),
        ("wrapper", "block = checkpoint_wrapper(Block(w, v))"),
    ):
        text = made(written(CHAIN), variant, tmp_path)[0].text
        assert words in " ".join(text.replace("(\n", "(").split()).replace("( ", "(")
    text = made(written(SEQUENCE), "sequential", tmp_path)[0].text
    assert "h = checkpoint_sequential(layers, 3, h, use_reentrant=False)" in text


WRAPPER = """
from torch.utils import checkpoint as own


def checkpoint(
    function, *args, context_fn=own.noop_context_fn, preserve_rng_state=True, **kwargs
):
    options = {"context_fn": context_fn, "preserve_rng_state": preserve_rng_state}
    return own.checkpoint(function, *args, use_reentrant=False, **options, **kwargs)
"""


def test_a_sound_wrapper_needs_no_declaration(tmp_path: Path, monkeypatch: Any) -> None:
    """Options, what runs again, known deviations of three variants: its signature says all."""
    (tmp_path / "memory.py").write_text(WRAPPER, "utf-8")
    monkeypatch.chdir(tmp_path)
    words = ["run", "--adapter", "torch", "--implementation", "memory:checkpoint"]
    cases = ("policies/save-draw-before-dropout", "procedures/second-*", "mapped/block", "hooks/*")
    chosen = [word for case in (*cases, "randomness/dropout-alone") for word in ("--case", case)]
    done = CliRunner().invoke(app, [*words, *chosen])
    assert done.exit_code == 0, done.output
    run = read(tmp_path / "reports" / "memory-checkpoint.db")
    variants = ("memory-checkpoint/eager", "memory-checkpoint/modules")
    assert run.header.disciplines == dict.fromkeys(variants, "early-stop")
    statuses = {verdict.status for result in run.results for verdict in result.verdicts}
    assert Status.FAIL in statuses  # those that PyTorch's own have, and so are known


def test_contexts_are_entered_around_forward_and_around_each_rerun(tmp_path: Path) -> None:
    for name, regions in (("basics/mlp-block", 1), ("regions/called-repeatedly", 3)):
        _, module, _ = made(CASES[name], "contexts", tmp_path)
        module.run(module.plain)
        assert module.entered == []
        module.run(module.recomputed)
        assert module.entered == ["forward"] * regions + ["rerun"] * regions


def test_on_a_device_backward_runs_in_the_thread_that_calls_it() -> None:
    """In a thread of PyTorch's own, no line of Python can be followed."""
    package = type(BENCH.observer("reentrant")).__module__.rpartition(".")[0]
    cuda = importlib.import_module(f"{package}.cuda")
    told = []
    with cuda.entering(cuda.in_its_thread):
        assert torch._C._is_multithreading_enabled()
        thread = Thread(target=lambda: told.append(torch._C._is_multithreading_enabled()))
        thread.start()
        thread.join()
        assert torch._C._is_multithreading_enabled()
    assert told == [False]
