"""`conformance check`: programs of one's own in a framework of a few lines (`tests/toy_adapter`)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import conformance
from conformance.checking import Result
from conformance.checking.show import as_json, heading, write_page
from conformance.errors import BrokenAdapterError, ConformanceError
from conformance.model.observation import Leaf
from conformance.observe.worker.checking.arrays import compared, spread
from conformance.observe.worker.checking.outputs import named
from conformance.observe.worker.checking.steps import smallest

TOY = Path(__file__).parent / "toy_adapter"
#: Two weights; `body` is the region. What deviates is put in the place of a line.
PROGRAM = """
import random
import numpy as np
import toy

class Model:
    def __init__(self, again):
        self.again = again
        self.weights = {"a": np.array([1, 2], np.float32), "b": np.array([3, 4], np.float32)}

def body(x):
    return np.sin(x)

def model(recompute):
    return Model(recompute)

def batch(step):
    return np.array([step, 1], np.float32)

def loss(model, batch):
    w = model.weights
    h = toy.recompute(body, w["a"]) if model.again else body(w["a"])
    again, ran = toy.taken(h)
    value = (h * w["b"] * batch).sum()

    def gradients():
        return {"a": np.cos(w["a"]) * w["b"] * batch, "b": again() * batch}

    return toy.Loss(value, gradients, [] if ran else [h])
"""
Check = Callable[..., Result]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Check the program with some of its text replaced."""
    folder = tmp_path / "adapters"
    shutil.copytree(TOY, folder / "toy")
    (folder / "toy" / "toy.py").rename(tmp_path / "toy.py")

    def checked(*changes: tuple[str, str], text: str = PROGRAM, **options: object) -> Result:
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        file = tmp_path / "mine.py"
        file.write_text(text)
        result: Result = conformance.check(file, adapters_folder=folder, **options)
        return result

    return checked


def statuses(result: Result) -> dict[str, str]:
    return {one.check: one.status.value for one in result.lines}


def message(result: Result, check: str) -> str:
    return next(one.message for one in result.lines if one.check == check)


def test_a_program_that_is_right_passes(check: Check) -> None:
    result = check()
    assert result.ok, str(result)
    assert set(statuses(result).values()) == {"pass", "report"}
    assert message(result, "gradients") == "equal in all steps (2 parameters)"
    assert message(result, "ran again").startswith(
        "50 % of the forward pass (1 of 2 calls of layers"
    )
    assert message(result, "memory") == "kept until backward 0 % of plain"
    assert result.conclusion == "mine.py is right."
    assert heading(result) == f"mine.py: numpy {np.__version__}, 4 parameters, 3 steps"


@pytest.mark.parametrize(
    ("old", "new", "wrong", "said"),
    [
        ("again() * batch", "None if ran else h * batch", "gradients", "b: none, but float32[2]"),
        ("again() * batch", "h * batch * (not ran)", "gradients", "b: all zero, but 0.9"),
        ("again() * batch", "(h * batch)[ran:]", "gradients", "b: shape (1,), but (2,)"),
        (
            "again() * batch",
            "h * batch.astype(float if ran else 'f')",
            "gradients",
            "b: dtype float64",
        ),
        ("again() * batch", "h * batch * (1 + 1e-4 * ran)", "gradients", "1 of 2 differ"),
        ("value = (h", "value = (1 + ran / 99) * (h", "loss", "without recomputation"),
        (
            "value = (h",
            "ran and random.random()\n    value = (h",
            "random state",
            "Python's generator",
        ),
        ("value = (h", "w['b'] = w['b'] + ran\n    value = (h", "loss", "without recomputation"),
    ],
)
def test_what_deviates_is_named(check: Check, old: str, new: str, wrong: str, said: str) -> None:
    result = check((old, new))
    assert not result.ok
    assert said in message(result, wrong)


def test_an_error_that_plain_does_not_raise(check: Check) -> None:
    result = check(("    def gradients():\n", "    def gradients():\n        1 / (not ran)\n"))
    assert not result.ok
    assert message(result, "error").startswith("raised ZeroDivisionError in backward (line 27): ")


def test_an_error_of_the_plain_program_is_not_recomputations(check: Check) -> None:
    result = check(("    return np.sin(x)", "    return np.sin(x + nothing)"))
    assert statuses(result) == {"error": "broken"}
    assert result.conclusion.startswith("mine.py cannot be checked")
    assert not result.ok


def test_a_program_that_recomputes_nothing_says_so(check: Check) -> None:
    result = check(("    return Model(recompute)", "    return Model(False)"))
    assert not result.ok
    assert message(result, "ran again").startswith("inert: none of 2 calls")
    assert result.conclusion == "mine.py recomputes nothing."


