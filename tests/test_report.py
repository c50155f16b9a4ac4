"""The report: complete, escaped, self-contained, and true to the results."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from conformance.cli.options import in_report_order
from conformance.compare import compare
from conformance.judge.outcomes import Outcome
from conformance.language.load import load_text
from conformance.model.observation import ErrorSeen
from conformance.model.verdict import Level, Status, Verdict
from conformance.paths import find_paths
from conformance.report import Report, write_report
from conformance.report.overview import Background
from conformance.report.page import file_name
from conformance.report.text import format_bytes, sentence, shorten, web_address
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

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.found if name == tag]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def written(tmp_path: Path, *found, given=None) -> tuple[Path, Page]:
    """The reports' folder after a report on these results, and the page."""
    known = samples.cases(tmp_path / "sample.yaml") if given is None else given
    files = [
        results(name, [r for r in found if r.variant.startswith(f"{name}/")], given=known)
        for name in dict.fromkeys(r.variant.split("/")[0] for r in found)
    ]
    folder = tmp_path / "reports"
    programs = {("a", "drops"): "assert x.grad is None\n"}
    made = Report(files, known, compare(files, known), Background(programs=programs))
    index = write_report(made, folder, folder)
    assert index == folder / "index.html"
    return folder, Page(whole(folder))


def reported(files) -> Report:
    """The report on results of the sample cases."""
    return Report(files, samples.cases(), compare(files, samples.cases()))


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
    url = "https://example.org/issues/7"
    dropped = samples.known(FAIL, "the wrapper drops it", url, "drops")
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
    inside = ("#", "programs/", "?variant=")
    outside = {a["href"] for a in page.all("a") if not a["href"].startswith(inside)}
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


def test_programs_can_be_shown_without_their_files(tmp_path):
    path = program(tmp_path, "programs/a.py", "x = 1\n")
    files = [results("a", [result("a/one", verdicts=[FAIL], program=path)])]
    folder = tmp_path / "reports"
    write_report(reported(files), folder, folder, link=False)
    page = Page(whole(folder))
    assert "x = 1" in "".join(page.texts)
    assert not any("programs" in a.get("href", "") for a in page.all("a"))


def test_a_case_counts_its_outcomes_and_can_be_filtered_by_them(tmp_path):
    folder, page = written(tmp_path, *realistic(tmp_path))
    outcomes = {
        a["id"]: a["data-outcomes"].split() for a in page.all("details") if "data-outcomes" in a
    }
    assert outcomes == {
        "sample/block": ["right", "wrong", "not_offered"],
        "sample/noise": ["right", "raises"],
    }
    block = (folder / "index.html").read_text("utf-8").partition('id="sample/block"')[2]
    assert '<span class="count o-wrong">✗ 2</span>' in block.partition("</summary>")[0]


def test_two_failures_of_one_check_keep_their_own_reasons(tmp_path):
    other = msgspec.structs.replace(FAIL, message="gradient of w is wrong")
    verdicts = [
        samples.known(FAIL, "it drops x"),
        samples.known(other, "it drops w", "https://w.example"),
    ]
    _, page = written(tmp_path, result("a/one", verdicts=verdicts))
    text = page.text
    for view in (text, text[text.index("Verdicts of each variant") :]):
        assert "gradient of x is wrong Known: it drops x" in " ".join(view.split())
        assert "gradient of w is wrong Known: it drops w" in " ".join(view.split())
    found = report_on(result("a/one", verdicts=verdicts)).findings
    assert {f.note.reason for f in found} == {"it drops x", "it drops w"}


def test_a_finding_shows_the_program_of_its_cause(tmp_path):
    files = [
        results("a", [result("a/one", verdicts=[samples.known(FAIL, "it drops x", cause="drops")])])
    ]
    programs = {("a", "drops"): f"x = {HOSTILE!r}\n", ("b", "drops"): "y = 2\n"}
    background = Background(programs=programs)
    write_report(replace(reported(files), background=background), tmp_path, tmp_path)
    page = Page(whole(tmp_path))
    code = "".join(page.texts)
    assert code.count(f"x = {HOSTILE!r}") == 2  # on the first screen, and among all findings
    assert "y = 2" not in code
    assert len(page.all("script")) == 1


def test_every_link_inside_leads_somewhere(tmp_path):
    folder, page = written(tmp_path, *realistic(tmp_path))
    ids = [a["id"] for _, a in page.found if "id" in a]
    assert len(ids) == len(set(ids))
    for href in (a["href"] for a in page.all("a")):
        if href.startswith("#"):
            assert href[1:] in ids
        elif not href.startswith(("https:", "?variant=")):
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
    assert "#sample/block%5Bdepth=1%5D@a/one" in hrefs
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
    assert "lacks kwargs (no such thing)" in text
    assert "unexpected" in text
    assert "a/two and b/one disagree with a/one on gradient of x: max difference 1 at" in text
    assert "the process died of SIGSEGV" in text
    assert "random: compared within each framework only" in text


