"""Which checks a case is put to, and what they say of it together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conformance.judge.checks import CHECKS, applicable, judge
from conformance.model.case import Case
from conformance.model.observation import (
    Expected,
    Observation,
    RandomSample,
    RandomState,
    Run,
)
from conformance.model.verdict import Status, Verdict

from .evidence import (
    AS_PLAIN,
    AS_PLAIN_RANDOM,
    CONTROL,
    DRAWN,
    ERROR,
    EXPECTED,
    FORWARD,
    FREE,
    GOOD_AFTER,
    HOOKED,
    INFERENCE,
    NOTED,
    OUTPUTS,
    PLAIN,
    RANDOM,
    SEEN,
    STATELESS,
    TOTAL,
    TRAIN,
    UNKNOWN,
    UNSEEDED,
    case,
    evidence,
    executions,
    leaf,
    variant,
)
from .test_checks import FAIL, MIB, OFF, OTHER, PASS, UNSUPPORTED, VALUE_ERROR, _error, _grad

ALWAYS = ("error", "value", "structure", "executions")


@pytest.mark.parametrize(
    ("of", "more"),
    [
        (PLAIN, {"gradient", "retained memory", "state"}),
        (STATELESS, {"gradient", "retained memory"}),
        (RANDOM, {"gradient", "randomness", "retained memory", "state"}),
        (FREE, {"gradient", "randomness", "retained memory", "state"}),
        (TOTAL, {"gradient", "randomness", "retained memory", "state"}),
        (TRAIN, {"gradient", "retained memory", "state"}),
        (INFERENCE, {"state"}),
        (HOOKED, {"gradient", "hooks", "retained memory", "state"}),
        (NOTED, {"gradient", "retained memory", "state"}),
    ],
)  # fmt: skip
def test_applicable(of: Case, more: set[str]) -> None:
    wanted = {*ALWAYS, *more}
    assert applicable(of) == tuple(name for name in CHECKS if name in wanted)


def test_every_fault_has_a_verdict_of_its_own() -> None:
    seen = {"error": _error("TypeError"), "good_run_after_error": False}
    made = evidence(GOOD_AFTER, recomputed=replace(SEEN, **seen))
    found = CHECKS["error"].verdicts(made)
    assert [verdict.status for verdict in found] == [FAIL, FAIL]
    assert "raised TypeError, but should raise ValueError" in found[0].message
    assert found[1].message == "the next run, without the error, failed"

    more = replace(SEEN, retained=10 * MIB, random_state=RandomState(10112, 2))
    found = CHECKS["retained memory"].verdicts(evidence(recomputed=more))
    assert [verdict.status for verdict in found] == [FAIL, FAIL]
    assert "activations are kept" in found[0].message
    assert "copies of the random state" in found[1].message
    assert found[0].observed == found[1].observed


def test_runs_that_nothing_has_seeded_have_no_control() -> None:
    named = set(applicable(UNSEEDED))
    assert "randomness" in named
    assert named.isdisjoint({"value", "gradient"})


def test_a_draw_outside_regions_is_no_case_of_randomness() -> None:
    outside = case(("z = add(y, c)", "z = dropout(y)"))
    assert "randomness" not in applicable(outside)


@pytest.mark.parametrize("of", [ERROR, GOOD_AFTER])
def test_a_promised_error_is_all_that_is_judged(of: Case) -> None:
    assert applicable(of) == ("error",)


# -- all together ---------------------------------------------------------------------------------


def _judged(of: Case, recomputed: Run, expected: Any = EXPECTED, **more: Any) -> dict[str, Status]:
    seen = Observation(CONTROL, recomputed, **more)
    found = judge(of, variant(), lambda samples: expected, seen)
    return {verdict.check: verdict.status for verdict in found}


def test_judge_gives_one_verdict_of_each_applicable_check() -> None:
    assert _judged(PLAIN, SEEN) == dict.fromkeys(applicable(PLAIN), Status.PASS)


def test_judge_stops_at_an_error() -> None:
    assert _judged(PLAIN, Run(error=VALUE_ERROR)) == {"error": Status.FAIL}
    assert _judged(ERROR, Run(error=VALUE_ERROR)) == {"error": Status.PASS}
    assert _judged(ERROR, SEEN) == {"error": Status.FAIL}


def _where_plain_raised(of: Case, recomputed: Run, expected: Any = EXPECTED) -> dict[str, Verdict]:
    seen = Observation(Run(error=VALUE_ERROR), recomputed)
    found = judge(of, variant(), lambda samples: expected, seen)
    return {verdict.check: verdict for verdict in found}


def test_what_plain_refuses_may_be_refused() -> None:
    found = _where_plain_raised(AS_PLAIN, Run(error=VALUE_ERROR))
    assert set(found) == set(applicable(AS_PLAIN)) == set(applicable(PLAIN))
    assert found.pop("error").status is PASS
    assert {verdict.status for verdict in found.values()} == {UNSUPPORTED}
    assert {verdict.message for verdict in found.values()} == {
        "the plain program raised ValueError: there is nothing to compare with"
    }


def test_what_runs_where_plain_is_refused_is_held_to_the_reference() -> None:
    found = _where_plain_raised(AS_PLAIN, SEEN)
    assert {name for name, verdict in found.items() if verdict.status is PASS} == {
        *("error", "value", "gradient", "executions"),
    }
    assert "equal the reference" in found["value"].message
    assert "equal the reference" in found["gradient"].message
    assert found["structure"].status is UNSUPPORTED
    assert found["retained memory"].status is UNSUPPORTED


@pytest.mark.parametrize(
    ("name", "check", "seen"),
    [
        ("output", "value", {"outputs": (leaf([3, 7]), OUTPUTS[1])}),
        ("lost-output", "value", {"outputs": (OUTPUTS[0], {})}),
        ("gradient", "gradient", _grad(x=OFF)),
        ("lost-gradient", "gradient", _grad(x=None)),
        ("inert", "executions", {"executions": executions(FORWARD)}),
    ],
)
def test_what_is_wrong_fails_where_plain_is_refused(
    name: str, check: str, seen: dict[str, Any]
) -> None:
    found = _where_plain_raised(AS_PLAIN, replace(SEEN, **seen))
    assert [n for n, verdict in found.items() if verdict.status is FAIL] == [check], name


def test_draws_that_nobody_knows_leave_executions_where_plain_is_refused() -> None:
    found = _where_plain_raised(AS_PLAIN_RANDOM, SEEN, UNKNOWN)
    passed = {name for name, verdict in found.items() if verdict.status is PASS}
    assert passed == {"error", "executions"}
    assert found["gradient"].status is UNSUPPORTED


def test_a_case_that_may_be_refused_is_judged_as_any_other_where_plain_runs() -> None:
    assert _judged(AS_PLAIN, SEEN) == dict.fromkeys(applicable(PLAIN), Status.PASS)
    assert _judged(AS_PLAIN, Run(error=VALUE_ERROR)) == {"error": Status.FAIL}


def test_an_implementation_that_does_nothing_is_caught() -> None:
    """Values, gradients and structure of a run that recomputes nothing are all right."""
    found = _judged(PLAIN, CONTROL)
    assert {name for name, status in found.items() if status is Status.FAIL} == {
        "executions",
        "retained memory",
    }


def test_judge_hands_the_reference_the_draws_of_forward_alone() -> None:
    asked: list[Any] = []

    def expect(samples: Any) -> Expected:
        asked.append(samples)
        return EXPECTED

    for samples in (OTHER, None):
        judge(RANDOM, variant(), expect, Observation(CONTROL, replace(SEEN, samples=samples)))
    assert asked == [(DRAWN,), None]
    assert isinstance(asked[0][0], RandomSample)


def test_judge_says_how_it_was_observed() -> None:
    methods = {"executions": "line trace", "retained memory": "mallinfo2"}
    found = judge(PLAIN, variant(), lambda _: EXPECTED, Observation(CONTROL, SEEN, methods))
    assert {v.check: v.method for v in found if v.method} == methods


@pytest.mark.parametrize(
    ("forward", "rerun", "status"),
    [
        # Nothing in the region was counted: that is no reason to pass it.
        ({".z forward": 1}, {}, Status.FAIL),
        # Of two statements one is counted, and judged for the region.
        ({"block.h forward": 1, ".z forward": 1}, {"block.h rerun": 1}, Status.PASS),
        ({"block.h forward": 1, ".z forward": 1}, {}, Status.FAIL),
    ],
)
def test_a_region_is_judged_by_what_was_counted_in_it(
    forward: dict[str, int], rerun: dict[str, int], status: Status
) -> None:
    plain = replace(CONTROL, executions=executions(forward))
    again = replace(SEEN, executions=executions({**forward, **rerun}))
    of = evidence(plain=plain, recomputed=again)
    model = of.variant.model.model_copy(update={"discipline": "minimal"})
    seen = replace(of, variant=replace(of.variant, model=model))
    assert [v.status for v in CHECKS["executions"].verdicts(seen)] == [status]
