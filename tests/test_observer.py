"""The observer's passes, on small programs of NumPy and a memory that is counted by hand."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance.model.observation import Array, ErrorSeen, Execution, Leaf, RandomSample, Run
from conformance.model.program import Program
from conformance.observe.worker.loaded import LoadedProgram, load_program
from conformance.observe.worker.meter import allocated_bytes
from conformance.observe.worker.observer import Observer, computes_alike

from .test_trace import program


class Numpy(Observer):
    """NumPy as a framework; `held` is what a program says that it holds, in its list `held`."""

    def __init__(self) -> None:
        super().__init__("plain")
        self.without: Mapping[str, str] = {}
        self.program: Any = None

    def leaf(self, value: object) -> Leaf | None:
        return Leaf(value, str(value.dtype)) if isinstance(value, np.ndarray) else None

    def generator(self) -> Array | None:
        return np.array([7.0])

    def settle(self) -> None:
        """Nothing: memory is counted by hand, and collecting takes long among many tests."""

    def held(self) -> int | None:
        return sum(a.nbytes for a in self.program.held)

    def unobserved(self, program: Program) -> Mapping[str, str]:
        return self.without

    def run(self, loaded: LoadedProgram, unobserved: dict[str, str]) -> Run:
        self.program = loaded.module
        return super().run(loaded, unobserved)


#: Two values kept in forward, of 80 and of 8 bytes; the output's 16 bytes are held, too.
TEXT = """
    import numpy as np

    held = []
    draws = iter(range(1000))

    def plain(x):
        y = np.full(10, x)  #s - y dropout
        held.append(y)
        return y

    def recomputed(x):
        def block(x):  #r block
            y = np.full(10, float(next(draws)))  #s block y dropout
            z = y + x  #s block z add
            return z
        held.append(np.zeros(10))
        y = block(x)
        return block

    def run(forward):
        held.clear()
        outputs = (np.zeros(2), {"n": 3, "none": None, "list": [True, "word"], "other": object})
        kept = forward(1.0)  #p forward
        held.append(np.zeros(1))
        held.append(outputs[0])
        loss = kept(1.0)[0] if callable(kept) else 5.0  #p backward
        return {
            "outputs": outputs,
            "losses": [np.array(2.5)],
            "gradients": {"x": np.ones(2), "w": None},
            "state": {"mean": np.zeros(1)},
        }
"""


@pytest.fixture
def observed(tmp_path: Path) -> Any:
    return Numpy().observe(program(tmp_path, TEXT, random=True, sources=("implicit",)))


def test_values(observed: Any) -> None:
    run = observed.recomputed
    array, rest = run.outputs
    assert isinstance(array, Leaf)
    assert (array.dtype, array.array.shape) == ("float64", (2,))
    assert rest == {"n": 3, "none": None, "list": [True, "word"], "other": "<type>"}
    assert run.losses == (2.5,)
    assert run.gradients["w"] is None
    np.testing.assert_array_equal(run.gradients["x"], [1, 1])
    np.testing.assert_array_equal(run.state["mean"], [0])
    np.testing.assert_array_equal(run.generators["implicit"], [7])
    assert run.error is None
    assert observed.seconds > 0
    assert observed.methods["executions"] == "Python line trace"


def test_executions(observed: Any) -> None:
    assert observed.plain.executions == (Execution("", "y", "forward", 1),)
    assert set(observed.recomputed.executions) == {
        Execution("block", statement, phase, 1)
        for statement in ("", "y", "z")
        for phase in ("forward", "rerun")
    }


def test_draws_are_what_random_statements_made(observed: Any) -> None:
    forward, rerun = observed.recomputed.samples
    assert [(d.region, d.statement, d.phase) for d in (forward, rerun)] == [
        ("block", "y", "forward"),
        ("block", "y", "rerun"),
    ]
    assert rerun.array[0] == forward.array[0] + 1
    (plain,) = observed.plain.samples
    assert isinstance(plain, RandomSample)
    assert plain.array.tolist() == [1.0] * 10


def test_draws_keep_their_numbers_when_the_program_overwrites_them(tmp_path: Path) -> None:
    text = TEXT.replace("held.append(y)\n", "held.append(y)\n        y[:] = 99.0\n")
    assert text != TEXT
    (draw,) = (
        Numpy().observe(program(tmp_path, text, random=True, sources=("implicit",))).plain.samples
        or ()
    )
    assert draw.array.tolist() == [1.0] * 10


FAILS = """        if len(ran) > 1:
            raise ValueError("once was enough")
