"""Whatever the text, reading it raises `CaseError` or nothing."""

from __future__ import annotations

import contextlib

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from conformance.errors import CaseError
from conformance.language.load import load_text
from conformance.language.operations import OPERATIONS
from conformance.language.statements import parse
from conformance.model.case import Position

from .test_load import GOOD

HERE = Position("f.yaml", 1, 1)
QUICK = settings(
    max_examples=300,
    deadline=None,
    database=None,
    derandomize=True,  # the same in every run
    suppress_health_check=list(HealthCheck),
)
pytestmark = pytest.mark.filterwarnings("ignore")  # of Python's parser, on what it is shown

PIECES = [
    *OPERATIONS,
    *"xyz=(),[]{}*.:;@-+/'\"\\#\n\t ",
    *("==", ":=", "->", "**", "lambda", "if", "else", "for", "in", "await", "yield", "f'", "b'"),
    *("None", "True", "1", "1.5", "1e999", "1j", "0x", "__import__", "axis=", "p=", "shape=", "$i"),
    *("\0", "\ud800", "ä", "x́", "\u202e"),
]
statements = st.one_of(
    st.text(max_size=200),
    st.lists(st.sampled_from(PIECES), max_size=30).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=15).map(lambda p: "y = add(" + "".join(p) + ")"),
)
values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.sampled_from(["x", "y", "z", "w", "block", "$n", "sum(z)", "y = sin(x)", "a b", ""]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(["a", "shape", "x"]), inner)
    ),
    max_leaves=8,
)
#: The pieces of the good file that are values, each of which something else may replace.
SLOTS = [
    "fam\n",
    "A title",
    "[2, 3]",
    "1.0}\n      flag",
    "true}",
    "matmul(x, w)",
    "exp(y)",
    "sum(z)",
]
KEYS = [
    "title",
    "inputs",
    "program",
    "outputs",
    "gradients",
    "takes",
    "gives",
    "body",
    "x",
    "value",
]


def _reads(text: str) -> None:
    with contextlib.suppress(CaseError):
        load_text(text, "f.yaml")


@QUICK
@given(statements)
def test_any_statement(text: str) -> None:
    with contextlib.suppress(CaseError):
        parse(text, HERE)


@QUICK
@given(st.one_of(st.text(max_size=300), st.text("{}[]&*!|>-:?#'\"%@`, \nab1<", max_size=100)))
def test_any_text(text: str) -> None:
    _reads(text)


@QUICK
@given(st.integers(0, len(GOOD)), st.integers(0, len(GOOD)), st.text("{}[]:-& \nxy=(1", max_size=8))
def test_any_cut(start: int, end: int, text: str) -> None:
    _reads(GOOD[: min(start, end)] + text + GOOD[max(start, end) :])


@QUICK
@given(st.sampled_from(SLOTS), st.text(max_size=20))
def test_any_word(slot: str, text: str) -> None:
    _reads(GOOD.replace(slot, text))


@QUICK
@given(st.sampled_from(KEYS), values)
@example("inputs", [{"a": None}])
def test_any_value_of_a_key(key: str, value: object) -> None:
    document = yaml.safe_load(GOOD)

    def replace(part: object) -> object:
        if isinstance(part, dict):
            return {k: value if k == key else replace(v) for k, v in part.items()}
        return [replace(p) for p in part] if isinstance(part, list) else part

    _reads(yaml.safe_dump(replace(document)))
