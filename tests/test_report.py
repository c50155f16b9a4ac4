"""The report: complete, escaped, self-contained, and true to the results."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from jsonschema import Draft202012Validator

from conformance.compare import compare
from conformance.language.load import load_text
from conformance.model.observation import Allowed, ErrorSeen, RandomSample, Run
from conformance.model.verdict import Level, Status, Verdict
from conformance.report import build, schema, sources, tables, write_report
from conformance.report.data import grouped, worst
from conformance.report.page import file_name, format_bytes, sentence, shorten, web_address
from conformance.words import escape, line
from tests import report_samples as samples
from tests.report_samples import FAIL, GRADIENT, PASS, result, results, run, unobserved

HOSTILE = "</script><script>alert('x')</script>&\"><img src=x onerror=alert(1)> |`a`| **b**"
VOID = {"meta", "input", "br", "img", "link", "hr"}


class Page(HTMLParser):
    """A page as its elements: tags balanced, with attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.inside: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, {k: v or "" for k, v in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        self.inside.setdefault(self.open[-1] if self.open else "", []).append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.found if name == tag]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def written(tmp_path: Path, *found, disciplines=None, given=None) -> tuple[Path, Page]:
    """The reports' folder after a report on these results, and the page."""
    known = samples.cases(tmp_path / "sample.yaml") if given is None else given
    adapters = dict.fromkeys(r.variant.split("/")[0] for r in found)
    files = [
        results(name, [r for r in found if r.variant.split("/")[0] == name], given=known)
        for name in adapters
    ]
    folder = tmp_path / "reports"
    index = write_report(files, known, compare(files, known), folder, folder)
    assert index == folder / "index.html"
    return folder, Page(whole(folder))


def data_of(folder: Path) -> Any:
    """What `report.json.gz` holds."""
    with gzip.open(folder / "report.json.gz") as file:
        return json.load(file)


def whole(folder: Path) -> str:
    """The page with all that it opens in its place."""
    pattern = r'(<details [^>]*)data-file="([^"]+)"(.*?)<div class="body"></div>'

    def filled(found: re.Match[str]) -> str:
        text = (folder / "details" / f"{found[2]}.js").read_text("utf-8")
        packed = re.fullmatch(r'part\("(?:[^"\\]|\\.)*", "([A-Za-z0-9+/=]*)"\);\n', text)
        assert packed is not None, text[:200]
        inside = zlib.decompress(base64.b64decode(packed[1])).decode()
        return f"{found[1]}{found[3]}<div>{inside}</div>"

    return re.sub(pattern, filled, (folder / "index.html").read_text("utf-8"), flags=re.S)


def program(tmp_path: Path, relative: str, text: str) -> str:
    file = tmp_path / "reports" / relative
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return relative


def realistic(tmp_path: Path):
    """Three adapters with a pass, failures, a crash, a time-out and something unsupported."""
    dropped = samples.known(FAIL, "the wrapper drops it", "https://example.org/issues/7")
    text = "import numpy as np\n\n\ndef plain(x):\n    return np.sin(x)  # a sine\n"
    paths = {
        v: program(tmp_path, f"programs/{v}/sample/block.py", f'"""{v}"""\n{text}')
        for v in ("a/one", "a/two", "b/one")
    }
    wrong = run({"x": GRADIENT + 1})
    slow = unobserved("c/one", Status.TIMEOUT, "no answer within 120 s", case="sample/noise")
    return (
        result("a/one", program=paths["a/one"]),
        result("a/two", wrong, verdicts=[PASS, dropped], program=paths["a/two"]),
        result("b/one", wrong, verdicts=[PASS, FAIL], program=paths["b/one"]),
        unobserved("c/one", Status.UNSUPPORTED, "c/one lacks kwargs (no such thing)"),
        result("a/one", case="sample/noise"),
        unobserved("b/one", Status.CRASHED, "the process died of SIGSEGV", case="sample/noise"),
        slow,
    )


# -- the page ----------------------------------------------------------------------------------------