"""


def test_a_program_that_fails_when_it_is_run_again_is_at_fault(tmp_path: Path) -> None:
    text = TEXT.replace("held = []", "held = []\n    ran = []")
    text = text.replace("        held.append(np.zeros(10))\n", f"        ran.append(1)\n{FAILS}")
    assert "once was enough" in text
    error = Numpy().observe(program(tmp_path, text)).recomputed.error
    assert error is not None
    assert (error.type, error.message) == ("ValueError", "once was enough")


def test_an_observer_that_fails_is_not_the_program(tmp_path: Path) -> None:
    class Failing(Numpy):
        def tracing(self, *_: Any, **__: Any) -> Any:
            raise ValueError("I cannot trace")

    with pytest.raises(ValueError, match="I cannot trace"):
        Failing().observe(program(tmp_path, TEXT))


def test_no_draws_where_nothing_is_random(tmp_path: Path) -> None:
    found = Numpy().observe(program(tmp_path, TEXT))
    assert found.recomputed.samples is None
    assert found.recomputed.generators == {}


def test_retained_is_what_forward_keeps_beyond_the_frame(observed: Any) -> None:
    """80 bytes in forward and 8 after it; the output is in the frame of `run` before and after.

    In `plain` the frame holds what forward returned, too: 80 bytes that it does not keep alone.
    """
    assert observed.recomputed.retained == 80 + 8 + 16
    assert observed.plain.retained == 80 + 8 + 16 - 80


def test_one_more_value_kept_is_seen_to_the_byte(tmp_path: Path, observed: Any) -> None:
    text = TEXT.replace("y = block(x)\n", "y = block(x)\n        held.append(np.zeros(3))\n")
    more = Numpy().observe(program(tmp_path, text, random=True, sources=("implicit",)))
    assert more.recomputed.retained == observed.recomputed.retained + 24


@pytest.mark.parametrize(
    "text", [TEXT.replace("  #p backward", ""), TEXT.replace("  #p forward", "")]
)
def test_retained_needs_both_phases(tmp_path: Path, text: str) -> None:
    assert Numpy().observe(program(tmp_path, text)).recomputed.retained is None


def test_retained_needs_a_backward_pass_and_a_reading(tmp_path: Path) -> None:
    inference = Numpy().observe(program(tmp_path, TEXT, procedure="inference"))
    assert inference.recomputed.retained is None
    blind = Numpy()
    blind.held = lambda: None  # type: ignore[method-assign]
    assert blind.observe(program(tmp_path, TEXT)).recomputed.retained is None


class Watched(Numpy):
    """Has a peak: 1,000 bytes more than are held when it is asked, and as many since the reset."""

    resets = 0

    def reset_peak(self) -> None:
        self.resets += 1

    def peak(self) -> int | None:
        held = self.held()
        return None if held is None else held + 1000

    def alive(self) -> int | None:
        return len(self.program.held)


def test_the_peak_is_beyond_what_was_held_at_the_start_of_forward(tmp_path: Path) -> None:
    """Forward finds nothing held; after the run 80 + 8 + 16 bytes are, and 1,000 more at the peak."""
    watched = Watched()
    found = watched.observe(program(tmp_path, TEXT))
    assert found.recomputed.peak == 80 + 8 + 16 + 1000
    assert watched.resets == 4  # of each path the second run counts


def test_no_peak_where_none_can_be_told(observed: Any) -> None:
    assert observed.recomputed.peak is None


LEFT_OVER = TEXT.replace("        held.clear()\n", "")


def test_what_is_left_over_is_read_after_each_run(tmp_path: Path) -> None:
    """Each recomputed run leaves three arrays: of 80, 8 and 16 bytes."""
    found = Watched().observe(program(tmp_path, LEFT_OVER, release=4))
    assert found.recomputed.alive is not None
    assert found.recomputed.held is not None
    assert set(np.diff(found.recomputed.alive)) == {3}
    assert set(np.diff(found.recomputed.held)) == {80 + 8 + 16}
    clean = Watched().observe(program(tmp_path, TEXT, release=4))
    assert clean.recomputed.alive is not None
    assert set(np.diff(clean.recomputed.alive)) == {0}


KEPT = """
    import weakref

    import numpy as np

    held = []
    before = []
    found = []

    def plain(x):
        return np.full(10, x)

    recomputed = plain

    def run(forward):
        outputs = forward(1.0)
        found.append(sum(reference() is not None for reference in before))
        before.append(weakref.ref(outputs))
        return {"outputs": outputs}
