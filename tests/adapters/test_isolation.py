"""What one program changes in its process changes no verdict on the next: in the frameworks themselves.

The recomputed function of one case changes all that it can, as somebody's own recompute might; the
cases after it, in the same worker or in the one that replaces it, come out as they did before.
"""

from __future__ import annotations

import importlib.util
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.drivers.adapter import Variant, find_adapter
from conformance.language.load import load_folder
from conformance.model.case import Case
from conformance.model.program import Program
from conformance.observe.worker.surroundings import Surroundings
from conformance.paths import find_paths
from conformance.run.runner import Runner

#: What any Python can change.
EVERYWHERE = """
    import gc, os, random, signal, sys, tempfile, threading, time, warnings
    import numpy as np
    os.chdir(tempfile.mkdtemp())
    os.environ.clear()
    os.environ["OMP_NUM_THREADS"] = "7"
    warnings.simplefilter("error")
    for number in (signal.SIGALRM, signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 60)  # it must not ring while this program still runs
    random.seed(0)
    np.random.seed(0)
    np.seterr(all="raise")
    gc.disable()
    sys.setrecursionlimit(sys.getrecursionlimit() - 100)
"""
THREAD = """
    def endless():
        while True:
            time.sleep(0.01)
            os.environ["FROM_A_THREAD"] = str(time.time())
    threading.Thread(target=endless, daemon=True).start()
"""
#: By adapter: its module, a variant, and what can be changed there.
CHANGES: Mapping[str, tuple[str, str, str]] = {
    "reference": ("numpy", "float64", ""),
    "torch": (
        "torch",
        "non-reentrant",
        """
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    torch.set_num_threads(3)
    torch.set_autocast_enabled("cpu", True)
    torch.use_deterministic_algorithms(True)
    torch.autograd.set_detect_anomaly(True)
""",
    ),
    "jax": (
        "jax",
        "eager",
        """
    for name, value in {"enable_x64": True, "disable_jit": True, "default_prng_impl": "rbg",
                        "numpy_rank_promotion": "raise", "debug_nans": True,
                        "numpy_dtype_promotion": "strict"}.items():
        jax.config.update("jax_" + name, value)
""",
    ),
    "tf": (
        "tensorflow",
        "eager",
        """
    tf.random.set_seed(0)
    tf.config.run_functions_eagerly(True)
    tf.config.set_soft_device_placement(False)
    tf.config.experimental.enable_op_determinism()
    tf.keras.backend.set_floatx("float64")
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
""",
    ),
    "paddle": (
        "paddle",
        "reentrant",
        """
    paddle.seed(0)
    paddle.set_default_dtype("float64")
    paddle.set_flags({"FLAGS_check_nan_inf": True})
    paddle.base.framework._dygraph_tracer()._has_grad = False
""",
    ),
    "mindspore": (
        "mindspore",
        "pynative-reentrant",
        """
    from mindspore.graph.api import _pynative_executor
    ms.set_seed(0)
    ms.set_context(deterministic="ON")
    _pynative_executor.set_enable_grad(False)
    ms.set_context(mode=ms.GRAPH_MODE)
""",
    ),
    "keras": (
        "keras",
        "remat-tensorflow",
        """
    keras.utils.set_random_seed(0)
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("mixed_bfloat16")
    keras.config.set_image_data_format("channels_first")
    keras.config.set_epsilon(0.1)
""",
    ),
    "mlx": ("mlx", "module", "    mx.random.seed(0)\n"),
    "autograd": ("autograd", "arguments", ""),
}
FIRST = "basics/conv-relu-gradient"
NEXT = ("basics/conv-relu-block", "randomness/dropout-alone", "basics/conv-relu-gradient")


def installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@pytest.fixture(params=[name for name, found in CHANGES.items() if installed(found[0])])
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def runner(name: str, tmp_path: Path):
    paths = replace(find_paths(None, None, None), reports=tmp_path)
    adapter = find_adapter(name, paths.adapters)
    made = Runner(adapter, paths, tmp_path / "log")
    yield made
    made.close()


def changing(runner: Runner, case: Case, variant: Variant, more: str) -> None:
    """Have the program of a case change its process before it is recomputed."""
    runner.emit([(case, variant)])
    program = runner._programs[case.id, variant.id]
    assert isinstance(program, Program)
    text = (
        program.text
        + "\n\ndef _change():\n"
        + EVERYWHERE
        + CHANGES[runner.adapter.name][2]
        + more
        + "\n\n_run = run\n\n\ndef run(forward, **more):\n"
        + "    found = _run(forward, **more)\n"
        + "    if forward is recomputed:\n        _change()\n"
        + "    return found\n"
    )
    Path(program.file).write_text(text)
    runner._programs[case.id, variant.id] = replace(program, text=text)


def outcome(runner: Runner, case: Case, variant: Variant) -> list[tuple[str, str, str]]:
    found = runner.run(case, variant).verdicts
    return [(v.check, v.status.value, v.message) for v in found]


def test_what_a_program_changes_reaches_no_other(runner: Runner, name: str) -> None:
    cases = {case.id: case for case in load_folder(runner.paths.cases)}
    variant = runner.adapter.variant(CHANGES[name][1])
    before = [outcome(runner, cases[case], variant) for case in NEXT]
    assert any(found[:2] == ("gradient", "pass") for verdicts in before for found in verdicts)
    for more in ("", THREAD):
        changing(runner, cases[FIRST], variant, more)
        runner.run(cases[FIRST], variant)
        # With a thread of its own left in it, a process is not to be trusted.
        assert not more or runner.pool._worker(variant.name)._process is None
        assert [outcome(runner, cases[case], variant) for case in NEXT] == before


def test_an_alarm_does_not_ring_in_another_program() -> None:
    surroundings = Surroundings({})
    signal.setitimer(signal.ITIMER_REAL, 60)
    assert surroundings.put_back() == ()
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_what_cannot_be_put_back_is_named() -> None:
    value = [1]
    settings = {
        "one": (lambda: value[0], lambda before: value.__setitem__(0, before)),
        "other": (lambda: list(value), lambda _: 1 / 0),
        "third": (lambda: value[0], lambda _: None),
    }
    surroundings = Surroundings(settings)
    assert surroundings.put_back() == ()
    value[0] = 2
    assert surroundings.put_back() == ()  # the first puts back what the others look at
    surroundings = Surroundings({"other": settings["other"]})
    value[0] = 2
    assert surroundings.put_back() == ("other",)
