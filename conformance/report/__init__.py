"""The report on results and their comparison: a page, a summary and the data behind both.

Imports `compare`, `results` and what they import; runs nothing.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from conformance.compare import Comparison
from conformance.model.case import Case
from conformance.report import exports, markdown, overview, page
from conformance.report.data import Report, build, schema, to_json
from conformance.results import Results
from conformance.writing import write_bytes, write_text, writing

__all__ = ["Report", "build", "schema", "write_report"]


def write_report(
    results: Sequence[Results],
    cases: Sequence[Case],
    comparison: Comparison,
    folder: Path,
    programs: Path,
    titles: Mapping[str, str] = MappingProxyType({}),
    seconds: Mapping[str, tuple[str, float]] = MappingProxyType({}),
) -> Path:
    """Write `index.html` with its `details`, `report.md`, `report.json.gz`, `outcomes.csv` and badges.

    `programs` is the folder that the results' paths of programs are relative to (the reports'
    folder), `titles` say what variants (full ids) are, `seconds` what was measured of them.
    Returns the path of the page. Raises `WriteError`.
    """
    report = build(results, cases, comparison)
    frameworks = overview.frameworks(results, titles, seconds)
    files = page.render(report, frameworks, results, cases, folder, programs)
    kept = {folder / name for name in files}
    first = files.pop("index.html")
    files |= {
        "report.md": markdown.render(report, frameworks),
        "outcomes.csv": exports.outcomes(results),
    }
    files |= {f"badges/{name}": text for name, text in exports.badges(frameworks).items()}
    for name, text in files.items():
        write_text(folder / name, text)
    # Words repeat themselves in it: packed it is a twentieth. The same report gives the same file.
    write_bytes(folder / "report.json.gz", gzip.compress(to_json(report).encode(), mtime=0))
    # The page after what it opens; what only the one before opened goes last.
    write_text(folder / "index.html", first)
    with writing(folder):
        for old in set((folder / page.DETAILS).glob("*.js")) - kept:
            old.unlink(missing_ok=True)
        (folder / "report.json").unlink(missing_ok=True)  # what an earlier version left
    return folder / "index.html"
