"""A part of a case that an adapter passes over is refused, whichever it is."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, MethodType
from typing import Any

import pytest

from conformance.drivers.adapter import read_adapter
from conformance.emit.emitter import PARTS, Emitter, Run, Tensors, asked
from conformance.errors import AdapterError, NotEmittedError, NotOfferedError
from conformance.language.features import required_by
from conformance.model.case import Case, Region
from conformance.run.runner import lacking
from tests.suite_cases import CASES

ROOT = Path(__file__).parent.parent
TORCH = read_adapter(ROOT / "adapters" / "torch")
VARIANT = TORCH.variant("non-reentrant")
WORDS = TORCH.load("emitter").WORDS
EMPTY: Mapping[str, Any] = MappingProxyType({})


def uncast(self: Any, path: str) -> None:
    """Write the forward pass as if the case entered no autocast."""
    case = self.case
    self.case = replace(case, autocast="")
    type(self).write_forward(self, path)
    self.case = case


#: What an adapter would do that passes over a part, in the place of which method.
PASSED_OVER: dict[str, tuple[str, Any]] = {
    "seeding": ("run.write_seeding", lambda self, seed: None),
    "between": ("run.write_between", lambda self: None),
    "after": ("run.write_after", lambda self: None),
    "start": ("run.write_backward", lambda self, *words, **more: self.code("loss.backward()")),
    "hooks": ("run.write_hooks", lambda self: self.code("fired = []")),
    "state": ("run.state_entries", lambda self: []),
    "generators": ("run.generators_entry", lambda self: ""),
    "autocast": ("forward.write_forward", uncast),
    "around": ("forward.default_dtype", lambda self: nullcontext()),
    "autocast inside": ("forward.casting", lambda self, region: nullcontext()),
    "mapped": (
        "forward.write_call",
        lambda self, node, region: self.write_results(
            node, self.recompute.called(node, region), region
        ),
    ),
    "signature": (
        "forward.parameters",
        lambda self, region: ", ".join([*self.formals(region), *region.kwargs]),
    ),
    "option": ("recompute.misuse", lambda self, region: []),
    "contexts": ("recompute.contexts_option", lambda self, region, keyword: []),
    "left": ("forward.write_left", lambda self, region: None),
    "changes": ("run.write_changes", lambda self: None),
    "made": ("run.write_model", lambda self: self.code("values = inputs()")),
    "then": ("run.inputs_call", lambda self: "inputs()"),
}


def written(case: Case, instead: Mapping[str, Any] = EMPTY, **words: Any) -> None:
    """Write a case for PyTorch, with other words, and with other methods of the emitter's parts."""
    emitter = TORCH.load("emitter")
    made = Emitter(case, VARIANT, replace(emitter.EAGER, words=replace(emitter.WORDS, **words)))
    for place, method in instead.items():
        part, _, name = place.partition(".")
        owner = getattr(made, part)
        setattr(owner, name, MethodType(method, owner))
    made.write()


def asking(part: str) -> list[Case]:
    found = [c for c in CASES if part in asked(c) and _offered(c)]
    assert found, f"no case asks for {part}"
    return found


def _offered(case: Case) -> bool:
    """Whether the variant offers what a case needs, but for what `granularity: module` asks, unless it
    is made once."""
    needs = required_by(case) - ({"module"} if case.procedure.made == "each-step" else set())
    return needs.isdisjoint(VARIANT.model.lacks)


