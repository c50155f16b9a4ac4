"""The application: its commands, and what becomes of an error."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from conformance import __version__
from conformance.cli import (
    behaviours,
    bug,
    cases,
    compare,
    coverage,
    diff,
    documents,
    frameworks,
    history,
    known,
    merge,
    probe,
    report,
    run,
)
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
    help="Check that recomputation (activation checkpointing) keeps its promise: the same values, "
    "gradients and random numbers, for one more run of the region and less memory.",
)
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
app.command(context_settings=PASS_ON, epilog=EXIT_CODES)(run.run)
app.command(epilog=EXIT_CODES)(merge.merge)
app.command(epilog=EXIT_CODES)(probe.probe)
app.command(epilog=EXIT_CODES)(compare.compare)
app.command(epilog=EXIT_CODES)(diff.diff)
app.command(epilog=EXIT_CODES)(history.history)
app.command(epilog=EXIT_CODES)(report.report)
app.command(epilog=EXIT_CODES)(behaviours.behaviours)
app.command(epilog=EXIT_CODES)(frameworks.frameworks)
app.command(epilog=EXIT_CODES)(documents.documents)
app.command(epilog=EXIT_CODES)(bug.bug)
app.command("list")(cases.list_cases)
app.command()(cases.show)
app.command()(cases.emit)
app.command()(cases.schema)
app.command()(cases.adapters)
app.command()(known.known)
app.command(epilog=EXIT_CODES)(coverage.coverage)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def conformance(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print it and leave."),
    ] = False,
) -> None:
    """Set nothing: options belong to commands."""


def run_app() -> None:
    """Run a command. Bad input is one message on standard error and the error's exit code; so is what
    cannot be written, standard output included."""
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
