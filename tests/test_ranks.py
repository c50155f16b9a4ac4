"""Programs of several ranks: that they wait for each other, end together, and leave nothing running."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conformance.drivers.adapter import read_adapter
from conformance.emit.programs import EmitFailure, texts
from conformance.errors import CaseError
from conformance.judge.ranks import each_rank
from conformance.language.load import load_text
from conformance.model.observation import Observation, Run
from conformance.model.program import Program, Site
from conformance.model.verdict import Level, Status, Verdict
from conformance.observe.worker import ranks
from conformance.oracle import tape

PROGRAM = Program(
    "ranks/x", "mini", "right", "/no/program.py", "", {}, "backward", False, None, ranks=2
)


def test_ranks_take_part_in_collectives():
    def program() -> list[list[float]]:
        x = tape.tensor(np.arange(4.0) + tape.rank(), gradient=True)
        parts = tape.reduce_scatter(x), tape.all_gather(x), tape.all_reduce(x)
        loss = tape.sum(tape.multiply(tape.tensor(1.0 + tape.rank()), tape.sum(parts[1])))
        return [*(p.data.tolist() for p in parts), tape.gradient(loss, [x])[0].data.tolist()]

    first, second = tape.spawn(program, 2)
    gathered = [0, 1, 2, 3, 1, 2, 3, 4]
    assert first == [[1, 3], gathered, [1, 3, 5, 7], [3, 3, 3, 3]]
    assert second == [[5, 7], gathered, [1, 3, 5, 7], [3, 3, 3, 3]]


@pytest.mark.parametrize("op", [tape.all_reduce, tape.all_gather, tape.reduce_scatter])
def test_gradients_of_collectives_are_those_of_all_losses(op):
    given = np.random.default_rng(0).standard_normal((2, 4))

    def program(values: np.ndarray) -> tuple[float, list[float]]:
        x = tape.tensor(values[tape.rank()], "float64", gradient=True)
        loss = tape.sum(tape.multiply(tape.tensor(2.0 + tape.rank()), tape.sin(op(x))))
        return float(loss.data), tape.gradient(loss, [x])[0].data.tolist()

    found = [gradient for _, gradient in tape.spawn(lambda: program(given), 2)]
    for rank, place in np.ndindex(2, 4):
        step = np.zeros((2, 4))
        step[rank, place] = 1e-6
        above, below = (
            sum(loss for loss, _ in tape.spawn(lambda v=values: program(v), 2))
            for values in (given + step, given - step)
        )
        assert found[rank][place] == pytest.approx((above - below) / 2e-6, abs=1e-6)


def test_an_error_on_a_rank_ends_all():
    def program() -> None:
        if tape.rank():
            raise ValueError("of rank 1")
        tape.all_reduce(tape.tensor(1.0))

    with pytest.raises(ValueError, match="of rank 1"):
        tape.spawn(program, 2)


def test_a_rank_that_waits_for_one_that_has_ended_says_so():
    def program() -> None:
        if tape.rank() == 0:
            tape.all_reduce(tape.tensor(1.0))

    with pytest.raises(RuntimeError, match="rank 0 waits in all_reduce, and rank 1 has ended"):
        tape.spawn(program, 2)


def test_ranks_that_wait_for_each_other_are_ended_and_say_where(monkeypatch, tmp_path):
    monkeypatch.setattr(ranks, "LIMIT", 0.5)
    started = tmp_path / "started"

    def all_reduce() -> None:
        time.sleep(60)

    def seen(rank: int, folder: str) -> Observation:
        with started.open("a") as file:
            file.write(f"{os.getpid()}\n")
        if rank:
            all_reduce()
        return Observation(Run(), Run())

    with pytest.raises(ranks.WaitingError, match="rank 0 has ended, rank 1 in all_reduce"):
        ranks.observe(PROGRAM, ["all_reduce"], seen)
    for process in map(int, started.read_text().split()):
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_where_a_rank_waits_is_named_by_the_program():
    lines = {
        3: Site("statement", "both", "block", "r", "all_reduce"),
        9: Site("phase", "run", "", "backward"),
    }
    stack = (
        '  File "/lib/dist.py", line 7 in all_reduce\n  File "/no/program.py", line 3 in block\n'
        '  File "/no/program.py", line 9 in run\n'
    )
    place = ranks._place(stack, replace(PROGRAM, lines=lines), ["all_reduce"])
    assert place == "in all_reduce (r in region block), in backward"


@pytest.mark.parametrize("how", ["raises", "dies"])
def test_an_observer_that_fails_on_a_rank_ends_all(how):
    def seen(rank: int, folder: str) -> Observation:
        if rank == 0:
            time.sleep(60)
        if how == "dies":
            os._exit(3)
        raise ValueError("of rank 1")

    before = time.monotonic()
    with pytest.raises(RuntimeError, match="rank 1"):
        ranks.observe(PROGRAM, [], seen)
    assert time.monotonic() - before < 30


def verdict(check: str, status: Status) -> Verdict:
    return Verdict(check, status, Level.MUST, f"{check} says {status}")


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (Status.FAIL, "on rank 1: value says fail"),
        (Status.PASS, "value says pass"),
    ],
)
def test_the_worst_verdict_of_all_ranks_counts_and_names_the_rank(second, message):
    seen = Observation(Run(), Run(), others=(Observation(Run(), Run(), seconds=1.0),))

    def judge(expect, one):
        return (verdict("value", second if one.seconds else Status.PASS),)

    (found,) = each_rank(seen, lambda samples, rank: None, judge)
    assert (found.status, found.message) == (second, message)


CASE = """
family: mine
cases:
  one:
    title: One of several ranks
    source: the suite's own
    why: To be refused.
    ranks: 2
    inputs: {x: {shape: [2], normal: 1.0, by_rank: true}}
    program:
      - recompute: block(x)
        body: y = all_reduce(x)
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ranks: 2", "ranks: 1", "all_reduce takes several ranks"),
        ("normal: 1.0", "full: 1.0", "'full' fills 'x' alike on each rank"),
        ("shape: [2], normal: 1.0", "values: [1.0]", "no first axis of 2 ranks"),
        ("ranks: 2", "ranks: 2\n    procedure: second_order", "is for one rank"),
        ("all_reduce(x)", "sin(x)\n    parallel: data\n    ranks: 1", "`parallel` takes several"),
        ("all_reduce(x)", "sin(x)\n    parallel: sharded\n    ranks: 1", "takes several ranks"),
        ("inputs:", "parallel: data\n    procedure: second_backward\n    inputs:", "once after"),
        ("inputs:", "parallel: sharded\n    parameters:", "'x' is `by_rank`, and `parallel` keeps"),
    ],
)
def test_what_does_not_fit_the_ranks_is_refused(old, new, message):
    text = CASE.replace(old, new)
    if "ranks: 1" in new:
        text = text.replace("    ranks: 2\n", "").replace(", by_rank: true", "")
    with pytest.raises(CaseError, match=message):
        load_text(text, "mine.yaml")


