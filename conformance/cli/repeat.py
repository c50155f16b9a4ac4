"""`conformance run --repeat`: several rounds of one run, held against each other."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable
from pathlib import Path

import typer

from conformance.exits import Exit
from conformance.results import read
from conformance.run.rounds import Rounds
from conformance.words import counted


def repeated(number: int, session: Callable[[list[str]], int]) -> int:
    """Run a session so many times, with more arguments for each, and say what differs.

    Returns the status: 1 where a verdict differs or is unexpected, and that of the round which did not
    come to its end.
    """
    rounds = Rounds()
    worst = Exit.OK
    with tempfile.TemporaryDirectory(prefix="conformance-rounds-") as folder:
        for round_number in range(1, number + 1):
            output = io.StringIO()
            arguments = ["--reports", folder, "-p", "no:cacheprovider"]
            with contextlib.redirect_stdout(output):
                code = session(arguments)
            if code not in (Exit.OK, Exit.UNEXPECTED):
                typer.echo(output.getvalue(), nl=False)
                return code
            worst = max(worst, Exit(code))
            files = sorted(Path(folder).glob("*.jsonl"))
            rounds.add([result for file in files for result in read(file).results])
            unexpected = "unexpected verdicts" if code else "nothing unexpected"
            typer.echo(f"round {round_number} of {number}: {unexpected}")
    unsteady = rounds.unsteady
    previous = ("", "")
    for difference in unsteady:
        pair = (difference.case, difference.variant)
        if pair != previous:
            previous = pair
            typer.echo(f"{difference.case}[{difference.variant}]")
        typer.echo(f"  {difference.check}: {difference.words}")
    verdicts = sum(difference.verdict for difference in unsteady)
    values = len(unsteady) - verdicts
    typer.echo(
        f"{counted(verdicts, 'verdict')} and {counted(values, 'observed value')} not the same in all "
        f"{number} rounds"
    )
    return Exit.UNEXPECTED if verdicts else worst
