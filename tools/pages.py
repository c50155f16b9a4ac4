"""Everything in the repository that is generated, made anew in one go.

    python tools/pages.py             # what the code says: operations, keys, checks, variants
    python tools/pages.py reports     # and what results of all adapters say

`reports` holds the results of a whole run of every adapter, and the programs that ran. Of these are made
docs/behaviours.md, docs/frameworks/, docs/documents.md, README's table, reports/sample (the report on
six cases of two adapters), and docs/images/report.png, a picture of the whole report
(pip install playwright; apt-get install chromium). Seconds (adapters/*/seconds.json) are written where
the frameworks are, one environment after the other:

    .tox/torch/bin/python benchmarks/seconds.py measure torch
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from conformance.compare import compare
from conformance.language.load import load_folder
from conformance.model.result import Results
from conformance.report import Report, write_report
from tools import behaviours, documents, frameworks, generated
from tools.shared import ROOT, background, leaving, read_runs, write_pages

#: The adapters and the cases of the published sample.
SAMPLED = ("torch", "jax")
SAMPLE = (
    "basics/conv-relu-block",
    "captures/frozen-input",
    "hooks/nested",
    "memory/chain-segments",
    "randomness/dropout-preserved",
    "structure/nested-tuple-output",
)
#: Pixels of the picture.
WIDTH, HEIGHT = 1440, 1200


def main() -> None:
    """Make all of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("reports", type=Path, nargs="?", help="folder with the results")
    given = parser.parse_args()
    write_pages(generated.changed())
    if given.reports is not None:
        leaving(lambda: _of_results(given.reports.resolve()))


def _of_results(reports: Path) -> None:
    runs = read_runs(reports)
    for maker in (behaviours, frameworks, documents):
        write_pages(maker.pages(runs))
    sampled = [_few(run) for run in runs if run.header.adapter in SAMPLED]
    sample = ROOT / "reports" / "sample"
    if len(sampled) == len(SAMPLED):
        shutil.rmtree(sample, ignore_errors=True)
        _report(sampled, reports, sample)
    else:
        print(f"sample: left as it is, for results of {' and '.join(SAMPLED)} are needed")
    _picture(_report(runs, reports, reports), ROOT / "docs" / "images" / "report.png")


def _report(runs: Sequence[Results], reports: Path, folder: Path) -> Path:
    """The report on results in `reports`, written there whole, or to a folder as the sample.

    The sample links no programs.
    """
    cases = load_folder(ROOT / "cases")
    shown = [case for case in cases if folder == reports or case.id in SAMPLE]
    said = background()
    noted = [said.noted(run) for run in runs]
    made = Report(noted, shown, compare(noted, cases), said)
    page = write_report(made, folder, reports, link=folder == reports)
    print(page)
    return page


def _few(run: Results) -> Results:
    chosen = tuple(result for result in run.results if result.case in SAMPLE)
    header = replace(run.header, selection="six cases")
    return replace(run, header=header, results=chosen, planned=())


def _picture(page: Path, target: Path) -> None:
    """The first screen, by the system's Chromium."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        print("picture: left as it is, for there is no Chromium here or no Playwright")
        return
    with sync_playwright() as found:
        browser = found.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        shown.goto(page.as_uri())
        shown.screenshot(path=target)
        browser.close()
    print(target)


if __name__ == "__main__":
    main()
