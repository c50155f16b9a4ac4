"""`index.html`: a small page that loads details from files beside it, also when opened from disk.

For a page opened from disk, a browser loads scripts but no other files. So each detail is a script under
`details/` that calls a function with a name and compressed HTML.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from conformance.compare import CrossVerdict
from conformance.compare.beside import side_of
from conformance.drivers.adapter import DISCIPLINES
from conformance.judge.outcomes import MEANING, SIGN, Outcome, of_result
from conformance.language.build import TOLERANCES
from conformance.language.capabilities import required_by
from conformance.model.case import Case
from conformance.report import costs, groups, issues, masks, overview, sources, tables
from conformance.report.data import (
    MARKS,
    CaseView,
    DeviationGroup,
    Mark,
    Report,
    grouped,
)
from conformance.report.frontier import Drawing
from conformance.report.graph import Graph, draw
from conformance.report.groups import OutcomeGroup, RowGroup
from conformance.report.growth import Frame
from conformance.report.questions import QUESTIONS
from conformance.results import Result, Results
from conformance.words import counted, line

TEMPLATES = Path(__file__).parent / "templates"
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
#: The folder beside the page with what it opens.
DETAILS = "details"


@dataclass(frozen=True)
class ShownProgram:
    """An emitted program of a variant: its link, relative to the page, and its text."""

    variant: str
    link: str
    source: sources.Source


@dataclass(frozen=True)
class Shown:
    """Everything that is shown of one case."""

    view: CaseView
    #: The variants that it ran on, and those that do not offer it or leave it to others.
    ran: tuple[str, ...]
    others: tuple[str, ...]
    yaml: sources.Source
    needs: tuple[str, ...]
    procedure: str
    tolerance: str
    graph: Graph | None
    checks: tuple[str, ...]
    results: Mapping[str, Result]
    outcome_groups: tuple[OutcomeGroup, ...]
    arrays: tuple[tuple[str, str], ...]
    values: tuple[RowGroup, ...]
    executions: tables.Counts
    statements: tables.Counts
    memory: tuple[tuple[tuple[str, ...], tables.MemoryRow], ...]
    masks: tuple[masks.Mask, ...]
    cross: tuple[CrossVerdict, ...]
    programs: Mapping[str, tuple[ShownProgram, ...]]
    #: The two programs that are shown first: of who comes out worst, and of who comes out better.
    pair: tuple[str, str]
    #: By variant: where its program lies, and what to run to see it again and to report it.
    links: Mapping[str, str]
    commands: Mapping[str, tuple[str, str]]


def render(
    report: Report,
    frameworks: Sequence[overview.Framework],
    results: Sequence[Results],
    cases: Sequence[Case],
    folder: Path,
    programs: Path,
) -> dict[str, str]:
    """The page and its details, by path: `index.html`, `details/matrix.js`, …

    Links to programs are relative to `folder`, where the page will lie.
    """
    by_id = {case.id: case for case in cases}
    by_case: dict[str, dict[str, Result]] = {}
    for file in results:
        for result in file.results:
            by_case.setdefault(result.case, {})[result.variant] = result
    cross: dict[str, list[CrossVerdict]] = {}
    for verdict in report.comparison.verdicts:
        cross.setdefault(verdict.case, []).append(verdict)
    templates = environment()
    shared = _shared(report, frameworks, by_case, folder, programs)
    details: dict[str, str] = {}

    def detail(name: str, template: str, **more: object) -> None:
        text = templates.get_template(template).render(**shared, **more)
        details[f"{DETAILS}/{file_name(name)}.js"] = script_call(name, text)

    body = "body.html.j2"
    for number, view in enumerate(report.cases, 1):
        links = cross.get(view.id, ())
        item = _shown(view, by_id.get(view.id), by_case[view.id], links, folder, programs)
        detail(view.id, body, item=item, number=number)
    for framework in frameworks:
        detail(f"behaviours/{framework.name}", "behaviours.html.j2", framework=framework)
        detail(f"framework={framework.name}", "framework.html.j2", framework=framework)
    for variant, outcomes in sides(results).items():
        text = json.dumps(outcomes, ensure_ascii=True)
        name = f"outcomes/{variant}"
        details[f"{DETAILS}/{file_name(name)}.js"] = script_call(name, text)
    worst = overview.worst(frameworks)
    if worst:
        detail("findings", "findings.html.j2", findings=overview.all_findings(frameworks))
    detail("matrix", "matrix.html.j2", families=_families(report.cases))
    detail("deviations", "deviations.html.j2", deviations=by_reason(grouped(report.deviations)))
    detail("unsupported", "unsupported.html.j2")
    detail("comparison", "comparison.html.j2")
    if report.growth:
        detail("growth", "growth.html.j2")
    detail("runs", "runs.html.j2")
    index = templates.get_template("index.html.j2").render(
        **shared,
        worst=worst,
        modes_of={framework.name: len(framework.modes) for framework in frameworks},
        titles={view.id: view.title or view.id for view in report.cases},
        families=_families(report.cases),
        outcomes=overview.outcomes_of_cases(results),
        style=Markup((TEMPLATES / "style.css").read_text("utf-8")),
        script=Markup((TEMPLATES / "page.js").read_text("utf-8")),
    )
    return {"index.html": index, **details}


def _shared(
    report: Report,
    frameworks: Sequence[overview.Framework],
    by_case: Mapping[str, Mapping[str, Result]],
    folder: Path,
    programs: Path,
) -> dict[str, object]:
    """The variables of every template, by name."""
    issue_files = {
        key: quote(os.path.relpath(programs / path, folder))
        for key, path in issues.find(programs).items()
    }
    return {
        "report": report,
        "marks": MARKS,
        "short": SHORT,
        "frameworks": frameworks,
        "questions": QUESTIONS,
        "meaning": MEANING,
        "sign": SIGN,
        "disciplines": DISCIPLINES,
        "costs_of": costs.PROGRAM_WORDS,
        "costs_case": costs.PROGRAM,
        "by_id": by_case,
        "issue": lambda adapter, reason: issue_files.get((adapter, " ".join(reason.split())), ""),
    }


def script_call(name: str, text: str) -> str:
    """The script that hands a text to `page.js`."""
    return f"part({json.dumps(name)}, {json.dumps(pack(text))});\n"


def sides(results: Sequence[Results]) -> dict[str, dict[str, tuple[int, str, str, str, str]]]:
    """By variant and case: the outcome's rank, its name, sign and words, and what was observed."""
    by_variant: dict[str, dict[str, tuple[int, str, str, str, str]]] = {}
    for run in results:
        for result in run.results:
            side = side_of(result)
            if side.outcome is not Outcome.NOT_RUN:
                by_variant.setdefault(result.variant, {})[result.case] = (
                    side.outcome.rank,
                    side.outcome.name.lower(),
                    SIGN[side.outcome],
                    side.outcome.value,
                    line(side.message),
                )
    return by_variant


