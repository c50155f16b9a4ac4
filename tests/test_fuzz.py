"""Damaged files of every kind end with an error of ours, quickly and in little memory: a few of them.

`python tests/fuzz.py --inputs 100000` tries many.
"""

from __future__ import annotations

import pytest

from conformance.language.yaml_marks import MAX_BYTES
from tests import fuzz

#: Of each kind, beside the seeds and what is kept in the corpus.
INPUTS = 60


@pytest.mark.parametrize("name", fuzz.kinds())
def test_damaged_files(name: str) -> None:
    fuzz.prepare()
    kind = fuzz.kinds()[name]
    problems = {}
    for number in range(len(kind.texts) + INPUTS):
        problem = fuzz.tried(kind, kind.input(number)).problem
        if problem and not problem.endswith(" s"):  # seconds depend on the machine
            problems[number] = problem
    assert problems == {}


@pytest.mark.parametrize("name", sorted(path.name for path in fuzz.CORPUS.iterdir()))
def test_what_is_kept_is_of_a_kind(name: str) -> None:
    assert name in fuzz.kinds()


@pytest.mark.parametrize(
    "name", [name for name, kind in fuzz.kinds().items() if kind.file.endswith(".yaml")]
)
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"a: [1, 2, 3]\n" * MAX_BYTES, id="13-MB"),
        pytest.param(b"a: [" + b"[]," * (MAX_BYTES // 4) + b"]\n", id="many-values"),
        pytest.param(b"a: " + b"[" * 500, id="500-brackets"),
        pytest.param(b"a: \xff\xfe\n", id="not-utf-8"),
        pytest.param(b"\xff\xfea\x00:\x00", id="utf-16"),
        pytest.param(b"a: 2001-99-99\n", id="impossible-date"),
        pytest.param(b"a: 2001-02-03 99:99:99\n", id="impossible-time"),
        pytest.param(b"a: &a [*a]\n", id="contains-itself"),
        pytest.param(b"a: " + b"9" * 5000 + b"\n", id="digits"),
        pytest.param(
            b"a0: &a0 {x: 1}\n"
            + b"".join(
                f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}\n".encode()
                for i in range(1, 12)
            ),
            id="merges",
        ),
        pytest.param(
            b"a0: &a0 [x]\n"
            + b"".join(
                f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n".encode() for i in range(1, 12)
            ),
            id="aliases",
        ),
    ],
)
def test_hostile_yaml_is_refused_at_once(name: str, content: bytes) -> None:
    """In each file of YAML that there is."""
    fuzz.prepare()
    found = fuzz.tried(fuzz.kinds()[name], content)
    assert found.refused, found.problem
    assert found.seconds < fuzz.SECONDS
    assert found.mib < 64


def test_what_is_found_is_found(tmp_path) -> None:
    """An error that is not ours, one that takes time, and one that takes memory are told apart."""

    def reads(what):
        return fuzz.tried(fuzz.Kind("any", (), what, "any"), b"")

    def slow(_: object) -> None:
        while True:
            pass

    fuzz.prepare()
    assert "ZeroDivisionError" in reads(lambda _: 1 / 0).problem
    assert "took" in reads(lambda _: bytearray(600 << 20)).problem
    before, fuzz.ENDLESS = fuzz.ENDLESS, 0.2
    try:
        assert "EndlessError" in reads(slow).problem
    finally:
        fuzz.ENDLESS = before
