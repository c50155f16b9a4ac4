"""A part of a case that an adapter passes over is refused, whichever it is."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from conformance.drivers.adapter import read_adapter
from conformance.emit.asked import PARTS, asked
from conformance.errors import AdapterError
from conformance.language.capabilities import required_by
from conformance.model.case import Case
from conformance.run.runner import lacking
from tests.suite_cases import CASES

ROOT = Path(__file__).parent.parent
TORCH = read_adapter(ROOT / "adapters" / "torch")
VARIANT = TORCH.variant("non-reentrant")
#: What an adapter would do that passes over a part, in the place of which attribute.
PASSED_OVER: dict[str, tuple[str, Any]] = {
    "seeding": ("write_seeding", lambda self, seed: None),
    "between": ("write_between", lambda self: None),
    "after": ("write_after", lambda self: None),
    "start": ("write_backward", lambda self, *words, **more: self.code("loss.backward()")),
    "hooks": ("write_hooks", lambda self: self.code("fired = []")),
    "state": ("state_entries", lambda self: []),
    "generators": ("generators_entry", lambda self: ""),
    "autocast": ("autocast", ""),
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


@pytest.mark.parametrize("kind", ["part", "functional", "second_order", "third_order", "train"])
def test_a_procedure_that_no_writer_writes_is_refused(kind: str) -> None:
    cases = [c for c in CASES if c.procedure.kind == kind and lacking(c, VARIANT) is None]
    assert cases
    left = [k for k in emitter().procedures_written if k != kind]
    for case in cases:
        with pytest.raises(AdapterError, match=f"not written for torch/.*: procedure {kind}"):
            written(case, procedures_written=left)


def test_a_statement_without_a_line_is_refused() -> None:
    (case,) = (c for c in CASES if c.id == "basics/mlp-block")
    region, gone = next((region, s) for region, s in case.statements() if region)

    def write_statement(self: Any, statement: Any, of: str) -> None:
        if statement != gone:
            super(type(self), self).write_statement(statement, of)

    with pytest.raises(AdapterError, match=f"statement {gone.label} of region {region}"):
        written(case, write_statement=write_statement)


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
            with pytest.raises(AdapterError, match=f"not written for .*: `{line}`"):
                written(case, **{line: ""})