"""


@pytest.mark.parametrize(("keeps", "there"), [(True, [0, 1, 2, 3]), (False, [0, 0, 0, 0])])
def test_outputs_are_kept_over_all_runs_where_asked_for(
    tmp_path: Path, keeps: bool, there: list[int]
) -> None:
    watched = Watched()
    watched.without = dict.fromkeys(("executions", "retained memory"), "not now")
    watched.observe(program(tmp_path, KEPT, release=4, keeps=keeps))
    found = watched.program.found[-4:]
    assert [number - found[0] for number in found] == there


def test_nothing_is_repeated_unless_asked_for(observed: Any) -> None:
    assert (observed.recomputed.held, observed.recomputed.alive) == (None, None)


def test_the_garbage_collector_is_off_while_runs_are_repeated(tmp_path: Path) -> None:
    """An array in a cycle is left over; on again, the collector takes it."""
    text = TEXT.replace("    held = []", "    import gc\n    held = []\n    states = []").replace(
        "        held.clear()\n", "        held.clear()\n        states.append(gc.isenabled())\n"
    )
    watched = Watched()
    watched.observe(program(tmp_path, text, release=4))
    assert watched.program.states[-4:] == [False] * 4
    assert gc.isenabled()


GENERATORS = """
    import random
    import numpy as np

    held = []

    def plain(x):
        return x

    def recomputed(x):
        random.random()
        return x

    def run(forward):
        random.seed(1)
        np.random.seed(1)
        own = np.random.default_rng(1)
        forward(1.0)  #p forward
        return {"outputs": 1, "generators": {"own": own, "key": object()}}  #p backward
"""


def test_each_generator_of_the_program_is_asked_where_it_stands(tmp_path: Path) -> None:
    found = Numpy().observe(program(tmp_path, GENERATORS, random=True, sources=("numpy", "python")))
    plain, recomputed = found.plain.generators, found.recomputed.generators
    assert set(plain) == {"numpy", "python", "own"}  # the key has no state to tell
    np.testing.assert_array_equal(plain["own"], np.random.default_rng(1).random(4))
    np.testing.assert_array_equal(plain["numpy"], recomputed["numpy"])
    assert plain["python"][1] == recomputed["python"][0]


def test_what_cannot_be_observed_is_left_out(tmp_path: Path) -> None:
    blind = Numpy()
    blind.without = {"executions": "compiled", "retained memory": "pooled"}
    found = blind.observe(program(tmp_path, TEXT, random=True, sources=("implicit",)))
    assert found.unobserved == blind.without
    assert (found.recomputed.executions, found.recomputed.samples) == (None, None)
    assert found.recomputed.retained is None
    assert found.recomputed.losses == (2.5,)


def test_frame_bytes_counts_each_tensor_once() -> None:
    array = np.zeros(4)

    class Frame:
        f_locals = {"a": array, "same": [array], "other": {"b": (np.zeros(2), 3)}}  # noqa: RUF012

    assert Numpy().frame_bytes(Frame()) == 32 + 16  # type: ignore[arg-type]


# -- errors ---------------------------------------------------------------------------------------

RAISES = """
    import numpy as np

    class Odd(ValueError):
        pass

    def fail(phase, now, fails):
        if fails and phase == now:
            raise Odd("x" * 5000)

    def plain(fails, phase):
        fail(phase, "forward", fails)

    def recomputed(fails, phase):
        failed.extend([phase] * fails)
        fail(phase, "forward", fails)
        if WRONG and failed:
            raise KeyError

    failed = []
    WRONG = 0

    def run(forward, **changes):
        values = {"fails": True, "phase": "PHASE"} | changes
        fail(values["phase"], "before", values["fails"])
        forward(**values)  #p forward
        fail(values["phase"], "backward", values["fails"])  #p backward
        drift = DRIFT if failed or ALWAYS else 0
        return {"outputs": 1, "losses": [2.0 + drift * (forward is recomputed)]}

    DRIFT = ALWAYS = 0
