"""Recorded seconds: read, guessed where there are none, and taken from results."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from conformance.drivers.adapter import all_adapters
from conformance.errors import AdapterError
from conformance.model.observation import Observation, Run
from conformance.model.verdict import Level, Status, Verdict
from conformance.paths import find_paths
from conformance.results import Result, recorded
from conformance.results.recorded import Recorded


def result(case: str, variant: str, seconds: float | None) -> Result:
    seen = None if seconds is None else Observation(Run(), Run(), seconds=seconds)
    return Result(case, variant, (), seen, None, "")


def test_what_is_not_recorded_is_guessed_from_the_nearest() -> None:
    found = Recorded({"a": {"x": 1.0, "y": 3.0, "z": 100.0}, "b": {"x": 0.5}})
    assert found.seconds("x", "torch/a") == 1.0
    assert found.seconds("x", "a") == 1.0
    assert found.seconds("new", "a") == 3.0  # the variant's median
    assert found.seconds("new", "c") == 2.0  # the adapter's
    assert Recorded().seconds("x", "a") == recorded.GUESS
    assert found.get("new", "a") is None
    assert found
    assert not Recorded({"a": {}})


def test_seconds_of_a_run() -> None:
    timeout = Verdict("error", Status.TIMEOUT, Level.MUST, "no answer within 9 s")
    crash = Verdict("error", Status.CRASHED, Level.MUST, "the process died of SIGSEGV")
    found = recorded.from_results(
        [
            result("x", "m/a", 1.5),
            replace(result("y", "m/a", None), verdicts=(timeout,)),
            replace(result("z", "m/a", None), verdicts=(crash,)),
        ],
        time_limit=9.0,
    )
    assert found.variants == {"a": {"x": 1.5, "y": 9.0}}


def test_a_run_of_some_keeps_the_others_and_forgets_what_is_gone() -> None:
    old = Recorded({"a": {"x": 1.0, "y": 2.0, "gone": 3.0}, "b": {"x": 4.0}, "gone": {"x": 5.0}})
    new = Recorded({"a": {"x": 10.0}})
    found = recorded.updated(old, new, ["x", "y"], ["a", "b"])
    assert found.variants == {"a": {"x": 10.0, "y": 2.0}, "b": {"x": 4.0}}


def test_written_and_read_again(tmp_path) -> None:
    file = recorded.write(tmp_path, Recorded({"b": {"x": 0.012345}, "a": {"y": 123.4, "x": 1.0}}))
    assert recorded.read(tmp_path).variants == {"a": {"x": 1.0, "y": 120.0}, "b": {"x": 0.012}}
    assert '  "y": [120.0, null]\n' in file.read_text()
    assert recorded.read(tmp_path / "nowhere") == Recorded()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"variants": ["a"], "cases": {"x": [1.0, 2.0]}}',
        '{"variants": ["a"], "cases": {"x": [-1.0]}}',
        '{"variants": ["a"], "cases": {"x": ["1"]}}',
        '{"variants": ["a"], "cases": {"x": [NaN]}}',
        '{"variants": ["a"]}',
    ],
)
def test_malformed_is_one_message(tmp_path, text) -> None:
    (tmp_path / recorded.FILE).write_text(text)
    with pytest.raises(AdapterError, match=r"recorded\.json: .*\n  hint: delete it"):
        recorded.read(tmp_path)


def test_those_of_the_suite_speak_of_variants_that_there_are() -> None:
    for adapter in all_adapters(find_paths().adapters):
        found = recorded.read(adapter.folder)
        assert set(found.variants) <= set(adapter.model.variants)
        file = adapter.folder / recorded.FILE
        if found:
            assert list(json.loads(file.read_text())["cases"]) == sorted(
                {case for times in found.variants.values() for case in times}
            )