def test_page_is_self_contained(tmp_path):
    folder, page = written(tmp_path, *realistic(tmp_path))
    assert not page.all("img")
    assert not page.all("link")
    assert not page.all("iframe")
    assert [a for a in page.all("script") if a] == []
    text = (folder / "index.html").read_text("utf-8")
    assert not re.search(r"@import|url\(|\bfetch\(|XMLHttpRequest", text)
    outside = {a["href"] for a in page.all("a") if not a["href"].startswith(("#", "programs/"))}
    assert outside == {"https://example.org/issues/7"}
    assert len(text) < 100_000
    assert "def plain" not in text  # what opens lies beside the page


def test_what_an_earlier_report_opened_is_gone(tmp_path):
    folder, _ = written(tmp_path, *realistic(tmp_path))
    before = {file.name for file in (folder / "details").iterdir()}
    folder, _ = written(tmp_path, result("a/one"))
    left = {file.name for file in (folder / "details").iterdir()}
    assert left < before
    named = set(re.findall(r'data-file="([^"]+)"', (folder / "index.html").read_text("utf-8")))
    assert left == {f"{name}.js" for name in named}


def test_matrix_has_a_cell_with_a_word_for_every_result(tmp_path):
    folder, page = written(tmp_path, *realistic(tmp_path))
    text = whole(folder)
    rows = re.findall(r'<tr class="row".*?</tr>', text, re.S)
    words = [re.findall(r'<a class="mark [a-z]+"[^>]*>([^<]*)</a>', row) for row in rows]
    assert words == [["pass", "known", "FAIL", "n/s"], ["pass", "crash", "time"]]
    assert "empty: not run" in page.text
    tips = [a["title"] for a in page.all("a") if a.get("class", "").startswith("mark ")]
    assert "a/two\nvalue: pass\ngradient: known – gradient of x is wrong" in tips[1]


def test_every_link_inside_leads_somewhere(tmp_path):
    folder, page = written(tmp_path, *realistic(tmp_path))
    ids = [a["id"] for _, a in page.found if "id" in a]
    assert len(ids) == len(set(ids))
    for href in (a["href"] for a in page.all("a")):
        if href.startswith("#"):
            assert href[1:] in ids
        elif not href.startswith("https:"):
            assert (folder / href).is_file()
    labels = {a["for"] for a in page.all("label") if "for" in a}
    assert labels <= set(ids)


def test_ids_with_axes_are_linked(tmp_path):
    text = samples.TEXT.split("\n  noise:")[0].replace(
        "    title: A block", "    axes: {depth: [1, 2]}\n    title: A block of $depth"
    )
    given = load_text(text, "sample.yaml")
    found = [result("a/one", case=case.id) for case in given]
    _, page = written(tmp_path, *found, given=given)
    hrefs = {a["href"] for a in page.all("a")}
    assert "#sample/block%5Bdepth%3D1%5D" in hrefs
    assert "sample/block[depth=1]" in {a.get("id") for a in page.all("details")}


def test_case_shows_its_text_programs_and_reasons(tmp_path):
    _, page = written(tmp_path, *realistic(tmp_path))
    text = page.text
    code = "".join(page.texts)
    assert "block:\n  title: A block\n" in code
    assert "A comment that belongs to nobody" not in text
    for variant in ("a/one", "a/two", "b/one"):
        assert f'"""{variant}"""\nimport numpy as np\n\n\ndef plain(x):' in code
    assert "the wrapper drops it" in text
    assert "c/one lacks kwargs (no such thing)" in text
    assert "not known before" in text
    assert "a/two and b/one disagree with a/one on gradient of x: max difference 1 at" in text
    assert "the process died of SIGSEGV" in text
    assert "random: compared within each framework only" in text


def test_versions_and_outcome_stand_at_the_top(tmp_path):
    _, page = written(tmp_path, *realistic(tmp_path))
    text = page.text[page.text.index("Recomputing part of") :]
    head = text[: text.index("Worst findings")]
    head = text[: text.index("Worst findings", len(head) + 1)]
    assert "3 unexpected verdicts, no new disagreements" in head
    assert "What 3 frameworks did with 2 cases in 4 variants." in head
    for words in ("a 1.2.3", "b 1.2.3"):
        assert words in head
    for words in ("Python 3.11.7", "Linux", "suite 0.1.0"):
        assert words.lower() in page.text.lower()


