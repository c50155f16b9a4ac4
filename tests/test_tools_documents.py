"""What documents claim: how the list is read, what it refuses, and the page that is made from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal as OneOf

import pytest

from conformance.judge.checks import CHECKS
from conformance.model.facts import Calls, Difference, Fact, State, Unoffered
from conformance.model.result import Header, Result, Results
from conformance.model.verdict import Status, Verdict
from tests.report_samples import MINI, known
from tests.suite_cases import CASES
from tools.documents import FILE, Register, read, render, short, validate, verdict_words
from tools.shared import ROOT, RegisterError, cases_named, variants

REGISTER = read(FILE)
LISTED = REGISTER.documents
#: A cell's end: a bar that is not escaped.
BAR = re.compile(r"(?<!\\)\|")
TEXT = """\
documents:
  - title: A page
    page: Where it stands
    url: https://example.org/a
    claims:
      - claim: It squares | twice.
        checked:
          - case: mini/square
            variant: [mini/right, mini/wrong]
            check: gradient
        partly: the root is not asked for
      - claim: It runs elsewhere.
        unchecked: there is no elsewhere
"""


def written(folder: Path, text: str = TEXT) -> Path:
    file = folder / "documents.yaml"
    file.write_text(text, "utf-8")
    return file


def listed(folder: Path, text: str = TEXT) -> Register:
    return read(written(folder, text))


# -- what is shipped -------------------------------------------------------------------------------


def test_every_name_in_the_list_exists() -> None:
    validate(REGISTER, CASES, variants())


def test_there_are_five_documents_each_with_claims_that_are_checked_and_not_all_are() -> None:
    assert len(LISTED) == 5
    for document in LISTED:
        assert any(claim.checked for claim in document.claims), document.title
    assert any(claim.unchecked for document in LISTED for claim in document.claims)


def test_the_cases_made_from_a_document_answer_one_of_its_claims() -> None:
    named = {
        case.id
        for _, answer in REGISTER.answers()
        for name in answer.case
        for case in cases_named(name, CASES, FILE)
    }
    assert {case.id for case in CASES if case.id.startswith("documents/")} <= named


def sections(page: str) -> Iterator[tuple[str, list[list[str]]]]:
    """The titles of a page's sections, and the cells of their rows, as they are written."""
    for part in page.split("\n## ")[1:]:
        title, _, rest = part.partition("\n")
        rows = [line for line in rest.splitlines() if line.startswith("|")][2:]
        yield title, [[cell.strip() for cell in BAR.split(row)[1:-1]] for row in rows]


def told(page: str) -> Iterator[tuple[str, ...]]:
    """Every case, variant and check of each claim, and what is said of what is not checked."""
    for title, rows in sections(page):
        for claim, seen in rows:
            for line in seen.split("<br>"):
                if line.startswith(("*unchecked*", "*in part*")):
                    yield title, claim, line
                    continue
                case, on, checks, _ = line.split(" · ", 3)
                for variant in on.split(", "):
                    for check in checks.split(", "):
                        yield title, claim, case, variant, check


