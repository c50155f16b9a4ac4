"""Results as JSON lines and CSV."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from typer.testing import CliRunner

from conformance.cli.app import app
from conformance.cli.export import COLUMNS, Format, Rows, rows_text
from conformance.model.observation import Execution, Run
from conformance.model.verdict import Status
from tests.report_samples import known, stored
from tests.test_behaviours import RAN, ran, result, verdict

WRONG = verdict("gradient", Status.FAIL, '=HYPERLINK("x")\nw is "None", <b>')
PLAIN = Run(retained=96)
RECOMPUTED = Run(executions=(Execution("b", "h", "rerun", 1),), retained=32, peak=64)
RESULTS = ran(
    result(RAN, known(WRONG, "it drops w", "https://example.org/1"), run=RECOMPUTED, plain=PLAIN),
    result(verdict("error", Status.CRASHED, "died"), case="a/b"),
)


def test_a_verdict_is_a_row() -> None:
    rows = [json.loads(t) for t in rows_text(Rows.VERDICTS, [RESULTS], Format.JSONL).splitlines()]
    assert len(rows) == 3
    assert tuple(rows[1]) == COLUMNS[Rows.VERDICTS]
    assert rows[1] | {"cause": "", "message": ""} == {
        "adapter": "mini",
        "variant": "mini/right",
        "case": "captures/frozen-input",
        "check": "gradient",
        "level": "must",
        "status": "fail",
        "outcome": "silently wrong",
        "message": "",
        "cause": "",
        "kind": "",
        "reason": "it drops w",
        "instead": "",
        "url": "https://example.org/1",
        "seconds": 0.0,
    }
    assert (rows[2]["outcome"], rows[2]["seconds"]) == ("raises", None)


def test_a_number_is_a_row() -> None:
    rows = list(csv.reader(io.StringIO(rows_text(Rows.NUMBERS, [RESULTS], Format.CSV))))
    assert tuple(rows[0]) == COLUMNS[Rows.NUMBERS]
    assert [row[3:] for row in rows[1:]] == [
        ["plain", "retained bytes", "", "", "", "96"],
        ["recomputed", "executions", "b", "h", "rerun", "1"],
        ["recomputed", "retained bytes", "", "", "", "32"],
        ["recomputed", "peak bytes", "", "", "", "64"],
    ]


def test_no_cell_is_a_formula() -> None:
    rows = list(csv.reader(io.StringIO(rows_text(Rows.VERDICTS, [RESULTS], Format.CSV))))
    assert rows[2][7] == '\'=HYPERLINK("x") w is "None", <b>'


def test_the_command_writes_to_standard_output_or_a_file(tmp_path: Path) -> None:
    stored(tmp_path / "mini.db", RESULTS)
    place = ["--reports", str(tmp_path), "--format", "csv"]
    printed = CliRunner().invoke(app, ["export", *place])
    assert printed.stdout.startswith("adapter,variant,case,check,")
    file = tmp_path / "numbers.csv"
    done = CliRunner().invoke(app, ["export", "numbers", *place, "--output", str(file)])
    assert done.exit_code == 0
    assert file.read_text("utf-8") == rows_text(Rows.NUMBERS, [RESULTS], Format.CSV)