SHARDED = """
family: mine
cases:
  one:
    title: One with sharded parameters
    source: the suite's own
    why: To be written, or refused.
    ranks: 2
    parallel: sharded
    inputs: {x: {shape: [2, 2], normal: 1.0}}
    parameters: {w: {shape: [2, 2], normal: 1.0}}
    program:
      - v = exp(x)
      - recompute: block(x)
        body: h = matmul(x, w); y = sin(h)
      - z = add(y, v)
    procedure: backward
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sin(h)", "sin(h)", ""),
        (
            "body: h = matmul(x, w); y = sin(h)",
            'body: ["h = matmul(x, w)", {recompute: inner(h), body: y = sin(h)}]',
            "",
        ),
        ("block(x)", "block(x, w)", ""),
        ("sin(h)", "add(h, v)", "reads an input or an intermediate tensor by closure"),
        ("add(y, v)", "add(y, w)", "a parameter of several sharded modules"),
        (
            "z = add(y, v)",
            "recompute: other(y)\n        body: z = matmul(y, w)",
            "of several sharded",
        ),
        ("backward", "{train: {steps: 2, learning_rate: 0.1, made: once}}", ""),
        (
            "backward",
            "{train: {steps: 2, learning_rate: 0.1, made: once, between: [{freeze: w}]}}",
            "that are changed",
        ),
        ("backward", "{backward: {between: update}}", "that are changed"),
        ("backward", "part", "some of the sharded parameters"),
    ],
)
def test_each_sharded_module_holds_what_it_reads(old, new, message):
    text = written(SHARDED.replace(old, new), "torch", "non-reentrant", message)
    assert message or "fully_shard" in text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("matmul(x, w)", "matmul(w, x)", ""),
        ("block(x)", "block(x, w)", "a sharded parameter as an argument"),
        ("w: {shape: [2, 2]", "u: {shape: [3], full: 1.0}, w: {shape: [2, 2]", "with rows"),
    ],
)
def test_each_read_of_a_sharded_parameter_gathers_it(old, new, message):
    text = written(SHARDED.replace(old, new), "jax", "shard-map", message)
    assert message or "gather(w)" in text


def written(file, adapter, variant, message):
    """The program of a file's case, on one line; if there is a message, why it is not written."""
    (case,) = load_text(file, "mine.yaml")
    found = read_adapter(Path(__file__).parent.parent / "adapters" / adapter)
    (text,) = texts(found, [(case, found.variant(variant))]).values()
    if message:
        assert isinstance(text, EmitFailure)
        assert message in text.asked
        return text.asked
    assert not isinstance(text, EmitFailure), text
    return " ".join(text.text.split())


