"""Programs about one framework's own features (`adapters/<name>/programs`), judged beside the cases."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from conformance.checking.judge import Line
from conformance.drivers.adapter import Adapter, read_adapter
from conformance.errors import AdapterError
from conformance.judge.outcomes import Outcome, of_result
from conformance.model.result import Result
from conformance.model.verdict import Level, Status
from conformance.run.programs import judged, programs_of, verdicts

TOY = Path(__file__).parent / "toy_adapter"
PROGRAM = """
import numpy as np
import toy

def plain(function, x):
    return function(x)

def recomputed(function, x):
    return function(x) + 1

def run(call):
    return call(np.sin, np.ones(2))
"""


@pytest.fixture
def adapter(tmp_path: Path) -> Adapter:
    folder = tmp_path / "adapters" / "toy"
    shutil.copytree(TOY, folder)
    # A module that programs import, and no program.
    (folder / "programs" / "toy").mkdir(parents=True)
    (folder / "toy.py").rename(folder / "programs" / "toy" / "__init__.py")
    (folder / "programs" / "more.py").write_text(PROGRAM)
    return read_adapter(folder)


def add(adapter: Adapter, line: str) -> Adapter:
    file = adapter.folder / "adapter.yaml"
    file.write_text(file.read_text() + line)
    return read_adapter(adapter.folder)


def test_a_program_is_in_the_results_of_the_first_variant(adapter: Adapter) -> None:
    (program,) = programs_of(adapter)
    assert (program.id, program.variant) == ("programs/more", "plain")


def test_adapter_yaml_names_another_variant(adapter: Adapter) -> None:
    changed = add(adapter, "  other: {title: other, discipline: whole}\nprograms: {more: other}\n")
    assert [program.variant for program in programs_of(changed)] == ["other"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("programs: {mor: plain}\n", "there is no program 'mor'.*more"),
        ("programs: {more: plane}\n", "no variant 'plane'.*plain"),
    ],
)
def test_adapter_yaml_names_what_is_not_there(adapter: Adapter, line: str, message: str) -> None:
    with pytest.raises(AdapterError, match=f"(?s){message}"):
        programs_of(add(adapter, line))


def test_a_program_is_judged(adapter: Adapter, tmp_path: Path) -> None:
    (program,) = programs_of(adapter)
    result = judged(program, adapter, adapter.variant("plain"), tmp_path / "reports")
    assert result.pair == ("programs/more", "toy/plain")
    found = {verdict.check: verdict.status.value for verdict in result.verdicts}
    assert found["value"] == "fail"
    assert of_result(result) is Outcome.WRONG
    assert (tmp_path / "reports" / result.program).read_text() == PROGRAM


def test_a_program_that_cannot_be_checked_is_broken(adapter: Adapter, tmp_path: Path) -> None:
    (program,) = programs_of(adapter)
    program.file.write_text("import toy\n")
    result = judged(program, adapter, adapter.variant("plain"), tmp_path / "reports")
    assert of_result(result) is Outcome.BROKEN
    assert "has no `model`" in result.verdicts[0].message


def test_a_program_without_a_kernel_is_not_offered(adapter: Adapter, tmp_path: Path) -> None:
    changed = add(adapter, "missing: [no kernel]\n")
    (program,) = programs_of(changed)
    program.file.write_text(
        PROGRAM.replace("return call", 'raise TypeError("no kernel")\n    call')
    )
    result = judged(program, changed, changed.variant("plain"), tmp_path / "reports")
    assert of_result(result) is Outcome.NOT_OFFERED


def test_a_check_has_the_verdict_of_its_worst_line() -> None:
    found = verdicts(
        (
            Line("loss", Status.PASS, Level.MUST, "equal"),
            Line("outputs", Status.FAIL, Level.MUST, "1 of 2 differ", ("x: 1, but 2",)),
            Line("parameters", Status.FAIL, Level.MUST, "2 of 2 differ"),
            Line("time", Status.REPORT, Level.REPORT, "1.4 × plain"),
        )
    )
    assert [(v.check, v.status) for v in found] == [("error", Status.PASS), ("value", Status.FAIL)]
    assert found[1].message == "outputs: 1 of 2 differ; so 1 other: parameters"
    assert found[1].observed == "x: 1, but 2"


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        (Line("error", Status.FAIL, Level.MUST, "raised ValueError"), Outcome.RAISES),
        (Line("ran again", Status.FAIL, Level.MUST, "inert"), Outcome.INERT),
        (Line("growth", Status.FAIL, Level.SHOULD, "grows"), Outcome.COSTS),
        (Line("buffers", Status.WARN, Level.SHOULD, "differ"), Outcome.WARNS),
        (Line("error", Status.CRASHED, Level.MUST, "died"), Outcome.RAISES),
    ],
)
def test_a_line_has_the_outcome_of_its_check(line: Line, outcome: Outcome) -> None:
    result = Result("programs/x", "toy/plain", verdicts((line,)), None, None, "")
    assert of_result(result) is outcome
