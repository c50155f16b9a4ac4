"""The pages of frameworks and of behaviours, and how a tool runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conformance.drivers.adapter import Adapter, all_adapters, read_adapter
from conformance.errors import ResultsError
from conformance.model.observation import Run
from conformance.model.result import Result
from conformance.model.verdict import KnownNote, Status
from conformance.report.costs import PROGRAM
from conformance.report.overview import Background
from tests import mini
from tests.report_samples import results, stored
from tests.test_behaviours import PLAIN, RAN, RECOMPUTED, known, ran, result, verdict
from tools import behaviours, documents, shared
from tools import frameworks as framework_pages
from tools.behaviours import first_variants, put_into, render, with_modes

WRONG = verdict("gradient", Status.FAIL, "gradient of x is <wrong>")


# -- frameworks ------------------------------------------------------------------------------------


def page(*found: Result) -> str:
    """The page of the adapter `mini`."""
    told = Background(
        titles={"mini/right": "mini.recompute(f, |)"},
        notes={("mini", "forgets"): KnownNote("It forgets.", "", "forgets", instead="Remember.")},
        uses={"captures/frozen-input": "everyday", "changes/noticed": "contract"},
    )
    return framework_pages.render(ran(*found), read_adapter(mini.ADAPTERS / "mini"), told)


def test_a_page_says_what_a_mode_is_and_costs() -> None:
    text = page(result(RAN, case=PROGRAM, run=RECOMPUTED, plain=PLAIN))
    assert "| `right` | mini.recompute(f, \\|) |" in text
    assert "| `right` | 12% | 40% | 50% | – |" in text
    assert "## What goes wrong" not in text


@pytest.mark.parametrize(
    ("case", "heading"),
    [
        ("captures/frozen-input", "What goes wrong in everyday programs"),
        ("hooks/nested", "What goes wrong in unusual programs"),
        ("changes/noticed", "Programs that break a documented rule"),
    ],
)
def test_a_page_says_what_goes_wrong_in_the_words_of_today(case: str, heading: str) -> None:
    shown, gone = (known(WRONG, "as it was said", cause=cause) for cause in ("forgets", "gone"))
    text = page(result(shown, case=case, run=Run()), result(gone, case=PROGRAM, run=Run()))
    said = "- ✗ **Wrong result** (`right`): It forgets. *Instead:* Remember."
    assert f"## {heading}\n\n{said}\n" in text
    assert text.count("Wrong result") == 1


@pytest.mark.parametrize("adapter", all_adapters(shared.ADAPTERS), ids=lambda a: a.name)
def test_the_page_of_each_framework_has_the_modes_of_its_advice(adapter: Adapter) -> None:
    text = (shared.ROOT / "docs" / "frameworks" / f"{adapter.name}.md").read_text("utf-8")
    assert len(text.splitlines()) <= 150
    rows = [
        row for row in text.partition("\n## What it costs")[0].splitlines() if row.startswith("| `")
    ]
    assert [row.split("`")[1] for row in rows] == list(adapter.model.advice)


# -- behaviours ------------------------------------------------------------------------------------


def test_the_page_has_a_row_for_each_question() -> None:
    wrong = verdict("gradient", Status.FAIL, "w is None")
    wrong = known(wrong, "it <forgets>", "https://example.org/1")
    run = ran(
        result(RAN, wrong, run=Run()),
        result(RAN, verdict("gradient", Status.PASS), variant="mini/other", run=Run()),
    )
    page = render(with_modes([run]))
    assert "\nmini 1.2\n" in page
    (row,) = (line for line in page.splitlines() if line.startswith("| **Frozen first input**"))
    assert row.endswith("| **mini** ✗ silently wrong: `right`; ✓ right: `other` |")
    assert "| **mini** · not run: all |" in page
    assert "`captures/frozen-input`" in page


def test_a_page_keeps_what_stands_around_its_table() -> None:
    run = ran(result(RAN, verdict("gradient", Status.PASS), run=Run()))
    table = first_variants(with_modes([run]))
    assert table.startswith("| | mini<br>right |\n")
    page = "# A\n\n<!-- behaviours -->\nold\n<!-- end -->\n\nB\n"
    once = put_into(page, table)
    assert once == put_into(once, table)
    assert once.startswith("# A\n\n<!-- behaviours -->\n\n| |")
    assert once.endswith("<!-- end -->\n\nB\n")
    assert "old" not in once
    with pytest.raises(ResultsError, match="the page has no"):
        put_into("# A\n", table)


# -- how a tool runs -------------------------------------------------------------------------------


def _run(tool, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [f"{tool.__name__}.py", str(folder), "--to", str(folder / "made")]
    monkeypatch.setattr("sys.argv", words)
    shared.main(tool.pages, tool.__doc__)


def test_each_tool_writes_its_pages_of_the_results_in_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for adapter in ("torch", "somebody-s"):
        stored(tmp_path / f"{adapter}.db", results(adapter, [result(variant=f"{adapter}/v")]))
    for tool in (behaviours, framework_pages, documents):
        _run(tool, tmp_path, monkeypatch)
    made = ["docs/behaviours.md", "README.md", "docs/frameworks/torch.md", "docs/documents.md"]
    assert capsys.readouterr().out.split() == made
    texts = {name: (tmp_path / "made" / name).read_text("utf-8") for name in made}
    assert "\ntorch 1.2.3\n" in texts["docs/behaviours.md"]
    assert "| | torch<br>v |" in texts["README.md"]
    assert texts["docs/frameworks/torch.md"].startswith("# PyTorch 1.2.3\n")
    assert "- torch: python 3.11.7" in texts["docs/documents.md"]
    assert not any("somebody" in text for text in texts.values())


def test_a_run_of_part_of_the_cases_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = results("torch", [result(variant="torch/v")])
    stored(tmp_path / "torch.db", replace(run, header=replace(run.header, selection="-k conv")))
    assert len(shared.read_runs(tmp_path)) == 1
    assert capsys.readouterr().err == f"{tmp_path}/torch.db is not whole: -k conv\n"


def test_a_tool_leaves_with_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        _run(behaviours, tmp_path, monkeypatch)
    assert left.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {tmp_path}: found no results\n")
    assert not (tmp_path / "made").exists()
