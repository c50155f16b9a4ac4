"""Runs that are interrupted, killed, out of disk or side by side: what becomes of results."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from conformance import store
from conformance.exits import MEANINGS, Exit
from conformance.model.result import Results
from tests import commands, mini, unruly
from tests.test_pool import wait_for

CASES = ("--cases", str(mini.CASES))
MAIN = ("-c", "from conformance.cli import main; main()")


@pytest.fixture
def adapter(tmp_path: Path) -> str:
    return str(unruly.make(tmp_path / "unruly"))


@pytest.fixture
def run(tmp_path: Path, adapter: str) -> Callable[..., subprocess.CompletedProcess[str]]:
    return partial(commands.conformance, tmp_path, "run", "--adapter", adapter, *CASES)


@pytest.fixture
def start(tmp_path: Path, adapter: str) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a run without waiting for its end."""
    made: list[subprocess.Popen[str]] = []
    folders = tmp_path / "folders"
    folders.mkdir()

    def begin(*arguments: str, **more: object) -> subprocess.Popen[str]:
        command = [sys.executable, *MAIN, "run", "--adapter", adapter, *CASES, *arguments]
        with (tmp_path / "printed").open("w") as printed:
            process = subprocess.Popen(  # type: ignore[call-overload]
                command,
                cwd=tmp_path,
                env={**os.environ, "TMPDIR": str(folders)},
                stdout=printed,
                stderr=printed,
                text=True,
                **more,
            )
        made.append(process)
        return process

    yield begin
    for process in made:
        process.kill()
        process.wait()


def read(tmp_path: Path) -> Results:
    return store.read(file_of(tmp_path))


def variants(*names: str) -> list[str]:
    return [word for name in names for word in ("--variant", name)]


def file_of(tmp_path: Path) -> Path:
    return tmp_path / "reports" / "unruly.db"


def left_over(tmp_path: Path) -> list[str]:
    """Names of files in the reports' folder that only a run uses."""
    names = (path.name for path in (tmp_path / "reports").iterdir())
    return [name for name in names if name.endswith(("-wal", "-shm", "-journal"))]


