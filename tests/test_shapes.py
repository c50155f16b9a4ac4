"""A case whose tensors do not fit its operations is refused where it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.errors import CaseError
from conformance.language.load import load_text
from conformance.oracle.interpreter import check_shapes, is_own
from conformance.paths import find_paths
from tests.commands import conformance
from tests.suite_cases import CASES

TEXT = """\
family: fam
cases:
  one:
    title: A title
    source: Somewhere
    why: A reason
    inputs:
      x: {shape: [3, 4], normal: 1.0}
      flag: {value: true}
    parameters:
      w: {shape: [4, 4], normal: 1.0}
    program:
      - recompute: block
        takes: x
        gives: y
        body:
          - h = matmul(x, w)
          - y = sin(h)
      - z = multiply(y, y)
    outputs: z
    gradients: {of: sum(z)}
"""


def check(*changes: tuple[str, str]) -> None:
    text = TEXT
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    check_shapes(load_text(text, "f.yaml"))


def test_the_suites_own_cases_fit() -> None:
    check_shapes(CASES)


def test_what_fits_is_let_through() -> None:
    check()


@pytest.mark.parametrize(
    ("changes", "where", "parts"),
    [
        (
            [("[4, 4]", "[5, 4]")],
            "f.yaml:17:13",
            ("matmul does not accept", "(3, 4) and (5, 4)"),
        ),
        (
            [("y, y)", "y, w)")],
            "f.yaml:19:9",
            ("multiply does not accept", "(3, 4) and (4, 4)"),
        ),
        (
            [("sin(h)", "reshape(h, shape=[5, 5])")],
            "f.yaml:18:13",
            ("reshape does not accept tensors of shape (3, 4)", "hint: `reshape(x, shape=…)`"),
        ),
        ([("sum(z)", "z")], "f.yaml:3:3", ("shape (3, 4), expected one number", "sum(y)")),
        (
            [("sin(h)", "where(h, h, x)")],
            "f.yaml:18:13",
            ("a condition of dtype float32 has no truth, write `dtype: bool`",),
        ),
        (
            [("sin(h)", "imag(h)")],
            "f.yaml:18:13",
            ("a tensor of dtype float32 has no parts, expected a complex one",),
        ),
        (
            [("sin(h)", "slice(h, start=5)")],
            "f.yaml:18:13",
            ("no elements of a length of 3 from 5 to None", "start=0, stop=None, step=1, axis=0"),
        ),
        ([("sin(h)", "slice(h, step=-1)")], "f.yaml:18:13", ("a step of -1, expected 1 or more",)),
        (
            [("sin(h)", "broadcast_to(h, shape=[2, 5])")],
            "f.yaml:18:13",
            ("broadcast_to does not accept tensors of shape (3, 4)", "a length of 1 where"),
        ),
    ],
    ids=[
        "inside",
        "outside",
        "option",
        "loss",
        "no-bool",
        "no-parts",
        "no-elements",
        "step",
        "too-wide",
    ],
)
def test_what_does_not_fit_is_told_with_its_place(
    changes: list[tuple[str, str]], where: str, parts: tuple[str, ...]
) -> None:
    with pytest.raises(CaseError) as raised:
        check(*changes)
    assert raised.value.where == where
    for part in parts:
        assert part in str(raised.value)


def test_an_error_that_a_case_is_about_is_no_misfit() -> None:
    check(
        ("takes: x", "takes: [x, flag]"),
        ("y = sin(h)", "y = raise_if(h, flag)"),
        ("{of: sum(z)}", "{of: sum(z)}\n    error: {type: ValueError}"),
    )


def test_own_cases_are_told_from_others(tmp_path: Path) -> None:
    assert is_own(find_paths().cases)
    assert not is_own(tmp_path)


@pytest.mark.parametrize(
    "command", [("show", "fam/one"), ("run", "--adapter", "reference", "-k", "fam")]
)
def test_commands_refuse_it(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(TEXT.replace("[4, 4]", "[5, 4]"), "utf-8")
    done = conformance(tmp_path, *command, "--cases", str(tmp_path))
    assert done.returncode == 2
    assert "matmul does not accept tensors of shape (3, 4) and (5, 4)" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