def test_nothing_unexpected_is_said(tmp_path):
    folder, page = written(tmp_path, result("a/one"), result("b/one"))
    assert "Nothing unexpected" in page.text
    assert "Nobody disagrees." in page.text
    assert data_of(folder)["ok"] is True
    assert "**Nothing unexpected**" in (folder / "report.md").read_text("utf-8")


# -- hostile texts -----------------------------------------------------------------------------------


def hostile(tmp_path: Path):
    """Results and cases with hostile text wherever text can stand."""
    given = tuple(
        replace(case, title=HOSTILE, why=HOSTILE, source=HOSTILE)
        for case in samples.cases(tmp_path / "sample.yaml")
    )
    verdict = Verdict("gradient", Status.FAIL, Level.MUST, *[HOSTILE] * 4)
    lacking = Verdict("error", Status.UNSUPPORTED, Level.MUST, HOSTILE, HOSTILE)
    known = samples.known(verdict, HOSTILE, f"javascript:alert(1)//{HOSTILE}")
    path = program(tmp_path, "programs/a.py", f"# {HOSTILE}\nx = {HOSTILE!r}\n")
    error = ErrorSeen("Error", ("Error",), HOSTILE, "forward")
    odd = replace(run({HOSTILE: GRADIENT}), error=error)
    found = [
        result("a/one", odd, verdicts=[known], program=path),
        result("b/one", run({HOSTILE: GRADIENT}), verdicts=[verdict]),
        replace(result("c/one", run({HOSTILE: GRADIENT + 1})), verdicts=(PASS, lacking)),
    ]
    return given, found


def test_hostile_text_stays_text(tmp_path):
    given, found = hostile(tmp_path)
    folder, page = written(tmp_path, *found, given=given)
    assert len(page.all("script")) == 1
    assert not page.all("img")
    assert not any(name.startswith("on") for _, a in page.found for name in a)
    assert not any("javascript" in a.get("href", "") for a in page.all("a"))
    assert page.text.count("<script>alert('x')</script>") > 10
    raw = (folder / "index.html").read_text("utf-8")
    assert raw.count("<script") == raw.count("</script>") == 1


def test_hostile_names_stay_in_their_folder():
    names = ["../../etc/passwd", "a/b", "a-b", "", "x" * 500, HOSTILE, "\udcff"]
    files = [file_name(name) for name in names]
    assert len(set(files)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]{1,100}", file) for file in files)
    assert not any(file.startswith(".") for file in files)


def test_hostile_case_text_stays_text(tmp_path):
    file = tmp_path / "sample.yaml"
    text = samples.TEXT.replace("A block", f"{json.dumps(HOSTILE)} # {HOSTILE}", 1)
    file.write_text(text, "utf-8")
    _, page = written(tmp_path, result("a/one"), given=load_text(text, str(file)))
    assert len(page.all("script")) == 1
    assert not page.all("img")


def test_the_summary_says_first_how_each_framework_does(tmp_path):
    folder, _ = written(tmp_path, *realistic(tmp_path))
    text = (folder / "report.md").read_text("utf-8")
    assert text.index("| b 1.2.3 | one: right in 0 of 2 cases") < text.index("| variant |")
    assert "- ✗ **a**: the wrapper drops it (sample/block on a/two)" in text


def test_hostile_markdown_stays_text(tmp_path):
    given, found = hostile(tmp_path)
    folder, _ = written(tmp_path, *found, given=given)
    text = (folder / "report.md").read_text("utf-8")
    assert not re.search(r"(?<!\\)<(?!details>|/details>|summary>|/summary>|br>)", text)
    assert not re.search(r"(?<!\\)\]\(", text)
    for row in (row for row in text.splitlines() if row.startswith("| sample/block")):
        assert len(re.findall(r"(?<!\\)\|", row)) in (5, 7)


def test_a_program_outside_the_folder_is_not_read(tmp_path):
    (tmp_path / "secret.py").write_text("TOKEN = 1\n", "utf-8")
    for path in ("../secret.py", str(tmp_path / "secret.py"), "programs/../../secret.py"):
        folder, page = written(tmp_path, result("a/one", program=path))
        assert "TOKEN" not in page.text
        assert "outside the reports' folder" in page.text
        assert not any("secret" in a.get("href", "") for a in page.all("a"))
    assert folder.is_dir()


