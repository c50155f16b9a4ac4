"""Running a case on a variant: what is not run, what is not judged, and what is."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.emit.programs import EmitFailure, program_path, write_programs
from conformance.judge.known import read
from conformance.model.observation import ErrorSeen
from conformance.model.result import STAGES
from conformance.model.verdict import Level, Status, Verdict
from conformance.run import runner as module
from conformance.run.runner import Runner, checks_of, complete, verdicts_on
from tests import mini
from tests.evidence import (
    EXPECTED,
    FORWARD,
    GRADIENTS,
    OUTPUTS,
    PLAIN,
    RERUN,
    SEEN,
    array,
    evidence,
    executions,
    leaf,
)


def made_in(folder: Path) -> Runner:
    adapter = mini.adapter()
    return Runner(adapter, mini.paths(folder), folder / "mini.log", read(adapter.known))


@pytest.fixture
def runner(tmp_path):
    made = made_in(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A runner that tests share which only ask it for results: its worker need not start for each."""
    made = made_in(tmp_path_factory.mktemp("running"))
    yield made
    made.close()


def verdicts(runner: Runner, variant: str, case: str = "square") -> dict[str, Verdict]:
    found = runner.run(mini.case(case), mini.variant(variant))
    return {verdict.check: verdict for verdict in found.verdicts}


def test_conforming_variant_passes_everything_that_can_be_seen(running):
    for case in ("square", "chain[length=2]", "by-name", "twice"):
        found = verdicts(running, "right", case)
        assert set(found) == set(checks_of(mini.case(case)))
        seen = {check: verdict.status for check, verdict in found.items()}
        assert seen.pop("retained memory") is Status.UNSUPPORTED
        assert set(seen.values()) == {Status.PASS}
        assert {"error", "value", "gradient", "executions"} <= set(seen)


def test_wrong_gradient_fails_the_check_of_gradients_alone(running):
    found = verdicts(running, "wrong")
    failed = [check for check, verdict in found.items() if verdict.status is Status.FAIL]
    assert failed == ["gradient"]


def test_result_carries_its_evidence(running):
    found = running.run(mini.case("square"), mini.variant("wrong"))
    assert (found.case, found.variant) == ("mini/square", "mini/wrong")
    assert found.observation is not None
    assert found.expected is not None
    assert found.expected.executions["square", "", "rerun"].counts == (1,)
    assert found.program == "programs/mini/wrong/mini/square.py"
    assert [v.check for v in found.verdicts if v.known] == ["gradient"]


@pytest.mark.parametrize(
    ("variant", "status", "words"),
    [
        ("crashing", Status.CRASHED, "SIGSEGV"),
        ("hanging", Status.TIMEOUT, "3 s"),
        ("hungry", Status.FAIL, "MemoryError"),
        ("raising", Status.BROKEN, "OddError"),
        ("older", Status.UNSUPPORTED, "mini/older lacks the option `keep`"),
        ("plain-raising", Status.BROKEN, "OSError: no device"),
    ],
)
def test_run_that_does_not_finish_has_one_verdict(running, variant, status, words):
    found = verdicts(running, variant)
    assert list(found) == ["error"]
    assert found["error"].status is status
    assert words in found["error"].message


def test_what_the_plain_program_raises_is_no_fault_where_the_case_allows_it(running):
    case = replace(mini.case("square"), as_plain=True)
    found = {v.check: v for v in running.run(case, mini.variant("plain-raising")).verdicts}
    assert set(found) == set(checks_of(case))
    assert found["error"].message == "ran without an error, but the plain program raised OSError"
    passed = {check for check, verdict in found.items() if verdict.status is Status.PASS}
    assert passed == {"error", "value", "gradient", "executions"}


def test_lacked_capability_is_not_run(runner, tmp_path):
    found = verdicts(runner, "picky", "twice")
    assert list(found) == ["error"]
    assert found["error"].status is Status.UNSUPPORTED
    assert "repeated-call (a region is called once)" in found["error"].message
    assert not (tmp_path / "programs").exists()


def test_refused_capability_is_seen_to_be_refused(running):
    found = running.run(mini.case("by-name"), mini.variant("picky"))
    (verdict,) = found.verdicts
    assert verdict.status is Status.UNSUPPORTED
    assert "ValueError: recompute takes no keyword arguments" in verdict.message
    assert found.observation is not None


