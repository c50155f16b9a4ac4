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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from conformance.compare import CrossVerdict, side_of
from conformance.drivers.adapter import DISCIPLINES
from conformance.judge.outcomes import MEANING, SIGN, Outcome, of_result, of_verdict
from conformance.language.build import TOLERANCES
from conformance.language.capabilities import required_by
from conformance.model.case import Case
from conformance.model.result import Results
from conformance.report import costs, sources, tables, text
from conformance.report.findings import is_unexpected
from conformance.report.growth import growth
from conformance.report.overview import Report, worst
from conformance.report.questions import QUESTIONS
from conformance.words import counted, line

TEMPLATES = Path(__file__).parent / "templates"
#: The folder beside the page with what it opens.
DETAILS = "details"
_BETWEEN = {
    "reseed": "the generator seeded anew before it",
    "draw": "the generator drawn from before it",
    "update": "all parameters halved before it",
    "thread": "started by another thread",
    "switch": "the switch that a region reads turned on before it",
    "autocast": "under autocast to bfloat16",
    "no-gradients": "with gradients switched off",
}


@dataclass(frozen=True)
class ShownProgram:
    """An emitted program of a variant: its link, relative to the page or empty, and its text."""

    variant: str
    link: str
    source: sources.Source


def render(report: Report, folder: Path, programs: Path, link: bool) -> dict[str, str]:
    """The page and its details, by path: `index.html`, `details/unexpected-….js`, …

    Links to programs, if there shall be any, are relative to `folder`, where the page will lie. The
    results' paths of programs are relative to `programs`.
    """
    templates = environment()
    templates.globals |= _shared(report)
    details: dict[str, str] = {}

    def detail(name: str, template: str, **more: object) -> None:
        details[_path(name)] = script_call(name, templates.get_template(template).render(**more))

    cross: dict[str, list[CrossVerdict]] = {}
    for verdict in report.comparison.verdicts:
        cross.setdefault(verdict.case, []).append(verdict)
    for id_ in report.by_case:
        shown = _case(id_, report, folder if link else None, programs)
        detail(id_, "case.html.j2", cross=cross.get(id_, ()), **shown)
    for framework in report.frameworks:
        views = ["framework", "behaviours", *(["findings"] if framework.findings else [])]
        for view in views:
            detail(f"{view}={framework.name}", f"{view}.html.j2", framework=framework)
    if not report.ok:
        detail("unexpected", "unexpected.html.j2")
    for run in report.results:
        name = f"outcomes={run.header.adapter}"
        details[_path(name)] = script_call(name, json.dumps(sides(run), ensure_ascii=True))
    index = templates.get_template("index.html.j2").render(
        worst=worst(report.frameworks),
        families=list(dict.fromkeys(id_.split("/", 1)[0] for id_ in report.by_case)),
        style=Markup((TEMPLATES / "style.css").read_text("utf-8")),
        script=Markup((TEMPLATES / "page.js").read_text("utf-8")),
    )
    return {"index.html": index, **details}


def _shared(report: Report) -> dict[str, object]:
    """The variables of every template, by name."""
    return {
        "report": report,
        "questions": QUESTIONS,
        "meaning": MEANING,
        "sign": SIGN,
        "disciplines": DISCIPLINES,
        "costs_of": costs.PROGRAM_WORDS,
        "costs_case": costs.PROGRAM,
        "program_of": lambda adapter, cause: sources.python(
            report.programs.get((adapter, cause), "")
        ),
        "title": lambda id_: report.cases[id_].title if id_ in report.cases else id_,
        "modes_of": {framework.name: framework.modes for framework in report.frameworks},
    }


def _path(name: str) -> str:
    return f"{DETAILS}/{file_name(name)}.js"


def script_call(name: str, content: str) -> str:
    """The script that passes a text to `page.js`: base64 of its zlib stream, the same each time."""
    packed = base64.b64encode(zlib.compress(content.encode(), 9)).decode()
    return f"part({json.dumps(name)}, {json.dumps(packed)});\n"