def test_a_program_that_is_gone_is_said(tmp_path):
    _, page = written(tmp_path, result("a/one", program="programs/gone.py"))
    assert "programs/gone.py cannot be read: FileNotFoundError" in page.text


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://example.org/a?b#c", "https://example.org/a?b#c"),
        ("http://example.org", "http://example.org"),
        ("javascript:alert(1)", ""),
        ("JAVASCRIPT:alert(1)", ""),
        ("data:text/html,x", ""),
        ("//example.org", ""),
        ("https://[", ""),
        ("", ""),
    ],
)
def test_only_addresses_of_the_web_are_links(url, found):
    assert web_address(url) == found


# -- data --------------------------------------------------------------------------------------------


def test_json_follows_its_schema(tmp_path):
    folder, _ = written(tmp_path, *realistic(tmp_path))
    Draft202012Validator.check_schema(schema())
    validator = Draft202012Validator(schema())
    values = data_of(folder)
    validator.validate(values)
    for key in values:
        assert not validator.is_valid({k: v for k, v in values.items() if k != key})
    assert values["ok"] is False
    assert values["cases"][0]["cells"]["a/two"]["mark"] == "known"
    assert values["cases"][0]["cells"]["a/two"]["verdicts"][1]["known"]["reason"] == (
        "the wrapper drops it"
    )
    assert [a["name"] for a in values["adapters"]] == ["a", "b", "c"]
    assert values["adapters"][0]["variants"][0]["marks"] == {"pass": 2}


def test_the_same_results_give_the_same_files(tmp_path):
    found = realistic(tmp_path)
    first = (written(tmp_path, *found)[0] / "report.json.gz").read_bytes()
    assert (written(tmp_path, *found)[0] / "report.json.gz").read_bytes() == first


def report_on(*found):
    files = [results("a", found)]
    return build(files, samples.cases(), compare(files, samples.cases()))


def test_a_warning_is_a_deviation_but_not_unexpected():
    warning = Verdict("randomness", Status.WARN, Level.SHOULD, "stands elsewhere")
    report = report_on(result("a/one", verdicts=[PASS, warning]))
    assert report.ok
    assert [d.verdict.mark for d in report.deviations] == ["warn"]
    assert report.cases[0].cells["a/one"].mark == "warn"


def test_a_broken_adapter_is_unexpected_even_with_a_note():
    broken = unobserved("a/one", Status.BROKEN, "the observer failed")
    (verdict,) = broken.verdicts
    report = report_on(replace(broken, verdicts=(samples.known(verdict, "never mind"),)))
    assert not report.ok
    assert report.unexpected[0].verdict.mark == "broken"


def test_a_result_without_verdicts_is_broken():
    assert report_on(result("a/one", verdicts=[])).cases[0].cells["a/one"].mark == "broken"


def test_a_note_on_a_check_that_passes_marks_nothing():
    report = report_on(result("a/one", verdicts=[samples.known(PASS, "once")]))
    assert report.cases[0].cells["a/one"].verdicts[0].known is None
    assert report.deviations == []


def test_what_is_recorded_does_not_hide_a_pass():
    assert worst(["report", "pass"]) == "pass"
    assert worst(["report", "unsupported"]) == "report"
    assert worst(["pass", "known", "fail"]) == "fail"
    assert worst(["fail", "crashed"]) == "crashed"


def test_deviations_that_differ_in_the_variant_alone_stand_together():
    report = report_on(
        result("a/one", verdicts=[FAIL]),
        result("a/two", verdicts=[FAIL]),
        result("a/one", case="sample/noise", verdicts=[FAIL]),
    )
    found = grouped(report.deviations)
    assert [(g.case, g.variants) for g in found] == [
        ("sample/block", ["a/one", "a/two"]),
        ("sample/noise", ["a/one"]),
    ]