def changed_refusal(name: str, **changes: str):
    variant = mini.variant(name)
    given = {"kwargs": {"raises": "ValueError", "match": "takes no keyword"} | changes}
    model = type(variant.model).model_validate(variant.model.model_dump() | {"refuses": given})
    return replace(variant, model=model)


@pytest.mark.parametrize("changes", [{"raises": "TypeError"}, {"match": "something else"}])
def test_another_error_than_the_declared_one_is_judged(running, changes):
    found = running.run(mini.case("by-name"), changed_refusal("picky", **changes))
    (verdict,) = found.verdicts
    assert (verdict.check, verdict.status) == ("error", Status.FAIL)


def test_base_class_of_the_declared_error_will_do(running):
    found = running.run(mini.case("by-name"), changed_refusal("picky", raises="Exception"))
    assert found.verdicts[0].status is Status.UNSUPPORTED


def test_refusal_that_does_not_happen_is_judged(running):
    found = running.run(mini.case("by-name"), changed_refusal("right"))
    statuses = {verdict.check: verdict.status for verdict in found.verdicts}
    assert statuses["gradient"] is Status.PASS


def test_exception_while_judging_is_broken(running, monkeypatch):
    def fail(*_: object) -> None:
        raise ZeroDivisionError("in a check")

    monkeypatch.setattr(module, "judge", fail)
    found = verdicts(running, "right")
    assert found["error"].status is Status.BROKEN
    assert "ZeroDivisionError: in a check" in found["error"].message
    assert "Traceback" in found["error"].observed


def test_what_the_framework_lacks_is_unsupported(running, monkeypatch):
    def fail(*_: object) -> tuple[Verdict, ...]:
        message = "gradient with respect to x of the plain run is of shape (3,)"
        return (Verdict("gradient", Status.BROKEN, Level.MUST, message),)

    monkeypatch.setattr(module, "judge", fail)
    assert verdicts(running, "right")["gradient"].status is Status.BROKEN
    lacking = replace(mini.variant("right"), missing=("of the plain run is of shape (3,)",))
    (found,) = running.run(mini.case("square"), lacking).verdicts
    assert found.status is Status.UNSUPPORTED
    assert "lacks what the program needs, without recompute too: gradient" in found.message


def test_check_without_a_verdict_is_broken():
    case = mini.case("square")
    passed = Verdict("error", Status.PASS, Level.MUST, "ran without an error")
    found = {v.check: v.status for v in complete(case, (passed,))}
    assert found["error"] is Status.PASS
    assert found["gradient"] is Status.BROKEN
    assert set(found) == set(checks_of(case))


def test_verdict_that_nobody_asked_for_is_broken():
    case = mini.case("square")
    every = [Verdict(name, Status.PASS, Level.MUST, "") for name in checks_of(case)]
    odd = Verdict("colour", Status.PASS, Level.MUST, "blue")
    found = complete(case, (*every, odd))
    assert found[-1].status is Status.BROKEN
    assert "colour" in found[-1].message
    assert complete(case, tuple(every)) == tuple(every)


def test_an_emitter_that_raises_is_broken_and_spares_the_others(runner, tmp_path):
    emitter = runner.adapter.load("emitter")
    pairs = [
        (mini.case("square"), mini.variant("right")),
        (mini.case("twice"), mini.variant("right")),
    ]
    original = emitter.WORDS
    emitter.WORDS = replace(original, operations={**original.operations, "sin": "1 +"})
    try:
        case = mini.case("chain[length=2]")
        written = write_programs(runner.adapter, [*pairs, (case, mini.variant("right"))], tmp_path)
        assert all(isinstance(found, EmitFailure) for found in written.values())
        emitter.WORDS = replace(original, operations={**original.operations, "sin": "{y}"})
        found = verdicts(runner, "right")
        assert found["error"].status is Status.BROKEN
        assert "cannot write the program: KeyError: 'y'" in found["error"].message
    finally:
        emitter.WORDS = original
    written = write_programs(runner.adapter, pairs, tmp_path)
    assert not any(isinstance(found, EmitFailure) for found in written.values())