def test_a_loss_that_is_no_scalar(check: Check) -> None:
    result = check(text=PROGRAM.replace(".sum()", ""))
    assert "`loss` returned a tensor of shape (2,), not a scalar" in message(result, "error")


def test_a_model_of_another_kind(check: Check) -> None:
    result = check(("    return Model(recompute)", "    return 3"))
    assert "`model` returned a int, not a model with weights" in message(result, "error")


#: A batch of another length each time: in each step, or in each call, which no seed repeats.
LENGTHS = PROGRAM.replace("[step, 1]", "[1] * (step + 2)").replace(
    '* w["b"] * batch).sum()', '* w["b"]).sum() * batch.sum()'
)
LENGTHS = LENGTHS.replace("] * batch, ", "] * batch.sum(), ").replace(
    "() * batch}", "() * batch.sum()}"
)


def test_a_batch_of_another_length_in_each_step_is_right(check: Check) -> None:
    result = check(text=LENGTHS)
    assert set(statuses(result).values()) == {"pass", "report"}, str(result)


def test_a_batch_of_another_length_in_each_call_is_told(check: Check) -> None:
    result = check(
        ("def batch(step):", "LONG = [1]\n\ndef batch(step):\n    LONG.append(1)"),
        ("[1] * (step + 2)", "LONG"),
        ("toy.Loss(value, gradients, [] if ran else [h])", "toy.Loss(value, gradients, []), batch"),
        text=LENGTHS,
    )
    assert result.ok, str(result)
    assert "something is not seeded" in message(result, "repeats")
    assert message(result, "loss").startswith("as near as two plain runs (")


def test_a_model_that_does_not_repeat_itself_is_judged_within_its_spread(check: Check) -> None:
    noise = "__import__('secrets').randbelow(1000) / 1e6"
    result = check(("value = (h", f"value = {noise} + (h"))
    assert "two runs without recomputation differ, first in loss at step" in message(
        result, "repeats"
    )


def test_last_digits_that_change_besides_are_not_held_against_recomputation(check: Check) -> None:
    result = check(("value = (h", "value = np.float32(1 + 5e-5 * model.again) * (h"))
    assert statuses(result)["loss"] == "report"
    assert result.ok


def test_more_that_changes_besides_fails_and_says_so(check: Check) -> None:
    result = check(("value = (h", "value = (1 + model.again) * (h"))
    (loss,) = [one for one in result.lines if one.check == "loss"]
    assert loss.status.value == "fail"
    assert loss.details[-1].startswith("With every region called plainly it deviates, too")
    assert not result.ok


def test_bisecting_names_the_region(check: Check) -> None:
    other = "toy.recompute(other, w['b']) if model.again else other(w['b'])\n    "
    result = check(
        ("def model(", "def other(x):\n    return x + 1\n\ndef model("),
        ("    h = toy", f"    u = {other}toy.taken(u)\n    h = toy"),
        ("again() * batch", "None if ran else h * batch"),
        bisect=True,
    )
    assert message(result, "regions") == "the deviation needs body; all others may be recomputed"


def test_a_known_cause_is_guessed(check: Check) -> None:
    result = check(
        ('toy.recompute(body, w["a"])', 'toy.recompute(lambda l: body(l[0]), [w["a"]])'),
        ("again() * batch", "None if ran else h * batch"),
    )
    assert [guess.cause for guess in result.guesses] == ["forgets"]
    assert str(result.guesses[0]).endswith("Instead: Pass arrays. (https://example.org/forgets)")


def test_what_grows_is_told(check: Check) -> None:
    result = check(
        ("def model(", "LEFT = []\ndef model("),
        ("value = (h", "ran and LEFT.append(toy.Loss(0, None, [h]))\n    value = (h"),
    )
    assert statuses(result)["growth"] == "fail"
    assert "8 bytes more are held after each step, 0 without" in message(result, "growth")


@pytest.mark.parametrize(
    ("ends", "status", "said"),
    [
        (
            "    import os; os.kill(os.getpid(), 11)\n",
            "crashed",
            "the process died of SIGSEGV, without recomputation, in forward of step 0, at line 21",
        ),
        (
            "    while True: pass\n",
            "timeout",
            "no answer within 3 s, without recomputation, in forward of step 0, at line 21",
        ),
    ],
)
def test_a_program_that_ends_the_process_or_never_ends(
    check: Check, ends: str, status: str, said: str
) -> None:
    result = check(("    w = model.weights\n", f"{ends}    w = model.weights\n"), time_limit=3.0)
    assert statuses(result) == {"error": status}
    assert message(result, "error") == said
    assert result.conclusion == "mine.py was not checked to its end."


RUN = """
import toy

def plain(function, x):
    return function(x)

def recomputed(function, x):
    return toy.recompute(function, x)

def run(call):
    return {"y": call(lambda x: x * 2, 3.0), "text": "a"}
"""


