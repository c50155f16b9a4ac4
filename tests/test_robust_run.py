"""Runs that are interrupted, killed, out of disk or side by side: what becomes of results."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from conformance import results
from conformance.exits import MEANINGS, Exit
from conformance.language.load import load_folder
from conformance.results import Results, beside
from tests import commands, mini, unruly
from tests.test_pool import wait_for
from tests.test_process import alive

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

    def begin(*arguments: str, **more: object) -> subprocess.Popen[str]:
        command = [sys.executable, *MAIN, "run", "--adapter", adapter, *CASES, *arguments]
        with (tmp_path / "printed").open("w") as printed:
            process = subprocess.Popen(  # type: ignore[call-overload]
                command, cwd=tmp_path, stdout=printed, stderr=printed, text=True, **more
            )
        made.append(process)
        return process

    yield begin
    for process in made:
        process.kill()
        process.wait()


def read(tmp_path: Path) -> Results:
    return results.read(tmp_path / "reports" / "unruly.jsonl")


def variants(*names: str) -> list[str]:
    return [word for name in names for word in ("--variant", name)]


def left_over(tmp_path: Path) -> list[str]:
    """Names of folders and files in the reports' folder that only a run uses."""
    names = (path.name for path in (tmp_path / "reports").iterdir())
    return [name for name in names if name.startswith(".") and name != ".pytest_cache"]


