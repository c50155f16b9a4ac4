"""`conformance check` on two small GPTs with each faulty checkpoint function in them: one whose blocks
are regions (`gpt.py`), and one that calls regions in many ways (`gpt_of_all.py`)."""

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

GPT, OF_ALL = (Path(__file__).with_name(name) for name in ("gpt.py", "gpt_of_all.py"))
#: The faults that the GPT exercises, and that make it wrong or run more than once more.
CAUGHT = {
    "drops_captured",
    "evaluates_in_rerun",
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
#: Faults that cost some bytes or operations, which no check here judges, and the line in which the check
#: of the GPT that calls regions in many ways says another figure than with the sound function.
COSTS = {
    "frees_late": "growth",
    "holds_rerun": "growth",
    "ignores_early_stop": "ran again",
    "keeps_a_little": "ran again",
    "keeps_what_is_kept": "ran again",
}
#: Faults that only the GPT that calls regions in many ways shows, and the first line that fails.
CAUGHT_OF_ALL = {
    "caches_closure": "error",
    "casts_as_backward": "error",
    "counts_passed_once": "gradients",
    "detaches_complex": "gradients",
    "detaches_kept": "gradients",
    "detaches_output": "error",
    "disabled_after_error": "gradients",
    "drops_false_keyword": "loss",
    "drops_last_output": "gradients",
    "drops_nested_output": "gradients",
    "drops_none": "error",
    "flattens": "error",
    "ignores_hooks": "gradients",
    "ignores_lists": "gradients",
    "leaks_on_error": "growth",
    "list_to_tuple": "error",
    "loses_tenth": "gradients",
    "loses_autocast": "error",
    "replaces_error": "error",
    "named_to_tuple": "error",
    "reruns_in_float32": "error",
    "second_result_stopped": "gradients",
    "tuple_to_list": "error",
}
#: Faults in what neither of them does: options, policies, hooks of modules, nested regions, threads, a
#: second backward pass, gradients of gradients, forward mode, float16, integers, infinite gradients,
#: several ranks and arguments of an unknown name.
NOT_EXERCISED = {
    "bools_to_numbers",
    "calls_hooks_again",
    "casts_nothing",
    "draws_as_rank_0",
    "drops_in_keyword",
    "drops_keyword",
    "drops_second_use",
    "drops_tangents",
    "first_order_only",
    "forgets_strides",
    "fresh_in_depth",
    "hides_infinity",
    "hides_unknown_keyword",
    "ignores_policy",
    "keeps_random_state",
    "keeps_random_state_of_dropout",
    "keeps_float32",
    "marks_detached",
    "needs_input_gradient",
    "none_for_zeros",
    "not_put_back_on_error",
    "one_thread",
    "one_threads_state",
    "raises_on_a_rank",
    "reruns_in_inference",
    "reruns_outside_contexts",
    "returns_float32",
    "rounds_numbers",
    "shallow",
    "skips_sum_on_a_rank",
    "sums_once",
    "swallows_error",
    "swaps_gradients",
    "wrong_second_backward",
    "zeros_for_none",
}


@pytest.fixture(scope="module")
def framework() -> Framework:
    made: Framework = load_module(ROOT / "adapters" / "torch", "checking").Framework()
    made.observer.warm_up()
    return made


def checked_with(framework: Framework, name: str, gpt: Path = GPT) -> tuple[Line, ...]:
    """The lines of the check of the GPT with the function in this file."""
    fault = load_file(FOLDER / "torch" / f"{name}.py", f"gpt_with_{name}")
    program: ModuleType = load_file(gpt, f"{gpt.stem}_with_{name}")
    program.checkpoint = fault.checkpoint  # type: ignore[attr-defined]
    session = Session(framework, program, str(gpt), framework.regions(str(gpt)))
    return judge(check_training(session, Checked("torch", {}, unit="operations"), 3, False))


@pytest.mark.parametrize("gpt", [GPT, OF_ALL], ids=lambda gpt: gpt.stem)
def test_the_sound_function_is_right(framework: Framework, gpt: Path) -> None:
    lines = checked_with(framework, SOUND, gpt)
    assert is_right(lines), lines
    assert {one.status.value for one in lines} == {"pass", "report"}


def test_each_fault_has_its_place() -> None:
    placed = [*CAUGHT, *CAUGHT_OF_ALL, *COSTS, *NOT_EXERCISED]
    assert sorted(placed) == [fault.name for fault in faults_of("torch")]


@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_a_fault_that_the_model_shows_is_caught(framework: Framework, name: str) -> None:
    lines = checked_with(framework, name)
    assert [one.check for one in lines if one.status.value not in ("pass", "report")], lines


@pytest.fixture(scope="module")
def sound(framework: Framework) -> tuple[Line, ...]:
    return checked_with(framework, SOUND, OF_ALL)


@pytest.mark.parametrize("name", COSTS)
def test_what_a_fault_costs_is_told(
    framework: Framework, sound: tuple[Line, ...], name: str
) -> None:
    lines = checked_with(framework, name, OF_ALL)
    assert is_right(lines), lines
    told, usual = ({one.check: one.message for one in of} for of in (lines, sound))
    assert told[COSTS[name]] != usual[COSTS[name]], told


@pytest.mark.parametrize("name", CAUGHT_OF_ALL)
def test_a_fault_of_a_feature_is_caught(framework: Framework, name: str) -> None:
    lines = checked_with(framework, name, OF_ALL)
    wrong = [one.check for one in lines if one.status.value not in ("pass", "report")]
    assert wrong[:1] == [CAUGHT_OF_ALL[name]], lines
