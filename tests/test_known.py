"""Known deviations: which verdicts they explain, and what becomes of those that explain none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace as msgspec_replace

from conformance.errors import KnownError
from conformance.judge.checks.error import AFTER
from conformance.judge.known import Catalog, Condition, Entry, append, bound, read
from conformance.judge.triage import Triage, additions, covered, noted, triaged
from conformance.language.load import load_text
from conformance.model.facts import Difference, Raised
from conformance.model.result import Result
from conformance.model.verdict import KnownNote, Level, Status, Verdict

from .test_load import GOOD

ENTRY = Entry(
    variants=("wrong",),
    check="gradient",
    observed=("is None",),
    cause="forgets",
    reason="it forgets",
    cases=("mini/*",),
    where="known.yaml:1",
)


def verdict(status: Status, message: str = "gradient of x is None", check: str = "gradient"):
    return Verdict(check, status, Level.MUST, message)


def result(*verdicts: Verdict, case: str = "mini/square", variant: str = "mini/wrong") -> Result:
    return Result(case, variant, verdicts, None, None, "")


def standing(entries, *verdicts):
    return [item.triage for item in triaged(entries, result(*verdicts))]


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "known.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Status.PASS, Triage.EXPECTED),
        (Status.REPORT, Triage.EXPECTED),
        (Status.UNSUPPORTED, Triage.EXPECTED),
        (Status.WARN, Triage.EXPECTED),
        (Status.FAIL, Triage.UNEXPECTED),
        (Status.CRASHED, Triage.UNEXPECTED),
        (Status.TIMEOUT, Triage.UNEXPECTED),
        (Status.BROKEN, Triage.UNEXPECTED),
    ],
)
def test_without_an_entry(status, expected):
    assert standing([], verdict(status)) == [expected]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Status.FAIL, Triage.KNOWN),
        (Status.WARN, Triage.KNOWN),
        (Status.CRASHED, Triage.KNOWN),
        (Status.TIMEOUT, Triage.KNOWN),
        (Status.PASS, Triage.UNEXPECTED),
        (Status.REPORT, Triage.EXPECTED),
        (Status.UNSUPPORTED, Triage.EXPECTED),
        (Status.BROKEN, Triage.UNEXPECTED),
    ],
)
def test_with_an_entry(status, expected):
    assert standing([ENTRY], verdict(status)) == [expected]


def test_a_report_that_says_something_else_than_its_entry():
    assert standing([ENTRY], verdict(Status.REPORT, "as it should be")) == [Triage.UNEXPECTED]


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (Status.FAIL, "gradient of x is None", Triage.KNOWN),
        (Status.FAIL, "gradient of x differs", Triage.UNEXPECTED),
        (Status.PASS, "right", Triage.EXPECTED),
        (Status.UNSUPPORTED, "lacks vmap", Triage.EXPECTED),
    ],
)
def test_one_that_shows_sometimes_is_expected_wherever_it_is_seen(status, message, expected):
    entry = replace(ENTRY, sometimes="it depends on chance")
    assert standing([entry], verdict(status, message)) == [expected]
    judged = () if status is Status.UNSUPPORTED else (0,)
    assert covered([entry], result(verdict(status, message))) == judged


@pytest.mark.parametrize(
    ("check", "dtype", "expected"),
    [
        ("gradient", "bfloat16", Triage.EXPECTED),
        ("gradient", "float32", Triage.UNEXPECTED),
        ("executions", "bfloat16", Triage.UNEXPECTED),
    ],
)
def test_a_difference_may_be_within_the_tolerance_of_half_precision(check, dtype, expected):
    text = GOOD.replace("shape: [2, 3]", f"shape: [2, 3], dtype: {dtype}")
    (case,) = load_text(text, "good.yaml")
    condition = Condition(("op:sin",))
    entry = replace(ENTRY, check=check, cases=(), when=(condition,), catalog=Catalog([case]))
    (item,) = triaged([entry], result(verdict(Status.PASS, check=check), case=case.id))
    assert item.triage is expected


def test_a_gradient_that_is_lost_may_be_zero():
    (case,) = load_text(GOOD.replace("z = exp(y)", "z = divide(y, y)"), "good.yaml")
    entry = replace(ENTRY, cases=(), when=(Condition(("op:sin",)),), catalog=Catalog([case]))
    (item,) = triaged([entry], result(verdict(Status.PASS), case=case.id))
    assert item.triage is Triage.EXPECTED


@pytest.mark.parametrize(
    ("words", "expected"),
    [((), Triage.EXPECTED), (("expected-error",), Triage.UNEXPECTED)],
)
def test_one_that_an_error_hides_is_not_gone(words, expected):
    (case,) = load_text(f"{GOOD}    error: {{type: ValueError}}\n", "good.yaml")
    condition = Condition(("op:sin",), words)
    entry = replace(ENTRY, check="error", cases=(), when=(condition,), catalog=Catalog([case]))
    raised = (Raised("ValueError", "forward", "ValueError"),)
    hides = msgspec_replace(verdict(Status.PASS, check="error"), facts=raised)
    (item,) = triaged([entry], result(hides, case=case.id))
    assert item.triage is expected


def test_a_good_run_after_an_error_deviates_as_the_program_would():
    after = verdict(Status.FAIL, AFTER, "error")
    assert standing([ENTRY], after) == [Triage.KNOWN]
    assert standing([], after) == [Triage.UNEXPECTED]


@pytest.mark.parametrize(
    ("procedure", "gradient", "expected"),
    [
        ("train: {steps: 2, learning_rate: 0.1}", Status.FAIL, Triage.KNOWN),
        ("train: {steps: 2, learning_rate: 0.1}", Status.PASS, Triage.UNEXPECTED),
        ("backward: {between: reseed}", Status.FAIL, Triage.UNEXPECTED),
    ],
)
def test_values_differ_in_training_where_gradients_do(procedure, gradient, expected):
    (case,) = load_text(f"{GOOD}    procedure: {{{procedure}}}\n", "good.yaml")
    entry = replace(ENTRY, cases=(case.id,), catalog=Catalog([case]))
    value = verdict(Status.FAIL, "outputs differs in 1 of 4 elements", "value")
    verdicts = result(verdict(gradient), value, case=case.id)
    assert triaged([entry], verdicts)[1].triage is expected


def test_gradients_differ_where_training_has_changed_other_parameters():
    (case,) = load_text(
        f"{GOOD}    procedure: {{train: {{steps: 2, learning_rate: 0.1}}}}\n", "good.yaml"
    )
    value, gradient = (
        verdict(Status.FAIL, "w differs in 1 of 4 elements", c) for c in ("value", "gradient")
    )
    entry = replace(
        ENTRY, check="value", observed=("w differs",), cases=(case.id,), catalog=Catalog([case])
    )
    for verdicts, expected in (((value, gradient), Triage.KNOWN), ((gradient,), Triage.UNEXPECTED)):
        assert triaged([entry], result(*verdicts, case=case.id))[-1].triage is expected


def test_known_deviation_that_passes_again_says_which_entry_to_take_out():
    (item,) = triaged([ENTRY], result(verdict(Status.PASS)))
    assert "known.yaml:1" in item.reason
    assert "it forgets" in item.reason


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (Status.FAIL, "gradient with respect to x is None", Triage.KNOWN),
        (Status.FAIL, "something else", Triage.UNEXPECTED),
        (Status.WARN, "something else", Triage.EXPECTED),
        (Status.PASS, "", Triage.EXPECTED),
    ],
)
def test_an_entry_that_is_shared_may_be_gone(status, message, expected):
    shared = replace(ENTRY, variants=("*",), shared="mini/wrong")
    (item,) = triaged([shared], result(verdict(status, message), variant="own/eager"))
    assert item.triage is expected


def test_another_deviation_than_the_one_described_is_unexpected():
    (item,) = triaged([ENTRY], result(verdict(Status.FAIL, "x is twice as large")))
    assert item.triage is Triage.UNEXPECTED
    assert "'is None'" in item.reason


def test_other_verdicts_of_a_deviating_check_may_pass():
    assert standing([ENTRY], verdict(Status.PASS), verdict(Status.FAIL)) == [
        Triage.EXPECTED,
        Triage.KNOWN,
    ]


@pytest.mark.parametrize(
    ("cases", "variants", "case", "variant", "covered"),
    [
        (("mini/square",), ("wrong",), "mini/square", "mini/wrong", True),
        (("mini/square",), ("mini/wrong",), "mini/square", "mini/wrong", True),
        (("mini/square",), ("wrong",), "mini/square-root", "mini/wrong", False),
        (("mini/*",), ("*",), "mini/square", "mini/wrong", True),
        (("mini/*",), ("right", "wr*"), "mini/square", "mini/wrong", True),
        (("chain[depth=4]",), ("*",), "chain[depth=4]", "mini/wrong", True),
        (("chain[depth=4]",), ("*",), "chaind", "mini/wrong", False),
        (("chain[depth=*]",), ("*",), "chain[depth=12]", "mini/wrong", True),
        (("mini/*", "!mini/square"), ("*",), "mini/square", "mini/wrong", False),
        (("mini/*", "!mini/square"), ("*",), "mini/cube", "mini/wrong", True),
        (("mini/*", "!mini/s*", "mini/square"), ("*",), "mini/square", "mini/wrong", True),
        (("!mini/square",), ("*",), "mini/cube", "mini/wrong", False),
    ],
)
def test_patterns(cases, variants, case, variant, covered):
    entry = replace(ENTRY, cases=cases, variants=variants, check="value")
    assert entry.covers(case, variant, "value") is covered
    assert not entry.covers(case, variant, "gradient")


def test_entry_applies_where_its_check_was_judged():
    gone = replace(ENTRY, cases=("gone/*",))
    masked = replace(ENTRY, check="value")
    found = result(verdict(Status.FAIL), verdict(Status.UNSUPPORTED, check="value"))
    assert covered([ENTRY, gone, masked], found) == (0,)
    assert covered([ENTRY], result(verdict(Status.PASS))) == (0,)


def test_notes_are_kept_with_results():
    entry = replace(ENTRY, urls=("upstream", "another"), kind="choice", instead="Remember.")
    two = result(verdict(Status.FAIL), verdict(Status.FAIL, check="value"))
    note = KnownNote("it forgets", "upstream", "forgets", "choice", "Remember.")
    assert [v.known for v in noted([entry], two).verdicts] == [note, None]
    passed = result(verdict(Status.PASS))
    assert noted([entry], passed) == passed
    # A note of an entry that is not there any more is taken away.
    assert noted([], noted([entry], two)) == two


def test_each_failure_of_a_check_has_the_note_of_its_own_entry():
    late = replace(ENTRY, observed=("late",), cause="waits", reason="it waits")
    lost = replace(ENTRY, observed=("lost",))
    two = result(verdict(Status.FAIL, "it is lost"), verdict(Status.FAIL, "it is late"))
    reasons = [v.known and v.known.reason for v in noted([late, lost], two).verdicts]
    assert reasons == ["it forgets", "it waits"]


CAUSE = "- {cause: c, cases: a/b, shows: {value: 'fail:'}, says: so}\n"


def test_reading_gives_file_and_line(tmp_path):
    file = write(tmp_path, "# why\n" + CAUSE.replace("cases", "variants: [x, y], cases"))
    (entry,) = read(file)
    assert entry.where == f"{file}:2"
    assert entry.variants == ("x", "y")
    assert read(tmp_path / "none.yaml") == ()


def test_a_cause_has_several_forms_and_each_an_entry_for_each_check(tmp_path):
    file = write(
        tmp_path,
        """\
