"""What other programs read: a table of outcomes as CSV, and a badge for each adapter.

A badge is an SVG, and the same as endpoint JSON for services that draw badges.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence

from conformance.compare.beside import side_of
from conformance.judge.outcomes import Outcome
from conformance.report.findings import Tally
from conformance.report.overview import Framework
from conformance.report.page import environment
from conformance.results import Results

_HEADER = ("adapter", "variant", "case", "outcome", "message")
#: First characters of a cell that a spreadsheet would run as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
#: Pixels of a badge: the average width of a character, and the margins of a text together.
_LETTER, _MARGIN = 6.6, 12


def outcomes(results: Sequence[Results]) -> str:
    """CSV with a line for each case on each variant: its outcome, and the message of its verdict."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_HEADER)
    for run in results:
        for result in run.results:
            side = side_of(result)
            row = (
                run.header.adapter,
                result.variant,
                result.case,
                side.outcome.value,
                side.message,
            )
            writer.writerow(map(_harmless, row))
    return text.getvalue()


def _harmless(cell: str) -> str:
    """Text for a spreadsheet cell that cannot be taken for a formula, on one line."""
    joined = " ".join(cell.replace("\0", " ").split())
    return f"'{joined}" if joined.startswith(_FORMULA) else joined


def badges(frameworks: Sequence[Framework]) -> dict[str, str]:
    """An SVG and endpoint JSON for each adapter, by file name; of the adapter's first variant."""
    texts: dict[str, str] = {}
    template = environment().get_template("badge.svg.j2")
    for framework in frameworks:
        if not framework.modes:
            continue
        tally = framework.modes[0].tally
        label, message, colour = f"recompute {framework.name}", _message(tally), _colour(tally)
        left = round(len(label) * _LETTER + _MARGIN)
        width = left + round(len(message) * _LETTER + _MARGIN)
        file = re.sub(r"[^A-Za-z0-9_-]+", "-", framework.name)  # results may be anybody's
        texts[f"{file}.svg"] = template.render(
            label=label, message=message, colour=colour, left=left, width=width
        )
        endpoint = {"schemaVersion": 1, "label": label, "message": message, "color": colour}
        texts[f"{file}.json"] = json.dumps(endpoint) + "\n"
    return texts


def _message(tally: Tally) -> str:
    wrong = tally.outcomes[Outcome.WRONG]
    right = f"{tally.outcomes[Outcome.RIGHT]} of {tally.ran} right"
    return f"{right}, {wrong} silently wrong" if wrong else right


def _colour(tally: Tally) -> str:
    """The colour of the gravest outcome of any case."""
    occurring = {outcome for outcome, number in tally.outcomes.items() if number}
    if Outcome.BROKEN in occurring or not tally.ran:
        return "#6e7781"
    if Outcome.WRONG in occurring:
        return "#b3261e"
    return "#9a6700" if occurring & {Outcome.RAISES, Outcome.INERT, Outcome.COSTS} else "#1a7f37"