def test_unsupported_cases_are_listed_by_reason():
    report = report_on(
        unobserved("a/one", Status.UNSUPPORTED, "lacks kwargs"),
        unobserved("a/one", Status.UNSUPPORTED, "lacks kwargs", case="sample/noise"),
    )
    assert [(u.variant, u.message, u.cases) for u in report.unsupported] == [
        ("a/one", "lacks kwargs", ["sample/block", "sample/noise"])
    ]


def test_cases_that_did_not_run_are_left_out():
    assert [c.id for c in report_on(result("a/one")).cases] == ["sample/block"]


def test_results_of_a_case_that_is_not_at_hand_are_shown(tmp_path):
    files = [results("a", [result("a/one", case="sample/gone")])]
    index = write_report(files, (), compare(files, samples.cases()), tmp_path, tmp_path)
    assert "the case is not at hand" in whole(index.parent)


# -- tables ------------------------------------------------------------------------------------------

TOLERANCE = samples.cases()[0].tolerance


def cells(table: tables.Table, name: str) -> list[tuple[str, bool]]:
    (row,) = [row for row in table.rows if row.name == name]
    return [(cell.text, cell.wrong) for cell in row.cells]


def test_values_say_how_far_each_variant_is_off():
    table = tables.values(
        {
            "a/one": result("a/one"),
            "a/two": result("a/two", run({"x": GRADIENT + 0.5})),
            "b/one": result("b/one", run({"x": None})),
            "b/two": result("b/two", run({"x": GRADIENT[0]})),
            "b/three": result("b/three", run({})),
        },
        TOLERANCE,
    )
    assert cells(table, "gradient of x") == [
        ("0", False),
        ("5.0e-01", True),
        ("None", True),
        ("shape", True),
        ("missing", True),
    ]
    row = next(row for row in table.rows if row.name == "gradient of x")
    assert row.expected == "(2, 3) [1, 2, 3, 4, …]"
    assert "recomputed: (2, 3) [1.5, 2.5, 3.5, 4.5, …]" in row.cells[1].more
    assert "largest difference from plain: 5.0e-01" in row.cells[1].more


def test_random_values_are_held_against_the_plain_run():
    bare = replace(samples.expected(), outputs=None, losses=None, gradients=None)
    drawn = (RandomSample("block", "y", "forward", np.ones(3)),)
    other = result("a/two", run({"x": GRADIENT + 1}, samples=drawn), expects=bare)
    table = tables.values({"a/one": result("a/one", expects=bare), "a/two": other}, TOLERANCE)
    assert cells(table, "gradient of x") == [("0", False), ("1.0e+00", True)]
    assert table.rows[0].expected == "what the plain run gives"


def test_zeros_are_as_good_as_none_where_nothing_flows():
    nothing = samples.expected({"x": None})
    table = tables.values(
        {
            "a/one": result("a/one", run({"x": None}), expects=nothing),
            "a/two": result("a/two", run({"x": GRADIENT * 0}), expects=nothing),
            "b/one": result("b/one", expects=nothing),
        },
        TOLERANCE,
    )
    assert cells(table, "gradient of x") == [("None", False), ("≠ None", False), ("≠ None", True)]


def test_zeros_are_wrong_where_plain_has_none_and_none_is_not_where_it_has_zeros():
    nothing, zeros, none = samples.expected({"x": None}), run({"x": GRADIENT * 0}), run({"x": None})
    table = tables.values(
        {
            "a/one": result("a/one", zeros, plain=none, expects=nothing),
            "a/two": result("a/two", none, plain=zeros, expects=nothing),
        },
        TOLERANCE,
    )
    assert cells(table, "gradient of x") == [("≠ None", True), ("None", False)]


def test_runs_that_raised_have_no_values():
    error = ErrorSeen("ValueError", ("ValueError",), "no", "forward")
    table = tables.values({"a/one": result("a/one", Run(error=error))}, TOLERANCE)
    assert (table.variants, table.rows) == ((), ())