def test_the_page_lists_exactly_the_claims_of_the_list() -> None:
    """Which verdicts they have is a matter of results, and not compared."""
    page = (ROOT / "docs" / "documents.md").read_text("utf-8")
    assert set(told(page)) == set(told(render(LISTED, CASES, [])))


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("was", "becomes", "line", "message"),
    [
        ("claim: It squares | twice.", "clam: It squares.", 6, "unknown key 'clam'"),
        ("    page: Where it stands\n", "", 2, "key 'page' is missing"),
        ("https://example.org/a", "javascript:alert(1)", 4, ": String should match pattern"),
        ("check: gradient", "check: []", 10, "found an empty list: Value should"),
        ("check: gradient", "check: 7", 10, "found 7, expected"),
        ("claims:\n", "claims: 7\n    more:\n", 6, "unknown key 'more'"),
        ("        unchecked: there is no elsewhere\n", "", 12, "neither `checked` nor `unchecked`"),
        ("partly: the", "unchecked: the", 6, "both `checked` and `unchecked`"),
        (
            "unchecked: there",
            "partly: a bit\n        unchecked: there",
            12,
            "found `partly` beside `unchecked`",
        ),
        ("It runs elsewhere.", "It squares | twice.", 12, "is listed twice, first at "),
        ("title: A page", "title: [A page", 3, "not YAML: "),
        ("title: A page", "title: A\n    title: B", 3, "key 'title' is given twice"),
        (TEXT, "documents: []\n", 1, ": List should have at least 1 item"),
        (TEXT, "- a list\n", 1, "found a list, expected"),
    ],
)
def test_a_malformed_list_is_refused_with_file_and_line(
    tmp_path: Path, was: str, becomes: str, line: int, message: str
) -> None:
    assert was in TEXT
    file = written(tmp_path, TEXT.replace(was, becomes, 1))
    with pytest.raises(RegisterError) as error:
        read(file)
    assert str(error.value).startswith(f"{file}:{line}:")
    assert message in str(error.value)
    assert len(str(error.value).splitlines()) <= 2


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n"])
def test_an_empty_list_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(RegisterError, match="the file is empty"):
        read(written(tmp_path, text))


def test_a_list_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegisterError, match="cannot be read"):
        read(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("was", "becomes", "place", "message"),
    [
        (
            "case: mini/square",
            "case: mini/sqare",
            "8:19",
            "no case 'mini/sqare'\n  hint: did you mean 'mini/square'?",
        ),
        ("mini/square", "mini/square[n=3]", "8:19", "no case 'mini/square[n=3]'"),
        ("mini/wrong]", "mini/wrng]", "9:35", "no variant 'mini/wrng'"),
        ("check: gradient", "check: gradients", "10:20", "no check 'gradients'"),
        (
            "check: gradient",
            "check: [gradient, hooks]",
            "10:31",
            "the check 'hooks' does not judge mini/square[n=1]",
        ),
    ],
)
def test_a_name_that_does_not_exist_is_refused_with_its_place(
    tmp_path: Path, was: str, becomes: str, place: str, message: str
) -> None:
    file = written(tmp_path, TEXT.replace(was, becomes, 1))
    with pytest.raises(RegisterError) as error:
        validate(read(file), MINI, ["mini/right", "mini/wrong"])
    assert str(error.value).startswith(f"{file}:{place}: {message}")


# -- the page --------------------------------------------------------------------------------------


def verdict(check: str, status: Status, message: str, *facts: Fact) -> Verdict:
    return Verdict(check, status, CHECKS[check].level, message, facts=facts)


def unoffered(how: OneOf["lacks", "not run"], why: str) -> Verdict:
    fact = Unoffered(how, why)
    return verdict("error", Status.UNSUPPORTED, f"mini/right {fact.words}", fact)


def result(*verdicts: Verdict, variant: str = "mini/right", n: int = 1) -> Result:
    return Result(f"mini/square[n={n}]", variant, verdicts, None, None, "")


def ran(*found: Result, adapter: str = "mini") -> Results:
    header = Header("1", adapter, (f"{adapter}/right",), {}, {"numpy": "2"}, "of other cases")
    return Results(Path("mini.db"), header, found)


