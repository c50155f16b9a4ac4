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

__all__ = ["Report", "build", "schema", "write_report"]


def write_report(
    results: Sequence[Results],
    cases: Sequence[Case],
    comparison: Comparison,
    folder: Path,
    programs: Path,
    titles: Mapping[str, str] = MappingProxyType({}),
) -> Path:
    """Write `index.html` with its `details`, `report.md`, `report.json.gz`, `outcomes.csv` and badges.

    `programs` is the folder that the results' paths of programs are relative to (the reports'
    folder), `titles` say what variants (full ids) are. Returns the path of the page.
    """
    report = build(results, cases, comparison)
    folder.mkdir(parents=True, exist_ok=True)
    # Words repeat themselves in it: packed it is a twentieth. The same report gives the same file.
    packed = gzip.compress(to_json(report).encode(), mtime=0)
    (folder / "report.json.gz").write_bytes(packed)
    (folder / "report.json").unlink(missing_ok=True)  # what an earlier version left
    frameworks = overview.frameworks(results, titles)
    (folder / "report.md").write_text(markdown.render(report, frameworks), "utf-8")
    files = page.render(report, frameworks, results, cases, folder, programs)
    details = folder / page.DETAILS
    details.mkdir(exist_ok=True)
    for old in set(details.glob("*.js")) - {folder / name for name in files}:
        old.unlink()
    (folder / "outcomes.csv").write_text(exports.outcomes(results), "utf-8")
    (folder / "badges").mkdir(exist_ok=True)
    files |= {f"badges/{name}": text for name, text in exports.badges(frameworks).items()}
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    return folder / "index.html"
