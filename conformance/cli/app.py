"""The application: its commands, and what becomes of an error."""

import os
import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from conformance import __version__
from conformance.cli import cases, check, compare, export, fuzz, known, report, run
from conformance.errors import ConformanceError
from conformance.exits import MEANINGS, Exit
from conformance.words import printable
from conformance.writing import FULL

EXIT_CODES = "\b\nExit codes:\n" + "\n".join(f"{c:>3}  {words}" for c, words in MEANINGS.items())

app = typer.Typer(
    name="conformance",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES,
    help="Check recomputation (activation checkpointing): values, gradients and random numbers must "
    "stay the same, each region must be recomputed once, and memory must be saved.",
)
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
app.command(context_settings=PASS_ON, help=run.HELP, epilog=EXIT_CODES)(run.run)
app.command(epilog=EXIT_CODES)(report.report)
app.command(epilog=EXIT_CODES)(compare.compare)
app.command("list")(cases.list_cases)
app.command()(cases.show)
app.command()(cases.emit)
app.command()(known.known)
app.command(epilog=EXIT_CODES)(fuzz.fuzz)
app.command(epilog=EXIT_CODES)(check.check)
app.command(epilog=EXIT_CODES)(export.export)
app.command()(cases.schema)
#: Commands of earlier versions, and what to use instead.
REMOVED: Mapping[str, str] = {
    "adapters": "conformance list --adapters",
    "behaviours": "conformance report: the view `behaviours`, also in reports/report.md",
    "bug": "the program of a cause in adapters/NAME/reproducers; `conformance known` shows its path",
    "coverage": "python tools/coverage.py, in a checkout",
    "diff": "conformance compare OLD NEW",
    "documents": "python tools/documents.py, in a checkout",
    "frameworks": "python tools/frameworks.py, in a checkout",
    "history": "conformance compare OLD NEWER NEWEST",
    "merge": "nothing: commands that read results unite the files of a divided run",
    "probe": "conformance run --implementation, which recognises options with the framework's names",
    "recorded": "nothing: a run is divided without recorded times",
    "smoke": "conformance run --smoke: the cases with `smoke: true`",
}


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def conformance(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Options belong to commands."""


def run_app() -> None:
    """Run a command. Bad input, and output that cannot be written, end in one message on standard error
    and an exit code."""
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command in REMOVED:
        _leave(f"`conformance {command}` was removed; instead: {REMOVED[command]}", Exit.BAD_INPUT)
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except ConformanceError as error:
        _leave(str(error), error.exit_code)
    except BrokenPipeError:
        _leave("", Exit.OK)
    except OSError as error:
        if error.errno not in FULL:
            raise
        where = f"{error.filename}: " if error.filename else ""
        _leave(f"{where}cannot be written: {error.strerror}", Exit.NOT_WRITTEN)


def _leave(message: str, code: int) -> None:
    if message:
        typer.echo(f"error: {printable(message)}", err=True)
    try:
        sys.stdout.flush()
    except OSError:  # what is still in there would be tried once more at the end, with a traceback
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)
