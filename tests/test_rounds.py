"""Rounds of one run: what is not the same in all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from conformance.model.observation import ErrorSeen, Execution, Leaf, Observation, Run
from conformance.model.verdict import Level, Status, Verdict
from conformance.results import Result
from conformance.run.rounds import Rounds

X = np.array([1.0, 2.0, 3.0], "float32")
RUN = Run(
    outputs=(Leaf(X, "float32"), {"n": 2}),
    losses=(6.0,),
    gradients={"x": X, "w": None},
    executions=(Execution("block", "y", "rerun", 1),),
    retained=64,
)


def result(run: Run, status: Status = Status.PASS) -> Result:
    verdict = Verdict("gradient", status, Level.MUST, "so it is")
    observation = Observation(RUN, run, {}, {}, 0.0, 0)
    return Result("a/one", "m/v", (verdict,), observation, None, "")


def found(*runs: Result) -> list[tuple[str, bool, str]]:
    rounds = Rounds()
    for one in runs:
        rounds.add([one])
    return [(u.check, u.verdict, u.words) for u in rounds.unsteady]


def test_what_is_the_same_is_not_listed() -> None:
    again = replace(RUN, gradients={"x": X.copy(), "w": None})
    assert found(result(RUN), result(again), result(RUN)) == []


CHANGES = [
    (
        {"gradients": {"x": X + np.float32(0.5), "w": None}},
        ("gradient", "gradients x: 2 different arrays, up to 0.5 from the first (in round 2)"),
    ),
    (
        {"gradients": {"x": X, "w": X}},
        ("gradient", "gradients w: None in rounds 1, 3; float32 of shape (3,) in round 2"),
    ),
    (
        {"outputs": (Leaf(X, "float32"), {"n": 3})},
        ("value", "outputs[1]['n']: 2 in rounds 1, 3; 3 in round 2"),
    ),
    ({"losses": (7.0,)}, ("value", "losses: (6.0,) in rounds 1, 3; (7.0,) in round 2")),
    ({"retained": 65}, ("retained memory", "retained: 64 in rounds 1, 3; 65 in round 2")),
    (
        {"executions": (Execution("block", "y", "rerun", 2),)},
        ("executions", "executions of block.y in rerun: 1 in rounds 1, 3; 2 in round 2"),
    ),
    (
        {"executions": ()},
        ("executions", "executions of block.y in rerun: 1 in rounds 1, 3; not there in round 2"),
    ),
    (
        {"error": ErrorSeen("ValueError", (), "no", "backward")},
        ("error", "error: None in rounds 1, 3; ValueError: no in round 2"),
    ),
]


@pytest.mark.parametrize(("change", "expected"), CHANGES)
def test_each_value_is_told_apart(change, expected) -> None:
    check, words = expected
    other = result(replace(RUN, **change))
    assert found(result(RUN), other, result(RUN)) == [(check, False, f"recomputed {words}")]


def test_of_many_values_the_first_are_listed() -> None:
    rounds = (result(replace(RUN, retained=64 + number)) for number in range(20))
    ((_, _, words),) = found(*rounds)
    assert words.startswith("recomputed retained: 64 in round 1; 65 in round 2; ")
    assert words.endswith("67 in round 4; and 16 more values")


def test_verdicts_come_first() -> None:
    other = result(replace(RUN, retained=65), Status.FAIL)
    listed = found(result(RUN), other)
    assert [verdict for _, verdict, _ in listed] == [True, False]
    assert listed[0] == ("gradient", True, "verdict: pass in round 1; fail in round 2")