def file_name(name: str) -> str:
    """The file of a detail: its name, with what may not stand in a path or an address left out.

    A hash keeps names apart that then are the same.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:80]
    return f"{plain}-{zlib.crc32(name.encode('utf-8', 'surrogatepass')):08x}"


def _families(cases: Sequence[CaseView]) -> list[tuple[str, list[CaseView]]]:
    families: dict[str, list[CaseView]] = {}
    for case in cases:
        families.setdefault(case.family, []).append(case)
    return list(families.items())


def pack(text: str) -> str:
    """A text as base64 of its zlib stream, which `page.js` unpacks; the same each time."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def by_reason(deviations: Iterable[DeviationGroup]) -> list[list[DeviationGroup]]:
    """Deviations that share a reason put together, in the order of the first; others alone."""
    grouped: dict[object, list[DeviationGroup]] = {}
    for number, deviation in enumerate(deviations):
        known = deviation.verdict.known
        key = number if known is None else (deviation.verdict.mark, known.reason, known.url)
        grouped.setdefault(key, []).append(deviation)
    return list(grouped.values())


def environment() -> Environment:
    """The Jinja environment of the templates: values are escaped, an undefined one is an error."""
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["frame"] = Frame
    templates.filters["web"] = web_address
    templates.filters["bytes"] = format_bytes
    templates.filters["counted"] = counted
    templates.filters["shorten"] = shorten
    templates.filters["line"] = line
    templates.filters["file_name"] = file_name
    templates.filters["sentence"] = sentence
    templates.filters["lower_first"] = lambda text: text[:1].lower() + text[1:]
    templates.filters["drawing"] = lambda modes: Drawing((mode.name, mode.cost) for mode in modes)
    templates.filters["firsts"] = lambda frameworks: Drawing(
        (f"{f.name} {f.modes[0].name}", f.modes[0].cost) for f in frameworks if f.modes
    )
    templates.filters["fragment"] = lambda text: quote(text, safe="/@")
    return templates


