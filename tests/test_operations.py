"""The registry of operations: complete, consistent, and emitted by every adapter that offers them."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter
from textwrap import dedent
from typing import Any

import pytest

from conformance.drivers.adapter import Adapter, all_adapters
from conformance.emit import accumulating, usual
from conformance.emit.emitter import Call
from conformance.emit.usual import CALLS
from conformance.errors import CaseError
from conformance.language.features import CAPABILITIES
from conformance.language.operations import OF_CALLABLES, OPERATIONS, RANDOM, RENAMED, Operation
from conformance.language.statements import parse
from conformance.model.case import Position, Statement
from tests.suite_cases import CASES

ROOT = Path(__file__).parent.parent
HERE = Position("f.yaml", 1, 1)
OF_EACH = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
#: What a value can be, for the statement that each operation is tried in.
VALUES = {"int": "2", "float": "0.5", "bool": "True", "ints": "(2, 3)", "dtype": "'float32'"}


def _arguments(operation: Operation) -> tuple[str, ...]:
    """The names of the arguments that are tensors."""
    return tuple(t.removesuffix("...") for t in operation.tensors if not t.endswith("?"))


@OF_EACH
def test_operation_is_described(operation: Operation) -> None:
    assert OPERATIONS[operation.name] is operation
    assert operation.name.isidentifier()
    assert operation.name.islower()
    assert operation.shape
    assert operation.capability in ("", *CAPABILITIES)


@OF_EACH
def test_needs_speak_of_the_arguments(operation: Operation) -> None:
    arguments = _arguments(operation)
    assert set(operation.needs) <= set(arguments)
    for name, alternatives in operation.needs.items():
        assert alternatives, name
        assert len(set(alternatives)) == len(alternatives), name
        for words in alternatives:
            assert words <= {*arguments, "out", "mask"}, name
    assert set(operation.updates) <= set(arguments)
    assert not set(operation.updates) & set(operation.needs)


def test_every_differentiable_argument_has_needs() -> None:
    """Those without are named here, each with a reason why no gradient flows."""
    without = {
        (operation.name, name)
        for operation in OPERATIONS.values()
        for name in _arguments(operation)
        if name not in operation.needs
    }
    assert without == {
        ("accumulate_sin", "total"),  # state
        ("embedding", "indices"),  # integers
        ("where", "condition"),  # bools
        ("batch_norm", "running_mean"),  # state
        ("batch_norm", "running_var"),
        ("stop_gradient", "x"),  # what it is for
        ("asks_gradient", "x"),  # a bool
    }


@OF_EACH
def test_options_fit_their_types(operation: Operation) -> None:
    for name, spec in operation.options.items():
        assert name.isidentifier()
        assert bool(spec.words) == (spec.type == "str"), name
        if not spec.required and spec.default is not None:
            types = {"int": int, "float": float, "bool": bool, "str": str, "ints": tuple}
            assert type(spec.default) is types[spec.type], name
        if spec.words and not spec.required:
            assert spec.default in spec.words
    assert operation.results == 1 or "sections" in operation.options


@OF_EACH
def test_signature_can_be_written_as_it_reads(operation: Operation) -> None:
    """The text that an error shows as a hint is a statement, its options' values filled in."""
    text = operation.signature()
    assert text.startswith(f"{operation.name}(")
    for name, spec in operation.options.items():
        value = repr(spec.words[0]) if spec.words else VALUES.get(spec.type)
        text = text.replace(f"{name}=…", f"{name}={value}")
    text = text.replace(", …]", "]")
    targets = "p, q" if operation.results == 0 else "p"
    statement = parse(f"{targets} = {text}", HERE)
    assert statement.op == operation.name
    assert set(statement.options) == set(operation.options)


def test_renamed_words_lead_to_operations() -> None:
    assert not set(RENAMED) & set(OPERATIONS)
    assert set(RENAMED.values()) <= set(OPERATIONS)
    for word, name in RENAMED.items():
        with pytest.raises(CaseError, match=re.escape(f"did you mean {name!r}?")):
            parse(f"y = {word}(x)", HERE)