- cause: forgets
  kind: limit
  url: page
  variants: wrong
  when: {region: [captured-parameter, not kwargs]}
  shows: {gradient: [is None, is zeros], executions: inert}
  says: It
    forgets.
  also:
  - {variants: late, shows: {gradient: late}}
  - {cases: mini/square, sometimes: by chance}
""",
    )
    condition = (Condition(("captured-parameter", "not kwargs")),)
    gradient, executions, late, *by_id = read(file)
    assert gradient.observed == ("is None", "is zeros")
    assert (gradient.when, gradient.variants, gradient.kind) == (condition, ("wrong",), "limit")
    assert (executions.check, executions.reason) == ("executions", "It forgets.")
    assert (late.when, late.variants, late.observed) == (condition, ("late",), ("late",))
    assert [(e.check, e.cases, e.when, e.lenient) for e in by_id] == [
        ("gradient", ("mini/square",), (), True),
        ("executions", ("mini/square",), (), True),
    ]


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ("region: captured-parameter", True),
        ("region: [captured-parameter, function]", True),
        ("region: not captured-parameter", False),
        ("region: not kwargs", True),
        ("case: [captured-parameter, not train]", True),
        ("case: second-order", False),
        ("region: captured-parameter, case: second-order", False),
        ("region: 'op:matmul'", True),
    ],
)
def test_features_say_when_it_shows(tmp_path, when, holds):
    (case,) = load_text(GOOD, "family.yaml")
    text = f"- {{cause: c, when: {{{when}}}, shows: {{gradient: is None}}, says: so}}"
    (entry,) = bound(read(write(tmp_path, text)), Catalog([case]))
    assert entry.names_case(case.id) is holds
    assert entry.covers(case.id, "mini/wrong", "gradient") is holds
    assert not entry.names_case("another/case")
    # Of several conditions one has to hold.
    text = text.replace(f"{{{when}}}", f"[{{{when}}}, {{case: function}}]")
    (entry,) = bound(read(write(tmp_path, text)), Catalog([case]))
    assert entry.names_case(case.id)


@pytest.mark.parametrize("text", ["", "[]", "# nothing\n"])
def test_nothing_known(tmp_path, text):
    assert read(write(tmp_path, text)) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cause: a", "expected a list"),
        ("- [", "not YAML"),
        (CAUSE.replace("says: so", "says: ' '"), "without 'says'"),
        (CAUSE.replace("cause: c", "cause: ''"), "without 'name'"),
        (CAUSE.replace("cause: c, ", ""), "cause: Field required"),
        (CAUSE.replace("cause: c", "cause: a-b"), "cause: String should match"),
        (CAUSE.replace("cases: a/b, ", ""), "nothing says when"),
        (CAUSE.replace("{value: 'fail:'}", "{}"), "nothing says what shows"),
        (CAUSE.replace("says", "u: v, says"), "u: Extra"),
        (CAUSE.replace("says", "kind: wish, says"), "kind: Input should be"),
        (CAUSE.replace("says", "kind: limit, says"), "has no url"),
        (CAUSE + CAUSE, "two causes are named 'c'"),
        (CAUSE.replace("cases: a/b", "when: {region: kwarg}"), "no feature 'kwarg'"),
        (CAUSE.replace("cases: a/b", "when: {region: 'op:dropuot'}"), "no feature 'op:dropuot'"),
    ],
)
def test_malformed_list_is_refused(tmp_path, text, message):
    file = write(tmp_path, text)
    with pytest.raises(KnownError, match=message) as caught:
        read(file)
    assert str(file) in str(caught.value)


def test_update_adds_what_is_new_and_keeps_what_is_there(tmp_path):
    text = "# Kept.\n- {cause: c, variants: wrong, cases: mini/*, shows: {gradient: 'None'}, says: so}\n"
    file = write(tmp_path, text)
    found = [
        result(verdict(Status.FAIL), verdict(Status.FAIL, "off by 2", "value")),
        result(verdict(Status.FAIL, "off by 2", "value"), variant="mini/other"),
        result(verdict(Status.WARN, "peak", "peak memory"), case="mini/warned"),
        result(verdict(Status.BROKEN, "oh", "error"), case="mini/broken"),
    ]
    added = additions(read(file), found, Catalog())
    assert added == [
        {
            "cause": "",
            "kind": "defect",
            "variants": ["wrong", "other"],
            "cases": "mini/square",
            "shows": {"value": "fail: off by 2"},
            "says": "",
            "instead": "",
        }
    ]
    append(file, added)
    assert file.read_text().startswith(text)
    assert len(yaml.safe_load(file.read_text())) == 2
    with pytest.raises(KnownError, match="without 'says'"):
        read(file)
    again = read(file, unfinished=True)
    assert additions(again, found, Catalog()) == []


def test_update_asks_once_for_one_cause(tmp_path):
    def differs(name: str, kind: str, words: str) -> Verdict:
        fact = Difference("gradient", name, kind, "plain run")
        message = f"gradient with respect to {name} {words}"
        return Verdict("gradient", Status.FAIL, Level.MUST, message, facts=(fact,))

    def raised(words: str) -> Verdict:
        fact = Raised("TypeError", "forward")
        return Verdict("error", Status.FAIL, Level.MUST, f"raised: {words}", facts=(fact,))

    none = "is None, but should be an array of shape"
    found = [
        result(
            differs("w", "none", f"{none} (4,)"), differs("v", "none", f"{none} (2,)"), case="a/1"
        ),
        result(differs("u", "none", f"{none} (3, 3)"), case="a/2"),
        result(differs("w", "none", f"{none} (4,)"), case="a/3"),
        result(differs("w", "none", f"{none} (4,)"), case="a/3", variant="mini/other"),
        result(differs("w", "elements", "differs in 4 of 4 elements"), case="a/4"),
        result(raised("no axis 2 in 'sum'"), case="a/5"),
        result(raised("no axis 1 in 'max'"), case="a/6"),
        result(raised("an array is not taken"), case="a/7"),
    ]
    added = additions([], found, Catalog())
    assert [(one["cases"], one["variants"], *one["shows"].values()) for one in added] == [
        (["a/1", "a/2"], "wrong", none),
        ("a/3", ["wrong", "other"], f"fail: gradient with respect to w {none} (4,)"),
        ("a/4", "wrong", "fail: gradient with respect to w differs in 4 of 4 elements"),
        (["a/5", "a/6"], "wrong", "fail: raised: no axis"),
        ("a/7", "wrong", "fail: raised: an array is not taken"),
    ]
    file = tmp_path / "known.yaml"
    append(file, added)
    assert additions(read(file, unfinished=True), found, Catalog()) == []  # each is described


def test_update_proposes_features(tmp_path):
    text = GOOD + GOOD[GOOD.index("  one:") :].replace("  one:", "  named:").replace(
        "takes: x", "takes: []\n        kwargs: {x: x}"
    )
    cases = load_text(text, "family.yaml")
    lost, right = verdict(Status.FAIL), verdict(Status.PASS)
    ids = [case.id for case in cases]
    found = [result(right, case=ids[0]), result(lost, case=ids[1])]
    (added,) = additions([], found, Catalog(cases))
    assert added["when"] == [{"region": ["kwargs"]}]


def test_update_of_an_empty_list(tmp_path):
    file = write(tmp_path, "# Comment.\n[]\n")
    append(file, [{"cause": "c", "cases": "a/b", "shows": {"value": "y"}, "says": ""}])
    assert file.read_text().startswith("# Comment.\n- cause: c\n")
    assert len(read(file, unfinished=True)) == 1
