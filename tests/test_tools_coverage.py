"""The list of what the cases cover: how it is read, what it refuses, and what it says of the cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.drivers.adapter import all_adapters
from conformance.judge.known import Catalog, Entry, bound
from conformance.judge.known import read as read_known
from tests.report_samples import MINI
from tests.suite_cases import CASES
from tools import coverage
from tools.coverage import (
    COLUMNS,
    FILE,
    Line,
    cases_of,
    fails,
    fractions,
    read,
    unexplained,
    validate,
)
from tools.shared import ADAPTERS, ROOT, RegisterError, variants

KNOWN = {a.name: bound(read_known(a.known), Catalog(CASES)) for a in all_adapters(ADAPTERS)}
LISTED = read(FILE)


def line(**changes: object) -> Line:
    words: dict[str, object] = {
        "yardstick": "test",
        "framework": "torch",
        "subject": "test_square",
        "scope": "portable",
        "cases": ("mini/square",),
        "variants": (),
        "check": "",
        "url": "",
        "why": "",
        "where": "coverage.csv:2",
    }
    return Line(**{**words, **changes})  # type: ignore[arg-type]


def defect(**changes: object) -> Line:
    words: dict[str, object] = {
        "yardstick": "defect",
        "subject": "torch#1",
        "scope": "one-process-cpu",
        "variants": ("torch/reentrant",),
        "check": "gradient",
        "url": "issues/1",
    }
    return line(**{**words, **changes})


def entry(
    url: str = "issues/1",
    case: str = "mini/*",
    check: str = "gradient",
    observed: str = "is None",
) -> Entry:
    return Entry(
        variants=("reentrant",),
        check=check,
        observed=(observed,),
        cause="forgets",
        reason="it forgets",
        cases=(case,),
        urls=(url,),
        where="known.yaml:1",
    )


# -- what is shipped -------------------------------------------------------------------------------


def test_every_name_in_the_list_exists() -> None:
    validate(LISTED, CASES, variants())


def test_the_cases_cover_what_they_are_meant_to() -> None:
    portable, offered, failed, defects = fractions(LISTED, CASES, KNOWN)
    assert (portable.covered, portable.total) == (76, 76)
    assert offered.total == 192
    assert offered.covered >= 0.9 * offered.total
    assert defects.covered >= 0.9 * defects.total
    assert failed.covered >= 0.6 * failed.total


def test_every_defect_is_a_known_deviation_that_names_it() -> None:
    assert unexplained(LISTED, CASES, KNOWN) == ()


# -- what is refused -------------------------------------------------------------------------------


def written(folder: Path, *rows: str, head: str = ",".join(COLUMNS)) -> Path:
    file = folder / FILE.name
    file.write_text("\n".join([head, *rows]) + "\n")
    return file


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("tests,torch,a,portable,x/y,,,,", "unknown yardstick 'tests'"),
        ("test,torch,a,portabel,x/y,,,,", "unknown scope 'portabel'"),
        ("test,torch,a,one-process-cpu,x/y,,,,", "unknown scope 'one-process-cpu'"),
        ("test,torch,a,portable,,,,,", "neither cases nor a reason"),
        ("defect,torch,a,one-process-cpu,x/y,,gradient,,", "no variant and check"),
        ("defect,torch,a,one-process-cpu,x/y,torch/x,,,", "no variant and check"),
        ("test,torch,a,portable,x/y", "without 9 fields"),
        ("test,torch,a,portable,x/y,,,,,more", "without 9 fields"),
    ],
)
def test_a_malformed_line_is_refused_with_its_number(
    tmp_path: Path, row: str, message: str
) -> None:
    file = written(tmp_path, "test,torch,ok,portable,x/y,,,,", row)
    with pytest.raises(RegisterError, match=message) as error:
        read(file)
    assert str(error.value).startswith(f"{file}:3: ")


def test_other_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RegisterError, match="found columns a, b"):
        read(written(tmp_path, head="a,b"))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegisterError, match="cannot be read"):
        read(tmp_path / FILE.name)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (line(cases=("mini/sqare",)), "no case 'mini/sqare'\n  hint: did you mean 'mini/square'"),
        (defect(variants=("torch/re",)), "no variant 'torch/re'"),
        (defect(check="gradients"), "no check 'gradients'"),
    ],
)
def test_a_name_that_does_not_exist_is_refused(wrong: Line, message: str) -> None:
    with pytest.raises(RegisterError, match=message):
        validate([wrong], MINI, ["torch/reentrant"])


def test_a_subject_that_is_listed_twice_is_refused() -> None:
    with pytest.raises(RegisterError, match=r"listed twice, first at coverage\.csv:2"):
        validate([line(), line(where="coverage.csv:9")], MINI, [])


# -- what it says ----------------------------------------------------------------------------------


def test_a_name_without_axes_means_all_of_them() -> None:
    assert cases_of(line(), MINI) == MINI
    assert [case.id for case in cases_of(line(cases=("mini/square[n=2]",)), MINI)] == [
        "mini/square[n=2]"
    ]


def test_fractions_count_what_has_cases() -> None:
    none = line(subject="test_none", cases=(), why="it cannot be said")
    lines = [line(), none, line(subject="b", scope="capability"), defect(), defect(cases=())]
    made = fractions(lines, MINI, {})
    assert [(f.covered, f.total) for f in made] == [(1, 2), (2, 3), (0, 2), (1, 2)]
    assert str(made[0]) == "1 of 2 (50.0 %)"


@pytest.mark.parametrize(
    ("listed", "entries", "failed"),
    [
        (defect(), [entry()], True),
        (defect(), [], False),
        (defect(), [entry(case="mini/other")], False),
        (defect(), [entry(url="issues/2")], False),
        (defect(), [entry(observed="warn: gradient of x")], False),
        (defect(check="peak memory"), [entry(check="peak memory")], False),
        (defect(cases=(), why="it cannot be said"), [entry()], False),
    ],
)
def test_a_defect_counts_where_a_must_fails_because_of_it(
    listed: Line, entries: list[Entry], failed: bool
) -> None:
    known = {"torch": entries}
    assert fails(listed, [listed], MINI, known) is failed
    counted = fractions([listed], MINI, known)[2]
    assert (counted.covered, counted.total) == (int(failed), 1)


@pytest.mark.parametrize(
    ("listed", "entries", "message"),
    [
        ([defect()], [entry()], ""),
        ([defect()], [], "no known deviation is of torch#1"),
        ([defect()], [entry(case="mini/other")], "no known deviation is of torch#1"),
        ([defect()], [entry(check="value")], "no known deviation is of torch#1"),
        ([defect()], [entry(url="issues/2")], "no known deviation names issues/1"),
        ([defect(), defect(subject="torch#2", url="issues/2", why="as torch#1")], [entry()], ""),
        ([defect(url="")], [entry(url="")], ""),
        ([defect(check="state")], [], ""),
        ([defect(why="shown as unsupported: it is refused")], [], ""),
        ([line()], [], ""),
    ],
)
def test_a_defect_needs_a_known_deviation_that_names_it(
    listed: list[Line], entries: list[Entry], message: str
) -> None:
    found = unexplained(listed, MINI, {"torch": entries})
    assert [text.partition(": ")[2] for text in found] == ([message] if message else [])


def test_readme_says_what_is_counted() -> None:
    tests, _, failing, covered = fractions(LISTED, CASES, KNOWN)
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert tests.covered == tests.total
    assert f"Of {failing.total} upstream defects" in text
    more = covered.covered - failing.covered
    assert f"{failing.covered} fail a MUST here, and {more} more are noted" in text


@pytest.mark.parametrize(("words", "rows"), [([], 4), (["--lines"], 2 * len(LISTED))])
def test_the_tool_prints_fractions_or_every_line(
    words: list[str], rows: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["coverage.py", *words])
    coverage.main()
    assert len(capsys.readouterr().out.splitlines()) == rows