def test_executions_per_region_and_variant():
    found = {
        "a/one": result("a/one"),
        "a/two": result("a/two", run(counts=(1, 0))),
        "b/one": result("b/one", replace(run(), executions=None)),
        "b/two": result("b/two", expects=samples.expected(reruns=Allowed((1, 2), "either"))),
    }
    table = tables.executions(found, statements=False)
    assert cells(table, "block, forward") == [
        ("1", False),
        ("1", False),
        ("–", False),
        ("1", False),
    ]
    assert cells(table, "block, rerun") == [("1", False), ("0", True), ("–", False), ("1", False)]
    assert table.rows[1].expected == "by discipline"
    assert table.rows[1].cells[3].more == "expected 1 or 2 (either)"
    assert tables.executions(found, statements=True).rows == ()


def test_variants_that_ran_the_same_stand_together():
    found = {
        "a/one": result("a/one"),
        "a/two": result("a/two", run(counts=(1, 0))),
        "b/two": result("b/two"),
    }
    table = tables.counts(tables.executions(found, statements=False))
    assert table.groups == (("a/one", "b/two"), ("a/two",))
    (row,) = table.rows
    assert (row.name, row.expected) == ("block", ("1", "1"))
    assert [[(c.text, c.wrong) for c in pair] for pair in row.cells] == [
        [("1", False), ("1", False)],
        [("1", False), ("0", True)],
    ]


def test_memory_in_bytes_and_units():
    unit = samples.UNIT
    failed = Verdict("retained memory", Status.FAIL, Level.MUST, "saves nothing")
    found = {
        "a/one": result(
            "a/one",
            run(retained=unit),
            plain=run(retained=3 * unit),
            expects=samples.expected(unit=unit),
        ),
        "a/two": result(
            "a/two",
            run(retained=3 * unit),
            plain=run(retained=3 * unit),
            expects=samples.expected(unit=unit),
            verdicts=[failed],
        ),
        "b/one": result("b/one"),
    }
    one, two = tables.memory(found)
    assert (one.plain, one.recomputed, one.drop, one.units, one.expected, one.wrong) == (
        3 * unit,
        unit,
        2 * unit,
        2.0,
        "2.00",
        False,
    )
    assert (two.units, two.wrong) == (0.0, True)
    # The law says that two activations go; bars are as long as the most of any plain run.
    assert one.range == two.range == (unit, unit)
    assert [one.at(n) for n in (0, unit, 3 * unit, 9 * unit)] == ["0.0", "46.7", "140.0", "160.0"]


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


def test_words_for_numbers_and_long_texts():
    assert format_bytes(1234567) == "1\N{NARROW NO-BREAK SPACE}234\N{NARROW NO-BREAK SPACE}567"
    assert line("a\n  b", 10) == "a b"
    assert sentence("It forgets w. It also drops x.") == "It forgets w. It also drops x."
    assert sentence("The function forgets w and v. It drops x.") == "The function forgets w and v."
    assert line("x" * 20, 10) == "x" * 9 + "…"
    assert shorten("x" * 10, 20) == "x" * 10
    assert "980 characters left out" in shorten("a" + "x" * 998 + "b", 20)
    assert shorten("a" + "x" * 998 + "b", 20).endswith("b")
    assert escape("a|b\n<c>") == "a\\|b \\<c\\>"
    assert escape("1. one, 2. two") == "1\\. one, 2. two"


def test_a_large_report_stays_small(tmp_path):
    """Some thousand results with programs of common length stay below two megabytes."""
    text = "\n".join(f"    h{i} = np.sin(h{i - 1}) @ w  # step {i}" for i in range(1, 50))
    path = program(tmp_path, "programs/p.py", f"def plain(h0, w):\n{text}\n    return h49\n")
    case = samples.cases(tmp_path / "sample.yaml")[0]
    given = tuple(replace(case, id=f"sample/block[n={n}]") for n in range(60))
    variants = [f"{adapter}/v{n}" for adapter in "abcdefg" for n in range(4)]
    verdicts = [msgspec.structs.replace(PASS, check=f"check {n}") for n in range(7)]
    found = [result(v, case=c.id, program=path, verdicts=verdicts) for c in given for v in variants]
    folder, _ = written(tmp_path, *found, given=given)
    assert (folder / "index.html").stat().st_size < 300_000
    assert sum(file.stat().st_size for file in (folder / "details").iterdir()) < 2_000_000
