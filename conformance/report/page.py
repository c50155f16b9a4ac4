"""`index.html`: one file with everything in it, to be opened from disk."""

from __future__ import annotations

import base64
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from conformance.compare import CrossVerdict
from conformance.language.capabilities import required_by
from conformance.language.load import TOLERANCES
from conformance.model.case import Case
from conformance.report import sources, tables
from conformance.report.data import (
    MARKS,
    CaseView,
    DeviationGroup,
    Mark,
    Report,
    grouped,
)
from conformance.report.growth import Frame
from conformance.results import Result, Results
from conformance.words import counted

_TEMPLATES = Path(__file__).parent / "templates"
#: Short words for a narrow column; the legend spells them out.
SHORT: Mapping[Mark, str] = {
    "broken": "broken",
    "crashed": "crash",
    "timeout": "time",
    "fail": "FAIL",
    "known": "known",
    "warn": "warn",
    "report": "report",
    "pass": "pass",
    "unsupported": "n/s",
}
_LONGEST = 4000
#: Characters over the limit that are not worth a cut.
_SLACK = 80
#: The most characters of cases that a page holds as they are; a browser waits long for tens of millions.
_MOST_UNPACKED = 8_000_000


@dataclass(frozen=True)
class ShownProgram:
    """An emitted program of a variant: where it lies from the page, and its text."""

    variant: str
    link: str
    source: sources.Source


@dataclass(frozen=True)
class Shown:
    """Everything that is shown of one case."""

    view: CaseView
    yaml: sources.Source
    needs: tuple[str, ...]
    procedure: str
    tolerance: str
    checks: tuple[str, ...]
    results: Mapping[str, Result]
    values: tables.Table
    executions: tables.Table
    statements: tables.Table
    memory: tuple[tables.MemoryRow, ...]
    cross: tuple[CrossVerdict, ...]
    programs: Mapping[str, tuple[ShownProgram, ...]]


def render(
    report: Report,
    results: Sequence[Results],
    cases: Sequence[Case],
    folder: Path,
    programs: Path,
) -> str:
    """The page as HTML. Links to programs are relative to `folder`, where the page will lie.

    What stands in the cases is packed where it would make a page of more than some megabytes.
    """
    by_id = {case.id: case for case in cases}
    found: dict[str, dict[str, Result]] = {}
    for file in results:
        for result in file.results:
            found.setdefault(result.case, {})[result.variant] = result
    cross: dict[str, list[CrossVerdict]] = {}
    for verdict in report.comparison.verdicts:
        cross.setdefault(verdict.case, []).append(verdict)
    shown = [
        _shown(v, by_id.get(v.id), found[v.id], cross.get(v.id, ()), folder, programs)
        for v in report.cases
    ]
    templates = environment()
    body = templates.get_template("body.html.j2")
    bodies: list[str] = []
    packed, size = False, 0
    for number, item in enumerate(shown, 1):
        text = Markup(body.render(item=item, number=number, short=SHORT))
        size += len(text)
        if size > _MOST_UNPACKED and not packed:
            packed, bodies = True, [pack(text) for text in bodies]
        bodies.append(pack(text) if packed else text)
    return templates.get_template("index.html.j2").render(
        report=report,
        cases=shown,
        packed=packed,
        bodies=bodies,
        deviations=by_reason(grouped(report.deviations)),
        marks=MARKS,
        short=SHORT,
        style=Markup((_TEMPLATES / "style.css").read_text("utf-8")),
        script=Markup((_TEMPLATES / "page.js").read_text("utf-8")),
    )


def pack(text: str) -> str:
    """A text as base64 of its zlib stream, which `page.js` unpacks; the same each time."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def by_reason(deviations: Iterable[DeviationGroup]) -> list[list[DeviationGroup]]:
    """Deviations that share a reason put together, in the order of the first; others alone."""
    found: dict[object, list[DeviationGroup]] = {}
    for number, deviation in enumerate(deviations):
        known = deviation.verdict.known
        key = number if known is None else (deviation.verdict.mark, known.reason, known.url)
        found.setdefault(key, []).append(deviation)
    return list(found.values())


def environment() -> Environment:
    """Templates in which every value is escaped and a missing one is an error."""
    found = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["frame"] = Frame
    found.filters["web"] = web_address
    found.filters["bytes"] = format_bytes
    found.filters["counted"] = counted
    found.filters["shorten"] = shorten
    found.filters["line"] = line
    found.filters["fragment"] = lambda text: quote(text, safe="/@")
    return found


def web_address(url: str) -> str:
    """The URL if it leads to the web, else "": a link must not run anything."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return url if parts.scheme in ("http", "https") and parts.netloc else ""


def format_bytes(number: int) -> str:
    """Bytes with thousands apart: `1 234 567`."""
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def shorten(text: str, longest: int = _LONGEST) -> str:
    """A text of bounded length: the beginning and the end of a longer one."""
    if len(text) <= longest + _SLACK:
        return text
    left = longest * 2 // 3
    return f"{text[:left]}\n… {len(text) - longest} characters left out …\n{text[left - longest :]}"


def line(text: str, longest: int = 240) -> str:
    """A text on one line of bounded length."""
    joined = " ".join(text.split())
    return joined if len(joined) <= longest else f"{joined[: longest - 1]}…"


def _shown(
    view: CaseView,
    case: Case | None,
    results: Mapping[str, Result],
    cross: Sequence[CrossVerdict],
    folder: Path,
    programs: Path,
) -> Shown:
    tolerance = case.tolerance if case else TOLERANCES["float32"]
    checks = dict.fromkeys(v.check for cell in view.cells.values() for v in cell.verdicts)
    shown: dict[str, list[ShownProgram]] = {}
    for variant, cell in view.cells.items():
        if cell.program:
            link = quote(os.path.relpath(programs / cell.program, folder))
            source = sources.program(programs, cell.program)
            item = ShownProgram(variant, link, source)
            shown.setdefault(variant.partition("/")[0], []).append(item)
    return Shown(
        view=view,
        yaml=sources.case_text(case.where)
        if case
        else sources.Source(Markup(""), "the case is not at hand"),
        needs=tuple(sorted(required_by(case))) if case else (),
        procedure=_procedure(case) if case else "",
        tolerance=f"rtol {tolerance.rtol:g}, atol {tolerance.atol:g}",
        checks=tuple(checks),
        results=results,
        values=tables.values(results, tolerance),
        executions=tables.executions(results, statements=False),
        statements=tables.executions(results, statements=True),
        memory=tables.memory(results),
        cross=tuple(cross),
        programs={adapter: tuple(items) for adapter, items in shown.items()},
    )


def _procedure(case: Case) -> str:
    procedure = case.procedure
    words = procedure.kind.replace("_", " ")
    if procedure.kind == "train":
        words += f", {procedure.steps} steps of SGD({procedure.learning_rate:g})"
    if procedure.between:
        done = {
            "reseed": "the generator seeded anew before it",
            "draw": "the generator drawn from before it",
            "update": "all parameters halved before it",
            "thread": "started by another thread",
        }
        words += f", {done[procedure.between]}"
    if case.release:
        words += f", {case.release} times"
    return words
