"""`conformance check` on a small GPT (`gpt.py`) with each faulty checkpoint function in it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from conformance.checking.judge import Line, is_right, judge
from conformance.drivers.modules import load_file, load_module
from conformance.model.checked import Checked
from conformance.observe.worker.checking.base import Framework
from conformance.observe.worker.checking.session import Session
from conformance.observe.worker.checking.steps import check_training
from tests.faulty.faults import FOLDER, ROOT, SOUND, faults_of

if importlib.util.find_spec("torch") is None:
    pytest.skip("PyTorch is not installed here", allow_module_level=True)

GPT = Path(__file__).with_name("gpt.py")
#: The faults that the GPT exercises, and that make it wrong or run more than once more.
CAUGHT = {
    "drops_captured",
    "forgets_shared",
    "fresh_random",
    "ignores_stop",
    "inert",
    "keeping",
    "kept_with_output",
    "leaky",
    "mutates_input",
    "not_put_back",
    "overwrites_gradients",
    "remembers_inference",
    "reruns_in_forward",
    "reruns_twice",
    "scales_gradient",
}
#: Faults that the GPT exercises and that cost some bytes or one operation: no check here judges those.
COSTS = {"frees_late", "holds_rerun", "ignores_early_stop", "keeps_a_little", "keeps_random_state"}
#: Faults in what the GPT does not do: several or nested outputs, keywords, closures, hooks, policies,
#: autocast, several dtypes, nested regions, threads, errors, no gradients, a second backward pass.
NOT_EXERCISED = {
    "caches_closure",
    "calls_hooks_again",
    "casts_as_backward",
    "casts_nothing",
    "detaches_complex",
    "detaches_output",
    "disabled_after_error",
    "drops_keyword",
    "drops_last_output",
    "drops_nested_output",
    "drops_none",
    "drops_second_use",
    "first_order_only",
    "flattens",
    "hides_unknown_keyword",
    "ignores_policy",
    "keeps_float32",
    "leaks_on_error",
    "loses_autocast",
    "marks_detached",
    "needs_input_gradient",
    "none_for_zeros",
    "not_put_back_on_error",
    "one_thread",
    "one_threads_state",
    "replaces_error",
    "reruns_in_float32",
    "reruns_in_inference",
    "reruns_outside_contexts",
    "returns_float32",
    "shallow",
    "swallows_error",
    "swaps_gradients",
    "tuple_to_list",
    "wrong_second_backward",
    "zeros_for_none",
}


@pytest.fixture(scope="module")
def framework() -> Framework:
    made: Framework = load_module(ROOT / "adapters" / "torch", "checking").Framework()
    made.observer.warm_up()
    return made


def checked_with(framework: Framework, name: str) -> tuple[Line, ...]:
    """The lines of the check of the GPT with the function in this file."""
    fault = load_file(FOLDER / "torch" / f"{name}.py", f"gpt_with_{name}")
    program: ModuleType = load_file(GPT, f"gpt_of_{name}")
    program.checkpoint = fault.checkpoint  # type: ignore[attr-defined]
    session = Session(framework, program, str(GPT), framework.regions(str(GPT)))
    return judge(check_training(session, Checked("torch", {}, unit="operations"), 3, False))


def test_the_sound_function_is_right(framework: Framework) -> None:
    lines = checked_with(framework, SOUND)
    assert is_right(lines), lines
    assert {one.status.value for one in lines} == {"pass", "report"}


def test_each_fault_has_its_place() -> None:
    placed = [*CAUGHT, *COSTS, *NOT_EXERCISED]
    assert sorted(placed) == [fault.name for fault in faults_of("torch")]


@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_a_fault_that_the_model_shows_is_caught(framework: Framework, name: str) -> None:
    lines = checked_with(framework, name)
    assert [one.check for one in lines if one.status.value not in ("pass", "report")], lines
