"""What the report shows of one case: outcomes, arrays, executions, memory, growth and sources."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from conformance.judge.outcomes import Outcome
from conformance.language.load import load_text
from conformance.model.case import Case
from conformance.model.observation import (
    Allowed,
    ErrorSeen,
    Execution,
    Expected,
    ExpectedMemory,
    Observation,
    Run,
)
from conformance.model.result import Result
from conformance.model.verdict import Level, Status, Verdict
from conformance.report import sources, tables
from conformance.report.growth import growth
from tests import report_samples as samples
from tests.report_samples import FAIL, GRADIENT, PASS, known, result, run

HOSTILE = "</script><script>alert('x')</script>&\"><b>"
WRONG = Verdict("gradient", Status.FAIL, Level.MUST, "gradient of w is None")


# -- outcomes --------------------------------------------------------------------------------------


def test_variants_that_do_the_same_for_one_reason_stand_together() -> None:
    forgets = known(WRONG, "it forgets w", "https://example.org/1")
    found = tables.outcome_groups(
        {
            "a/one": result("a/one", verdicts=(PASS,)),
            "a/two": result("a/two", verdicts=(forgets,)),
            "a/three": result("a/three", verdicts=(forgets,)),
            "b/one": result("b/one", verdicts=(WRONG,)),
        }
    )
    assert [(part.outcome, part.variants) for part in found] == [
        (Outcome.WRONG, ("a/two", "a/three")),
        (Outcome.WRONG, ("b/one",)),
        (Outcome.RIGHT, ("a/one",)),
    ]
    assert [[(s.known and s.known.reason, s.unexpected) for s in p.statements] for p in found] == [
        [("it forgets w", False)],
        [(None, True)],
        [],
    ]


def test_each_failure_stands_beside_its_own_reason() -> None:
    forgets = known(WRONG, "it forgets w")
    (group,) = tables.outcome_groups({"a/one": result("a/one", verdicts=(FAIL, forgets))})
    assert [(s.message, s.known and s.known.reason) for s in group.statements] == [
        ("gradient of x is wrong", None),
        ("gradient of w is None", "it forgets w"),
    ]


# -- arrays ------------------------------------------------------------------------------------------

TOLERANCE = samples.cases()[0].tolerance


def cells(found: dict[str, Result], name: str) -> list[tables.Cell]:
    """The cells of an array, of each variant alone."""
    shown = []
    for variant, one in found.items():
        table = tables.values({variant: one}, TOLERANCE)
        column = [array for array, _ in table.arrays].index(name)
        shown.append(table.rows[0].cells[column])
    return shown


def told(found: dict[str, Result], name: str) -> list[tuple[str, bool]]:
    return [(cell.text, cell.wrong) for cell in cells(found, name)]


def test_values_say_how_far_each_variant_is_off():
    found = {
        "a/one": result("a/one"),
        "a/two": result("a/two", run({"x": GRADIENT + 0.5})),
        "b/one": result("b/one", run({"x": None})),
        "b/two": result("b/two", run({"x": GRADIENT[0]})),
        "b/three": result("b/three", run({})),
    }
    assert told(found, "gradient of x") == [
        ("0", False),
        ("5.0e-01", True),
        ("None", True),
        ("shape", True),
        ("missing", True),
    ]
    assert ("gradient of x", "(2, 3) [1, 2, 3, 4, …]") in tables.values(found, TOLERANCE).arrays
    more = cells(found, "gradient of x")[1].more
    assert "recomputed: (2, 3) [1.5, 2.5, 3.5, 4.5, …]" in more
    assert "largest difference from plain: 5.0e-01" in more


def test_all_that_are_right_share_a_row_with_the_largest_difference():
    found = {
        "a/one": result("a/one"),
        "a/two": result("a/two", run({"x": GRADIENT + 3e-7})),
        "b/one": result("b/one", run({"x": GRADIENT + 1})),
        "b/two": result("b/two", run({"x": GRADIENT + 1})),
    }
    wrong, right = tables.values(found, TOLERANCE).rows
    assert (wrong.variants, wrong.all_right) == (("b/one", "b/two"), False)
    assert (right.variants, right.all_right) == (("a/one", "a/two"), True)
    assert float(right.cells[-1].text) > 0


def test_random_values_are_compared_with_the_plain_run():
    bare = replace(samples.expected(), outputs=None, losses=None, gradients=None)
    found = {
        "a/one": result("a/one", expects=bare),
        "a/two": result("a/two", run({"x": GRADIENT + 1}), expects=bare),
    }
    assert told(found, "gradient of x") == [("0", False), ("1.0e+00", True)]
    assert tables.values(found, TOLERANCE).arrays[0][1] == "what the plain run gives"


def test_zeros_are_as_good_as_none_where_nothing_flows():
    nothing = samples.expected({"x": None})
    found = {
        "a/one": result("a/one", run({"x": None}), expects=nothing),
        "a/two": result("a/two", run({"x": GRADIENT * 0}), expects=nothing),
        "b/one": result("b/one", expects=nothing),
    }
    assert told(found, "gradient of x") == [("None", False), ("≠ None", False), ("≠ None", True)]


def test_zeros_are_wrong_where_plain_has_none_and_none_is_not_where_it_has_zeros():
    nothing, zeros, none = samples.expected({"x": None}), run({"x": GRADIENT * 0}), run({"x": None})
    found = {
        "a/one": result("a/one", zeros, plain=none, expects=nothing),
        "a/two": result("a/two", none, plain=zeros, expects=nothing),
    }
    assert told(found, "gradient of x") == [("≠ None", True), ("None", False)]


def test_runs_that_raised_have_no_values():
    error = ErrorSeen("ValueError", ("ValueError",), "no", "forward")
    table = tables.values({"a/one": result("a/one", Run(error=error))}, TOLERANCE)
    assert (table.arrays, table.rows) == ((), ())


# -- executions and memory ---------------------------------------------------------------------------


def test_executions_per_region_and_variant():
    found = {
        "a/one": result("a/one"),
        "a/two": result("a/two", run(counts=(1, 0))),
        "b/one": result("b/one", replace(run(), executions=None)),
        "b/two": result("b/two", expects=samples.expected(reruns=Allowed((1, 2), "either"))),
    }
    table = tables.executions(found, statements=False)
    assert table.groups == (("a/one", "b/two"), ("a/two",), ("b/one",))
    (row,) = table.rows
    assert (row.name, row.expected) == ("block", ("1", "by discipline"))
    assert [[(c.text, c.wrong) for c in pair] for pair in row.cells] == [
        [("1", False), ("1", False)],
        [("1", False), ("0", True)],
        [("–", False), ("–", False)],
    ]
    alone = tables.executions({"b/two": found["b/two"]}, statements=False).rows[0]
    assert alone.cells[0][1].more == "expected 1 or 2 (either)"
    assert tables.executions(found, statements=True) == tables.Counts((), ())


def test_memory_in_bytes_and_units():
    unit = samples.UNIT
    failed = Verdict("retained memory", Status.FAIL, Level.MUST, "saves nothing")
    plain, expects = run(retained=3 * unit), samples.expected(unit=unit)
    freed = result("a/one", run(retained=unit), plain=plain, expects=expects)
    kept = result("a/two", plain, plain=plain, expects=expects, verdicts=[failed])
    found = {"a/one": freed, "a/two": kept, "b/one": result("b/one"), "b/two": freed}
    assert tables.memory(found) == [
        (("a/one", "b/two"), tables.MemoryRow(3 * unit, unit, unit, 2.0, "2.00", False)),
        (("a/two",), tables.MemoryRow(3 * unit, 3 * unit, unit, 0.0, "2.00", True)),
    ]


# -- growth ------------------------------------------------------------------------------------------

GROWN = load_text(
    samples.TEXT.split("\n  noise:")[0]
    .replace("title: A block", "title: A block\n    axes: {n: [4, 16]}")
    .replace("outputs: y", "law: {name: sqrt-segments, at: $n, counts: sin}\n    outputs: y"),
    "grown.yaml",
)


def _grown(case: Case, plain: int, recomputed: int | None, *executions: Execution) -> Result:
    memory = ExpectedMemory((0, 0), (0, 0), 0, 1000)
    seen = Observation(Run(retained=plain), Run(retained=recomputed, executions=executions), {})
    expected = Expected(None, None, None, None, None, None, {}, memory, None)
    return Result(case.id, "a/one", (), seen, expected, "")


def test_a_law_stands_beside_what_was_measured() -> None:
    small, large = GROWN
    results = {
        small.id: {"a/one": _grown(small, 4000, 2000), "a/two": _grown(small, 4000, 3000)},
        large.id: {"a/one": _grown(large, 16000, None)},
    }
    (table,) = growth(small, GROWN, results)
    assert (table.quantity, table.unit, table.law.at) == ("retained", "activations", "n")
    assert [(point.at, point.cells) for point in table.points] == [
        (4, ("4", "4", "2", "2–3")),
        (16, ("16", "16", "4", "")),
    ]
    assert growth(samples.cases()[0], GROWN, results) == ()


def test_executions_are_those_of_the_operation_that_the_law_is_about() -> None:
    case = GROWN[0]
    again = [Execution("block", name, "rerun", 6) for name in ("h", "y")]
    found = growth(case, GROWN, {case.id: {"a/one": _grown(case, 4000, 2000, *again)}})
    (counts,) = (table for table in found if table.quantity == "executions")
    assert [point.cells for point in counts.points] == [("4", "", "6", "6")]


# -- sources -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\n",
        'def f(a):\n    """Doc <b>."""\n    return f"{a!r} & {b}" if a < 1 else None  # <i>\n',
        f"s = {HOSTILE!r}\n\n\n# {HOSTILE}\n",
        "broken ( = '\n",
        "  indented = True\n\n",
    ],
)
def test_highlighting_changes_no_letter(text):
    for found in (sources.python(text), sources.yaml(text)):
        shown = html.unescape(re.sub(r"</?(?:b|i|q|u|em)>", "", found))
        assert shown.strip("\n") == text.strip("\n")


@pytest.mark.parametrize(
    "text",
    [
        '"""Title <b>.\n\nCase a/b.\n"""\n\nimport numpy as np\n\n\ndef f(x):\n    return x[0]\n',
        "@wrap\ndef f(\n    a, b=1.5\n):\n    '''Doc.\n\n    More.'''\n    return not a\n",
        'x = "\\"\\"\\""  # """\ny = \'"""\'\nz = """one line"""  # it is\n',
        "from a import (\n    b,\n    c as d,\n)\nasync def g(): await b",
        "",
    ],
)
def test_lines_are_highlighted_as_the_whole_program_is(text):
    whole = sources._html(sources._PYTHON.get_tokens(text)).strip("\n")
    assert sources.python(text) == whole


def test_a_case_is_cut_from_its_file(tmp_path):
    file = tmp_path / "sample.yaml"
    block, noise, last = samples.cases(file)
    lines = tuple(samples.TEXT.splitlines())
    cut = sources.cut(lines, block.where.line)
    assert cut.startswith("block:\n  title: A block\n")
    assert cut.endswith("  outputs: y\n  gradients: {of: sum(y)}\n")
    assert sources.cut(lines, last.where.line).startswith("noise-anew:\n")
    assert "noise:" in html.unescape(re.sub("<[^>]*>", "", sources.case_text(noise.where).html))
    file.unlink()
    sources._lines.cache_clear()
    assert "cannot be read" in sources.case_text(block.where).missing
    file.write_text("one line\n", "utf-8")
    sources._lines.cache_clear()
    assert "has no line" in sources.case_text(noise.where).missing
