"""The report on results and their comparison, in five views.

Frameworks, what goes wrong, behaviours, two variants, cases.

Imports `compare` and what that imports; runs nothing.
"""

from pathlib import Path

from conformance.report import page
from conformance.report.overview import Report
from conformance.writing import write_text, writing

__all__ = ["Report", "write_report"]


def write_report(report: Report, folder: Path, programs: Path, link: bool = True) -> Path:
    """Write `index.html` with its `details`, and `report.md`.

    `programs` is the folder that the results' paths of programs are relative to (the reports' folder).
    Without `link`, the page shows programs and does not link their files. Returns the path of the page.
    Raises `WriteError`.
    """
    files = page.render(report, folder, programs, link)
    # The page after what it opens; what only the one before opened goes last.
    for name, text in files.items():
        write_text(folder / name, text)
    with writing(folder):
        for old in (folder / page.DETAILS).glob("*.js"):
            if f"{page.DETAILS}/{old.name}" not in files:
                old.unlink(missing_ok=True)
    return folder / "index.html"