def workers(tmp_path: Path) -> set[int]:
    """Processes that a worker of a run from `start` is or has started, by their folder."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            here = (folder / "cwd").readlink()
        except OSError:
            continue
        if here.is_relative_to(tmp_path / "folders"):
            found.add(int(folder.name))
    return found


def finished(tmp_path: Path) -> int:
    """How many pairs the newest run has stored, whether it has ended or not."""
    query = "SELECT count(outcome) FROM pair WHERE run_id = (SELECT max(id) FROM run)"
    try:
        uri = f"{file_of(tmp_path).as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=60)) as connection:
            return int(connection.execute(query).fetchone()[0])
    except sqlite3.OperationalError:  # it is not there yet, or has no tables
        return 0


def content(tmp_path: Path) -> list[object]:
    """Results without what differs from run to run."""
    found = read(tmp_path)
    parts: list[object] = [dataclasses.replace(found.header, started="", seconds={}), found.missing]
    for r in found.results:
        plain = r.observation and repr(r.observation.plain)
        parts += [(r.pair, part) for part in (*r.verdicts, r.program, repr(r.expected), plain)]
    return parts


def differences(found: list[object], wanted: list[object]) -> list[object]:
    """What differs between two contents, alone, so that a test which fails shows all of it."""
    return [(a, b) for a, b in itertools.zip_longest(found, wanted) if a != b]


# -- results are replaced by results, and by nothing else ---------------------------------------------


def test_a_selection_of_nothing_leaves_results_as_they_are(run, tmp_path):
    assert run(*variants("right")).returncode == 0
    before = content(tmp_path)
    assert run(*variants("right"), "-k", "nothing-like-it").returncode == Exit.BAD_INPUT
    assert differences(content(tmp_path), before) == []


def test_results_of_before_are_there_until_new_ones_are_whole(start, run, tmp_path):
    assert run(*variants("right"), "-k", "square").returncode == 0
    before = content(tmp_path)
    process = start(*variants("right", "endless"))
    wait_for(lambda: finished(tmp_path) == 1, 60)
    assert differences(content(tmp_path), before) == []
    process.kill()
    process.wait()
    assert differences(content(tmp_path), before) == []


# -- signals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [[], ["-n", "2"]], ids=["alone", "xdist"])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_what_is_finished_and_leaves_nothing_behind(start, tmp_path, how, more):
    # The group, as `timeout` and a terminal do it.
    process = start(*variants("right", "endless"), *more, start_new_session=True)
    wait_for(lambda: finished(tmp_path) >= 1 and workers(tmp_path), 60)
    time.sleep(0.5)
    os.killpg(process.pid, how)
    assert process.wait(120) == 128 + how, (tmp_path / "printed").read_text()
    found = read(tmp_path)
    assert len(found.results) >= 1
    said = f"{how.name} after {len(found.results)} of 10 pairs"
    assert found.header.interrupted == said
    assert found.header.selection == ""
    text = (tmp_path / "printed").read_text()
    assert f"unruly is incomplete: {said}; the same command continues it" in text
    assert "Traceback" not in text
    assert left_over(tmp_path) == []
    wait_for(lambda: not workers(tmp_path))


def test_a_signal_while_the_adapter_starts(start, tmp_path, adapter):
    with (Path(adapter) / "observe.py").open("a") as file:
        file.write("\n\nimport time\ntime.sleep(600)\n")
    process = start(*variants("right"))
    wait_for(lambda: workers(tmp_path), 60)
    process.terminate()
    assert process.wait(120) == Exit.TERMINATED
    assert "Traceback" not in (tmp_path / "printed").read_text()
    assert left_over(tmp_path) == []
    wait_for(lambda: not workers(tmp_path))


@pytest.mark.parametrize("more", [[], ["-n", "2"]], ids=["alone", "xdist"])
def test_a_killed_run_takes_its_workers_along_and_can_be_gone_on_with(start, run, tmp_path, more):
    assert run(*variants("right", "wrong", "slow"), *more).returncode == 1
    whole = content(tmp_path)
    process = start(*variants("right", "wrong", "slow"), *more)
    wait_for(lambda: 4 <= finished(tmp_path) < 15, 90)  # of the second run
    process.kill()
    process.wait()
    wait_for(lambda: not workers(tmp_path))
    number = finished(tmp_path)
    assert number < 15
    assert differences(content(tmp_path), whole) == []
    done = run(*variants("right", "wrong", "slow"), *more)
    assert f"continuing after {number} of 15 pairs" in done.stdout
    assert done.returncode == 1
    assert differences(content(tmp_path), whole) == []
    assert left_over(tmp_path) == []


def test_interrupted_again_keeps_what_the_first_run_had(start, tmp_path):
    for said in ("", "continuing after 1 of 10 pairs"):
        process = start(*variants("right", "endless"), "--time-limit", "600")
        wait_for(lambda: finished(tmp_path) == 1 and workers(tmp_path), 60)
        wait_for(lambda words=said: words in (tmp_path / "printed").read_text(), 60)
        process.terminate()
        assert process.wait(120) == Exit.TERMINATED
        assert len(read(tmp_path).results) == 1
        assert read(tmp_path).header.interrupted == "SIGTERM after 1 of 10 pairs"


def test_a_process_of_xdist_that_dies_leaves_whole_results_or_says_so(start, tmp_path):
    process = start(*variants("right", "slow"), "-n", "2")
    wait_for(lambda: finished(tmp_path) >= 1 and workers(tmp_path), 60)
    parents = {
        int(status.split("PPid:")[1].split()[0]) for status in map(_status, workers(tmp_path))
    }
    os.kill(min(parents - workers(tmp_path)), signal.SIGKILL)
    assert process.wait(60) == Exit.UNEXPECTED, (tmp_path / "printed").read_text()
    found = read(tmp_path)
    number = len(found.results)
    said = f"a process of pytest-xdist died after {number} of 10 pairs" if number < 10 else ""
    assert found.header.interrupted == said
    wait_for(lambda: not workers(tmp_path))


def _status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()


def test_going_on_runs_nothing_twice(start, run, tmp_path, adapter):
    process = start(*variants("right", "endless"))
    wait_for(lambda: finished(tmp_path) == 1 and workers(tmp_path), 60)
    process.terminate()
    assert process.wait(120) == Exit.TERMINATED
    assert read(tmp_path).header.interrupted == "SIGTERM after 1 of 10 pairs"
    # Now everything crashes: what comes out right is from before.
    file = Path(adapter, "mini.py")
    file.write_text(file.read_text().replace("soon(act", "soon_(act") + "\nos._exit(3)\n")
    done = run(*variants("right", "endless"))
    assert done.returncode == Exit.BROKEN_ADAPTER
    file.write_text(
        file.read_text().replace("\nos._exit(3)\n", "\ndef misbehave(way):\n    os._exit(3)\n")
    )
    done = run(*variants("right", "endless"))
    assert done.returncode == 1
    found = {(r.case, r.variant): r.verdicts[0].status for r in read(tmp_path).results}
    assert [pair for pair, status in found.items() if status == "pass"] == [
        ("mini/square", "unruly/right")
    ]
    assert len(found) == 10
    assert read(tmp_path).header.interrupted == ""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["-k", "square"], "had other selections: none and -k square"),
        (["--time-limit", "90"], "had other limits: seconds none and 90.0"),
        (["--fresh"], ""),
    ],
)
def test_a_run_with_other_options_begins_anew(start, run, tmp_path, more, said):
    process = start(*variants("right", "slow"))
    wait_for(lambda: finished(tmp_path) >= 1, 60)
    process.kill()
    process.wait()
    done = run(*variants("right", "slow"), *more)
    assert done.returncode == 0
    assert "continuing after" not in done.stdout
    assert said in done.stdout
    assert read(tmp_path).missing == ()
    assert left_over(tmp_path) == []


def test_a_run_of_other_cases_begins_anew(start, run, tmp_path):
    process = start(*variants("right", "endless"))
    wait_for(lambda: finished(tmp_path) == 1, 60)
    process.kill()
    process.wait()
    other = tmp_path / "other"
    other.mkdir()
    text = (mini.CASES / "mini.yaml").read_text()
    (other / "mini.yaml").write_text(text.replace("family: mini", "family: maxi"))
    done = run(*variants("right"), "--cases", str(other))
    assert done.returncode == Exit.OK
    assert "an interrupted run had other cases" in done.stdout
    assert {r.case.partition("/")[0] for r in read(tmp_path).results} == {"maxi"}


def test_an_interrupted_run_is_marked_in_report_and_compare(start, tmp_path):
    process = start(*variants("right", "endless"))
    wait_for(lambda: finished(tmp_path) == 1 and workers(tmp_path), 60)
    process.terminate()
    process.wait(120)
    said = "SIGTERM after 1 of 10 pairs"
    done = commands.conformance(tmp_path, "compare", *CASES)
    assert said in done.stderr
    done = commands.conformance(tmp_path, "report", *CASES)
    assert done.returncode == 0, done.stderr
    for name in ("report.md", "index.html"):
        assert said in (tmp_path / "reports" / name).read_text(), name


# -- what an implementation raises ----------------------------------------------------------------------

RAISED = {
    "leaves": "SystemExit in {}, but should run without an error: enough",
    "interrupts": "KeyboardInterrupt in {}, but should run without an error: ",
    "own-base": "Own in {}, but should run without an error: of a class of its own",
    "no-text": "Mute in {}, but should run without an error: "
    "(its text cannot be made: ZeroDivisionError)",
    "own-text": "Odd in {}, but should run without an error: of a string's class",
    "escapes": "ValueError in {}, but should run without an error: \\x1b[2J\\x1b]0;mine\\x07 "
    "over\\rwritten \\u202eleft \\ud800 half",
}


def test_whatever_an_implementation_raises_is_its_fault_and_can_be_known(run, tmp_path, adapter):
    chosen = [*variants(*RAISED), "-k", "square"]
    assert run(*chosen).returncode == Exit.UNEXPECTED
    found = {r.variant.partition("/")[2]: r.verdicts for r in read(tmp_path).results}
    assert set(found) == set(RAISED)
    for way, said in RAISED.items():
        (verdict,) = found[way]
        assert (verdict.check, verdict.status) == ("error", "fail"), way
        assert verdict.message in [f"raised {said.format(p)}" for p in ("forward", "backward")]
    forms = [
        {"variants": way, "shows": {"error": said.partition(" in ")[0]}}
        for way, said in RAISED.items()
    ]
    cause = {"cause": "raises", "cases": "mini/square", "says": "why", "also": forms}
    Path(adapter, "known.yaml").write_text(json.dumps([cause]))
    assert run(*chosen).returncode == Exit.OK


def test_no_escape_sequence_reaches_a_terminal_or_markdown(run, tmp_path, adapter):
    done = run(*variants("right", "escapes"), "-k", "square")
    assert done.returncode == Exit.UNEXPECTED
    printed = [done.stdout, done.stderr]
    file = file_of(tmp_path)
    # Results may be anybody's: here is what a program wrote, as it was.
    with contextlib.closing(sqlite3.connect(file)) as connection:
        hostile = "\x1b[2J over\rwritten \u202eleft"
        connection.execute("UPDATE verdict SET message = ? WHERE status = 'fail'", (hostile,))
        connection.execute("UPDATE content SET json = replace(json, 'over', '\\u001b[2J')")
        connection.commit()
    for command in (
        ["compare", *CASES],
        ["report", *CASES],
        ["compare", str(file), str(file.parent)],
        ["export"],
    ):
        done = commands.conformance(tmp_path, *command)
        assert "Traceback" not in done.stderr
        printed += [done.stdout, done.stderr]
    printed += [path.read_text() for path in (tmp_path / "reports").rglob("*.md")]
    assert any("\\x1b[2J" in words for words in printed)
    for words in printed:
        assert not set("\x1b\r\x07\u202e") & set(words), words


# -- what cannot be written -----------------------------------------------------------------------------


def limited() -> None:
    """As on a full disk: no file grows beyond this."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))


