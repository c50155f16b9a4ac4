"""How long a run still takes: from recorded seconds, scaled by what the finished have taken."""

from __future__ import annotations

import subprocess
import sys

import pytest

from conformance.run.remaining import Remaining, in_words

CASES = [(f"case-{i}", "m/a") for i in range(100)]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_recorded_seconds_tell_before_anything_has_run(clock) -> None:
    planned = dict.fromkeys(CASES, 2.0)
    assert Remaining(planned, recorded=True, clock=clock).words() == "about 3 min left"
    two = Remaining(planned, recorded=True, at_once=2, clock=clock)
    assert two.seconds() == pytest.approx(100)


@pytest.mark.parametrize("speed", [0.25, 1.0, 4.0])
def test_the_finished_tell_how_fast_a_machine_is(clock, speed) -> None:
    planned = {pair: 1.0 + i % 7 for i, pair in enumerate(CASES)}
    left = Remaining(planned, recorded=True, clock=clock)
    for pair in CASES[:60]:
        clock.now += planned[pair] * speed
        left.finish(pair)
        left.finish(pair)  # its other checks
    real = sum(planned[pair] for pair in CASES[60:]) * speed
    assert left.seconds() == pytest.approx(real, rel=0.25)


def test_long_cases_that_come_last_are_counted(clock) -> None:
    planned = dict.fromkeys(CASES, 0.1) | {CASES[-1]: 300.0}
    left = Remaining(planned, recorded=True, clock=clock)
    for pair in CASES[:-1]:
        clock.now += 0.1
        left.finish(pair)
    assert left.words() == "about 5 min left"


def test_what_comes_before_the_first_verdict_is_not_held_against_the_rest(clock) -> None:
    left = Remaining(dict.fromkeys(CASES, 1.0), recorded=True, clock=clock)
    clock.now += 1000
    left.finish(CASES[0])
    assert left.seconds() == pytest.approx(99)


def test_nothing_recorded_counts(clock) -> None:
    left = Remaining(dict.fromkeys(CASES, 1.0), recorded=False, clock=clock)
    for pair in CASES[:2]:
        assert left.words() == ""
        clock.now += 3
        left.finish(pair)
    clock.now += 3
    left.finish(CASES[2])
    assert left.seconds() == pytest.approx(97 * 3)


def test_time_goes_on_between_two_verdicts(clock) -> None:
    left = Remaining(dict.fromkeys(CASES, 1.0), recorded=True, clock=clock)
    clock.now += 30
    assert left.seconds() == pytest.approx(70)
    clock.now += 300
    assert left.seconds() == 0


def test_the_end(clock) -> None:
    left = Remaining(dict.fromkeys(CASES, 1.0), recorded=True, clock=clock)
    for pair in CASES:
        clock.now += 1
        left.finish(pair)
    assert left.seconds() == 0
    assert Remaining({}, recorded=True, clock=clock).seconds() == 0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "a few seconds"),
        (42, "about 40 s"),
        (94, "about 90 s"),
        (240, "about 4 min"),
        (6030, "about 1 h 40 min"),
        (7500, "about 2 h 05 min"),
    ],
)
def test_words(seconds, words) -> None:
    assert in_words(seconds) == words


def test_the_bar_moves_while_pytest_captures_what_an_item_prints(tmp_path) -> None:
    captured = tmp_path / "captured"
    program = f"""
import os
from conformance.cli.progress import Progress

progress = Progress()
os.dup2(os.open({str(captured)!r}, os.O_WRONLY | os.O_CREAT), 2)
progress.console.print("1 of 6 checks")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr == "1 of 6 checks\n"
    assert captured.read_bytes() == b""
