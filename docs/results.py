"""Everything in the repository that is made from results of all adapters, made anew in one go.

    pip install playwright; apt-get install chromium      # for the picture alone
    python docs/results.py reports

`reports` holds the results of a whole run of every adapter, and the programs that ran. Written are
docs/behaviours.md, docs/frameworks/, docs/documents.md, README's table, reports/sample (the report on
six cases of two adapters), and docs/images/report.png. Seconds
(adapters/*/seconds.json) are written where the frameworks are, one environment after the other:

    .tox/torch/bin/python benchmarks/seconds.py measure torch
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from conformance.cli.compare import read_all
from conformance.cli.options import (
    in_report_order,
    reproducers_of,
    seconds_of_variants,
    titles_of_variants,
)
from conformance.compare import compare
from conformance.language.load import load_folder
from conformance.model.result import Results
from conformance.paths import find_paths
from conformance.report import write_report

ROOT = Path(__file__).resolve().parent.parent
#: The adapters and the cases of the published sample.
ADAPTERS = ("torch", "jax")
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reports", type=Path, help="folder with the results of all adapters")
    reports = parser.parse_args().reports.resolve()
    _command("report", "--reports", str(reports))
    _command("behaviours", "--reports", str(reports), "--output", "docs/behaviours.md")
    _command("behaviours", "--reports", str(reports), "--into", "README.md")
    _command("frameworks", "--reports", str(reports), "--output", "docs/frameworks")
    _command("documents", "--reports", str(reports), "--output", "docs/documents.md")
    _sample(reports)
    _picture(reports / "index.html", ROOT / "docs" / "images" / "report.png")


def _command(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "conformance", *words], cwd=ROOT, check=True)


def _sample(reports: Path) -> None:
    """The report on a few cases of two adapters, as a folder of its own."""
    paths = find_paths(reports=reports)
    folder = ROOT / "reports" / "sample"
    shutil.rmtree(folder, ignore_errors=True)
    runs = in_report_order(read_all([], reports), paths.adapters)
    results = [_few(run) for run in runs if run.header.adapter in ADAPTERS]
    every = load_folder(paths.cases)
    found = write_report(
        results,
        [case for case in every if case.id in SAMPLE],
        compare(results, every),
        folder,
        reports,
        titles_of_variants(paths.adapters),
        seconds_of_variants(paths.adapters),
        reproducers_of(results, paths.adapters),
        link=False,
    )
    sys.stdout.write(f"sample: {found}\n")


def _few(run: Results) -> Results:
    chosen = tuple(result for result in run.results if result.case in SAMPLE)
    header = replace(run.header, selection="six cases")
    return replace(run, header=header, results=chosen)


def _picture(page: Path, target: Path) -> None:
    """The first screen, by the system's Chromium."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        sys.stdout.write("picture: left as it is, for there is no Chromium here or no Playwright\n")
        return
    with sync_playwright() as found:
        browser = found.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        shown.goto(page.as_uri())
        shown.screenshot(path=target)
        browser.close()
    sys.stdout.write(f"picture: {target}\n")


if __name__ == "__main__":
    main()