@pytest.mark.parametrize("more", [[], ["-n", "2"]], ids=["alone", "xdist"])
def test_a_full_disk_ends_a_run_with_one_message(start, run, tmp_path, more):
    chosen = variants("right", "wrong", "picky")
    process = start(*chosen, *more, preexec_fn=limited)
    assert process.wait(90) == Exit.NOT_WRITTEN, (tmp_path / "printed").read_text()
    text = (tmp_path / "printed").read_text()
    assert "Traceback" not in text
    assert text.count("cannot be written") == 1
    number = finished(tmp_path)
    assert 0 < number < 15
    done = run(*chosen)  # there is room now
    assert f"continuing after {number} of 15 pairs" in done.stdout
    assert len(read(tmp_path).results) == 15
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("place", ["/proc/nowhere", "a-file/reports"])
def test_a_folder_that_cannot_be_written_is_one_message(run, tmp_path, place):
    (tmp_path / "a-file").touch()
    done = run(*variants("right"), "--reports", place)
    assert done.returncode == Exit.NOT_WRITTEN
    assert done.stderr.count("cannot be written") == 1
    assert "Traceback" not in done.stdout + done.stderr


def test_a_report_that_cannot_be_written_is_one_message(run, tmp_path):
    assert run(*variants("right")).returncode == 0
    done = commands.conformance(tmp_path, "report", *CASES, "--output", "/proc/nowhere")
    assert done.returncode == Exit.NOT_WRITTEN
    assert done.stderr.count("cannot be written") == 1
    assert "Traceback" not in done.stderr