def web_address(url: str) -> str:
    """The URL if it leads to the web, else "": a link must not run anything."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return url if parts.scheme in ("http", "https") and parts.netloc else ""


def format_bytes(number: int) -> str:
    """A number of bytes with its digits in groups of three: `1 234 567`."""
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def shorten(text: str, longest: int = _LONGEST) -> str:
    """A text of about `longest` characters: of a longer one, the beginning and the end."""
    if len(text) <= longest + _SLACK:
        return text
    left = longest * 2 // 3
    return f"{text[:left]}\n… {len(text) - longest} characters left out …\n{text[left - longest :]}"


def sentence(text: str, longest: int = 260) -> str:
    """The first sentence of a text, on one line of bounded length."""
    first = re.match(r"\s*(.{25,}?[.!?])(?=\s+[A-Z])", " ".join(text.split()))
    return line(first[1] if first else text, longest)


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
    without_outcome = (Outcome.NOT_OFFERED, Outcome.NOT_RUN)
    apart = [variant for variant, result in results.items() if of_result(result) in without_outcome]
    shown: dict[str, list[ShownProgram]] = {}
    for variant, cell in view.cells.items():
        if cell.program:
            link = quote(os.path.relpath(programs / cell.program, folder))
            source = sources.program(programs, cell.program)
            item = ShownProgram(variant, link, source)
            shown.setdefault(variant.partition("/")[0], []).append(item)
    values = tables.values(results, tolerance)
    outcome_groups = groups.outcome_groups(results)
    return Shown(
        view=view,
        ran=tuple(v for v in view.cells if v not in apart),
        others=tuple(apart),
        yaml=sources.case_text(case.where)
        if case
        else sources.Source(Markup(""), "the case is not at hand"),
        needs=tuple(sorted(required_by(case))) if case else (),
        procedure=_procedure(case) if case else "",
        graph=draw(case) if case else None,
        tolerance=f"rtol {tolerance.rtol:g}, atol {tolerance.atol:g}",
        checks=tuple(checks),
        results=results,
        outcome_groups=outcome_groups,
        arrays=tuple((row.name, row.expected) for row in values.rows),
        values=groups.row_groups(values) if values.rows else (),
        executions=tables.counts(tables.executions(results, statements=False)),
        statements=tables.counts(tables.executions(results, statements=True)),
        memory=groups.memory_groups(tables.memory(results)),
        masks=masks.masks(results),
        cross=tuple(cross),
        programs={adapter: tuple(items) for adapter, items in shown.items()},
        pair=_pair(outcome_groups, [item.variant for items in shown.values() for item in items]),
        links={item.variant: item.link for items in shown.values() for item in items},
        commands={variant: _commands(view.id, variant) for variant in view.cells},
    )


def _pair(outcome_groups: Sequence[groups.OutcomeGroup], shown: Sequence[str]) -> tuple[str, str]:
    """The two variants whose programs are compared at first: the worst one, and the best other one; of
    the same adapter if that has another program."""
    order = [variant for part in outcome_groups for variant in part.variants if variant in shown]
    if not order:
        return "", ""
    left = order[0]
    adapter = left.partition("/")[0]
    better = [v for part in reversed(outcome_groups) for v in part.variants if v in shown]
    rest = [variant for variant in better if variant != left]
    of_adapter = [variant for variant in rest if variant.partition("/")[0] == adapter]
    return left, next(iter(of_adapter or rest), left)


def _commands(case: str, variant: str) -> tuple[str, str]:
    """The commands that run a case on a variant again, and that write an issue about it."""
    adapter, _, name = variant.partition("/")
    chosen = ["--adapter", adapter, "--variant", name, "-k", case.partition("[")[0]]
    return (
        shlex.join(["conformance", "run", *chosen]),
        shlex.join(["conformance", "bug", variant, case]),
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
            "switch": "the switch that a region reads turned on before it",
            "autocast": "under autocast to bfloat16",
            "no-gradients": "with gradients switched off",
        }
        words += f", {done[procedure.between]}"
    if case.release:
        words += f", {case.release} times"
    return words
