"""Worker processes that are stopped, stand still, print without end, or outlive who started them."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.drivers.adapter import find_adapter
from conformance.emit.programs import write_programs
from conformance.errors import WriteError
from conformance.model.program import Program
from conformance.observe import pool as pools
from conformance.observe.pool import Crashed, Finished, Pool, Stuck, TimedOut
from conformance.observe.process import KEPT, Output
from conformance.run.runner import stopped
from tests import mini, unruly
from tests.test_pool import wait_for, worker_pids


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    adapter = find_adapter(str(unruly.make(tmp_path / "unruly", time_limit=3)), mini.ADAPTERS)
    with Pool(adapter, tmp_path / "logs" / "unruly.log") as made:
        yield made


@pytest.fixture
def program(pool: Pool, tmp_path: Path):
    def make(variant: str, case: str = "square") -> Program:
        pair = (mini.case(case), pool.adapter.variant(variant))
        (found,) = write_programs(pool.adapter, [pair], tmp_path).values()
        assert isinstance(found, Program), found
        return found

    return make


def alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("way", ["stops", "holds-lock"])
def test_a_worker_that_does_not_take_the_next_program_is_replaced(pool, program, monkeypatch, way):
    monkeypatch.setattr(pools, "RECEIVE_LIMIT", 1.0)
    written = program("right")
    assert isinstance(pool.observe(program(way)), Finished)
    time.sleep(0.6)
    (left,) = worker_pids()
    start = time.monotonic()
    outcome = pool.observe(written)
    assert time.monotonic() - start < 15
    assert outcome == Stuck(1.0, f"mini/square on unruly/{way}")
    verdict = stopped(outcome, "mini/square on unruly/right")
    assert verdict.message == (
        "the worker did not begin with mini/square on unruly/right within 1 s; "
        f"mini/square on unruly/{way} ran before and left it so"
    )
    assert not alive(left)
    assert isinstance(pool.observe(written), Finished)


def test_a_worker_stopped_while_it_is_asked_much_is_replaced(pool, program, monkeypatch):
    monkeypatch.setattr(pools, "RECEIVE_LIMIT", 1.0)
    pool.ready("right")
    (worker,) = worker_pids()
    os.kill(worker, signal.SIGSTOP)
    # More than a pipe holds: what sends it must not wait either.
    outcome = pool._worker("right")._call(len, (b"x" * 2**22,), 3.0)
    assert isinstance(outcome, Stuck)
    assert pool._worker("right")._call(len, (b"x" * 2**22,), 3.0) == 2**22


def test_a_program_that_holds_the_lock_is_stopped(pool, program):
    assert pool.observe(program("holds-lock-now")) == TimedOut(3.0)
    assert isinstance(pool.observe(program("right")), Finished)


def test_patched_functions_do_not_reach_the_loop(pool, program):
    assert isinstance(pool.observe(program("patches")), Finished)
    assert worker_pids()


def test_exit_status_0_is_an_end_as_any_other(pool, program):
    assert pool.observe(program("exits")) == Crashed("exit code 0", "")
    assert isinstance(pool.observe(program("right")), Finished)


@pytest.mark.parametrize("way", ["has-children", "leaves-children"])
def test_what_a_program_starts_ends_with_its_worker(pool, program, way):
    outcome = pool.observe(program(way))
    assert outcome == TimedOut(3.0) or outcome.how == "SIGKILL"
    (child,) = map(int, re.findall(r"child (\d+)", pool.log.read_text()))
    wait_for(lambda: not alive(child))


def test_of_what_a_program_prints_the_beginning_and_the_end_are_kept(pool, program):
    assert isinstance(pool.observe(program("prints")), Finished)
    text = pool.log.read_text()
    assert len(text) < 3 * KEPT
    assert text.startswith("the beginning\nxxx")
    assert text.endswith("xxx\nthe end\n")
    (left_out,) = re.findall(r"^\[([\d,]+) bytes of output left out here\]$", text, re.MULTILINE)
    # Four runs, each of 20 MB, at the least: one path after the other, several passes.
    assert int(left_out.replace(",", "")) > 20_000_000


@pytest.mark.parametrize("sizes", [[10], [4, 4], [3, 5], [8], [2, 30, 1], [1] * 20, [100]])
def test_output_adds_up(tmp_path, sizes):
    log = tmp_path / "logs" / "out.log"
    output = Output(log, kept=4)
    whole = bytes(range(65, 65 + 26)) * 10
    written = [whole[sum(sizes[:i]) : sum(sizes[: i + 1])] for i in range(len(sizes))]
    for part in written:
        output.take(part)
    kept = output.finish()
    total = b"".join(written)
    if len(total) <= 8:
        assert kept == total
    else:
        left_out = len(total) - 8
        note = f"\n[{left_out} bytes of output left out here]\n".encode()
        assert kept == total[:4] + note + total[-4:]
    assert log.read_bytes() == kept
    output.take(b"next")
    assert output.finish() == b"next"


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path):
    (tmp_path / "logs").write_text("a file")
    output = Output(tmp_path / "logs" / "out.log")
    output.take(b"some")
    assert output.finish() == b"some"


def test_no_room_for_a_worker_or_a_program_is_no_verdict(pool, program, monkeypatch):
    written = program("right")

    def full(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", full)
    with pytest.raises(WriteError, match="No space left on device"):
        pool.observe(written)
    with pytest.raises(WriteError, match="No space left on device"):
        program("right", "by-name")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_their_children_and_folders_go_with_their_parent(pool, tmp_path, how):
    """Whatever ends it: a process of ours that starts a worker whose program starts a child."""
    script = f"""
from pathlib import Path
from conformance.drivers.adapter import read_adapter
from conformance.emit.programs import write_programs
from conformance.observe.pool import Pool
from tests import mini
if __name__ == "__main__":
    adapter = read_adapter(Path({str(pool.adapter.folder)!r}))
    pair = (mini.case("square"), adapter.variant("has-children"))
    (program,) = write_programs(adapter, [pair], Path({str(tmp_path)!r})).values()
    Pool(adapter, Path({str(pool.log)!r})).observe(program)
"""
    file = tmp_path / "start.py"
    file.write_text(script)
    path = os.pathsep.join(
        filter(None, [str(mini.FOLDER.parents[1]), os.environ.get("PYTHONPATH")])
    )
    parent = subprocess.Popen([sys.executable, str(file)], env={**os.environ, "PYTHONPATH": path})
    try:
        wait_for(lambda: pool.log.is_file() and "child" in pool.log.read_text(), 60)
        (child,) = map(int, re.findall(r"child (\d+)", pool.log.read_text()))
        worker = os.getpgid(child)
        folder = Path(f"/proc/{worker}/cwd").readlink()
        assert folder.is_dir()
        os.kill(parent.pid, how)
        assert parent.wait(20) == -how
        wait_for(lambda: not alive(worker) and not alive(child) and not folder.exists())
    finally:
        parent.kill()
        parent.wait()
