"""Comparing variants and frameworks: who agrees, who does not, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.compare import Comparison, CrossVerdict, compare, region_count
from conformance.compare.model import EXPECTATION, Agreement
from conformance.compare.numeric import Missing, agreeing, close, partition
from conformance.compare.written import agreement
from conformance.errors import ComparisonError
from conformance.model.case import Tolerance
from conformance.model.observation import Allowed, ErrorSeen, Execution, Leaf, RandomSample, Run
from conformance.model.verdict import Level, Status, Verdict
from tests import report_samples as samples
from tests.report_samples import FAIL, GRADIENT, PASS, expected, result, results, run, unobserved

OFF = GRADIENT + np.array([[0, 0, 0], [0, 0, 0.3]])


def compared(*found, disciplines=None) -> Comparison:
    """The comparison of results, one adapter per first part of the variants."""
    adapters = dict.fromkeys(r.variant.split("/")[0] for r in found)
    files = []
    for name in adapters:
        mine = [r for r in found if r.variant.split("/")[0] == name]
        words = {v: d for v, d in (disciplines or {}).items() if v.split("/")[0] == name}
        files.append(results(name, mine, disciplines=words or None))
    return compare(files, samples.cases())


def only(comparison: Comparison, subject: str) -> CrossVerdict:
    (verdict,) = [v for v in comparison.verdicts if v.subject == subject]
    return verdict


# -- numbers -----------------------------------------------------------------------------------------


def test_everybody_agrees():
    found = compared(result("a/one"), result("a/two"), result("b/one"))
    assert found.ok
    assert {v.status for v in found.verdicts} == {Agreement.AGREE, Agreement.SKIPPED}
    gradient = only(found, "gradient of x")
    assert gradient.check == "gradient"
    assert gradient.message == "3 variants agree on gradient of x"
    assert gradient.groups[0].members == (EXPECTATION, "a/one", "a/two", "b/one")
    subjects = {v.subject for v in found.verdicts}
    assert {"outputs", "losses", "forward runs of region block"} <= subjects
    assert found.variants == ("a/one", "a/two", "b/one")


def test_one_disagrees_and_is_named_with_the_place():
    found = compared(result("a/one"), result("a/two", run({"x": OFF})), result("b/one"))
    verdict = only(found, "gradient of x")
    assert verdict.status is Agreement.DISAGREE
    assert verdict.message == (
        "a/two disagrees with a/one and b/one on gradient of x: max difference 0.3 at [1, 2]"
    )
    assert [g.members for g in verdict.groups] == [(EXPECTATION, "a/one", "b/one"), ("a/two",)]
    assert not found.ok
    assert found.unexpected == (verdict,)
    assert [d.new for _, d in found.disagreements] == [("a/two",)]


def test_the_minority_may_be_right():
    found = compared(
        result("a/one", run({"x": OFF})), result("a/two", run({"x": OFF})), result("b/one")
    )
    (disagreement,) = only(found, "gradient of x").disagreements
    assert disagreement.variants == ("a/one", "a/two")
    assert disagreement.against == ("b/one",)


def test_all_may_be_wrong_together():
    found = compared(result("a/one", run({"x": OFF})), result("b/one", run({"x": OFF})))
    verdict = only(found, "gradient of x")
    assert verdict.status is Agreement.DISAGREE
    assert verdict.message.startswith("a/one and b/one disagree with the expectation on")


@pytest.mark.parametrize(
    ("ours", "theirs"), [([PASS], ("a/one",)), ([FAIL], ("a/two", "b/one"))], ids=["most", "passed"]
)
def test_without_an_expectation_those_stand_that_passed_then_the_larger_group(ours, theirs):
    bare = replace(expected(), gradients={})
    found = compared(
        result("a/one", run({"x": OFF}), expects=bare),
        result("a/two", expects=bare, verdicts=ours),
        result("b/one", expects=bare, verdicts=ours),
    )
    verdict = only(found, "gradient of x")
    assert verdict.disagreements[0].variants == theirs
    assert verdict.new is (ours == [PASS])


@pytest.mark.parametrize(
    ("gradients", "words"),
    [
        ({"x": None}, "None against an array of shape (2, 3)"),
        ({}, "missing against an array of shape (2, 3)"),
        ({"x": GRADIENT[0]}, "shape (3,) against (2, 3)"),
        ({"x": GRADIENT * np.nan}, "nan against 1 at [0, 0]"),
        ({"x": GRADIENT * np.inf}, "inf against 1 at [0, 0]"),
    ],
)
def test_what_is_not_a_number_apart_is_said(gradients, words):
    found = compared(result("a/one"), result("b/one", run(gradients)))
    assert only(found, "gradient of x").message.endswith(words)
    assert not found.ok


def test_the_same_nan_and_infinity_agree():
    odd = np.array([[np.nan, np.inf, -np.inf], [4, 5, 6]])
    found = compared(
        *(result(v, run({"x": odd}), expects=expected({"x": odd})) for v in ("a/one", "b/one"))
    )
    assert only(found, "gradient of x").status is Agreement.AGREE


def test_zeros_where_plain_has_none_are_another_answer():
    """As they are for the check: an optimizer decays what has a gradient of zeros."""
    for wanted in (None, GRADIENT * 0):
        expects, zeros, none = expected({"x": wanted}), run({"x": GRADIENT * 0}), run({"x": None})
        found = compared(
            result("a/one", none, plain=none, expects=expects),
            result("a/two", zeros, plain=zeros, expects=expects),
            result("a/three", none, plain=zeros, expects=expects),
            result("b/one", zeros, plain=none, expects=expects, verdicts=[FAIL]),
        )
        verdict = only(found, "gradient of x")
        assert verdict.status is Agreement.DISAGREE
        assert not verdict.new
        assert [d.variants for d in verdict.disagreements] == [("b/one",)]
        assert "zeros, where plain has None" in verdict.message


@pytest.mark.parametrize("gradients", [{"x": None}, {}, {"x": GRADIENT * 0}])
def test_where_nothing_flows_none_and_zeros_agree(gradients):
    nothing = expected({"x": None})
    found = compared(
        result("a/one", run({"x": None}), expects=nothing),
        result("b/one", run(gradients), expects=nothing),
    )
    assert only(found, "gradient of x").status is Agreement.AGREE
    found = compared(
        result("a/one", run({"x": None}), expects=nothing),
        result("b/one", run({"x": GRADIENT}), expects=nothing),
    )
    assert only(found, "gradient of x").status is Agreement.DISAGREE


def test_tolerance_is_that_of_the_case():
    near = GRADIENT * 1.003
    loose = [
        replace(c, tolerance=replace(c.tolerance, rtol=0.01)) if c.id == "sample/block" else c
        for c in samples.cases()
    ]
    found = [result("a/one"), result("b/one", run({"x": near}))]
    files = [results(r.variant[0], [r], given=loose) for r in found]
    assert compare(files, loose).ok
    assert not compared(*found).ok


def test_a_group_is_close_to_all_of_itself():
    loose = [replace(c, tolerance=replace(c.tolerance, rtol=0.01)) for c in samples.cases()]
    bare = replace(expected(), gradients={})
    found = [
        result(v, run({"x": GRADIENT * f}), expects=bare)
        for v, f in (("a/one", 1.0), ("b/one", 1.008), ("c/one", 1.016))
    ]
    comparison = compare([results(r.variant[0], [r], given=loose) for r in found], loose)
    verdict = only(comparison, "gradient of x")
    assert [g.members for g in verdict.groups] == [("a/one", "b/one"), ("c/one",)]
    assert "max difference 0.096" in verdict.message


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(
        st.sampled_from([None, Missing()])
        | arrays.arrays(
            st.sampled_from([np.float32, np.float64, np.complex64]),
            st.sampled_from([(2,), (1, 2), (0,), ()]),
            # float32 has each of them; of the three near 1, neighbours are within the tolerance
            elements=st.sampled_from([0.0, -0.0, 1.0, 1 + 2**-7, 1 + 2**-6, np.nan, np.inf]),
        ),
        max_size=8,
    )
)
def test_groups_are_those_of_comparing_everybody_with_everybody(listed):
    values = {str(i): value for i, value in enumerate(listed)}
    tolerance = Tolerance(0.01, 0.0)
    assert agreeing(values, tolerance) == partition(values, lambda a, b: _near(a, b, tolerance))
    for a in listed:
        for b in listed:
            assert close(a, b, tolerance) == _near(a, b, tolerance)


def _near(a, b, tolerance) -> bool:
    """The definition, element by element."""
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return type(a) is type(b)
    if a.shape != b.shape:
        return False
    pairs = [(complex(x), complex(y)) for x, y in zip(a.flat, b.flat, strict=True)]
    scales = [max(abs(x), abs(y)) for x, y in pairs if not np.isnan(x) and not np.isnan(y)]
    peak = max((s for s in scales if np.isfinite(s)), default=0.0)
    for x, y in pairs:
        if np.isfinite(x) and np.isfinite(y):
            bound = tolerance.atol * max(1.0, peak) + tolerance.rtol * max(abs(x), abs(y))
            if abs(x - y) > bound:
                return False
        elif not (x == y or (np.isnan(x) and np.isnan(y))):
            return False
    return True


def test_losses_parameters_second_gradients_and_outputs_are_compared():
    wrong = replace(
        run(output=GRADIENT + 1),
        losses=(1.0, 2.0),
        again={"x": np.ones(2)},
        parameters={"w": np.ones(3)},
    )
    right = replace(
        run(), losses=(1.0, 2.5), again={"x": np.zeros(2)}, parameters={"w": np.zeros(3)}
    )
    found = compared(result("a/one", right), result("b/one", wrong))
    subjects = {v.subject for v, _ in found.disagreements}
    assert {"outputs", "losses", "second gradient of x", "parameter w"} <= subjects


def test_outputs_are_compared_leaf_by_leaf():
    def of(value):
        return replace(run(), outputs=({"a": value}, 3.0, "word"))

    expects = replace(expected(), outputs=None)
    same = Leaf(np.float32(1.0), "float32")
    found = compared(
        result("a/one", of(same), expects=expects), result("b/one", of(2.0), expects=expects)
    )
    assert only(found, "outputs[0]['a']").status is Agreement.DISAGREE
    assert only(found, "outputs[1]").status is Agreement.AGREE
    found = compared(
        result("a/one", of(same), expects=expects), result("b/one", of(1.0), expects=expects)
    )
    assert only(found, "outputs[0]['a']").status is Agreement.AGREE


# -- what was judged already -------------------------------------------------------------------------


def test_what_a_variants_own_checks_show_is_nothing_new():
    known = samples.known(FAIL, "the wrapper drops it")
    off = run({"x": OFF})
    judged = [result("b/one", off, verdicts=[FAIL]), result("b/two", off, verdicts=[known])]
    found = compared(result("a/one"), *judged)
    assert found.ok
    assert only(found, "gradient of x").disagreements[0].judged == {
        "b/one": "silently wrong: gradient of x is wrong",
        "b/two": "silently wrong: the wrapper drops it",
    }
    slow = Verdict("executions", Status.FAIL, Level.MUST, "ran twice")  # explains no gradient
    found = compared(result("a/one"), *judged, result("c/one", off, verdicts=[PASS, slow]))
    assert not found.ok
    assert only(found, "gradient of x").disagreements[0].new == ("c/one",)


def test_who_has_nothing_to_compare_is_left_out_with_the_reason():
    error = ErrorSeen("RuntimeError", ("RuntimeError",), "no", "backward")
    found = compared(
        result("a/one"),
        result("a/two", Run(error=error)),
        result("b/one"),
        unobserved("b/two", Status.CRASHED, "the process died of SIGSEGV"),
        unobserved("c/one", Status.UNSUPPORTED, "c/one lacks kwargs"),
    )
    verdict = only(found, "gradient of x")
    assert verdict.status is Agreement.AGREE
    assert verdict.absent == {
        "a/two": "raised RuntimeError",
        "b/two": "raises: the process died of SIGSEGV",
        "c/one": "not offered: c/one lacks kwargs",
    }


def test_a_case_that_ran_once_is_not_compared():
    found = compared(result("a/one"), unobserved("b/one", Status.TIMEOUT, "too long"))
    assert not [v for v in found.verdicts if v.subject == "gradient of x"]
    assert compared(result("a/one")).verdicts == ()


# -- random numbers ----------------------------------------------------------------------------------


def noisy(variant: str, seed: int, factor: float = 1.0, case: str = "sample/noise"):
    drawn = np.random.default_rng(seed).normal(size=(2, 3))
    samples = (RandomSample("block", "y", "forward", drawn),)
    return result(
        variant,
        run({"x": drawn * factor}, output=drawn, samples=samples),
        plain=run({"x": drawn}, output=drawn, samples=samples),
        case=case,
        expects=replace(expected(), outputs=None, losses=None, gradients=None),
    )


def test_random_cases_are_compared_within_each_framework():
    found = compared(noisy("a/one", 1), noisy("a/two", 1), noisy("b/one", 2), noisy("b/two", 2))
    assert found.ok
    assert only(found, "values").message == "random: compared within each framework only"
    groups = [v.groups[0].members for v in found.verdicts if v.subject == "gradient of x"]
    assert groups == [("a/one", "a/two"), ("b/one", "b/two")]


def test_random_cases_disagree_only_where_they_drew_the_same():
    found = compared(noisy("a/one", 1), noisy("a/two", 1, 2.0), noisy("a/three", 2, 3.0))
    verdict = only(found, "gradient of x")
    assert verdict.status is Agreement.DISAGREE
    assert [group.members for group in verdict.groups] == [("a/one",), ("a/two",)]


def test_where_random_state_is_not_preserved_nothing_is_compared():
    case = "sample/noise-anew"
    found = compared(noisy("a/one", 1, case=case), noisy("a/two", 1, 2.0, case=case))
    assert "not preserved" in only(found, "values").message
    assert found.ok


# -- executions --------------------------------------------------------------------------------------


def test_forward_runs_are_equal_across_disciplines():
    found = compared(
        result("a/one"),
        result("b/one", run(counts=(2, 1))),
        disciplines={"a/one": "whole", "b/one": "minimal"},
    )
    verdict = only(found, "forward runs of region block")
    assert verdict.status is Agreement.DISAGREE
    assert verdict.message == (
        "b/one disagrees with a/one on forward runs of region block: 2 times against once"
    )


def test_reruns_are_compared_within_a_discipline():
    found = compared(
        result("a/one"),
        result("b/one"),
        result("c/one", run(counts=(1, 3)), expects=expected(reruns=Allowed((3,)))),
        disciplines={"a/one": "whole", "b/one": "whole", "c/one": "minimal"},
    )
    assert found.ok
    assert only(found, "reruns of region block (discipline whole)").groups[0].members == (
        "a/one",
        "b/one",
    )
    assert not [v for v in found.verdicts if "minimal" in v.subject]


def test_a_wrong_count_does_not_pull_down_those_for_whom_it_is_right():
    """A variant that keeps more by its own declaration reruns less, and rightly so."""
    less = expected(reruns=Allowed((0,)))
    found = compared(
        result("a/one"),
        result("b/one"),
        result("c/wrong", run(counts=(1, 0))),
        result("d/keeps", run(counts=(1, 0)), expects=less),
        result("e/keeps", run(counts=(1, 0)), expects=less),
    )
    verdict = only(found, "reruns of region block (discipline whole, 1 expected)")
    assert verdict.status is Agreement.DISAGREE
    assert [d.variants for d in verdict.disagreements] == [("c/wrong",)]
    other = only(found, "reruns of region block (discipline whole, 0 expected)")
    assert other.status is Agreement.AGREE
    assert other.groups[0].members == ("d/keeps", "e/keeps")


def test_differences_that_are_allowed_are_no_disagreement():
    either = expected(reruns=Allowed((0, 1), "a compiler may keep it"))
    found = compared(
        result("a/one", expects=either), result("b/one", run(counts=(1, 0)), expects=either)
    )
    verdict = only(found, "reruns of region block (discipline whole)")
    assert verdict.status is Agreement.ALLOWED
    assert "a compiler may keep it" in verdict.message
    found = compared(
        result("a/one", expects=either),
        result("b/one", run(counts=(1, 0)), expects=either),
        result("c/one", run(counts=(1, 5)), expects=either),
    )
    verdict = only(found, "reruns of region block (discipline whole)")
    assert [d.variants for d in verdict.disagreements] == [("c/one",)]


def test_counts_that_agree_on_the_wrong_number_disagree_with_the_expectation():
    found = compared(result("a/one", run(counts=(1, 2))), result("b/one", run(counts=(1, 2))))
    verdict = only(found, "reruns of region block (discipline whole)")
    assert verdict.message.startswith("a/one and b/one disagree with the expectation")
    assert verdict.message.endswith("2 times against 1 times")


def test_what_was_not_counted_is_absent():
    found = compared(
        result("a/one"),
        result("a/two"),
        result("b/one", replace(run(), executions=None)),
    )
    verdict = only(found, "forward runs of region block")
    assert verdict.status is Agreement.AGREE
    assert verdict.absent == {"b/one": "not observed"}


def test_region_count_falls_back_on_statements():
    counted = Run(
        executions=(
            Execution("r", "h", "rerun", 1),
            Execution("r", "y", "rerun", 2),
            Execution("s", "", "forward", 4),
            Execution("s", "h", "rerun", 9),
        )
    )
    assert region_count(counted, "r", "rerun") == 2
    assert region_count(counted, "r", "forward") == 0
    assert region_count(counted, "s", "forward") == 4
    assert region_count(counted, "s", "rerun") == 0
    assert region_count(Run(), "r", "forward") is None


# -- memory ------------------------------------------------------------------------------------------

MEMORY = "the drop in retained memory"


def heavy(variant: str, units: float, unit: int = samples.UNIT, **rest):
    """A result in which recomputing frees that many activations of three; two are expected."""
    plain = 3 * unit
    return result(
        variant,
        run(retained=int(plain - units * unit)),
        plain=run(retained=plain),
        expects=expected(unit=unit),
        **rest,
    )


def test_drops_within_a_quarter_of_a_unit_agree():
    found = compared(heavy("a/one", 2.0), heavy("a/two", 1.75), heavy("b/one", 2.25))
    assert only(found, MEMORY).status is Agreement.AGREE


def test_another_drop_disagrees():
    found = compared(heavy("a/one", 2.0), heavy("b/one", 0.0), heavy("b/two", 0.2))
    verdict = only(found, MEMORY)
    assert verdict.message == (
        f"b/one and b/two disagree with a/one on {MEMORY}: 0.00 activations, but 2.00 activations "
        "should have been freed"
    )
    assert not found.ok


def test_units_are_those_of_each_variant():
    double = heavy("b/one", 2.0, unit=2 * samples.UNIT)
    assert only(compared(heavy("a/one", 2.0), double), MEMORY).status is Agreement.AGREE


def test_a_small_activation_is_not_compared():
    found = compared(heavy("a/one", 2.0, unit=1024), heavy("b/one", 0.0, unit=1024))
    assert only(found, "retained memory").status is Agreement.SKIPPED
    assert "2048 bytes" in only(found, "retained memory").message
    assert found.ok


# -- as text -----------------------------------------------------------------------------------------


def test_only_new_disagreements_are_listed_without_all():
    found = compared(
        result("a/one"),
        result("b/one", run({"x": OFF}), verdicts=[FAIL]),
        result("b/two", run(counts=(1, 0))),
    )
    subject = "reruns of region block (discipline whole)"
    new = f"executions: disagree: b/two disagrees with a/one and b/one on {subject}: 0 times"
    listed = list(agreement(found, everything=False, in_markdown=True))
    assert [line.startswith(f"- `sample/block` {new}") for line in listed] == [True, False]
    assert listed[-1].endswith(" agree, 2 disagree (1 new), 1 not compared")
    every = "\n".join(map(str, agreement(found, everything=True, in_markdown=False)))
    shown = "b/one disagrees with a/one and b/two on gradient of x"
    assert f"  disagree, as their own checks show: {shown}" in every


# -- what does not belong together -------------------------------------------------------------------


def test_nothing_is_refused():
    with pytest.raises(ComparisonError, match="no results"):
        compare([], ())


def test_the_same_adapter_twice_is_refused():
    files = [
        results("a", [result("a/one")], path=Path("first.db")),
        results("a", [result("a/one")], path=Path("second.db")),
    ]
    with pytest.raises(ComparisonError, match=r"first\.db and second\.db .* adapter 'a'"):
        compare(files, ())


def test_other_cases_are_refused():
    files = [
        results("a", [result("a/one")]),
        results("b", [result("b/one")], given=samples.cases()[:1]),
    ]
    with pytest.raises(ComparisonError, match=r"a\.db and b\.db are results of different"):
        compare(files, ())
    with pytest.raises(ComparisonError, match="changed since"):
        compare(files[:1], samples.cases()[:1])


def test_a_variant_without_a_discipline_is_refused():
    file = results("a", [result("a/one")], disciplines={"a/two": "whole"})
    with pytest.raises(ComparisonError, match="no discipline for a/one"):
        compare([file], ())


def test_cases_are_matched_by_id_not_by_place():
    one = [result("a/one"), noisy("a/one", 1)]
    two = [noisy("b/one", 2), result("b/one")]
    found = compare([results("a", one), results("b", two)], samples.cases())
    assert found.ok
    assert Agreement.AGREE in {verdict.status for verdict in found.verdicts}