def test_random_operations_draw() -> None:
    drawing = {"dropout", "rrelu", "uniform", "uniform_from", "numpy_uniform", "python_uniform"}
    assert drawing == RANDOM


def test_every_operation_is_in_a_case() -> None:
    """An operation that no case uses is tested by nobody."""
    used = {statement.op for case in CASES for _, statement in case.statements()}
    assert set(OPERATIONS) == used


@pytest.mark.parametrize("adapter", all_adapters(ROOT / "adapters"), ids=lambda a: a.name)
def test_adapters_emit_operations_of_the_registry(adapter: Adapter) -> None:
    """Every word is the registry's; what is missing belongs to a capability that is lacking."""
    emitted = set(adapter.load("emitter").WORDS.operations)
    assert emitted <= set(OPERATIONS)
    everywhere = set.intersection(*(set(v.model.lacks) for v in adapter.variants))
    # Emitted by the place they stand in, or by the library that a generator is of.
    handled = {*OF_CALLABLES, "uniform_from", "sin_or_cos", *CALLS}
    for name in set(OPERATIONS) - emitted - handled:
        assert OPERATIONS[name].capability in everywhere, f"{adapter.name} does not emit {name}"


def test_what_most_frameworks_write_alike_is_of_the_registry() -> None:
    written = {**usual.OPERATORS, **usual.functions("np")}
    assert len(written) == len(usual.OPERATORS) + len(usual.functions("np"))
    for name, template in written.items():
        operation = OPERATIONS[name]
        words = {word for _, word, _, _ in Formatter().parse(template) if word}
        arguments = {tensor.rstrip("?") for tensor in operation.tensors}
        assert words == {*arguments, *operation.options}
    assert written["sin"] == "np.sin({x})"


def test_what_frameworks_with_tensors_write_alike_is_of_the_registry() -> None:
    written = {**usual.neural("np", "F"), **accumulating.CALLS}
    assert written.keys().isdisjoint({*usual.OPERATORS, *usual.functions("np")})
    for name, template in written.items():
        operation = OPERATIONS[name]
        if isinstance(template, str):
            words = {word for _, word, _, _ in Formatter().parse(template) if word}
            assert words <= {*operation.tensors, *operation.options}
    assert written["relu"] == "F.relu({x})"
    helpers = accumulating.functions(
        **{"module": "np", "base": "F.Function", "saved": "saved", "grad": "np.grad"},
        **{"gradients": "g", "asks": "a", "asking": "g"},
    )
    assert helpers.keys() == accumulating.CALLS.keys()
    for text in helpers.values():
        compile(dedent(text), "helper", "exec")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"stride": 1, "padding": "valid"}, "F.conv2d(a, w)"),
        ({"stride": 2, "padding": "same"}, 'F.conv2d(a, w, stride=2, padding="same")'),
    ],
)
def test_a_convolution_names_what_is_not_usual(options: Any, text: str) -> None:
    statement = Statement(("y",), "conv2d", (), {}, HERE)
    writer: Any = usual.neural("np", "F")["conv2d"]
    assert writer(Call("conv2d", {"x": "a", "w": "w"}, options, statement)) == text


@pytest.mark.parametrize(
    ("axis", "keepdims", "text"),
    [
        (None, False, "a.sum()"),
        (1, False, "a.sum(dim=1)"),
        ((0, 1), True, "a.sum(dim=(0, 1), keepdims=True)"),
    ],
)
def test_a_reduction_is_a_method(axis: object, keepdims: bool, text: str) -> None:
    options: Any = {"axis": axis, "keepdims": keepdims}
    statement = Statement(("s",), "sum", (), {}, HERE)
    call = Call("sum", {"x": "a"}, options, statement)
    assert usual.reduced(call, axis="dim") == text