def test_a_program_that_runs_instead_of_training(check: Check) -> None:
    assert check(text=RUN).ok
    wrong = check(("recompute(function, x)", "recompute(function, x) + 1"), text=RUN)
    assert "outputs['y']: 7, but 6 without recomputation" in message(wrong, "outputs")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import toy\n", "this one has no `model` and no `batch` and no `loss`"),
        ("import toy\ndef model(r): ...\n", "this one has no `batch` and no `loss`"),
        ("import toy\ndef run(r): ...\n", "this one has no `plain` and no `recomputed`"),
        ("def model(\n", "mine.py:1: '(' was never closed"),
        (PROGRAM.replace("import toy\n", ""), "imports no framework that can be checked"),
    ],
)
def test_a_file_that_cannot_be_checked(check: Check, text: str, said: str) -> None:
    with pytest.raises(ConformanceError) as raised:
        check(text=text)
    assert said in str(raised.value)


def test_a_framework_that_is_not_installed(check: Check, tmp_path: Path) -> None:
    assert check().ok
    (tmp_path / "toy.py").unlink()
    with pytest.raises(BrokenAdapterError, match="Toy is not installed for"):
        check()


def test_two_frameworks_have_to_be_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "two.py"
    file.write_text(
        "import torch, jax\ndef model(r): ...\ndef batch(s): ...\ndef loss(m, b): ...\n"
    )
    with pytest.raises(ConformanceError, match="imports several frameworks: jax, torch"):
        conformance.check(file)


def test_the_command_prints_and_exits(check: Check, tmp_path: Path) -> None:
    assert check().ok
    command = [sys.executable, "-m", "conformance", "check", str(tmp_path / "mine.py")]
    options = ["--adapters-folder", str(tmp_path / "adapters"), "--format", "json"]
    ran = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert (told["ok"], told["conclusion"]) == (True, "mine.py is right.")
    assert [line["check"] for line in told["lines"]][:2] == ["loss", "gradients"]


def test_a_script_that_checks_at_its_top_is_not_run_again(check: Check, tmp_path: Path) -> None:
    assert check().ok
    script = tmp_path / "script.py"
    script.write_text(
        "import conformance, pathlib\nprint('once')\nhere = pathlib.Path(__file__).parent\n"
        "print(conformance.check(here / 'mine.py', adapters_folder=here / 'adapters').ok)\n"
    )
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("once\nTrue\n", "")


def test_json_and_page_say_the_same(check: Check, tmp_path: Path) -> None:
    result = check(("value = (h", "value = (1 + ran) * (h"))
    assert json.loads(as_json(result))["ok"] is False
    write_page(result, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "mine.py is not right with recomputation: loss" in page


# -- the parts ---------------------------------------------------------------------------------------


def leaf(*numbers: float, dtype: str = "float32") -> Leaf:
    return Leaf(np.array(numbers, dtype), dtype)


def test_rounding_is_told_from_a_difference() -> None:
    plain = {"a": leaf(1, 100)}
    near = compared("gradients", 0, plain, {"a": leaf(1.0005, 100)}, {})
    assert near.wrong == 0
    assert near.largest == pytest.approx(5e-6, rel=0.1)
    far = compared("gradients", 0, plain, {"a": leaf(1.01, 100)}, {})
    assert far.differs[0].place == (0,)
    assert compared("gradients", 0, plain, {"a": leaf(1.01, 100)}, {"a": 0.01}).wrong == 0
    assert compared("gradients", 0, plain, {"a": leaf(1.01, 100)}, {}, tolerance=1e-3).wrong == 0


def test_the_same_nan_is_equal_and_a_new_one_is_not() -> None:
    nan = leaf(float("nan"), 1)
    assert compared("loss", 0, {"a": nan}, {"a": nan}, {}).wrong == 0
    assert compared("loss", 0, {"a": leaf(0, 1)}, {"a": nan}, {}).wrong == 1


def test_spread_is_of_arrays_that_differ() -> None:
    assert spread({"a": leaf(1), "b": leaf(2)}, {"a": leaf(1), "b": leaf(2.5)}) == {"b": 0.5}


def test_values_are_named_by_their_containers() -> None:
    names = named({"x": [np.ones(2), 3], "n": None}, lambda value: None, "outputs")
    assert list(names) == [
        "outputs: type",
        "outputs['x']: type",
        "outputs['x'][0]",
        "outputs['x'][1]",
        "outputs['n']",
    ]


@pytest.mark.parametrize("needed", [{3}, {0, 5}, {1, 2, 6}, set(range(7))])
def test_the_smallest_set_is_found(needed: set[int]) -> None:
    assert set(smallest(list(range(7)), lambda some: needed <= set(some))) == needed