SPLIT = """
family: mine
cases:
  one:
    title: One with split layers
    source: the suite's own
    why: To be written, or refused.
    ranks: 2
    parallel: {tensor: {up: columns, down: rows}}
    inputs: {x: {shape: [2, 4], normal: 1.0}}
    parameters:
      up: {shape: [6, 4], normal: 1.0}
      bias: {shape: [6], normal: 1.0}
      down: {shape: [4, 6], normal: 1.0}
      more: {shape: [4], full: 1.0}
    program:
      - recompute: mlp(x)
        body: h = linear(x, up, bias); a = gelu(h); y = linear(a, down, more)
      - z = multiply(y, y)
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "message", "hint"),
    [
        ("{up: columns", "{pu: columns", 9, "no parameter is named 'pu'", "did you mean 'up'"),
        ("{up: columns", "{more: columns", 18, "reads 'more', which is split", "as its `w`"),
        ("{up: columns, ", "{", 18, "reads a whole tensor", "layers of `columns`"),
        ("down: rows", "down: columns", 18, "reads a split tensor", "layers of `columns`"),
        (", down: rows", "", 18, "linear reads a split tensor and a whole one", ""),
        ("linear(a, down, more)", "sin(a)", 9, "no layer reads 'down'", "as its `w`"),
        ("gelu(h)", "multiply(h, bias)", 18, "reads a split tensor and a whole one", ""),
        ("gelu(h)", "dropout(h)", 18, "draws other numbers on each rank", ""),
        ("gelu(h)", "all_reduce(h)", 18, "all_reduce stands in a program", ""),
        ("z = multiply(y, y)", "z = linear(y, up, bias)", 9, "output is split", "makes it whole"),
        ("ranks: 2", "ranks: 4", 9, "4 ranks do not divide the 6 columns of 'up'", "8 columns"),
        ("ranks: 2", "ranks: 1", 9, "`parallel` takes several ranks", "write `ranks: 2`"),
        ("normal: 1.0}}", "normal: 1.0, by_rank: true}}", 9, "'x' is `by_rank`", ""),
        (
            "ranks: 2",
            "ranks: 2\n    seeded: false\n    gradients: {totals: {more: 2.0}}",
            9,
            "draw the same, by a seed",
            "",
        ),
        ("columns, down", "columms, down", 9, "found 'columms'", "did you mean 'columns'"),
    ],
)
def test_what_cannot_be_split_is_refused(old, new, line, message, hint):
    with pytest.raises(CaseError) as refused:
        load_text(SPLIT.replace(old, new), "mine.yaml")
    told = str(refused.value)
    assert message in told
    assert hint in told
    assert f"mine.yaml:{line}:" in told


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mlp(x)", "mlp(x)", ""),
        ("mlp(x)", "mlp(x, up)", "weights are arguments"),
        ("multiply(y, y)", "mlp(y)", ""),
        ("multiply(y, y)", "linear(y, up, bias); t = linear(z, down, more)", "of several split"),
    ],
)
def test_each_split_layer_owns_its_weights(old, new, message):
    plan = '{"h": ColwiseParallel(use_local_output=False), "y": RowwiseParallel()}'
    text = written(SPLIT.replace(old, new), "torch", "non-reentrant", message)
    assert message or text.count(plan) == 2