def test_versions_and_outcome_stand_at_the_top(tmp_path):
    _, page = written(tmp_path, *realistic(tmp_path))
    text = page.text[page.text.index("Recompute (activation") :]
    head = text[: text.index("The most severe findings")]
    assert "3 unexpected verdicts, no new disagreements" in head
    assert "This report covers 2 cases on 4 variants of 3 frameworks." in head
    for words in ("a 1.2.3", "b 1.2.3"):
        assert words in head
    for words in ("Python 3.11.7", "Linux", "suite 0.1.0"):
        assert words.lower() in page.text.lower()


def test_nothing_unexpected_is_said(tmp_path):
    folder, page = written(tmp_path, result("a/one"), result("b/one"))
    assert "Nothing unexpected" in page.text
    assert "unexpected" not in {a.get("id") for a in page.all("details")}
    assert "**Nothing unexpected**" in (folder / "report.md").read_text("utf-8")


def test_the_same_results_give_the_same_files(tmp_path):
    found = realistic(tmp_path)
    folder, _ = written(tmp_path, *found)
    first = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    written(tmp_path, *found)
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == first


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
    assert "| sample/block | ✓ | ✗ | ✗ | – |" in text
    assert "| Dropout keeps its mask | · not run |" in text
    assert "- ✗ **a**: the wrapper drops it (sample/block on a/two)" in text


def test_hostile_markdown_stays_text(tmp_path):
    given, found = hostile(tmp_path)
    folder, _ = written(tmp_path, *found, given=given)
    text = (folder / "report.md").read_text("utf-8")
    assert not re.search(r"(?<!\\)<(?!details>|/details>|summary>|/summary>|br>)", text)
    assert not re.search(r"(?<!\\)\]\(", text)
    for row in (row for row in text.splitlines() if row.startswith("| sample/block")):
        assert len(re.findall(r"(?<!\\)\|", row)) == 5


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


# -- what is unexpected --------------------------------------------------------------------------------


def report_on(*found):
    return reported([results("a", found)])


def test_a_warning_is_a_deviation_but_not_unexpected():
    warning = Verdict("randomness", Status.WARN, Level.SHOULD, "stands elsewhere")
    report = report_on(result("a/one", verdicts=[PASS, warning]))
    assert report.ok
    assert [(f.outcome, f.known) for f in report.findings] == [(Outcome.WARNS, True)]


def test_a_broken_adapter_is_unexpected_even_with_a_note():
    broken = unobserved("a/one", Status.BROKEN, "the observer failed")
    (verdict,) = broken.verdicts
    report = report_on(replace(broken, verdicts=(samples.known(verdict, "never mind"),)))
    assert report.headline == "1 unexpected verdict, no new disagreements"
    assert [f.outcome for f in report.unexpected] == [Outcome.BROKEN]


def test_a_note_on_a_check_that_passes_is_not_shown(tmp_path):
    _, page = written(tmp_path, result("a/one", verdicts=[samples.known(PASS, "it drops x")]))
    assert "it drops x" not in page.text


def test_cases_that_did_not_run_are_left_out():
    assert list(report_on(result("a/one")).by_case) == ["sample/block"]


def test_results_of_a_case_that_is_not_there_are_shown(tmp_path):
    files = [results("a", [result("a/one", case="sample/gone")], given=())]
    index = write_report(Report(files, (), compare(files, ())), tmp_path, tmp_path)
    assert "no case file has this case" in whole(index.parent)


def test_parts_of_runs_are_named_at_the_top():
    (file,) = [results("a", [result("a/one")])]
    header = replace(file.header, selection="--smoke", interrupted="SIGTERM")
    file = replace(
        file, header=header, planned=(("sample/block", "a/one"), ("sample/noise", "a/one"))
    )
    assert reported([file]).partial == (
        "Not finished: a (1 of 2 pairs missing; ended by SIGTERM). "
        "A smoke run covers part of the cases: a (--smoke)."
    )


def test_reports_list_adapters_by_their_place():
    names = ("autograd", "jax", "mine", "reference", "torch")
    runs = [results(name, [result(f"{name}/x", verdicts=(FAIL,))]) for name in names]
    found = [run.header.adapter for run in in_report_order(runs, find_paths().adapters)]
    assert found == ["torch", "jax", "autograd", "mine", "reference"]


# -- words and sizes ---------------------------------------------------------------------------------


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