def test_standard_output_that_is_full_is_one_message(tmp_path):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, *MAIN, "list", *CASES], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == Exit.NOT_WRITTEN
    assert done.stderr == "error: cannot be written: No space left on device\n"


# -- limits and statuses --------------------------------------------------------------------------------


def test_limits_on_the_command_line(run, tmp_path):
    done = run(*variants("endless"), "-k", "square", "--time-limit", "1.5")
    assert done.returncode == 1
    assert "timeout: no answer within 1.5 s" in done.stdout
    assert read(tmp_path).header.limits == {"seconds": 1.5}
    done = run(*variants("hungry"), "-k", "square", "--memory-limit", "1", "--time-limit", "100")
    assert "MemoryError" in done.stdout
    assert read(tmp_path).header.limits == {"seconds": 100, "GiB": 1}


@pytest.mark.parametrize("option", ["--time-limit", "--memory-limit"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "much"])
def test_a_limit_that_is_none_is_refused(run, option, value):
    done = run(*variants("right"), option, value)
    assert done.returncode == Exit.BAD_INPUT
    assert option in done.stderr


@pytest.mark.parametrize(
    "more", [["-x"], ["-n", "2", "-x"], ["-n", "2", "--maxfail", "1"], ["--sw"]]
)
def test_stopping_at_the_first_failure_is_no_bad_input(run, tmp_path, more):
    done = run(*variants("crashing"), *more)
    assert done.returncode == Exit.UNEXPECTED
    assert read(tmp_path).header.interrupted == ""