PASSED = verdict("gradient", Status.PASS, "as the plain run")
FAILED = verdict("gradient", Status.FAIL, "gradient of x is None")
KNOWN = known(FAILED, "it forgets | x")


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (None, "*not run*"),
        (result(), "*no verdict*"),
        (result(PASSED), "*pass*"),
        (result(FAILED), "*fail*: gradient of x is None"),
        (result(KNOWN), "*fail* known: it forgets \\| x"),
        (result(PASSED, FAILED), "*fail*: gradient of x is None"),
        (result(verdict("gradient", Status.REPORT, "it may")), "*report*: it may"),
        (
            result(unoffered("lacks", "hooks (it has none)")),
            "*unsupported*: lacks hooks (it has none)",
        ),
        (
            result(unoffered("not run", "why")),
            "*not run*: why",
        ),
        (
            result(verdict("error", Status.FAIL, "raised <b>ValueError</b>")),
            "ended in an error, *fail*: raised \\<b\\>ValueError\\</b\\>",
        ),
        (result(verdict("error", Status.PASS, "raised nothing")), "*no verdict*"),
    ],
)
def test_a_verdict_in_words(shown: Result | None, text: str) -> None:
    assert verdict_words(shown, "gradient") == text


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (
            (
                State("m", "(2,) [2, 2]", "(2,) [1, 1]", 2.0),
                State("n", "(2,) [3, 3]", "(2,) [1, 1]", 3.0),
                State("o", "(2,) [2, 2]", "(2,) [1, 1]", 2.0),
            ),
            "state moves 2.00 and 3.00 times as far as without recompute",
        ),
        ((Calls("noted", 3, 1),), "it happens 3 times, without recompute 1 time(s)"),
        (
            (
                Difference(
                    "gradient",
                    "x",
                    "elements",
                    "plain run",
                    wrong=3,
                    size=4,
                    observed=1.0,
                    expected=2.0,
                ),
            ),
            "gradient with respect to x differs (plain run)",
        ),
        (
            (Difference("gradient", "x", "zeros", "plain run"),),
            "gradient with respect to x is zeros",
        ),
        ((Calls("hook of w", 2, 1),), "the message"),
    ],
)
def test_facts_are_told_without_what_differs_from_variant_to_variant(
    facts: tuple[Fact, ...], text: str
) -> None:
    assert short(verdict("gradient", Status.FAIL, "the message", *facts)).startswith(text)


def test_a_long_reason_is_cut_between_words() -> None:
    text = verdict_words(result(known(FAILED, "word " * 100)), "gradient")
    assert text.startswith("*fail* known: word word")
    assert text.endswith("word …")
    assert len(text) < 200


def page(folder: Path, *runs: Results) -> str:
    return render(listed(folder).documents, MINI, runs)


def test_the_page_has_a_row_for_each_claim_with_all_that_was_seen(tmp_path: Path) -> None:
    failed = result(KNOWN, variant="mini/wrong")
    text = page(tmp_path, ran(result(PASSED), failed), ran(adapter="other"))
    assert text.startswith("# Documents\n")
    assert "- mini: numpy 2\n" in text
    assert "- other" not in text
    assert "\n2 claims: 1 checked, 1 of them in part, and 1 unchecked.\n" in text
    assert "\n## A page\n\nWhere it stands, <https://example.org/a>. 2 claims" in text
    (found,) = (rows for _, rows in sections(text))
    case = "mini/square\\[n={}\\]"
    (first, seen), second = found
    assert first == "It squares \\| twice."
    assert seen.split("<br>") == [
        f"{case.format(1)} · mini/right · gradient · *pass*",
        f"{case.format(1)} · mini/wrong · gradient · *fail* known: it forgets \\| x",
        f"{case.format(2)} · mini/right, mini/wrong · gradient · *not run*",
        "*in part*: the root is not asked for",
    ]
    assert second == ["It runs elsewhere.", "*unchecked*: there is no elsewhere"]


def test_checks_with_the_same_verdict_share_a_line(tmp_path: Path) -> None:
    register = listed(tmp_path, TEXT.replace("check: gradient", "check: [value, gradient]"))
    passed = result(PASSED, verdict("value", Status.PASS, "so"))
    shown = render(register.documents, MINI, [ran(passed)])
    assert "mini/right · value, gradient · *pass*" in shown


def test_a_document_may_have_no_address(tmp_path: Path) -> None:
    register = listed(tmp_path, TEXT.replace("    url: https://example.org/a\n", ""))
    assert "\nWhere it stands. 2 claims" in render(register.documents, MINI, [ran()])
