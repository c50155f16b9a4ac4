"""Deviations as issues: their text, their programs, and what a command says of bad input."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from conformance.cli.bug import _unreported
from conformance.drivers.adapter import read_adapter
from conformance.emit.reasons import alone, reason_of
from conformance.judge.known import read
from conformance.judge.outcomes import Outcome
from conformance.language.load import load_folder
from conformance.model.verdict import Level, Status, Verdict
from conformance.report.bug import Bug, render, say, seems, slug
from conformance.results import Header, Result, Results, make_footer
from conformance.results.triage import noted
from conformance.run.alone import run_alone
from tests import commands, mini

ROOT = Path(__file__).parents[1]
REASONS = [f for f in sorted(ROOT.glob("tests/reasons/*/*.py")) if f.stem != "__init__"]
OURS = re.compile(r"\b(conformance|variants?|regions?|REASON|tests\.reasons)\b", re.IGNORECASE)
PLACES = ("--cases", str(mini.CASES), "--adapters-folder", str(mini.ADAPTERS))


def _module(name):
    path = ROOT.joinpath(*name.split("."))
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()


@pytest.mark.parametrize("file", REASONS, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_program_of_a_reason_stands_alone(file):
    found = alone(file.read_text("utf-8"), _module, say)
    ast.parse(found.text)
    assert not OURS.search(found.text), OURS.search(found.text)
    assert not OURS.search(found.title)
    names = {n.id for n in ast.walk(ast.parse(found.text)) if isinstance(n, ast.Name)}
    assert "changed" not in names or re.search(r"__init__\(self,.* changed", found.text)
    printed = [row for row in found.text.splitlines() if row.startswith("print(")]
    assert len(printed) == len(set(printed))
    assert found.title
    assert found.change
    assert reason_of(file.read_text("utf-8"))


SHOWN = """
\"\"\"A sum of a region is wrong.\"\"\"

import math

REASON = "made up"


class Right:
    total = 3


def differs(changed: bool) -> bool:
    \"\"\"Whether the sum is 4; with the change, nobody adds one.\"\"\"
    # Of this region.
    region = [1, 2, 1]
    if changed:
        region.pop()
    try:
        total = sum(region) + (Right.total - 3 if changed else 0)
    except ValueError:
        return False
    return total == math.floor(4.2)
"""


def test_the_change_goes_and_what_was_returned_is_asserted():
    found = alone(SHOWN, _module, say)
    assert (
        found.text
        == """import math