def sides(run: Results) -> dict[str, dict[str, tuple[int, str, str, str, str]]]:
    """By variant and case: the outcome's rank, its name, sign and words, and what was observed."""
    by_variant: dict[str, dict[str, tuple[int, str, str, str, str]]] = {}
    for result in run.results:
        side = side_of(result)
        outcome = side.outcome
        if outcome is not Outcome.NOT_RUN:
            words = SIGN[outcome], outcome.value, line(side.message)
            of_variant = by_variant.setdefault(result.variant, {})
            of_variant[result.case] = (outcome.rank, outcome.name.lower(), *words)
    return by_variant


def file_name(name: str) -> str:
    """The file of a detail: its name, with what may not stand in a path or an address left out.

    A hash keeps names apart that then are the same.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:80]
    return f"{plain}-{zlib.crc32(name.encode('utf-8', 'surrogatepass')):08x}"


def environment() -> Environment:
    """The Jinja environment of the templates: values are escaped, an undefined one is an error."""
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "web": text.web_address,
        "bytes": text.format_bytes,
        "shorten": text.shorten,
        "sentence": text.sentence,
        "counted": counted,
        "line": line,
        "file_name": file_name,
        "fragment": lambda id_: quote(id_, safe="/@="),
    }
    return templates


def _case(id_: str, report: Report, folder: Path | None, programs: Path) -> dict[str, object]:
    """The variables of the template of one case, by name."""
    case, results = report.cases.get(id_), report.by_case[id_]
    shown: dict[str, list[ShownProgram]] = {}
    for variant, result in results.items():
        if result.program:
            link = quote(os.path.relpath(programs / result.program, folder)) if folder else ""
            program = ShownProgram(variant, link, sources.program(programs, result.program))
            shown.setdefault(variant.partition("/")[0], []).append(program)
    groups = tables.outcome_groups(results)
    listed = [program.variant for items in shown.values() for program in items]
    counts = [tables.executions(results, statements=each) for each in (False, True)]
    return {
        "id": id_,
        "case": case,
        "procedure": _procedure(case) if case else "",
        "where": _where(case) if case else "",
        "yaml": sources.case_text(case.where)
        if case
        else sources.Source(Markup(""), "no case file has this case"),
        "results": results,
        "groups": groups,
        "programs": shown,
        "pair": _pair(groups, listed),
        "links": {program.variant: program.link for items in shown.values() for program in items},
        "values": tables.values(results, case.tolerance if case else TOLERANCES["float32"]),
        "executions": counts[0],
        "operations": counts[1],
        "memory": tables.memory(results),
        "growth": growth(case, report.cases.values(), report.by_case) if case else (),
        "outcome_of": of_result,
        "meaning_of": of_verdict,
        "unexpected": is_unexpected,
        "command": lambda variant: _command(id_, variant),
    }


def _pair(groups: Sequence[tables.OutcomeGroup], shown: Sequence[str]) -> tuple[str, str]:
    """The two variants whose programs are compared at first: the worst one, and the best other one; of
    the same adapter if that has another program."""
    order = [variant for part in groups for variant in part.variants if variant in shown]
    if not order:
        return "", ""
    left = order[0]
    better = [v for part in reversed(groups) for v in part.variants if v in shown and v != left]
    of_adapter = [v for v in better if v.partition("/")[0] == left.partition("/")[0]]
    return left, next(iter(of_adapter or better), left)


def _command(case: str, variant: str) -> str:
    """The command that runs a case on a variant again."""
    adapter, _, name = variant.partition("/")
    chosen = ["--adapter", adapter, "--variant", name, "-k", case.partition("[")[0]]
    return shlex.join(["conformance", "run", *chosen])


def _where(case: Case) -> str:
    """The file and the line of a case, as `cases/basics.yaml:3`."""
    return f"{'/'.join(Path(case.where.file).parts[-2:])}:{case.where.line}"


def _procedure(case: Case) -> str:
    """How gradients are taken, within which tolerance, and what a variant needs for the case."""
    procedure = case.procedure
    words = procedure.kind.replace("_", " ")
    if procedure.kind == "train":
        words += f", {procedure.steps} steps of SGD({procedure.learning_rate:g})"
    if procedure.between:
        words += f", {_BETWEEN[procedure.between]}"
    if case.release:
        words += f", {case.release} times"
    needs = ", ".join(sorted(required_by(case)))
    tolerance = f"rtol {case.tolerance.rtol:g}, atol {case.tolerance.atol:g}"
    return f"{words}; tolerance {tolerance}{f'; needs {needs}' if needs else ''}"