def test_every_part_can_be_passed_over() -> None:
    assert set(PASSED_OVER) == set(PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_what_a_case_asks_for_and_a_program_does_not_have_is_refused(part: str) -> None:
    name, instead = PASSED_OVER[part]
    for case in asking(part):
        written(case)
        with pytest.raises(AdapterError, match=rf"not written for torch/\S+: .*\b{part}\b"):
            written(case, {name: instead})


def of_kind(kind: str) -> list[Case]:
    cases = [c for c in CASES if c.procedure.kind == kind and lacking(c, VARIANT) is None]
    assert cases
    return cases


@pytest.mark.parametrize("kind", ["part", "functional", "second_order", "third_order"])
def test_a_procedure_that_the_adapter_does_not_say_it_writes_is_unsupported(kind: str) -> None:
    left = [k for k in WORDS.procedures_written if k != kind]
    for case in of_kind(kind):
        with pytest.raises(NotOfferedError, match=f"adapter does not write procedure {kind}"):
            written(case, procedures_written=left)


@pytest.mark.parametrize("kind", ["backward", "train"])
def test_a_procedure_whose_writer_is_there_and_that_is_not_listed_is_broken(kind: str) -> None:
    """`write_gradients` is required, and `write_training` says that training is written."""
    left = [k for k in WORDS.procedures_written if k != kind]
    for case in of_kind(kind)[:3]:
        with pytest.raises(AdapterError, match=f"not written for torch/.*: procedure {kind}") as e:
            written(case, procedures_written=left)
        assert not isinstance(e.value, NotEmittedError)


def test_training_without_its_writer_is_unsupported() -> None:
    left = [k for k in WORDS.procedures_written if k != "train"]
    for case in of_kind("train")[:3]:
        with pytest.raises(NotOfferedError, match="adapter does not write procedure train"):
            written(case, {"run.write_training": Run.write_training}, procedures_written=left)


def test_an_operation_written_without_an_option_is_unsupported_where_a_case_sets_it() -> None:
    operations = {**WORDS.operations, "sum": "{x}.sum()"}
    asked_for = [
        case
        for case in CASES
        if any(s.op == "sum" and s.options.get("axis") is not None for _, s in case.statements())
        and lacking(case, VARIANT) is None
    ]
    assert asked_for
    for case in asked_for:
        with pytest.raises(NotEmittedError, match="does not write the operation sum with axis"):
            written(case, operations=operations)


def test_a_statement_without_a_line_is_refused() -> None:
    (case,) = (c for c in CASES if c.id == "basics/mlp-block")
    region, gone = next((region, s) for region, s in case.statements() if region)

    def write_statement(self: Any, statement: Any, of: str) -> None:
        if statement != gone:
            type(self).write_statement(self, statement, of)

    with pytest.raises(AdapterError, match=f"statement {gone.label} of region {region}"):
        written(case, {"body.write_statement": write_statement})


def test_a_generator_without_its_writer_is_unsupported() -> None:
    cases = [c for c in CASES if "generator" in required_by(c) and lacking(c, VARIANT) is None]
    assert cases
    for case in cases:
        with pytest.raises(NotOfferedError, match="does not write an explicit generator"):
            written(case, {"tensors.framework_generator": Tensors.framework_generator})


@pytest.mark.parametrize("name", ["wrapper", "compiled-eager"])
def test_a_policy_and_contexts_of_one_region_are_unsupported(name: str) -> None:
    """Both would be the `context_fn` of one call."""
    (case,) = (c for c in CASES if c.id == "contexts/set")
    program = (replace(n, save=("sin",)) if isinstance(n, Region) else n for n in case.program)
    both = replace(case, program=tuple(program))
    with pytest.raises(NotOfferedError, match="does not write a policy and contexts"):
        TORCH.load("emitter").emitter(both, TORCH.variant(name)).write()


@pytest.mark.parametrize(
    ("line", "asking"),
    [
        ("hook", lambda case: case.hooks),
        ("vmap", lambda case: any(region.mapped for region in case.regions())),
        ("autocast", lambda case: case.autocast),
        ("wrong_option", lambda case: any(r.option == "wrong" for r in case.regions())),
    ],
)
def test_a_part_whose_line_the_adapter_has_not_is_unsupported(line: str, asking: Any) -> None:
    cases = [case for case in CASES if asking(case) and _offered(case)]
    assert cases
    for case in cases:
        with pytest.raises(NotOfferedError, match=f"the adapter does not write `{line}`"):
            written(case, **{line: ""})


@pytest.mark.parametrize(
    ("line", "between"),
    [
        ("halving", "update"),
        ("drawing", "draw"),
        ("seeding", "reseed"),
        ("autocast", "autocast"),
        ("without_gradients", "no-gradients"),
    ],
)
def test_a_line_that_the_framework_has_to_give_is_asked_for(line: str, between: str) -> None:
    cases = [c for c in CASES if c.procedure.between == between and lacking(c, VARIANT) is None]
    assert cases
    for case in cases:
        if between not in ("draw", "reseed") or "implicit" in case.sources():
            with pytest.raises(NotOfferedError, match=f"adapter does not write `{line}`"):
                written(case, **{line: ""})