def test_an_operation_that_is_not_emitted_is_unsupported(runner, monkeypatch):
    emitter = runner.adapter.load("emitter")
    kept = {"multiply": emitter.WORDS.operations["multiply"]}
    monkeypatch.setattr(emitter, "WORDS", replace(emitter.WORDS, operations=kept))
    found = verdicts(runner, "right")
    assert [*found] == ["error"]
    assert found["error"].status is Status.UNSUPPORTED
    assert found["error"].message == "mini/right: the adapter does not write the operation sin"


def test_what_a_case_asks_for_and_is_not_written_is_broken(runner, monkeypatch):
    emitter = runner.adapter.load("emitter")
    monkeypatch.setattr(emitter, "WORDS", replace(emitter.WORDS, procedures_written=()))
    found = verdicts(runner, "right")
    assert found["error"].status is Status.BROKEN
    assert "not written for mini/right: procedure backward" in found["error"].message


def test_one_invalid_program_does_not_spoil_the_batch(runner, tmp_path, monkeypatch):
    emitter = runner.adapter.load("emitter")

    def tensor(self, array, source):
        return "1 +" if self.case.id == "mini/twice" else f"mini.Tensor({source})"

    monkeypatch.setattr(emitter.MiniTensors, "tensor", tensor)
    names = ("square", "twice", "by-name")
    pairs = [(mini.case(name), mini.variant("right")) for name in names]
    written = write_programs(runner.adapter, pairs, tmp_path)
    failed = [key[0] for key, found in written.items() if isinstance(found, EmitFailure)]
    assert failed == ["mini/twice"]


def test_program_runs_alone(runner, tmp_path):
    runner.emit([(mini.case("chain[length=4]"), mini.variant("right"))])
    file = tmp_path / "programs/mini/right/mini/chain__length-4.py"
    assert (file.parent / "mini.py").is_file()
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=60, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    assert "recomputed" in done.stdout


@pytest.mark.parametrize(
    ("case", "path"),
    [
        ("a/b", "a/b.py"),
        ("a/b[depth=4]", "a/b__depth-4.py"),
        ("a/b[depth=4,dtype=bfloat16]", "a/b__depth-4__dtype-bfloat16.py"),
        ("a/b[scale=-0.5,name=x/y z]", "a/b__scale--0.5__name-x_y_z.py"),
        ("a/random", "a/random_.py"),
        ("a/torch", "a/torch_.py"),
    ],
)
def test_program_paths(case, path):
    assert program_path(case, "torch/reentrant") == Path("programs/torch/reentrant", path)


def test_seconds_are_split_by_stage(runner):
    runner.start([mini.variant("right")])
    verdicts(runner, "right")
    assert set(runner.seconds) == set(STAGES)
    assert all(seconds > 0 for seconds in runner.seconds.values())


def test_case_that_quotes_a_wrong_number_is_broken(running):
    wrong = replace(mini.case("square"), printed_gradients={"x": [1.0, 2.0, 3.0]})
    (verdict,) = running.run(wrong, mini.variant("right")).verdicts
    assert (verdict.check, verdict.status) == ("error", Status.BROKEN)
    assert "the case quotes what the reference contradicts: gradient of x is" in verdict.message


DIFFERING = replace(PLAIN, differs="nobody promises anything here")


@pytest.mark.parametrize(
    ("seen", "check", "status"),
    [
        ({"gradients": {**GRADIENTS, "x": array(3, 4)}}, "gradient", Status.FAIL),
        ({"gradients": {**GRADIENTS, "x": None}}, "gradient", Status.FAIL),
        ({"outputs": (leaf([3, 7]), OUTPUTS[1])}, "value", Status.FAIL),
        (
            {"executions": executions({**FORWARD, **RERUN, "block.h rerun": 2})},
            "executions",
            Status.REPORT,
        ),
        ({"state": {"count": array(2, 2)}}, "state", Status.REPORT),
        ({"error": ErrorSeen("ValueError", (), "changed", "backward")}, "error", Status.REPORT),
    ],
)
def test_where_implementations_differ_wrong_numbers_fail_and_nothing_else(
    seen: dict[str, Any], check: str, status: Status
) -> None:
    made = evidence(DIFFERING, recomputed=replace(SEEN, **seen))
    found = verdicts_on(DIFFERING, made.variant, lambda _: EXPECTED, made.observation)
    assert {v.check: v.status for v in found}[check] is status
    assert [v.check for v in found if v.status.deviates] == (
        [check] if status is Status.FAIL else []
    )