def test_every_status_has_its_meaning_and_its_number() -> None:
    assert {code.value: code.name for code in Exit} == {
        0: "OK",
        1: "UNEXPECTED",
        2: "BAD_INPUT",
        3: "BROKEN_ADAPTER",
        4: "NOT_WRITTEN",
        130: "INTERRUPTED",
        143: "TERMINATED",
    }
    assert set(MEANINGS) == set(Exit)
    assert Exit.INTERRUPTED == 128 + signal.SIGINT
    assert Exit.TERMINATED == 128 + signal.SIGTERM


# -- what crashes or is late ----------------------------------------------------------------------------


def test_what_times_out_once_and_then_ends_counts_as_it_ended(run, tmp_path):
    done = run(*variants("late-once"), "-k", "square", "--time-limit", "2")
    assert done.returncode == Exit.OK, done.stdout
    (result,) = read(tmp_path).results
    error = next(v for v in result.verdicts if v.check == "error")
    assert error.status == "pass"
    assert error.message == (
        "ran without an error (first no answer within 2 s; "
        "this is of a second run, alone in a new process)"
    )


# -- side by side ---------------------------------------------------------------------------------------


def test_a_run_and_a_report_in_one_folder(start, run, tmp_path):
    assert run(*variants("right", "wrong")).returncode == 1
    process = start(*variants("right", "wrong"))
    problems = []
    reads = 0
    while process.poll() is None:
        try:
            assert len(read(tmp_path).results) == 10
            reads += 1
        except Exception as error:
            problems.append(repr(error))
    assert commands.conformance(tmp_path, "report", *CASES).returncode == 0
    assert problems == []
    assert reads > 1
    assert process.returncode == 1
    assert left_over(tmp_path) == []


def test_a_second_run_of_an_adapter_in_one_folder_is_refused(start, run, tmp_path):
    process = start(*variants("right", "endless"))
    wait_for(lambda: finished(tmp_path) == 1, 60)
    done = run(*variants("right"))
    assert done.returncode == Exit.BAD_INPUT
    assert "another run is writing to this file" in done.stderr
    assert finished(tmp_path) == 1
    process.terminate()
    assert process.wait(120) == Exit.TERMINATED
