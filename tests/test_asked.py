"""A part of a case that an adapter passes over is refused, whichever it is."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.drivers.adapter import read_adapter
from conformance.emit.asked import PARTS, asked
from conformance.emit.emitter import Emitter as Base
from conformance.errors import AdapterError, NotEmittedError, NotOfferedError
from conformance.language.capabilities import required_by
from conformance.model.case import Case
from conformance.run.runner import lacking
from tests.suite_cases import CASES

ROOT = Path(__file__).parent.parent
TORCH = read_adapter(ROOT / "adapters" / "torch")
VARIANT = TORCH.variant("non-reentrant")


def uncast(self: Any, path: str) -> None:
    """Write the forward pass as if the case entered no autocast."""
    case = self.case
    self.case = replace(case, autocast="")
    forward = type(self).__mro__[1].write_forward
    self.code.parts.discard("autocast")
    forward(self, path)
    self.code.parts.discard("autocast")
    self.case = case


#: What an adapter would do that passes over a part, in the place of which attribute.
PASSED_OVER: dict[str, tuple[str, Any]] = {
    "seeding": ("write_seeding", lambda self, seed: None),
    "between": ("write_between", lambda self: None),
    "after": ("write_after", lambda self: None),
    "start": ("write_backward", lambda self, *words, **more: self.code("loss.backward()")),
    "hooks": ("write_hooks", lambda self: self.code("fired = []")),
    "state": ("state_entries", lambda self: []),
    "generators": ("generators_entry", lambda self: ""),
    "autocast": ("write_forward", uncast),
    "autocast inside": ("casting", lambda self, region: nullcontext()),
    "mapped": (
        "write_call",
        lambda self, node, call, region: self.write_results(
            node, self.called(node, call, region), region
        ),
    ),
    "signature": (
        "parameters",
        lambda self, region: ", ".join([*self.formals(region), *region.kwargs]),
    ),
    "option": ("misuse", lambda self, region: []),
    "contexts": ("contexts_option", lambda self, region, keyword: []),
    "then": ("inputs_call", lambda self: "inputs()"),
}


def emitter(**changes: Any) -> Any:
    """The class that emits for PyTorch, with other attributes."""
    made = TORCH.load("emitter").Emitter
    return type("Changed", (made,), changes)


def written(case: Case, **changes: Any) -> None:
    emitter(**changes)(case, VARIANT).write()


def asking(part: str) -> list[Case]:
    found = [c for c in CASES if part in asked(c) and _offered(c)]
    assert found, f"no case asks for {part}"
    return found


def _offered(case: Case) -> bool:
    """Whether the variant offers what a case needs, but for what `granularity: module` asks."""
    needs = required_by(case) - {"module"}
    return needs.isdisjoint(VARIANT.model.lacks)


def test_every_part_can_be_passed_over() -> None:
    assert set(PASSED_OVER) == set(PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_what_a_case_asks_for_and_a_program_does_not_have_is_refused(part: str) -> None:
    name, instead = PASSED_OVER[part]
    for case in asking(part):
        written(case)
        with pytest.raises(AdapterError, match=rf"not written for torch/\S+: .*\b{part}\b"):
            written(case, **{name: instead})


def of_kind(kind: str) -> list[Case]:
    cases = [c for c in CASES if c.procedure.kind == kind and lacking(c, VARIANT) is None]
    assert cases
    return cases


@pytest.mark.parametrize("kind", ["part", "functional", "second_order", "third_order"])
def test_a_procedure_that_the_adapter_does_not_say_it_writes_is_unsupported(kind: str) -> None:
    left = [k for k in emitter().procedures_written if k != kind]
    for case in of_kind(kind):
        with pytest.raises(NotOfferedError, match=f"adapter does not write procedure {kind}"):
            written(case, procedures_written=left)


@pytest.mark.parametrize("kind", ["backward", "train"])
def test_a_procedure_whose_writer_is_there_and_that_is_not_listed_is_broken(kind: str) -> None:
    """`write_gradients` is required, and `write_training` says that training is written."""
    left = [k for k in emitter().procedures_written if k != kind]
    for case in of_kind(kind)[:3]:
        with pytest.raises(AdapterError, match=f"not written for torch/.*: procedure {kind}") as e:
            written(case, procedures_written=left)
        assert not isinstance(e.value, NotEmittedError)


def test_training_without_its_writer_is_unsupported() -> None:
    left = [k for k in emitter().procedures_written if k != "train"]
    for case in of_kind("train")[:3]:
        with pytest.raises(NotOfferedError, match="adapter does not write procedure train"):
            written(case, procedures_written=left, write_training=Base.write_training)


def test_an_operation_written_without_an_option_is_unsupported_where_a_case_sets_it() -> None:
    operations = {**emitter().operations, "sum": "{x}.sum()"}
    asked_for = [
        case
        for case in CASES
        if any(s.op == "sum" and s.options.get("axis") is not None for _, s in case.statements())
        and lacking(case, VARIANT) is None
    ]
    assert asked_for
    for case in asked_for:
        with pytest.raises(NotEmittedError, match="does not emit sum with axis"):
            written(case, operations=operations)


def test_a_statement_without_a_line_is_refused() -> None:
    (case,) = (c for c in CASES if c.id == "basics/mlp-block")
    region, gone = next((region, s) for region, s in case.statements() if region)

    def write_statement(self: Any, statement: Any, of: str) -> None:
        if statement != gone:
            super(type(self), self).write_statement(statement, of)

    with pytest.raises(AdapterError, match=f"statement {gone.label} of region {region}"):
        written(case, write_statement=write_statement)


def test_a_generator_without_its_writer_is_unsupported() -> None:
    cases = [c for c in CASES if "generator" in required_by(c) and lacking(c, VARIANT) is None]
    assert cases
    for case in cases:
        with pytest.raises(NotOfferedError, match="does not write an explicit generator"):
            written(case, framework_generator=Base.framework_generator)


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