# Of this recomputed function.
block = [1, 2, 1]
total = sum(block) + 0
found = math.floor(4.2)
print("total:", total)
print("math.floor(4.2):", found)
assert total != found, "the sum is 4"
"""
    )
    assert found.title == "A sum of a recomputed function is wrong"
    assert found.change == "nobody adds one"
    ran = run_alone(found.text, {})
    assert ran.asserted
    assert ran.output.endswith("AssertionError: the sum is 4")


def test_an_error_that_is_the_difference_is_let_come():
    text = SHOWN.replace("return False", "return True").replace(
        "    return total == math.floor(4.2)", "    return False"
    )
    found = alone(text, _module, say)
    assert not found.asserts
    assert "try" not in found.text


def test_reasons_say_nothing_that_only_the_suite_says():
    for file in ROOT.glob("adapters/*/known.yaml"):
        for entry in read(file):
            words = seems(entry.reason)
            assert words.startswith("It seems that ")
            assert not re.search(r"\b(regions?|variants?|conformance|cases?)\b", words), words
            assert "see the" not in words, words


def _bug(**words):
    verdict = Verdict("gradient", Status.FAIL, Level.MUST, "gradient of w in region a is None")
    given = {
        "title": "No gradient",
        "api": "lib.recompute(function)",
        "verdict": verdict,
        "outcome": Outcome.WRONG,
        "program": "print(1)",
        "versions": {"lib": "1.0"},
        "environment": {},
    }
    return Bug(**{**given, **words})


@pytest.mark.parametrize(
    ("api", "program", "said"),
    [
        ("lib.again(function, ...)", "lib.again(f, x)", "With `lib.again(function, ...)`:"),
        ("lib.again, one by one", "lib.again(f)", "With `lib.again`, one by one:"),
        (
            "again and a pass for regions",
            "again(f)",
            "With `again` and a pass for recomputed functions:",
        ),
        ("lib.again(function)", "from lib import again\nagain(f)", "With `lib.again(function)`:"),
        ("lib.again(function)", "import lib as l\nl.again(f)", "With `lib.again(function)`:"),
        ("lib.utils.again(function)", "other.again(f)", ""),
    ],
)
def test_an_issue_says_how_recompute_is_called_where_its_program_does_so(api, program, said):
    with_words = [
        line for line in render(_bug(api=api, program=program)).splitlines() if "With `" in line
    ]
    assert with_words == [said] * bool(said)


def test_an_issue_has_its_parts():
    text = render(_bug(output="AssertionError", change="an argument", reason="The region is cut."))
    for part in (
        "# No gradient\n",
        "```python\nprint(1)\n```",
        "## Expected\n\nThe gradients are those of the same program without recompute.",
        "```text\nAssertionError\n```",
        "With one change (an argument) the assertion holds.",
        "No error says so",
        "It seems that the recomputed function is cut.",
        "- lib: 1.0",
    ):
        assert part in text


def test_what_has_not_run_is_told_from_results():
    assert "gradient of w in recomputed function a is None" in render(_bug())
    assert "watched from outside" in render(_bug(shows=False))


def test_a_fence_is_longer_than_those_inside():
    assert "````python" in render(_bug(program="x = '```'"))


def test_names_of_files():
    assert slug("A `title`: with/what not?") == "a-title-with-what-not"
    assert slug("…") == "report"


@pytest.fixture
def conformance(tmp_path):
    done = commands.conformance(
        tmp_path, "run", "--adapter", "mini", *PLACES, "--variant", "right", "--variant", "wrong"
    )
    assert (tmp_path / "reports" / "mini.jsonl").is_file(), done.stderr
    return partial(commands.conformance, tmp_path)


def test_a_deviation_without_a_program_is_made_smaller_and_shown(conformance, tmp_path):
    done = conformance("bug", "mini/wrong", "mini/chain[length=4]", *PLACES, "--output", "a/b.md")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "a" / "b.md").read_text()
    program = text.partition("```python\n")[2].partition("\n```")[0]
    assert "np.allclose(" in program
    assert program.count("mini.recompute") + program.count("recompute(") <= 6
    assert "the fault that this" in text
    assert "AssertionError" in text or "watched from outside" in text


def test_without_a_run_the_results_speak(conformance):
    done = conformance("bug", "mini/wrong", "mini/square", *PLACES, "--no-run")
    assert done.returncode == 0, done.stderr
    assert "## Observed\n\nIn a program like this one: gradient with respect to x" in done.stdout


def test_what_nothing_reads_is_left_out():
    text = SHOWN.replace(
        "    try:\n", "    tables = (region,)\n    before = [set(t) for t in tables]\n    try:\n", 1
    )
    assert "before" in text
    found = alone(text, _module, say).text
    assert "before" not in found
    assert "tables" not in found


def test_all_writes_one_for_each_reason(conformance, tmp_path):
    done = conformance("bug", "--all", *PLACES, "--no-run", "--output", "bugs")
    assert done.returncode == 0, done.stderr
    (issue,) = (tmp_path / "bugs" / "mini").glob("*.md")
    issue.write_text("as a person has left it")
    done = conformance("bug", "--all", "--new", *PLACES, "--no-run", "--output", "bugs")
    assert done.returncode == 0, done.stderr
    assert issue.read_text() == "as a person has left it"
    issue.with_name("reasons.json").unlink()
    conformance("bug", "--all", "--new", *PLACES, "--no-run", "--output", "bugs")
    assert issue.read_text() != "as a person has left it"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name a variant and a case"),
        (("right", "mini/square"), "no variant of an adapter"),
        (("mini/wrnog", "mini/square"), "did you mean 'wrong'?"),
        (("mini/wrong", "mini/sqare"), "did you mean 'mini/square'?"),
        (("mini/right", "mini/square"), "nothing deviates"),
        (("mini/picky", "mini/square"), "no result of mini/square"),
        (("mini/wrong", "mini/square", "--check", "value"), "does not deviate in 'value'"),
        (("mini/wrong", "mini/square", "--reports", "none"), "no results here"),
        (("--all", "--reports", "none"), "no results here"),
        (("--all", "--adapter", "picky"), "no results here of picky"),
    ],
)
def test_bad_input_is_one_message_with_a_hint(conformance, words, message):
    done = conformance("bug", *words, *PLACES)
    assert done.returncode == 2
    assert message in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_a_program_prints_speaks_of_no_place_on_this_machine():
    text = "print('/opt/venv/lib/python3.11/site-packages/lib/a.py: 1, /tmp/tmp12_abcde/profile')"
    assert run_alone(text, {}).output == "lib/a.py: 1, profile"


def test_a_second_failure_of_one_check_has_an_issue_of_its_own(tmp_path):
    file = tmp_path / "known.yaml"
    entry = (
        "- {{case: mini/square, variant: wrong, check: error, observed: {0}, reason: {0} it is}}\n"
    )
    file.write_text(entry.format("late") + entry.format("lost"))
    adapter = replace(read_adapter(mini.ADAPTERS / "mini"), deviations=file)
    found = [Verdict("error", Status.FAIL, Level.MUST, words) for words in ("late", "lost")]
    result = Result("mini/square", "mini/wrong", tuple(found), None, None, "")
    result = noted(read(file), result)
    header = Header("1", "mini", ("mini/wrong",), {}, {}, "x")
    run = Results(Path("mini.jsonl"), header, (result,), make_footer((result,), {}))
    cases = {case.id: case for case in load_folder(mini.CASES)}
    assert [f.reason for f in _unreported(adapter, run, cases)] == ["late it is", "lost it is"]
