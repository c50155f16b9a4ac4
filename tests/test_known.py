"""Known deviations: which verdicts they explain, and what becomes of those that explain none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from conformance.errors import KnownError
from conformance.judge.known import Entry, append, read
from conformance.judge.triage import Triage, additions, covered, noted, triaged
from conformance.model.facts import Difference, Raised
from conformance.model.result import Result
from conformance.model.verdict import KnownNote, Level, Status, Verdict

ENTRY = Entry(
    ("mini/*",), ("wrong",), "gradient", "is None", "forgets", "it forgets", "", "known.yaml:1"
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
        (Status.REPORT, Triage.UNEXPECTED),
        (Status.UNSUPPORTED, Triage.EXPECTED),
        (Status.BROKEN, Triage.UNEXPECTED),
    ],
)
def test_with_an_entry(status, expected):
    assert standing([ENTRY], verdict(status)) == [expected]


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (Status.FAIL, "gradient of x is None", Triage.KNOWN),
        (Status.FAIL, "gradient of x differs", Triage.UNEXPECTED),
        (Status.PASS, "right", Triage.EXPECTED),
        (Status.UNSUPPORTED, "lacks vmap", Triage.EXPECTED),
    ],
)
def test_one_that_is_not_strict_is_expected_wherever_it_is_seen(status, message, expected):
    entry = replace(ENTRY, strict=False)
    assert standing([entry], verdict(status, message)) == [expected]


def test_one_that_is_not_strict_has_to_be_seen_somewhere(tmp_path):
    text = (
        "- {case: '*', variant: wrong, check: gradient, observed: is None, cause: c, reason: so, "
        "strict: false}"
    )
    entries = read(write(tmp_path, text))
    passing, failing = result(verdict(Status.PASS)), result(verdict(Status.FAIL))
    assert covered(entries, passing) == ()
    assert covered(entries, failing) == (0,)


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (Status.FAIL, "gradient of x is None", Triage.KNOWN),
        (Status.FAIL, "gradient of x differs", Triage.UNEXPECTED),
        (Status.PASS, "right", Triage.EXPECTED),
    ],
)
def test_an_intermittent_one_may_be_seen_in_no_case(tmp_path, status, message, expected):
    entry = "case: '*', variant: wrong, check: gradient, observed: is None, cause: c, reason: so"
    text = f"- {{{entry}, intermittent: true}}"
    entries = read(write(tmp_path, text))
    assert standing(entries, verdict(status, message)) == [expected]
    assert covered(entries, result(verdict(Status.PASS))) == (0,)
    assert covered(entries, result(verdict(Status.UNSUPPORTED))) == ()


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
    entry = Entry(cases, variants, "value", "", "cause", "why", "", "")
    assert entry.covers(case, variant, "value") is covered
    assert not entry.covers(case, variant, "gradient")


def test_entry_applies_where_its_check_was_judged():
    gone = Entry(("gone/*",), ("*",), "gradient", "x", "cause", "why", "", "")
    masked = Entry(("mini/*",), ("wrong",), "value", "x", "cause", "why", "", "")
    found = result(verdict(Status.FAIL), verdict(Status.UNSUPPORTED, check="value"))
    assert covered([ENTRY, gone, masked], found) == (0,)
    assert covered([ENTRY], result(verdict(Status.PASS))) == (0,)


def test_notes_are_kept_with_results():
    entry = Entry(("*",), ("*",), "gradient", "None", "forgets", "it forgets", "upstream", "")
    two = result(verdict(Status.FAIL), verdict(Status.FAIL, check="value"))
    note = KnownNote("it forgets", "upstream", "forgets")
    assert [v.known for v in noted([entry], two).verdicts] == [note, None]
    passed = result(verdict(Status.PASS))
    assert noted([entry], passed) == passed
    # A note of an entry that is not there any more is taken away.
    assert noted([], noted([entry], two)) == two


def test_each_failure_of_a_check_has_the_note_of_its_own_entry():
    late = Entry(("*",), ("*",), "gradient", "late", "waits", "it waits", "", "")
    lost = Entry(("*",), ("*",), "gradient", "lost", "forgets", "it forgets", "", "")
    two = result(verdict(Status.FAIL, "it is lost"), verdict(Status.FAIL, "it is late"))
    reasons = [v.known and v.known.reason for v in noted([late, lost], two).verdicts]
    assert reasons == ["it forgets", "it waits"]


def test_reading_gives_file_and_line(tmp_path):
    file = write(
        tmp_path,
        "# why\n- {case: a/b, variant: [x, y], check: value, observed: 'fail:', cause: c, reason: so}\n",
    )
    (entry,) = read(file)
    assert entry.where == f"{file}:2"
    assert entry.variants == ("x", "y")
    assert read(tmp_path / "none.yaml") == ()


@pytest.mark.parametrize("text", ["", "[]", "# nothing\n"])
def test_nothing_known(tmp_path, text):
    assert read(write(tmp_path, text)) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("case: a", "expected a list"),
        ("- [", "not YAML"),
        ("- {case: a/b, variant: x, check: value, observed: y, cause: c}", "without a reason"),
        (
            "- {case: a/b, variant: x, check: value, observed: y, cause: c, reason: ' '}",
            "without a reason",
        ),
        (
            "- {case: a/b, variant: x, check: value, cause: c, reason: z}",
            "observed: Field required",
        ),
        ("- {case: a/b, variant: x, check: value, observed: '', cause: c, reason: z}", "observed"),
        (
            "- {case: a/b, variant: x, check: value, observed: y, reason: z}",
            "cause: Field required",
        ),
        ("- {case: a/b, variant: x, check: value, observed: y, cause: a-b, reason: z}", "cause"),
        ("- {case: a/b, variant: x, check: value, observed: y, cause: '', reason: z}", "a cause"),
        ("- {case: a/b, variant: x, check: value, observed: y, cause: c, reason: z, u: v}", "u: E"),
    ],
)
def test_malformed_list_is_refused(tmp_path, text, message):
    file = write(tmp_path, text)
    with pytest.raises(KnownError, match=message) as caught:
        read(file)
    assert str(file) in str(caught.value)


def test_update_adds_what_is_new_and_keeps_what_is_there(tmp_path):
    file = write(
        tmp_path,
        "# Kept.\n"
        "- {case: mini/*, variant: wrong, check: gradient, observed: None, cause: c, reason: so}\n",
    )
    file.write_text(file.read_text().replace("observed: None", "observed: 'None'"))
    found = [
        result(verdict(Status.FAIL), verdict(Status.FAIL, "off by 2", "value")),
        result(verdict(Status.FAIL, "off by 2", "value"), variant="mini/other"),
        result(verdict(Status.WARN, "peak", "peak memory"), case="mini/warned"),
        result(verdict(Status.BROKEN, "oh", "error"), case="mini/broken"),
    ]
    added = additions(read(file), found)
    assert added == [
        {
            "case": "mini/square",
            "variant": ["wrong", "other"],
            "check": "value",
            "observed": "fail: off by 2",
            "cause": "",
            "reason": "",
        }
    ]
    append(file, added)
    assert file.read_text().startswith("# Kept.\n- {case: mini/*")
    assert len(yaml.safe_load(file.read_text())) == 2
    with pytest.raises(KnownError, match="without a reason"):
        read(file)
    again = read(file, unfinished=True)
    assert additions(again, found) == []


def test_update_asks_once_for_one_cause():
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
    added = additions([], found)
    assert [(one["case"], one["variant"], one["observed"]) for one in added] == [
        (["a/1", "a/2"], "wrong", none),
        ("a/3", ["wrong", "other"], f"fail: gradient with respect to w {none} (4,)"),
        ("a/4", "wrong", "fail: gradient with respect to w differs in 4 of 4 elements"),
        (["a/5", "a/6"], "wrong", "fail: raised: no axis"),
        ("a/7", "wrong", "fail: raised: an array is not taken"),
    ]
    entries = [
        Entry(
            _words(one["case"]),
            _words(one["variant"]),
            one["check"],
            one["observed"],
            "",
            "",
            "",
            "",
        )
        for one in added
    ]
    assert additions(entries, found) == []  # each of them is described


def _words(given) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def test_update_of_an_empty_list(tmp_path):
    file = write(tmp_path, "# Comment.\n[]\n")
    entry = {
        "case": "a/b",
        "variant": "x",
        "check": "c",
        "observed": "y",
        "cause": "",
        "reason": "",
    }
    append(file, [entry])
    assert file.read_text().startswith("# Comment.\n- case: a/b\n")
    assert len(read(file, unfinished=True)) == 1
