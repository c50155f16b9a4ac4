# ruff: noqa: E501 (a table reads best a row a line)
"""Every check on evidence made by hand: what passes, what fails, and in which words."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from conformance.judge.checks import CHECKS
from conformance.model.case import Case
from conformance.model.facts import (
    Bytes,
    Calls,
    Count,
    Difference,
    Fact,
    Growth,
    Inert,
    Raised,
    Sampling,
    State,
    States,
)
from conformance.model.observation import (
    RESOLUTION,
    ErrorSeen,
    Expected,
    ExpectedMemory,
    Leaf,
    RandomState,
)
from conformance.model.verdict import Level, Status, Verdict

from .evidence import (
    AS_PLAIN,
    BOTH,
    CONTROL,
    DRAWN,
    ERROR,
    EXPECTED,
    FORWARD,
    FREE,
    GOOD_AFTER,
    GRADIENTS,
    HOOKED,
    LARGE,
    MEMORY,
    NOTED,
    ON_LAW,
    ORDER,
    OUTPUTS,
    PLAIN,
    RANDOM,
    REPEATED,
    REPEATED_LEFT,
    RERUN,
    SEEN,
    SLOPES,
    TOTAL,
    TRAIN,
    TRAINED_TOTAL,
    TWICE,
    UNKNOWN,
    UNREAD,
    UNSEEDED,
    array,
    draw,
    evidence,
    executions,
    leaf,
)

MIB = 2**20
NAN = float("nan")


def hooked(calls: int) -> dict[str, Any]:
    """What a run looks like in which the hook of w was called so often."""
    return {"state": {"hook of w": np.array(calls)}}


@dataclass(frozen=True)
class Row:
    """Evidence that is right but for what is given, the status it must get, and a piece of the message.

    `both` changes both runs, `seen` the recomputed one, `control` the plain one, `expected` what the
    reference says.
    """

    id: str
    status: Status
    says: str
    case: Case = PLAIN
    seen: dict[str, Any] = field(default_factory=dict)
    control: dict[str, Any] = field(default_factory=dict)
    resolution: int = RESOLUTION
    both: dict[str, Any] = field(default_factory=dict)
    expected: Expected = EXPECTED
    variant: dict[str, Any] = field(default_factory=dict)
    unobserved: dict[str, str] = field(default_factory=dict)


def _grad(**more: Any) -> dict[str, Any]:
    return {"gradients": {**GRADIENTS, **more}}


def _ran(**more: int) -> dict[str, Any]:
    return {
        "executions": executions(
            {**FORWARD, **RERUN, **{k.replace("__", " "): n for k, n in more.items()}}
        )
    }


def _error(name: str, *bases: str, phase: Any = "forward") -> ErrorSeen:
    return ErrorSeen(name, (name, *bases, "Exception"), "what it said", phase)


VALUE_ERROR = _error("ValueError")
SAME = (DRAWN, replace(DRAWN, phase="rerun"))
OTHER = (DRAWN, draw("y", "rerun", 0, 2))
LOST = (draw("y", "forward", NAN, 0), draw("y", "rerun", NAN, 0))
PASS, FAIL, WARN, REPORT, UNSUPPORTED, BROKEN = (
    *(Status.PASS, Status.FAIL, Status.WARN, Status.REPORT, Status.UNSUPPORTED, Status.BROKEN),
)
LAST = array(3, 3)
SLIGHTLY = np.nextafter(array([3, 3]), np.float32(4))  # one bit off
ROUNDED = {"exact": False}
SUMMED = {"exact_gradients": False}
OFF = array([3, 4])
AGAIN = {"again": GRADIENTS}
AGAIN_RIGHT = replace(EXPECTED, again=EXPECTED.gradients)
TRAINED = {"parameters": {"w": array([1, 1])}, "losses": (9.0, 8.0)}
TRAINED_RIGHT = replace(EXPECTED, parameters={"w": array([1, 1])}, losses=(9.0, 8.0))
TINY = replace(EXPECTED, memory=replace(MEMORY, drop=RESOLUTION - 1))
LEAST = replace(
    EXPECTED, memory=replace(MEMORY, drop=RESOLUTION, unit=RESOLUTION, recomputed=(0, 0))
)

#: In bytes: nine kept plain, one with recompute.
SMALL = replace(EXPECTED, memory=ExpectedMemory((9, 9), (0, 1), 8, 1))
STATES = replace(EXPECTED, memory=replace(MEMORY, states=1))

TABLE: dict[str, list[Row]] = {
    "error": [
        Row("ran", PASS, "ran without an error"),
        Row("raised", FAIL, "raised ValueError in forward, but should run without an error: what it said", seen={"error": VALUE_ERROR}),
        Row("promised", PASS, "raised ValueError as promised", ERROR, seen={"error": VALUE_ERROR}),
        Row("kind-of-promised", PASS, "raised OddError as promised", ERROR, seen={"error": _error("OddError", "ValueError")}),
        Row("missing", FAIL, "raised no error, but should raise ValueError", ERROR),
        Row("other", FAIL, "raised TypeError, but should raise ValueError: what it said", ERROR, seen={"error": _error("TypeError")}),
        Row("as-plain-ran", PASS, "ran without an error", AS_PLAIN),
        Row("as-plain-raised", FAIL, "raised ValueError in forward, but should run without an error", AS_PLAIN, seen={"error": VALUE_ERROR}),
        Row("as-plain-refused", PASS, "raised ValueError in forward, and the plain program raised ValueError in backward", AS_PLAIN, control={"error": _error("ValueError", phase="backward")}, seen={"error": VALUE_ERROR}),
        Row("as-plain-further", PASS, "ran without an error, but the plain program raised ValueError", AS_PLAIN, control={"error": VALUE_ERROR}),
        Row("good-after", PASS, "as promised, and the next run, without the error, succeeded", GOOD_AFTER, seen={"error": VALUE_ERROR, "good_run_after_error": True}),
        Row("bad-after", FAIL, "the next run, without the error, failed", GOOD_AFTER, seen={"error": VALUE_ERROR, "good_run_after_error": False}),
        Row("plain-bad-after", PASS, "as promised, and the next run fails without recompute, too", GOOD_AFTER, both={"good_run_after_error": False}, seen={"error": VALUE_ERROR}),
        Row("never-good", PASS, "as promised, and the run that should succeed fails without the error, too", GOOD_AFTER, seen={"error": VALUE_ERROR, "good_run_before_error": False}),
        Row("never-after", FAIL, "the next run, without the error, failed", GOOD_AFTER, seen={"error": VALUE_ERROR}),
    ],
    "value": [
        Row("right", PASS, "3 values equal the plain run and the reference"),
        Row("output", FAIL, "outputs[0] differs in 1 of 2 elements, most at [0, 1]: 7, but should be 6 (plain run)", seen={"outputs": (leaf([3, 7]), OUTPUTS[1])}),
        Row("nested-output", FAIL, "outputs[1]['z'] differs", seen={"outputs": (OUTPUTS[0], {"z": leaf([6, 8])})}),
        Row("one-bit", FAIL, "outputs[0] differs in 1 of 2", seen={"outputs": (Leaf(np.nextafter(array([3, 6]), array([3, 9])), "float32"), OUTPUTS[1])}),
        Row("one-bit-rounded", PASS, "3 values equal", seen={"outputs": (Leaf(np.nextafter(array([3, 6]), array([3, 9])), "float32"), OUTPUTS[1])}, variant=ROUNDED),
        Row("beyond-rounding", FAIL, "(plain run)", seen={"outputs": (leaf([3, 6.01]), OUTPUTS[1])}, variant=ROUNDED),
        Row("loss", FAIL, "losses differs in 1 of 1 elements, most at [0]: 10, but should be 9", seen={"losses": (10.0,)}),
        Row("fewer-losses", FAIL, "losses is of shape (1,), but should be (2,)", TRAIN, both=TRAINED, seen={"losses": (9.0,)}, expected=TRAINED_RIGHT),
        Row("trained", PASS, "4 values equal", TRAIN, both=TRAINED, expected=TRAINED_RIGHT),
        Row("parameter", FAIL, "parameter w differs", TRAIN, both=TRAINED, seen={"parameters": {"w": array([1, 2])}}, expected=TRAINED_RIGHT),
        Row("shape", FAIL, "outputs[0] is of shape (2,), but should be (1, 2)", seen={"outputs": (leaf(3, 6), OUTPUTS[1])}),
        Row("lost", FAIL, "outputs[1]['z'] is not there in both runs", seen={"outputs": (OUTPUTS[0], {})}),
        Row("added", FAIL, "outputs[2] is not there in both runs", seen={"outputs": (*OUTPUTS, 3)}),
        Row("nan", FAIL, "nan, but should be 6", seen={"outputs": (leaf([3, NAN]), OUTPUTS[1])}),
        Row("nan-rounded", FAIL, "nan, but should be 6", seen={"outputs": (leaf([3, NAN]), OUTPUTS[1])}, variant=ROUNDED),
        Row("nan-both", PASS, "equal the plain run", RANDOM, both={"outputs": (leaf([3, NAN]), OUTPUTS[1])}, expected=UNKNOWN),
        Row("nan-both-rounded", PASS, "equal the plain run", RANDOM, both={"outputs": (leaf([3, NAN]), OUTPUTS[1])}, expected=UNKNOWN, variant=ROUNDED),
        Row("infinite", FAIL, "inf, but should be 6", seen={"outputs": (leaf([3, float("inf")]), OUTPUTS[1])}, variant=ROUNDED),
        Row("number", FAIL, "outputs[2] differs", both={"outputs": (*OUTPUTS, 7)}, seen={"outputs": (*OUTPUTS, 8)}, expected=replace(EXPECTED, outputs=(*OUTPUTS, 7))),
        Row("broken-plain", BROKEN, "outputs[0] of the plain run differs", both={"outputs": (leaf([3, 7]), OUTPUTS[1])}),
        Row("broken-plain-lost", BROKEN, "outputs[1]['z'] is not there in the plain run", both={"outputs": (OUTPUTS[0], {})}),
        Row("draws-differ", PASS, "3 values equal the reference", RANDOM, seen={"samples": (draw("y", "forward", 0, 2),)}, control={"samples": (DRAWN,), "outputs": (leaf([0, 6]), OUTPUTS[1])}),
        Row("draws-differ-wrong", FAIL, "(reference)", RANDOM, seen={"samples": (draw("y", "forward", 0, 2),), "outputs": (leaf([3, 7]), OUTPUTS[1])}, control={"samples": (DRAWN,)}),
        Row("nothing-to-compare", UNSUPPORTED, "drew different numbers in forward", RANDOM, seen={"samples": (draw("y", "forward", 0, 2),)}, control={"samples": (DRAWN,)}, expected=UNKNOWN),
        Row("draws-unseen", PASS, "3 values equal the plain run", RANDOM, expected=UNKNOWN),
        Row("draws-unseen-wrong", FAIL, "(plain run)", RANDOM, seen={"losses": (3.0,)}, expected=UNKNOWN),
        Row("unobserved", UNSUPPORTED, "cannot be observed here: compiled", unobserved={"value": "compiled"}),
    ],
    "gradient": [
        Row("right", PASS, "2 gradients equal the plain run and the reference"),
        Row("none", FAIL, "gradient with respect to x is None, but should be an array of shape (1, 2)", seen=_grad(x=None)),
        Row("missing", FAIL, "gradient with respect to w is None", seen={"gradients": {"x": GRADIENTS["x"]}}),
        Row("none-at-all", FAIL, "gradient with respect to x is None", seen={"gradients": {}}),
        Row("wrong", FAIL, "gradient with respect to x differs in 1 of 2 elements, most at [0, 1]: 4, but should be 3 (plain run)", seen=_grad(x=OFF)),
        Row("zero", FAIL, "gradient with respect to x differs in 2 of 2", seen=_grad(x=array([0, 0]))),
        Row("twice", FAIL, "gradient with respect to w differs in 4 of 4", seen=_grad(w=array([6, 6], [12, 12]))),
        Row("shape", FAIL, "is of shape (2,), but should be (1, 2)", seen=_grad(x=array(3, 3))),
        Row("nan", FAIL, "nan, but should be 3", seen=_grad(x=array([3, NAN]))),
        Row("nan-rounded", FAIL, "nan, but should be 3", seen=_grad(x=array([3, NAN])), variant=ROUNDED),
        Row("one-bit", FAIL, "differs in 2 of 2", seen=_grad(x=SLIGHTLY)),
        Row("one-bit-summed", PASS, "2 gradients equal", seen=_grad(x=SLIGHTLY), variant=SUMMED),
        Row("one-bit-rounded", PASS, "2 gradients equal", seen=_grad(x=SLIGHTLY), variant=ROUNDED),
        Row("none-of-zero", FAIL, "x is None, but should be an array", both=_grad(x=array([0, 0])), seen=_grad(x=None), expected=replace(EXPECTED, gradients={**GRADIENTS, "x": array([0, 0])})),
        Row("none-depends", PASS, "2 gradients", both=_grad(x=None), expected=replace(EXPECTED, gradients={**GRADIENTS, "x": None})),
        Row("zeros-for-none", FAIL, "gradient with respect to x is zeros, not None, but nothing depends on it", control=_grad(x=None), seen=_grad(x=array([0, 0])), expected=replace(EXPECTED, gradients={**GRADIENTS, "x": array([0, 0])})),
        Row("nothing-depends", FAIL, "gradient with respect to x is not zero, but nothing depends on it", control=_grad(x=None), expected=replace(EXPECTED, gradients={**GRADIENTS, "x": None})),
        Row("broken-plain", BROKEN, "gradient with respect to x of the plain run differs", both=_grad(x=OFF)),
        Row("broken-plain-none", BROKEN, "gradient with respect to x is None in the plain run", both=_grad(x=None)),
        Row("again", PASS, "2 gradients", TWICE, both=AGAIN, expected=AGAIN_RIGHT),
        Row("again-wrong", FAIL, "gradient of the second backward with respect to x differs", TWICE, both=AGAIN, seen={"again": {**GRADIENTS, "x": OFF}}, expected=AGAIN_RIGHT),
        Row("again-none", FAIL, "gradient of the second backward with respect to x is None", TWICE, both=AGAIN, seen={"again": {}}, expected=AGAIN_RIGHT),
        Row("again-nowhere", BROKEN, "gradient of the second backward with respect to x is None in the plain run", TWICE, expected=AGAIN_RIGHT),
        Row("second-order", FAIL, "second-order gradient with respect to x differs", ORDER, both=AGAIN, seen={"again": {**GRADIENTS, "x": OFF}}, expected=AGAIN_RIGHT),
        Row("random-unseen", PASS, "2 gradients equal the plain run", RANDOM, expected=UNKNOWN),
        Row("random-unseen-wrong", FAIL, "(plain run)", RANDOM, seen=_grad(x=OFF), expected=UNKNOWN),
        Row("random-unseen-none", FAIL, "is None", RANDOM, seen=_grad(x=None), expected=UNKNOWN),
        Row("random-differs", PASS, "2 gradients equal the reference", RANDOM, seen={"samples": SAME}, control={"samples": (draw("y", "forward", 0, 2),), **_grad(x=OFF)}),
        Row("random-differs-wrong", FAIL, "(reference)", RANDOM, seen={"samples": SAME, **_grad(x=OFF)}, control={"samples": (draw("y", "forward", 0, 2),)}),
        Row("random-not-comparable", UNSUPPORTED, "drew different numbers in forward", RANDOM, seen={"samples": SAME}, control={"samples": (draw("y", "forward", 0, 2),)}, expected=UNKNOWN),
        Row("free", REPORT, "random state is not preserved here, and gradient with respect to x differs", FREE, seen=_grad(x=OFF)),
        Row("free-right", PASS, "2 gradients", FREE),
        Row("unobserved", UNSUPPORTED, "cannot be observed here: compiled", unobserved={"gradient": "compiled"}),
    ],
    "hooks": [
        Row("once", PASS, "called as often as in the plain run", HOOKED, both=hooked(1)),
        Row("twice-in-both", PASS, "called as often", HOOKED, both=hooked(2)),
        Row("twice", FAIL, "the hook of w was called 2 time(s), but 1 time(s) without recompute", HOOKED, both=hooked(1), seen=hooked(2)),
        Row("never", FAIL, "was called 0 time(s), but 1", HOOKED, both=hooked(1), seen=hooked(0)),
        Row("not-seen", FAIL, "was called never, but 1", HOOKED, both=hooked(1), seen={"state": {}}),
        Row("never-at-all", BROKEN, "was not called in the plain run", HOOKED, both=hooked(0)),
        Row("unobserved", UNSUPPORTED, "cannot be observed here", HOOKED, unobserved={"hooks": "compiled"}),
    ],
    "structure": [
        Row("right", PASS, "outputs are (float32(1, 2), {'z': float32(1, 2)})"),
        Row("list", FAIL, "outputs are [float32(1, 2), {'z': float32(1, 2)}], but should be (float32(1, 2), ", seen={"outputs": list(OUTPUTS)}),
        Row("dict", FAIL, "(float32(1, 2), (float32(1, 2),))", seen={"outputs": (OUTPUTS[0], (OUTPUTS[1]["z"],))}),
        Row("key", FAIL, "'Z'", seen={"outputs": (OUTPUTS[0], {"Z": OUTPUTS[1]["z"]})}),
        Row("dtype", FAIL, "outputs are (float64(1, 2), ", seen={"outputs": (leaf([3, 6], dtype="float64"), OUTPUTS[1])}),
        Row("bfloat16", FAIL, "bfloat16(1, 2)", seen={"outputs": (Leaf(array([3, 6]), "bfloat16"), OUTPUTS[1])}),
        Row("shape", FAIL, "float32(2,)", seen={"outputs": (leaf(3, 6), OUTPUTS[1])}),
        Row("none-lost", FAIL, "but should be (float32(1, 2), None)", control={"outputs": (OUTPUTS[0], None)}, seen={"outputs": (OUTPUTS[0],)}),
        Row("none-made", FAIL, "outputs are (None, ", seen={"outputs": (None, OUTPUTS[1])}),
        Row("number", FAIL, "but should be 7", control={"outputs": 7}, seen={"outputs": leaf(7)}),
        Row("number-type", FAIL, "outputs are 7.0, but should be 7", control={"outputs": 7}, seen={"outputs": 7.0}),
        Row("bool", FAIL, "outputs are 1, but should be True", control={"outputs": True}, seen={"outputs": 1}),
        Row("text", FAIL, "'b', but should be 'a'", control={"outputs": "a"}, seen={"outputs": "b"}),
        Row("single", FAIL, "outputs are float32(1, 2), but should be (float32(1, 2),)", control={"outputs": (OUTPUTS[0],)}, seen={"outputs": OUTPUTS[0]}),
        Row("unobserved", UNSUPPORTED, "cannot be observed here", unobserved={"structure": "compiled"}),
    ],
    "executions": [
        Row("right", PASS, "as expected under early-stop: block forward 1, block rerun 1"),
        Row("allowed", PASS, "as expected under early-stop", seen={"executions": executions({**FORWARD, **RERUN, "block.y rerun": 1})}),
        Row("inert", FAIL, "inert: nothing ran again in backward, but block should have", seen={"executions": executions(FORWARD)}),
        Row("nothing-seen", FAIL, "inert", seen={"executions": ()}),
        Row("rerun-twice", FAIL, "block ran again 2 times, expected 1; 1 more counts differ", seen={"executions": executions({**FORWARD, "block rerun": 2, "block.h rerun": 2})}),
        Row("both-phases", FAIL, "block ran in forward 2 times, expected 1; h in region block ran again 2 times, expected 1", seen={"executions": executions({**FORWARD, **RERUN, "block forward": 2, "block.h rerun": 2})}),
        Row("statement-twice", FAIL, "h in region block ran again 2 times", seen={"executions": executions({**FORWARD, **RERUN, "block.h rerun": 2})}),
        Row("allowed-exceeded", FAIL, "y in region block ran again 2 times, expected 0 or 1 (its result may be kept)", seen={"executions": executions({**FORWARD, **RERUN, "block.y rerun": 2})}),
        Row("statement-missing", FAIL, "h in region block ran again 0 times", seen={"executions": executions({**FORWARD, "block rerun": 1})}),
        Row("never-run", FAIL, "y in region block ran in forward 0 times", seen={"executions": executions({"block forward": 1, "block.h forward": 1, ".z forward": 1, **RERUN})}),
        Row("outside-rerun", FAIL, "z ran again 1 times, expected 0", seen={"executions": executions({**FORWARD, **RERUN, ".z rerun": 1})}),
        Row("forward-twice", FAIL, "block ran in forward 2 times, expected 1", seen={"executions": executions({**FORWARD, **RERUN, "block forward": 2})}),
        Row("added-up", FAIL, "block ran again 2 times", seen={"executions": executions({**FORWARD, **RERUN}) + executions({"block rerun": 1})}),
        Row("regions-alone", PASS, "as expected under early-stop", both={"executions": executions({"block forward": 1})}, seen={"executions": executions({"block forward": 1, "block rerun": 1})}),
        Row("broken-plain", BROKEN, "h in region block ran again in the plain run", control={"executions": executions({**FORWARD, **RERUN, "block rerun": 0})}),
        Row("none", UNSUPPORTED, "the adapter observed no executions", seen={"executions": None}),
        Row("unobserved", UNSUPPORTED, "cannot be observed here: compiled", unobserved={"executions": "compiled"}),
    ],
    "randomness": [
        # Dropout of an infinity gives NaN.
        Row("not-a-number", PASS, "drew the same numbers as the forward pass", RANDOM, seen={"samples": LOST}, control={"samples": LOST[:1]}),
        Row("same", PASS, "the rerun drew the same numbers as the forward pass", RANDOM, seen={"samples": SAME}),
        Row("kept", PASS, "the rerun drew no numbers", RANDOM, seen={"samples": SAME[:1]}),
        Row("fresh", FAIL, "the rerun drew other numbers than the forward pass: y in region block", RANDOM, seen={"samples": OTHER}),
        Row("one-of-two-fresh", FAIL, "drew other numbers", RANDOM, seen={"samples": (*SAME, OTHER[1])}),
        Row("other-shape", FAIL, "drew other numbers", RANDOM, seen={"samples": (DRAWN, draw("y", "rerun", 2))}),
        Row("swapped-calls", PASS, "drew the same numbers as the forward pass", RANDOM, seen={"samples": (DRAWN, draw("y", "forward", 0, 2), *SAME[1:], OTHER[1])}),
        Row("outside-region", PASS, "drew no numbers", RANDOM, seen={"samples": (DRAWN, draw("z", "rerun", 5, region=""))}),
        Row("generator", WARN, "afterwards the generator has another state than after the plain run", RANDOM, seen={"samples": SAME, "generators": {"implicit": array(0.5)}}),
        Row("own-generator", WARN, "the generator (g, numpy) has another state", RANDOM, seen={"samples": SAME, "generators": {"g": array(0.5), "numpy": array(1), "python": array(2)}}, control={"generators": {"g": array(1.5), "numpy": array(2), "python": array(2)}}),
        Row("generator-and-fresh", FAIL, "drew other numbers", RANDOM, seen={"samples": OTHER, "generators": {"implicit": array(0.5)}}),
        Row("later-draw-rounded", PASS, "drew the same numbers as the forward pass", RANDOM, seen={"samples": (*SAME, draw("y", "forward", 0, 2))}, control={"samples": (DRAWN, draw("y", "forward", 0, 2.0000002))}),
        Row("later-draw", FAIL, "numbers drawn after it differ from the plain run's: y in region block", RANDOM, seen={"samples": (*SAME, draw("y", "forward", 0, 2))}, control={"samples": (DRAWN, draw("y", "forward", 5, 5))}),
        Row("later-draw-of-others", PASS, "drew the same numbers as the forward pass", RANDOM, seen={"samples": (*SAME, draw("y", "forward", 0, 2))}, control={"samples": (DRAWN, draw("y", "forward", 0, 6))}),
        Row("later-slope", FAIL, "numbers drawn after it differ from the plain run's: y in region block", SLOPES, seen={"samples": (*SAME, draw("y", "forward", -1, 2))}, control={"samples": (DRAWN, draw("y", "forward", -2, 2))}),
        Row("later-slope-of-others", PASS, "drew the same numbers as the forward pass", SLOPES, seen={"samples": (*SAME, draw("y", "forward", -1, 3)), "generators": {"implicit": array(0.5)}}, control={"samples": (DRAWN, draw("y", "forward", -2, 2))}),
        Row("later-slopes-alone", PASS, "drew the same numbers as the forward pass", SLOPES, seen={"samples": (*SAME, draw("y", "forward", -1, -1))}, control={"samples": (DRAWN, draw("y", "forward", -2, -2))}),
        Row("later-draw-same", PASS, "drew the same numbers as the forward pass", RANDOM, seen={"samples": (*SAME, draw("y", "forward", 0, 2))}, control={"samples": (DRAWN, draw("y", "forward", 0, 2))}),
        Row("other-from-the-start", PASS, "drew the same numbers as the forward pass", RANDOM, seen={"samples": (*SAME, draw("y", "forward", 0, 2))}, control={"samples": (draw("y", "forward", 4, 4), draw("y", "forward", 5, 5))}),
        Row("free-later-draw", REPORT, "although it did not have to", FREE, seen={"samples": (*SAME, draw("y", "forward", 0, 2))}, control={"samples": (DRAWN, draw("y", "forward", 5, 5))}),
        Row("generator-unseen", PASS, "drew the same numbers as the forward pass", RANDOM, seen={"samples": SAME, "generators": {}}),
        Row("free-fresh", REPORT, "the rerun drew other numbers, which is allowed here", FREE, seen={"samples": OTHER}),
        Row("free-same", REPORT, "the rerun drew the same numbers as the forward pass, although it did not have to", FREE, seen={"samples": SAME}),
        Row("free-generator", REPORT, "the generator has another state", FREE, seen={"samples": SAME, "generators": {"implicit": array(0.5)}}),
        Row("free-region-fresh", REPORT, "which is allowed here", BOTH, seen={"samples": (*SAME, draw("z", "forward", 1, region="free"), draw("z", "rerun", 2, region="free"))}),
        Row("asked-region-fresh", FAIL, "y in region block", BOTH, seen={"samples": (*OTHER, draw("z", "forward", 1, region="free"), draw("z", "rerun", 1, region="free"))}),
        Row("unseen-same", PASS, "the rerun drew no numbers that were observed; with the same seed, gradients that depend on draws equal the plain run's", RANDOM, expected=UNKNOWN),
        Row("unseen-fresh", FAIL, "the rerun drew other numbers than the forward", RANDOM, seen=_grad(x=OFF), expected=UNKNOWN),
        Row("unseen-unread", UNSUPPORTED, "drew no numbers that were observed, and no gradient depends on a draw", UNREAD, seen=_grad(x=OFF), expected=UNKNOWN),
        Row("unseen-unread-generator", WARN, "no gradient depends on a draw, but afterwards the generator has another state", UNREAD, seen={"generators": {"implicit": array(0.5)}}, expected=UNKNOWN),
        Row("unseen-free", REPORT, "which is allowed here", FREE, seen=_grad(x=OFF), expected=UNKNOWN),
        Row("unseen-output", UNSUPPORTED, "gradients cannot be compared", RANDOM, seen={"outputs": (leaf([3, 7]), OUTPUTS[1]), **_grad(x=OFF)}, expected=UNKNOWN),
        Row("unseen-structure", UNSUPPORTED, "gradients cannot be compared", RANDOM, seen={"outputs": (*OUTPUTS, 5)}, expected=UNKNOWN),
        Row("totals", PASS, "gradients are those of the numbers that the forward pass drew", TOTAL, both={"losses": (9.0,), **_grad(w=array([9, 9], [0, 0]))}),
        Row("totals-off", FAIL, "gradients are not those of the numbers that the forward pass drew: their sum differs from the one that all draws have", TOTAL, both=_grad(w=array([9, 9], [0, 0])), seen=_grad(w=array([9, 8], [0, 0]))),
        Row("totals-of-none", FAIL, "gradients are not those", TOTAL, both=_grad(w=array([9, 9], [0, 0])), seen=_grad(w=None)),
        Row("totals-and-draws", FAIL, "the rerun drew other numbers than the forward", TOTAL, both=_grad(w=array([9, 9], [0, 0])), seen={"samples": OTHER}),
        Row("totals-of-plain", BROKEN, "gradients of the plain run have another sum", TOTAL, control=_grad(w=array([9, 8], [0, 0]))),
        Row("unseeded", PASS, "numbers that the forward pass drew", UNSEEDED, both={"samples": OTHER, **_grad(w=array([9, 9], [0, 0]))}),
        Row("unseeded-off", FAIL, "gradients are not those", UNSEEDED, both=_grad(w=array([9, 9], [0, 0])), seen=_grad(w=array([1, 1], [1, 1]))),
        Row("trained", PASS, "over 2 steps", TRAINED_TOTAL, both={"losses": (9.0, 1.0), "parameters": {"w": array([0, 0], [1, 1])}, **_grad(w=array([1, 1], [0, 0]))}),
        Row("trained-off", FAIL, "all draws have, over 2 steps", TRAINED_TOTAL, both={"losses": (9.0, 1.0), "parameters": {"w": array([0, 0], [1, 1])}, **_grad(w=array([1, 1], [0, 0]))}, seen={"parameters": {"w": array([0, 0], [1, 0.9])}}),
        Row("trained-off-at-last", FAIL, "all draws have, over 2 steps", TRAINED_TOTAL, both={"losses": (9.0, 1.0), "parameters": {"w": array([0, 0], [1, 1])}, **_grad(w=array([1, 1], [0, 0]))}, seen=_grad(w=array([1, 1], [1, 0]))),
        Row("trained-off-unseen", BROKEN, "gradients of the plain run", TRAINED_TOTAL, both={"losses": (9.0, 1.0), "parameters": {"w": array([0, 0], [1, 1])}, **_grad(w=array([1, 1], [1, 0]))}),
        Row("unseen-generator", WARN, "the generator has another state", RANDOM, seen={"generators": {"implicit": array(0.5)}}, expected=UNKNOWN),
        Row("unobserved", UNSUPPORTED, "cannot be observed here", RANDOM, unobserved={"randomness": "no generator"}),
    ],
    "retained memory": [
        Row("right", PASS, "10.00 activations plain, 2.00 recomputed"),
        Row("keeps-all", FAIL, "10.00 activations are kept, but at most 2.00 should be", seen={"retained": 10 * MIB}),
        Row("keeps-one-more", FAIL, "3.00 activations are kept, but at most 2.00", seen={"retained": 3 * MIB}),
        Row("within-tolerance", PASS, "2.25 recomputed", seen={"retained": 2 * MIB + MIB // 4}),
        Row("beyond-tolerance", FAIL, "2.25 activations are kept", seen={"retained": 2 * MIB + MIB // 4 + 1}),
        Row("law-to-the-byte", FAIL, f"{2 * MIB + 8} B are kept, but at most {2 * MIB} B should be", ON_LAW, seen={"retained": 2 * MIB + 8}, resolution=0),
        Row("law-frees-a-byte-too-little", FAIL, f"recompute frees {8 * MIB - 1} B, but should free {8 * MIB} B", ON_LAW, control={"retained": 10 * MIB - 1}, resolution=0),
        Row("law-as-it-says", PASS, "2.00 recomputed", ON_LAW, resolution=0),
        Row("law-by-an-allocator", PASS, "2.00 recomputed", ON_LAW, seen={"retained": 2 * MIB + 8}),
        Row("frees-too-little", FAIL, "recompute frees 7.00 activations, but should free 8.00", control={"retained": 9 * MIB}),
        Row("frees-nothing", FAIL, "recompute frees 0.00 activations", both={"retained": MIB}),
        Row("keeps-less", PASS, "0.00 recomputed", seen={"retained": 0}),
        Row("too-small", REPORT, "differences below 262144 B cannot be measured, and 262143 B should be freed", seen={"retained": 10 * MIB}, expected=TINY),
        Row("small-but-exact", PASS, "9.00 activations plain, 1.00 recomputed", both={"retained": 9}, seen={"retained": 1}, expected=SMALL, resolution=0),
        Row("inert-but-small", FAIL, "9.00 activations are kept, but at most 1.00", both={"retained": 9}, expected=SMALL, resolution=0),
        Row("small-and-inexact", REPORT, "differences below 262144 B cannot be measured", both={"retained": 9}, expected=SMALL),
        Row("keeps-more-than-plain", FAIL, "are kept, but at most 1.00 should be", both={"retained": 0}, seen={"retained": 2 * RESOLUTION}, expected=SMALL),
        Row("own-affair", PASS, "20.00 activations plain, 11.00 recomputed", control={"retained": 20}, seen={"retained": 11}, expected=SMALL, resolution=0),
        Row("own-affair-of-large", FAIL, "11.00 activations are kept, but at most 2.00", control={"retained": 20 * MIB}, seen={"retained": 11 * MIB}),
        Row("nothing-to-free", PASS, "3.00 recomputed", both={"retained": 2}, seen={"retained": 3}, expected=replace(SMALL, memory=replace(SMALL.memory, drop=0, recomputed=(1, 3))), resolution=0),
        Row("random-state", PASS, "2.00 recomputed and 5056 B of random state", seen={"random_state": RandomState(5056, 1)}, expected=STATES),
        Row("random-state-of-two", FAIL, "2 copies of the random state (10112 B) kept, but regions that preserve it need at most 1 copy", seen={"random_state": RandomState(10112, 2)}, expected=STATES),
        Row("random-state-unasked", FAIL, "1 copy of the random state (5056 B) kept", seen={"random_state": RandomState(5056, 1)}),
        Row("just-large-enough", FAIL, "1.26 activations are kept", seen={"retained": RESOLUTION + RESOLUTION // 4 + 2000}, expected=LEAST),
        Row("no-reading", UNSUPPORTED, "the adapter observed no bytes", seen={"retained": None}),
        Row("no-control", UNSUPPORTED, "the adapter observed no bytes", control={"retained": None}),
        Row("no-expectation", UNSUPPORTED, "the adapter observed no bytes", expected=replace(EXPECTED, memory=None)),
        Row("unobserved", UNSUPPORTED, "cannot be observed here: pooled", unobserved={"retained memory": "pooled"}),
    ],
    "peak memory": [
        Row("right", PASS, "30.00 activations plain, 12.00 recomputed", LARGE),
        Row("engine-holds-more", PASS, "13.50 recomputed", LARGE, seen={"peak": 13 * MIB + MIB // 2}),
        Row("too-high", WARN, "13.50 activations at the peak, but at most 13.50", LARGE, seen={"peak": 13 * MIB + MIB // 2 + 1}),
        Row("as-plain", WARN, "30.00 activations at the peak, but at most 13.50 should be", LARGE, seen={"peak": 30 * MIB}),
        Row("fused-plain", PASS, "16.00 activations plain, 11.00 recomputed", LARGE, seen={"peak": 11 * MIB}, control={"peak": 16 * MIB}),
        Row("lowers-nothing", WARN, "lowers the peak by 0.00 activations, expected at least 5.00", LARGE, both={"peak": 13 * MIB}, seen={"peak": 13 * MIB}),
        Row("too-near", REPORT, "the difference is too small to judge", LARGE, expected=replace(EXPECTED, memory=replace(MEMORY, peaks=(17 * MIB, 10 * MIB)))),
        Row("whole-chain", PASS, "recompute does not lower the peak here", LARGE, both={"peak": 33 * MIB}, expected=replace(EXPECTED, memory=replace(MEMORY, peaks=(33 * MIB, 34 * MIB)))),
        Row("no-reading", UNSUPPORTED, "no method is exact", LARGE, seen={"peak": None}),
        Row("unobserved", UNSUPPORTED, "cannot be observed here: pooled", LARGE, unobserved={"peak memory": "pooled"}),
    ],
    "release": [
        Row("right", PASS, "nothing is left over", REPEATED),
        Row("one-tensor-per-step", FAIL, "live tensors grow by 1 per step, and by 0 in the plain run", REPEATED, seen={"alive": (3, 4, 5, 6, 7, 8)}),
        Row("caches-fill", PASS, "nothing is left over", REPEATED, both={"alive": (3, 9, 12, 12, 12, 12), "held": (0, 9 * MIB, 9 * MIB, 9 * MIB, 9 * MIB, 9 * MIB)}),
        Row("frees-late", FAIL, "each step leaves more behind than in the plain program: 4 live tensors, plain 3; 1048576 bytes, plain 0", REPEATED, both={"alive": (3, 3, 3, 3, 3, 3)}, control={"held": (0, 0, 0, 0, 0, 0)}, seen={"alive": (4, 4, 4, 4, 4, 4), "held": (MIB, MIB, MIB, MIB, MIB, MIB)}),
        Row("left-in-a-list", PASS, "nothing is left over", REPEATED_LEFT, both={"alive": (3, 3, 3, 3, 3, 3)}, seen={"alive": (4, 4, 4, 4, 4, 4)}),
        Row("frees-at-times", PASS, "nothing is left over", REPEATED, both={"alive": (3, 3, 3, 3, 3, 3)}, seen={"alive": (4, 3, 4, 3, 4, 3)}),
        Row("bytes-grow", FAIL, "bytes grow by 1048576 per step", REPEATED, seen={"held": tuple(n * MIB for n in range(6)), "alive": None}),
        Row("bytes-within-half", PASS, "nothing is left over", REPEATED, seen={"held": tuple(n * (MIB // 2 - 1) for n in range(6))}),
        Row("plain-grows-too", PASS, "nothing is left over", REPEATED, both={"alive": (3, 4, 5, 6, 7, 8)}, seen={"alive": (5, 6, 7, 8, 9, 10)}),
        Row("grows-faster-than-plain", FAIL, "grow by 2 per step, and by 1 in the plain run", REPEATED, both={"alive": (3, 4, 5, 6, 7, 8)}, seen={"alive": (2, 4, 6, 8, 10, 12)}),
        Row("plain-shrinks", PASS, "nothing is left over", REPEATED, control={"alive": (9, 8, 7, 6, 5, 4)}),
        Row("no-reading", UNSUPPORTED, "observed neither bytes nor tensors", REPEATED, both={"alive": None, "held": None}),
        Row("unobserved", UNSUPPORTED, "cannot be observed here: pooled", REPEATED, unobserved={"release": "pooled"}),
    ],
    "state": [
        Row("same", PASS, "state equals the plain run's"),
        Row("updated-twice", WARN, "count is (2,) [2, 2], but (2,) [1, 1] without recompute (2.00 times as far)", seen={"state": {"count": array(2, 2)}}),
        Row("not-updated", WARN, "(0.00 times as far)", seen={"state": {"count": array(0, 0)}}),
        Row("moved-from-rest", WARN, "count is (2,) [1, 1], but (2,) [0, 0] without recompute", control={"state": {"count": array(0, 0)}}),
        Row("other-shape", WARN, "count is (3,)", seen={"state": {"count": array(1, 1, 1)}}),
        Row("nan", WARN, "nan", seen={"state": {"count": array(1, NAN)}}),
        Row("not-seen", REPORT, "count was not observed", seen={"state": {}}),
        Row("not-seen-at-all", REPORT, "count was not observed", both={"state": {}}),
        Row("noted-twice", REPORT, "noted is () [2], but () [1] without recompute", NOTED, both={"state": {"noted": array(1)[0]}}, seen={"state": {"noted": array(2)[0]}}),
        Row("noted-never", REPORT, "no note is left, also without recompute", NOTED, both={"state": {"noted": array(0)[0]}}),
        Row("noted-once", PASS, "state equals the plain run's", NOTED, both={"state": {"noted": array(1)[0]}}),
        Row("unobserved", UNSUPPORTED, "cannot be observed here", unobserved={"state": "compiled"}),
    ],
}  # fmt: skip
ROWS = [
    pytest.param(name, row, id=f"{name}-{row.id}") for name, rows in TABLE.items() for row in rows
]


def _verdict(name: str, row: Row) -> Verdict:
    made = evidence(
        row.case,
        plain=replace(CONTROL, **{**row.both, **row.control}),
        recomputed=replace(SEEN, **{**row.both, **row.seen}),
        expected=row.expected,
        unobserved=row.unobserved,
        resolution=row.resolution,
        **row.variant,
    )
    (found,) = CHECKS[name].verdicts(made)
    return found


@pytest.mark.parametrize(("name", "row"), ROWS)
def test_verdict(name: str, row: Row) -> None:
    assert CHECKS[name].applies(row.case)
    verdict = _verdict(name, row)
    assert verdict.check == name
    assert verdict.level is CHECKS[name].level
    assert (verdict.status, row.says in verdict.message) == (row.status, True), verdict


#: What the verdicts of some rows are made from.
FACTS: dict[tuple[str, str], tuple[Fact, ...]] = {
    ("error", "raised"): (Raised("ValueError", "forward"),),
    ("error", "missing"): (Raised("", promised="ValueError"),),
    ("value", "output"): (Difference("value", "outputs[0]", "elements", "plain run", wrong=1, size=2, place=(0, 1), observed=7.0, expected=6.0),),
    ("value", "lost"): (Difference("value", "outputs[1]['z']", "missing", "plain run"),),
    ("gradient", "none"): (Difference("gradient", "x", "none", "reference", expected_shape=(1, 2)),),
    ("gradient", "zeros-for-none"): (Difference("gradient", "x", "zeros", "plain run"),),
    ("gradient", "nothing-depends"): (Difference("gradient", "x", "not zero", "plain run"),),
    ("gradient", "shape"): (Difference("gradient", "x", "shape", "plain run", observed_shape=(2,), expected_shape=(1, 2)),),
    ("gradient", "nan"): (Difference("gradient", "x", "elements", "plain run", wrong=1, size=2, place=(0, 1), observed="NaN", expected=3.0),),
    ("gradient", "free"): (Difference("gradient", "x", "elements", "plain run", may_draw=True, wrong=1, size=2, place=(0, 1), observed=4.0, expected=3.0),),
    ("gradient", "broken-plain-none"): (Difference("gradient", "x", "none", "reference", in_plain=True),),
    ("hooks", "twice"): (Calls("hook of w", 2, 1),),
    ("executions", "inert"): (Inert("block", "", (1,)),),
    ("executions", "rerun-twice"): (Count("block", "", "rerun", 2, (1,)), Count("block", "h", "rerun", 2, (1,))),
    ("executions", "allowed-exceeded"): (Count("block", "y", "rerun", 2, (0, 1), "its result may be kept"),),
    ("randomness", "same"): (Sampling("same"),),
    ("randomness", "kept"): (Sampling("nothing"),),
    ("randomness", "fresh"): (Sampling("fresh", (("block", "y"),)),),
    ("randomness", "later-draw"): (Sampling("same"), Sampling("later", (("block", "y"),))),
    ("randomness", "own-generator"): (Sampling("same", generators=("g", "numpy")),),
    ("randomness", "unseen-same"): (Sampling("like"),),
    ("randomness", "unseen-unread"): (Sampling("unread"),),
    ("randomness", "unseen-output"): (Sampling("unknown"),),
    ("randomness", "totals-off"): (Sampling("unlike"),),
    ("retained memory", "right"): (Bytes(10 * MIB, 2 * MIB, 2 * MIB, 8 * MIB, MIB, RESOLUTION),),
    ("retained memory", "own-affair"): (Bytes(20, 11, 12, 8, 1),),
    ("retained memory", "nothing-to-free"): (Bytes(2, 3, 3, None, 1),),
    ("retained memory", "random-state"): (Bytes(10 * MIB, 2 * MIB, 2 * MIB, 8 * MIB, MIB, RESOLUTION), States(1, 5056, 1)),
    ("peak memory", "right"): (Bytes(30 * MIB, 12 * MIB, 13 * MIB + MIB // 2, 5 * MIB, MIB),),
    ("release", "one-tensor-per-step"): (Growth("grows", "live tensors", 1, 0),),
    ("release", "frees-late"): (Growth("left", "live tensors", 4, 3), Growth("left", "bytes", MIB, 0)),
    ("state", "updated-twice"): (State("count", "(2,) [2, 2]", "(2,) [1, 1]", 2.0),),
    ("state", "nan"): (State("count", "(2,) [1, nan]", "(2,) [1, 1]", "NaN"),),
    ("state", "noted-twice"): (Calls("noted", 2, 1),),
}  # fmt: skip


@pytest.mark.parametrize(("name", "row"), FACTS)
def test_facts(name: str, row: str) -> None:
    (chosen,) = [one for one in TABLE[name] if one.id == row]
    assert _verdict(name, chosen).facts == FACTS[name, row]


#: Faults that have no more to them than their words.
WORDS_ALONE = {"good-after", "bad-after", "never-after", "never-good"}


@pytest.mark.parametrize(("name", "row"), [row for row in ROWS if row.values[0] != "structure"])
def test_a_fault_has_facts(name: str, row: Row) -> None:
    """`structure` has both sides in words: `expected` and `observed`."""
    verdict = _verdict(name, row)
    if verdict.status.deviates and row.id not in WORDS_ALONE:
        assert verdict.facts


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_can_pass_and_can_find_fault(name: str) -> None:
    """What is left to the implementation (`report`) is never failed, and shown instead."""
    found = {row.status for row in TABLE[name]}
    level = CHECKS[name].level
    fault = {Level.MUST: FAIL, Level.SHOULD: WARN, Level.REPORT: REPORT}[level]
    assert {PASS, fault} <= found
    assert (FAIL in found) == (level is Level.MUST)


def test_the_table_is_of_all_checks() -> None:
    assert list(TABLE) == list(CHECKS)
    for rows in TABLE.values():
        assert len({row.id for row in rows}) == len(rows)


@pytest.mark.parametrize("name", CHECKS)
def test_checks_say_what_they_ask(name: str) -> None:
    """The words of a check are its entry in the user's pages."""
    check = CHECKS[name]
    assert check.name == name
    assert len(check.asks) > 20
    assert check.judge.__module__.rpartition(".")[2] == name.replace(" ", "_")
