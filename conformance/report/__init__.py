"""The report on results and their comparison, in five views.

Frameworks, what goes wrong, behaviours, two variants, cases.

Imports `compare`, `results` and what they import; runs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from conformance.compare import Comparison
from conformance.model.case import Case
from conformance.model.result import Results
from conformance.report import markdown, page
from conformance.report.overview import Report, build
from conformance.writing import write_text, writing

__all__ = ["Report", "build", "write_report"]


def write_report(
    results: Sequence[Results],
    cases: Sequence[Case],
    comparison: Comparison,
    folder: Path,
    programs: Path,
    titles: Mapping[str, str] = MappingProxyType({}),
    seconds: Mapping[str, tuple[str, float]] = MappingProxyType({}),
    reproducers: Mapping[tuple[str, str], str] = MappingProxyType({}),
    link: bool = True,
) -> Path:
    """Write `index.html` with its `details`, and `report.md`.

    `programs` is the folder that the results' paths of programs are relative to (the reports' folder),
    `titles` say what variants (full ids) are, `seconds` what was measured of them, and `reproducers` are
    programs that show a cause, by adapter and cause. Without `link`, the page shows programs and does
    not link their files. Returns the path of the page. Raises `WriteError`.
    """
    report = build(results, cases, comparison, titles, seconds, reproducers)
    files = page.render(report, folder, programs, link)
    kept = {folder / name for name in files}
    first = files.pop("index.html")
    for name, text in (files | {"report.md": markdown.render(report)}).items():
        write_text(folder / name, text)
    # The page after what it opens; what only the one before opened goes last.
    write_text(folder / "index.html", first)
    with writing(folder):
        for old in set((folder / page.DETAILS).glob("*.js")) - kept:
            old.unlink(missing_ok=True)
    return folder / "index.html"
