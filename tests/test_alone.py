"""What `conformance show` prints of a case loads, and is that case."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.cli.alone import alone
from conformance.language.load import load_file, load_text
from conformance.results.hashing import cases_hash
from tests.suite_cases import CASES

ALIASES = """\
family: fam
tensors: {x: {shape: [2, 3], normal: 1.0}}
cases:
  one:
    title: A title
    source: A source
    why: A reason
    inputs: &inputs {u: {shape: [2, 3], normal: 1.0}}
    program:
      - &region {define: block(h), body: h = sin(h)}
      - z = block(u)
  two:
    title: Another title
    source: A source
    why: A reason
    inputs: *inputs
    tolerance: {rtol: 1.0e-5, atol: 1.0e-7}
    program: [*region, z = block(u)]
  three: {title: On one line, source: A source, why: A reason, inputs: x, program: [{recompute: one(x), body: y = sin(x)}]}
"""  # noqa: E501


@pytest.mark.parametrize(
    "file", sorted({case.where.file for case in CASES}), ids=lambda f: Path(f).stem
)
def test_a_shown_case_is_that_case(file: str) -> None:
    own = [case for case in CASES if case.where.file == file]
    for name in dict.fromkeys(case.id.partition("[")[0] for case in own):
        cases = [case for case in own if case.id.partition("[")[0] == name]
        assert cases_hash(load_text(alone(cases[0]), "shown")) == cases_hash(cases)


def test_aliases_are_written_out(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(ALIASES, "utf-8")
    for case in load_file(tmp_path / "f.yaml"):
        shown = alone(case)
        assert "*" not in shown
        assert "&" not in shown or case.id == "fam/one"
        assert cases_hash(load_text(shown, "shown")) == cases_hash([case])


def test_only_the_tensors_that_it_names() -> None:
    case = next(case for case in CASES if case.id == "nested/two-children")
    shown = alone(case)
    assert "  x: {shape: [3, 4], normal: 0.5}\n" in shown
    assert "\n  w: " not in shown
    assert "depth-2" not in shown
