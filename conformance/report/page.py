"""`index.html`, a small page that loads details from files beside it, and `report.md`, its summary.

For a page opened from disk, a browser loads scripts but no other files. So each detail is a script under
`details/` that calls a function with a name and compressed HTML.
"""

import base64
import json
import os
import re
import shlex
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from conformance.compare import CrossVerdict, side_of
from conformance.compare.releases import in_words
from conformance.drivers.adapter import DISCIPLINES
from conformance.judge.outcomes import MEANING, SIGN, Outcome, of_result, of_verdict
from conformance.language.build import TOLERANCES
from conformance.language.features import required_by
from conformance.model.result import Results
from conformance.report import costs, sources, tables, text
from conformance.report.findings import Section, is_unexpected
from conformance.report.growth import growth
from conformance.report.overview import BAR, Report, name_of, worst
from conformance.report.questions import QUESTIONS
from conformance.words import counted, escape, line

TEMPLATES = Path(__file__).parent / "templates"
#: The folder beside the page with what it opens.
DETAILS = "details"


def render(report: Report, folder: Path, programs: Path, link: bool) -> dict[str, str]:
    """All files by path: `report.md`, `details/unexpected-….js`, …, and `index.html` as the last.

    Links to programs, if there shall be any, are relative to `folder`, where the page will lie. The
    results' paths of programs are relative to `programs`.
    """
    titles = {id_: _title(id_, report, programs) for id_ in report.by_case}
    html, markdown = (_environment(report, titles, how) for how in (None, _in_markdown))
    files = {"report.md": markdown.get_template("report.md.j2").render() + "\n"}

    def detail(name: str, content: str) -> None:
        """The script that passes a text to `page.js`: base64 of its zlib stream, the same each time."""
        packed = base64.b64encode(zlib.compress(content.encode(), 9)).decode()
        script = f"part({json.dumps(name)}, {json.dumps(packed)});\n"
        files[f"{DETAILS}/{file_name(name)}.js"] = script

    cross: dict[str, list[CrossVerdict]] = {}
    for verdict in report.comparison.verdicts:
        cross.setdefault(verdict.case, []).append(verdict)
    template = html.get_template("case.html.j2")
    for id_ in report.by_case:
        shown = _case(id_, report, folder if link else None, programs)
        detail(id_, template.render(shown, cross=cross.get(id_, ())))
    for framework in report.frameworks:
        for view in ("framework", "behaviours", *(["findings"] if framework.findings else [])):
            template = html.get_template(f"{view}.html.j2")
            detail(f"{view}={framework.name}", template.render(framework=framework))
    if not report.ok:
        detail("unexpected", html.get_template("unexpected.html.j2").render())
    for run in report.results:
        detail(f"outcomes={run.header.adapter}", json.dumps(_sides(run)))
    files["index.html"] = html.get_template("index.html.j2").render(
        families=list(dict.fromkeys(id_.split("/", 1)[0] for id_ in report.by_case)),
        style=Markup((TEMPLATES / "style.css").read_text("utf-8")),
        script=Markup((TEMPLATES / "page.js").read_text("utf-8")),
    )
    return files


def _sides(run: Results) -> dict[str, dict[str, tuple[int, str, str, str, str]]]:
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


def _in_markdown(value: object) -> object:
    """A value that Markdown shows as it is; what is marked as safe already is left alone."""
    return value if isinstance(value, Markup) else Markup(escape(str(value)))


def _title(id_: str, report: Report, programs: Path) -> str:
    """The title of a case, or what a program of `adapters/<name>/programs` says of itself."""
    if id_ in report.cases:
        return report.cases[id_].title
    paths = (result.program for result in report.by_case[id_].values() if result.program)
    return next((sources.docstring(programs, path) for path in paths), "") or id_


def _environment(
    report: Report,
    titles: Mapping[str, str],
    finalize: Callable[[object], object] | None,
) -> Environment:
    """The Jinja environment of the templates: values are escaped, an undefined one is an error."""
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: list[Callable[..., object]] = [text.web_address, text.format_bytes, text.shorten]
    filters += [text.sentence, text.prose, counted, line, name_of, file_name]
    templates.filters |= {one.__name__: one for one in filters}
    templates.filters["link"] = lambda url: Markup(text.link(url))
    templates.filters["fragment"] = lambda id_: quote(id_, safe="/@=")
    templates.globals |= {
        "report": report,
        "worst": worst(report.frameworks),
        "occurring": [o for o in BAR if any(mode.tally.outcomes[o] for mode in report.modes)],
        "questions": QUESTIONS,
        "meaning": MEANING,
        "sign": SIGN,
        "sections": Section,
        "right": Outcome.RIGHT,
        "told_everyday": any(f.best and f.best.everyday.ran for f in report.frameworks),
        "outcome_of": of_result,
        "meaning_of": of_verdict,
        "unexpected": is_unexpected,
        "in_words": in_words,
        "disciplines": DISCIPLINES,
        "costs_of": costs.PROGRAM_WORDS,
        "costs_case": costs.PROGRAM,
        "program_of": lambda *cause: sources.python(report.background.programs.get(cause, "")),
        "title": lambda id_: titles.get(id_, id_),
        "modes_of": {framework.name: framework.modes for framework in report.frameworks},
    }
    return templates


def _case(id_: str, report: Report, folder: Path | None, programs: Path) -> dict[str, object]:
    """The variables of the template of one case, by name."""
    case, results = report.cases.get(id_), report.by_case[id_]
    shown: dict[str, list[tuple[str, sources.Source]]] = {}
    links: dict[str, str] = {}
    for variant, result in results.items():
        if result.program:
            to = os.path.relpath(programs / result.program, folder) if folder else ""
            links[variant] = quote(to)
            of_adapter = shown.setdefault(variant.partition("/")[0], [])
            of_adapter.append((variant, sources.program(programs, result.program)))
    groups = tables.outcome_groups(results)
    missing = sources.Source(missing="no case file has this case")
    return {
        "id": id_,
        "case": case,
        "needs": sorted(required_by(case)) if case else (),
        "yaml": sources.case_text(case.where) if case else missing,
        "results": results,
        "groups": groups,
        "programs": shown,
        "pair": _pair(groups, links),
        "links": links,
        "values": tables.values(results, case.tolerance if case else TOLERANCES["float32"]),
        "executions": tables.executions(results, statements=False),
        "operations": tables.executions(results, statements=True),
        "memory": tables.memory(results),
        "growth": growth(case, report.cases.values(), report.by_case) if case else (),
        "command": lambda variant: _command(id_, variant),
    }


def _pair(groups: Sequence[tables.OutcomeGroup], shown: Collection[str]) -> tuple[str, str]:
    """The two variants whose programs are compared at first: the worst one, and the best other one; of
    the same adapter if that has another program."""
    listed = [[variant for variant in group.variants if variant in shown] for group in groups]
    left = next(chain(*listed), "")
    others = [variant for variants in reversed(listed) for variant in variants if variant != left]
    others.sort(key=lambda variant: variant.partition("/")[0] != left.partition("/")[0])
    return left, next(iter(others), left)


def _command(case: str, variant: str) -> str:
    """The command that runs a case on a variant again."""
    adapter, _, name = variant.partition("/")
    chosen = ["--adapter", adapter, "--variant", name, "-k", case.partition("[")[0]]
    return shlex.join(["conformance", "run", *chosen])