"""


@pytest.mark.parametrize(
    ("at", "phase"), [("forward", "forward"), ("backward", "backward"), ("before", "unknown")]
)
def test_an_error_is_seen_with_its_phase(tmp_path: Path, at: str, phase: Any) -> None:
    found = Numpy().observe(program(tmp_path, RAISES.replace("PHASE", at), then=None))
    bases = ("Odd", "ValueError", "Exception", "BaseException", "object")
    assert found.recomputed == Run(
        error=ErrorSeen("Odd", bases, "x" * 1500 + " … " + "x" * 497, phase)
    )


@pytest.mark.parametrize(
    ("change", "works"),
    [
        (("", ""), True),
        (("WRONG = 0", "WRONG = 1"), False),
        (("DRIFT = ALWAYS = 0", "DRIFT, ALWAYS = 1, 0"), False),
        (("DRIFT = ALWAYS = 0", "DRIFT = ALWAYS = 1"), None),
    ],
    ids=["works", "raises", "computes-otherwise", "never-worked"],
)
def test_the_good_run_after_an_error(
    tmp_path: Path, change: tuple[str, str], works: bool | None
) -> None:
    text = RAISES.replace("PHASE", "forward").replace(*change)
    found = Numpy().observe(program(tmp_path, text, then={"fails": False}))
    assert found.recomputed.error is not None
    assert found.recomputed.good_run_before_error is (works is not None)
    assert found.recomputed.good_run_after_error is works
    assert found.plain.good_run_after_error is True


def test_no_good_run_without_one_promised(tmp_path: Path) -> None:
    found = Numpy().observe(program(tmp_path, RAISES.replace("PHASE", "forward"), then={}))
    assert found.recomputed.error is not None
    assert found.recomputed.good_run_after_error is None


GOOD = Run(losses=(1.0,), gradients={"x": np.array([1.0, 2.0]), "w": None})


@pytest.mark.parametrize(
    ("run", "alike"),
    [
        (GOOD, True),
        (Run(losses=(1.0 + 1e-6,), gradients=GOOD.gradients), True),
        (Run(losses=(1.1,), gradients=GOOD.gradients), False),
        (Run(losses=(1.0, 1.0), gradients=GOOD.gradients), False),
        (Run(losses=(1.0,), gradients={"x": np.array([1.0, 2.1]), "w": None}), False),
        (Run(losses=(1.0,), gradients={"x": np.array([1.0]), "w": None}), False),
        (Run(losses=(1.0,), gradients={"x": None, "w": None}), False),
        (Run(losses=(1.0,), gradients={"x": GOOD.gradients["x"], "w": np.zeros(1)}), False),
        (Run(losses=(1.0,)), False),
        (Run(losses=(float("nan"),), gradients=GOOD.gradients), False),
    ],
)
def test_computes_alike(run: Run, alike: bool) -> None:
    assert computes_alike(run, GOOD) is alike


# -- programs and bytes ---------------------------------------------------------------------------


def test_a_program_is_loaded_anew_each_time(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("VALUE = 3\n", "utf-8")
    made = program(tmp_path, "import beside\nkept = []\n")
    first, second = load_program(made), load_program(made)
    assert first.beside.VALUE == 3
    assert first.kept is not second.kept


def test_a_program_that_is_written_anew_is_not_taken_for_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its size and its time are those of the first: a loop of 2 rounds, and then one of 5."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    seen = []
    for rounds in (2, 5):
        made = program(tmp_path, f"rounds = {rounds}\n")
        os.utime(made.file, (1_700_000_000, 1_700_000_000))
        seen.append(load_program(made).rounds)
    assert seen == [2, 5]


@pytest.mark.skipif(allocated_bytes() is None, reason="glibc's mallinfo2 is not here")
def test_allocated_bytes_grow_with_an_array() -> None:
    before = allocated_bytes()
    array = np.ones(2**20)
    after = allocated_bytes()
    assert before is not None
    assert after is not None
    assert array.nbytes <= after - before < array.nbytes + 2**16