def workers() -> set[int]:
    """Processes that a worker of the adapter is or has started, by their folder."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            here = (folder / "cwd").readlink().name
        except OSError:
            continue
        if here.startswith("conformance-unruly-"):
            found.add(int(folder.name))
    return found


def finished(tmp_path: Path) -> int:
    """How many results stand in the partial results of a run."""
    indices = (tmp_path / "reports").glob(".partial-*/unruly/*.index")
    return sum(file.read_bytes().count(b"\n") for file in indices)


def content(tmp_path: Path) -> tuple[list[str], bytes]:
    """The lines of a results file without what differs from run to run, and its arrays."""
    file = tmp_path / "reports" / "unruly.jsonl"
    header, *lines, footer = map(json.loads, file.read_text().splitlines())
    for line in (header, *lines, footer):
        for name in ("started", "seconds"):
            line.pop(name, None)
    return [json.dumps(x) for x in (header, *lines, footer)], beside(file).read_bytes()


# -- results are replaced by results, and by nothing else ---------------------------------------------


def test_a_selection_of_nothing_leaves_results_as_they_are(run, tmp_path):
    assert run(*variants("right")).returncode == 0
    before = content(tmp_path)
    assert run(*variants("right"), "-k", "nothing-like-it").returncode == Exit.BAD_INPUT
    assert content(tmp_path) == before


def test_results_of_before_are_there_until_new_ones_are_whole(start, run, tmp_path):
    assert run(*variants("right"), "-k", "square").returncode == 0
    before = content(tmp_path)
    process = start(*variants("right", "endless"))
    wait_for(lambda: finished(tmp_path) == 1, 60)
    assert content(tmp_path) == before
    process.kill()
    process.wait()
    assert content(tmp_path) == before


# -- signals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [[], ["-n", "2"]], ids=["alone", "xdist"])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_what_is_finished_and_leaves_nothing_behind(start, tmp_path, how, more):
    # The group, as `timeout` and a terminal do it.
    process = start(*variants("right", "endless"), *more, start_new_session=True)
    wait_for(lambda: finished(tmp_path) >= 1 and workers(), 60)
    time.sleep(0.5)
    os.killpg(process.pid, how)
    assert process.wait(30) == 128 + how, (tmp_path / "printed").read_text()
    found = read(tmp_path)
    assert len(found.results) >= 1
    said = f"{how.name} after {len(found.results)} of 10 results"
    assert found.header.interrupted == said
    assert found.header.selection == ""
    text = (tmp_path / "printed").read_text()
    assert f"unruly is not whole: {said}; --resume goes on" in text
    assert "Traceback" not in text
    assert left_over(tmp_path) == []
    wait_for(lambda: not workers())


def test_a_signal_while_the_adapter_starts(start, tmp_path, adapter):
    with (Path(adapter) / "observe.py").open("a") as file:
        file.write("\n\nimport time\ntime.sleep(600)\n")
    process = start(*variants("right"))
    wait_for(workers, 60)
    process.terminate()
    assert process.wait(30) == Exit.TERMINATED
    assert "Traceback" not in (tmp_path / "printed").read_text()
    assert left_over(tmp_path) == []
    wait_for(lambda: not workers())


@pytest.mark.parametrize("more", [[], ["-n", "2"]], ids=["alone", "xdist"])
def test_a_killed_run_takes_its_workers_along_and_can_be_gone_on_with(start, run, tmp_path, more):
    assert run(*variants("right", "wrong", "slow"), *more).returncode == 1
    whole = content(tmp_path)
    process = start(*variants("right", "wrong", "slow"), *more)
    wait_for(lambda: finished(tmp_path) >= 4, 90)
    process.kill()
    process.wait()
    wait_for(lambda: not workers())
    number = finished(tmp_path)
    assert number < 15
    assert content(tmp_path) == whole
    (tmp_path / "reports" / "unruly.jsonl").unlink()
    done = run(*variants("right", "wrong", "slow"), *more, "--resume")
    assert f"going on after {number} results" in done.stdout
    assert done.returncode == 1
    assert content(tmp_path) == whole
    assert left_over(tmp_path) == []


def test_interrupted_again_keeps_what_the_first_run_had(start, run, tmp_path):
    chosen = [*variants("right", "endless"), "--time-limit", "600"]
    process = start(*variants("right"), "-x", "--time-limit", "600")
    assert process.wait(60) == 0
    file = tmp_path / "reports" / "unruly.jsonl"
    file.write_text(file.read_text().replace('"interrupted":""', '"interrupted":"so it says"', 1))
    process = start(*chosen, "--resume")
    wait_for(lambda: finished(tmp_path) == 1 and workers(), 60)
    process.terminate()
    assert process.wait(30) == Exit.TERMINATED
    assert [r.case for r in read(tmp_path).results] == [c.id for c in load_folder(mini.CASES)]
    assert read(tmp_path).header.interrupted == "SIGTERM after 5 of 10 results"


def test_going_on_with_less_keeps_the_rest(start, run, tmp_path):
    process = start(*variants("right", "slow"))
    wait_for(lambda: finished(tmp_path) >= 3, 60)
    process.kill()
    process.wait()
    number = finished(tmp_path)
    assert run(*variants("right"), "-k", "square", "--resume").returncode == 0
    assert finished(tmp_path) == number


def test_a_process_of_xdist_that_dies_leaves_whole_results_or_says_so(start, tmp_path):
    process = start(*variants("right", "slow"), "-n", "2")
    wait_for(lambda: finished(tmp_path) >= 1 and workers(), 60)
    parents = {int(status.split("PPid:")[1].split()[0]) for status in map(_status, workers())}
    os.kill(min(parents - workers()), signal.SIGKILL)
    assert process.wait(60) == Exit.UNEXPECTED, (tmp_path / "printed").read_text()
    found = read(tmp_path)
    number = len(found.results)
    said = f"a process of pytest-xdist died after {number} of 10 results" if number < 10 else ""
    assert found.header.interrupted == said
    wait_for(lambda: not workers())


def _status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()


def test_going_on_runs_nothing_twice(start, run, tmp_path, adapter):
    process = start(*variants("right", "endless"))
    wait_for(lambda: finished(tmp_path) == 1 and workers(), 60)
    process.terminate()
    assert process.wait(30) == Exit.TERMINATED
    assert read(tmp_path).header.interrupted == "SIGTERM after 1 of 10 results"
    # Now everything crashes: what comes out right is from before.
    file = Path(adapter, "mini.py")
    file.write_text(file.read_text().replace("soon(act", "soon_(act") + "\nos._exit(3)\n")
    done = run(*variants("right", "endless"), "--resume")
    assert done.returncode == Exit.BROKEN_ADAPTER
    file.write_text(
        file.read_text().replace("\nos._exit(3)\n", "\ndef misbehave(way):\n    os._exit(3)\n")
    )
    done = run(*variants("right", "endless"), "--resume")
    assert done.returncode == 1
    found = {(r.case, r.variant): r.verdicts[0].status for r in read(tmp_path).results}
    assert [pair for pair, status in found.items() if status == "pass"] == [
        ("mini/square", "unruly/right")
    ]
    assert len(found) == 10
    assert read(tmp_path).header.interrupted == ""


def test_going_on_with_another_selection_takes_what_fits(start, run, tmp_path):
    process = start(*variants("right", "endless"), "-k", "gradient")
    wait_for(lambda: finished(tmp_path) == 1, 60)
    process.kill()
    process.wait()
    done = run(*variants("right"), "--resume")
    assert done.returncode == 0
    assert all(len(r.verdicts) > 1 for r in read(tmp_path).results)


def test_going_on_with_other_cases_is_refused(start, run, tmp_path):
    process = start(*variants("right", "endless"))
    wait_for(lambda: finished(tmp_path) == 1, 60)
    process.kill()
    process.wait()
    other = tmp_path / "other"
    other.mkdir()
    text = (mini.CASES / "mini.yaml").read_text()
    (other / "mini.yaml").write_text(text.replace("family: mini", "family: maxi"))
    done = run(*variants("right"), "--resume", "--cases", str(other))
    assert done.returncode == Exit.BAD_INPUT
    assert "the run that was cut off had other cases" in done.stderr
    assert "run again without --resume" in done.stderr
    assert finished(tmp_path) == 1


def test_a_run_says_that_one_before_was_cut_off_and_replaces_it(start, run, tmp_path):
    process = start(*variants("right", "endless"))
    wait_for(lambda: finished(tmp_path) == 1, 60)
    process.kill()
    process.wait()
    assert "an earlier run was cut off" in run(*variants("right"), "-k", "square").stdout
    assert finished(tmp_path) == 1  # that was a part only
    assert run(*variants("right")).returncode == 0
    assert left_over(tmp_path) == []


def test_nothing_to_go_on_from(run, tmp_path):
    done = run(*variants("right"), "--resume")
    assert done.returncode == 0
    assert "going on after 0 results" in done.stdout
    assert len(read(tmp_path).results) == 5


def test_an_interrupted_run_is_marked_in_report_and_compare(start, tmp_path):
    process = start(*variants("right", "endless"))
    wait_for(lambda: finished(tmp_path) == 1 and workers(), 60)
    process.terminate()
    process.wait(30)
    said = "SIGTERM after 1 of 10 results"
    done = commands.conformance(tmp_path, "compare", *CASES)
    assert said in done.stderr
    done = commands.conformance(tmp_path, "report", *CASES)
    assert done.returncode == 0, done.stderr
    for name in ("report.md", "index.html"):
        assert said in (tmp_path / "reports" / name).read_text(), name


# -- what an implementation raises ----------------------------------------------------------------------

RAISED = {
    "leaves": "SystemExit in {}, but should run to its end: enough",
    "interrupts": "KeyboardInterrupt in {}, but should run to its end: ",
    "own-base": "Own in {}, but should run to its end: of a class of its own",
    "no-text": "Mute in {}, but should run to its end: "
    "(its text cannot be made: ZeroDivisionError)",
    "own-text": "Odd in {}, but should run to its end: of a string's class",
    "escapes": "ValueError in {}, but should run to its end: \\x1b[2J\\x1b]0;mine\\x07 over\\rwritten "
    "\\u202eleft \\ud800 half",
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
    entries = [
        {
            "case": "mini/square",
            "variant": way,
            "check": "error",
            "observed": words,
            "cause": "raises",
            "reason": "why",
        }
        for way, said in RAISED.items()
        for words in [said.partition(" in ")[0]]
    ]
    Path(adapter, "known.yaml").write_text(json.dumps(entries))
    assert run(*chosen).returncode == Exit.OK


def test_no_escape_sequence_reaches_a_terminal_or_markdown(run, tmp_path, adapter):
    done = run(*variants("right", "escapes"), "-k", "square")
    assert done.returncode == Exit.UNEXPECTED
    printed = [done.stdout, done.stderr]
    file = tmp_path / "reports" / "unruly.jsonl"
    # Results may be anybody's: here is what a program wrote, as it was.
    text = file.read_text().replace("\\\\x1b", "\\u001b").replace("\\\\r", "\\r")
    file.write_text(text.replace("\\\\u202e", "\u202e"))
    assert "\\u001b[2J" in file.read_text()
    for command in (
        ["compare", *CASES],
        ["report", *CASES],
        ["compare", str(file), str(file.parent)],
        ["behaviours"],
        ["bug", "unruly/escapes", "mini/square", "--no-run", *CASES],
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
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))


@pytest.mark.parametrize("more", [[], ["-n", "2"]], ids=["alone", "xdist"])
def test_a_full_disk_ends_a_run_with_one_message(start, run, tmp_path, more):
    assert run(*variants("right"), "-k", "square").returncode == 0
    before = content(tmp_path)
    process = start(*variants("right", "wrong", "picky"), *more, preexec_fn=limited)
    assert process.wait(90) == Exit.NOT_WRITTEN, (tmp_path / "printed").read_text()
    text = (tmp_path / "printed").read_text()
    assert "Traceback" not in text
    assert text.count("cannot be written: File too large") == 1
    assert "--resume" in text
    # What is finished may be too much for a file of results, too.
    number = finished(tmp_path)
    if number:
        assert content(tmp_path) == before
    else:
        number = len(read(tmp_path).results)
        said = f"results could not be written after {number} of 15 results"
        assert read(tmp_path).header.interrupted == said
    assert 0 < number < 15
    done = run(*variants("right", "wrong", "picky"), "--resume")  # there is room now
    assert f"going on after {number} results" in done.stdout
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
    for command in (["report", *CASES], ["behaviours"]):
        done = commands.conformance(tmp_path, *command, "--output", "/proc/nowhere")
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


def test_a_program_path_with_nul_is_one_message(run, tmp_path):
    assert run(*variants("right"), "-k", "square").returncode == 0
    file = tmp_path / "reports" / "unruly.jsonl"
    file.write_text(file.read_text().replace("programs/unruly", "programs\\u0000unruly"))
    done = commands.conformance(tmp_path, "report", *CASES)
    assert done.returncode == Exit.BAD_INPUT
    assert "mini/square on unruly/right: program 'programs\\x00unruly" in done.stderr
    assert "Traceback" not in done.stderr


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


# -- several rounds -------------------------------------------------------------------------------------


def test_rounds_that_differ_are_told_apart(run, tmp_path):
    done = run(*variants("right", "flaky"), "-k", "square", "--repeat", "4")
    assert done.returncode == Exit.UNEXPECTED, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:5] == [
        "round 1 of 4: nothing unexpected",
        "round 2 of 4: unexpected verdicts",
        "round 3 of 4: nothing unexpected",
        "round 4 of 4: unexpected verdicts",
        "mini/square[unruly/flaky]",
    ]
    assert "  error: verdict: pass in rounds 1, 3; fail in rounds 2, 4" in lines
    error = "None in rounds 1, 3; RuntimeError: every second time in rounds 2, 4"
    assert f"  error: recomputed error: {error}" in lines
    assert not any("right" in found for found in lines)
    assert not (tmp_path / "reports").exists()


def test_rounds_that_agree(run):
    done = run(*variants("right"), "--repeat", "2")
    assert done.returncode == Exit.OK, done.stderr
    assert done.stdout.splitlines() == [
        "round 1 of 2: nothing unexpected",
        "round 2 of 2: nothing unexpected",
        "no verdicts and no observed values not the same in all 2 rounds",
    ]


def test_rounds_of_what_is_unexpected_each_time(run):
    done = run(*variants("crashing"), "-k", "square", "--repeat", "2")
    assert done.returncode == Exit.UNEXPECTED
    assert done.stdout.splitlines()[-1].startswith("no verdicts and no observed values")


def test_no_round_of_nothing(run):
    done = run(*variants("right"), "-k", "nothing-like-it", "--repeat", "2")
    assert done.returncode == Exit.BAD_INPUT
    assert "no case was selected" in done.stderr
    assert run(*variants("right"), "--repeat", "2", "--resume").returncode == Exit.BAD_INPUT


# -- side by side ---------------------------------------------------------------------------------------


def test_two_runs_and_a_report_in_one_folder(start, run, tmp_path):
    assert run(*variants("right", "wrong")).returncode == 1
    ended = threading.Event()
    problems: list[str] = []
    reads = 0

    def keep_reading() -> None:
        nonlocal reads
        while not ended.is_set():
            try:
                assert len(read(tmp_path).results) in (5, 10)
                reads += 1
            except Exception as error:
                problems.append(repr(error))

    reader = threading.Thread(target=keep_reading)
    reader.start()
    both = [start(*variants("right", "wrong")), start(*variants("wrong"), "-n", "1")]
    report = commands.conformance(tmp_path, "report", *CASES)
    codes = [process.wait(60) for process in both]
    ended.set()
    reader.join()
    assert problems == []
    assert reads > 1
    assert codes == [1, 1]
    assert report.returncode == 0, report.stderr
    assert left_over(tmp_path) == []
    assert alive(os.getpid())
