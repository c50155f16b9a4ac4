"""The worker process of an adapter, in every way in which it can end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conformance.emit.programs import write_programs
from conformance.errors import BrokenAdapterError
from conformance.model.program import Program
from conformance.observe.pool import Broken, Crashed, Finished, Lacking, Pool, TimedOut
from tests import mini


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    with Pool(mini.adapter(), tmp_path / "logs" / "mini.log") as made:
        yield made


@pytest.fixture
def program(tmp_path: Path):
    def make(variant: str, case: str = "square") -> Program:
        pair = (mini.case(case), mini.variant(variant))
        (found,) = write_programs(mini.adapter(), [pair], tmp_path).values()
        assert isinstance(found, Program), found
        return found

    return make


def worker_pids() -> list[int]:
    return [p.pid for p in multiprocessing.active_children() if p.pid is not None]


def wait_for(condition, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


def test_observation_comes_back(pool, program):
    outcome = pool.observe(program("right"))
    assert isinstance(outcome, Finished)
    x = 0.5 + 0.25 * np.arange(3)
    found = outcome.observation.recomputed.gradients["x"]
    np.testing.assert_allclose(found, 2 * x * np.cos(x * x), rtol=1e-6)


def test_worker_has_its_own_folder_and_the_adapters_environment(pool, program, tmp_path):
    here = Path.cwd()
    pool.observe(program("right"))
    assert Path.cwd() == here
    (pid,) = worker_pids()
    folder = Path(f"/proc/{pid}/cwd").readlink()
    assert folder.name.startswith("conformance-mini-")
    assert pool._worker("right")._call(tempfile.gettempdir, (), 20.0) == str(folder)
    limits = Path(f"/proc/{pid}/limits").read_text()
    (data,) = (line for line in limits.splitlines() if line.startswith("Max data size"))
    assert str(2 * 2**30) in data
    pool.close()
    assert not folder.exists()


def test_variants_with_an_environment_of_their_own_have_a_worker_of_their_own(tmp_path, program):
    own = {"OMP_NUM_THREADS": "7", "OF_THE_VARIANT": "yes"}
    model = mini.adapter().model
    apart = model.variants["wrong"].model_copy(update={"environment": own})
    variants = {**model.variants, "wrong": apart}
    adapter = replace(mini.adapter(), model=model.model_copy(update={"variants": variants}))
    with Pool(adapter, tmp_path / "mini.log") as pool:
        pool.describe(["right", "wrong", "picky"])
        both = worker_pids()
        assert len(both) == 2
        for variant in ("right", "wrong", "picky"):
            assert isinstance(pool.observe(program(variant)), Finished)
        assert worker_pids() == both
    assert worker_pids() == []


def test_crash_names_the_signal_and_the_log_and_the_next_program_runs(pool, program):
    outcome = pool.observe(program("crashing"))
    assert outcome == Crashed("SIGSEGV", "mini: about to die")
    assert isinstance(pool.observe(program("right")), Finished)


def test_hanging_program_is_stopped_and_the_next_program_runs(pool, program):
    start = time.monotonic()
    assert pool.observe(program("hanging")) == TimedOut(3.0)
    assert time.monotonic() - start < 30
    assert isinstance(pool.observe(program("right")), Finished)


def test_memory_limit_holds(pool, program):
    outcome = pool.observe(program("hungry"))
    assert isinstance(outcome, Finished)
    error = outcome.observation.recomputed.error
    assert error is not None
    assert "MemoryError" in error.bases


def test_exception_of_the_observer_is_broken_even_where_it_cannot_be_unpickled(pool, program):
    outcome = pool.observe(program("raising"))
    assert isinstance(outcome, Broken)
    assert outcome.message.endswith("OddError: lost count")
    assert "in observe" in outcome.traceback


def test_what_an_older_release_lacks_is_no_fault_of_the_observer(pool, program):
    assert pool.observe(program("older")) == Lacking(
        "the option `keep`, which this release of mini does not have"
    )


def test_killed_in_the_middle_costs_that_program_alone(pool, program):
    assert isinstance(pool.observe(program("right")), Finished)
    pool.ready("hanging")
    (victim,) = worker_pids()
    written = program("hanging")
    timer = threading.Timer(0.5, os.kill, (victim, signal.SIGKILL))
    timer.start()
    outcome = pool.observe(written)
    timer.join()
    assert outcome == Crashed("SIGKILL", "")
    for case in ("square", "by-name"):
        assert isinstance(pool.observe(program("right", case)), Finished)


def test_killed_between_two_programs_costs_nothing(pool, program):
    assert isinstance(pool.observe(program("right")), Finished)
    (victim,) = worker_pids()
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: victim not in worker_pids())
    time.sleep(0.3)
    assert isinstance(pool.observe(program("right")), Finished)


def test_new_worker_warms_up_outside_the_time_limit(pool, program):
    impatient = mini.adapter()
    limited = replace(impatient, model=impatient.model.model_copy(update={"time_limit": 0.4}))
    with Pool(limited, pool.log) as short:
        # Starting Python and importing NumPy alone takes longer than this limit allows.
        assert isinstance(short.observe(program("right")), Finished)


def test_describe_gives_versions(pool):
    found = pool.describe(["right"])
    assert found["numpy"] == np.__version__
    assert found["python"].startswith("3.")


def test_missing_framework_is_one_message(tmp_path):
    log = tmp_path / "absent.log"
    with Pool(mini.adapter("absent"), log) as pool, pytest.raises(BrokenAdapterError) as caught:
        pool.describe(["only"])
    error = caught.value
    assert error.exit_code == 3
    assert "adapter 'absent' cannot run: ModuleNotFoundError" in str(error)
    assert "framework_that_nobody_has" in str(error)
    assert "requirements.txt" in error.hint
    assert "Traceback" not in str(error)
    assert "Traceback" in (tmp_path / "absent.log").read_text()


def test_a_worker_is_replaced_after_as_many_programs_as_its_variant_says(tmp_path, program):
    adapter = mini.adapter()
    right = adapter.model.variants["right"].model_copy(update={"renew_after": 2})
    variants = {**adapter.model.variants, "right": right}
    model = adapter.model.model_copy(update={"variants": variants})
    seen = []
    with Pool(replace(adapter, model=model), tmp_path / "mini.log") as made:
        for _ in range(5):
            assert isinstance(made.observe(program("right")), Finished)
            seen.append(tuple(worker_pids()))
    assert seen[0] == seen[1]
    assert seen[2] == seen[3]
    assert len({seen[0], seen[2], seen[4]}) == 3


def test_a_worker_in_which_much_is_left_is_replaced(pool, program):
    right = program("right")
    text = right.text.replace("recompute(square)", 'recompute(square, "keeping")')
    assert text != right.text
    keeping = Path(right.file).with_name("keeping.py")
    keeping.write_text(text)
    for one, replaced in ((right, False), (replace(right, file=str(keeping), text=text), True)):
        outcome = pool.observe(one)
        assert isinstance(outcome, Finished)
        assert outcome.observation.recomputed.error is None
        assert (worker_pids() == []) is replaced
    assert isinstance(pool.observe(right), Finished)


@pytest.mark.parametrize("own", [False, True])
def test_a_variant_has_a_worker_to_itself_where_it_says_so(tmp_path, program, own):
    adapter = mini.adapter()
    raising = adapter.model.variants["plain-raising"].model_copy(update={"own_process": own})
    variants = {**adapter.model.variants, "plain-raising": raising}
    model = adapter.model.model_copy(update={"variants": variants})
    with Pool(replace(adapter, model=model), tmp_path / "mini.log") as made:
        assert isinstance(made.observe(program("right")), Finished)
        assert isinstance(made.observe(program("plain-raising")), Finished)
        assert len(worker_pids()) == 1 + own


@pytest.mark.parametrize("renewed", [False, True])
def test_a_worker_is_replaced_after_an_error_where_its_variant_says_so(tmp_path, program, renewed):
    adapter = mini.adapter()
    raising = adapter.model.variants["plain-raising"].model_copy(
        update={"renew_after_error": renewed}
    )
    variants = {**adapter.model.variants, "plain-raising": raising}
    model = adapter.model.model_copy(update={"variants": variants})
    with Pool(replace(adapter, model=model), tmp_path / "mini.log") as made:
        outcome = made.observe(program("plain-raising"))
        assert isinstance(outcome, Finished)
        assert outcome.observation.plain.error is not None
        assert bool(worker_pids()) is not renewed
        assert isinstance(made.observe(program("right")), Finished)


def test_after_a_restart_each_program_runs_in_a_fresh_process(pool, program):
    assert isinstance(pool.observe(program("right")), Finished)
    before = worker_pids()
    pool.close()
    assert worker_pids() == []
    assert isinstance(pool.observe(program("right")), Finished)
    assert not set(before) & set(worker_pids())
