"""The result of a check as text, as JSON and as a page."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from conformance.checking.judge import Line
from conformance.checking.run import Result
from conformance.model.verdict import Status
from conformance.words import counted, printable
from conformance.writing import write_text

#: How a line that is not as it should be begins.
_SIGN = {
    Status.PASS: "",
    Status.REPORT: "note: ",
    Status.UNSUPPORTED: "not observed: ",
    Status.WARN: "warning: ",
}
_COLOUR = {
    Status.PASS: "green",
    Status.REPORT: "",
    Status.UNSUPPORTED: "dim",
    Status.WARN: "yellow",
}
#: The styles of the report.
_CLASSES = {
    **{"pass": "o-right", "report": "o-none", "unsupported": "o-unseen", "warn": "o-warns"},
    **{"fail": "o-wrong", "crashed": "o-raises", "timeout": "o-raises", "broken": "o-broken"},
}
_TEMPLATES = Path(__file__).parents[1] / "report" / "templates"
_WIDTH = 16


def heading(result: Result) -> str:
    """The file, the framework's version, and how large the model is."""
    checked = result.checked
    versions = [f"{name} {v}" for name, v in checked.versions.items() if name != "python"]
    told = [", ".join(versions) or checked.framework]
    if checked.size:
        told.append(f"{checked.size:,} parameters")
    if checked.steps > 1:
        told.append(counted(checked.steps, "step"))
    return f"{result.file.name}: {', '.join(told)}"


def show(result: Result, console: Console | None = None) -> None:
    """Print the result."""
    console = console or Console(highlight=False, soft_wrap=True)
    console.print(Text(printable(heading(result))))
    for one in result.lines:
        colour = _COLOUR.get(one.status, "red")
        console.print(Text(f"  {one.check:<{_WIDTH}}"), Text(_words(one), style=colour), sep="")
        for detail in one.details:
            console.print(Text(f"  {'':<{_WIDTH}}{printable(detail)}"))
    ended = any(one.status is Status.CRASHED for one in result.lines)
    if ended and result.printed.strip():
        console.print(Text(printable(result.printed.strip()[-2000:]), style="dim"))
    for guess in result.guesses:
        console.print(Text(printable(f"It looks like a known cause, {guess.cause}: {guess}")))
    console.print(Text(printable(result.conclusion), style="bold"))


def _words(one: Line) -> str:
    return printable(_SIGN.get(one.status, f"{one.status.value.upper()}: ") + one.message)


def as_json(result: Result) -> str:
    """The result as JSON: the lines, and all that was observed."""
    told = {
        "file": str(result.file),
        "ok": result.ok,
        "conclusion": result.conclusion,
        "lines": [
            {
                "check": one.check,
                "status": one.status,
                "level": one.level,
                "message": one.message,
                "details": one.details,
            }
            for one in result.lines
        ],
        "guesses": [guess._asdict() for guess in result.guesses],
        "observed": result.checked,
    }
    return msgspec.json.format(msgspec.json.encode(told)).decode()


def write_page(result: Result, file: Path) -> None:
    """Write the result as a page of its own, in the style of the report. Raises `WriteError`."""
    from jinja2 import Environment, FileSystemLoader

    templates = Environment(loader=FileSystemLoader(_TEMPLATES), autoescape=True, trim_blocks=True)
    style = (_TEMPLATES / "style.css").read_text("utf-8")
    shown = {"result": result, "checked": result.checked, "heading": heading(result)}
    page = templates.get_template("check.html.j2").render(shown, style=style, classes=_CLASSES)
    write_text(file, page)
