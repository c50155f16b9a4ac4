"""The smoke cases: what `--smoke` runs, and that they answer each question about everyday programs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conformance.drivers.adapter import Adapter, all_adapters
from conformance.model.case import Case
from conformance.paths import find_paths
from conformance.report.questions import QUESTIONS, Question
from conformance.run.runner import lacking
from tests import commands, mini
from tests.suite_cases import CASES

ADAPTERS = all_adapters(find_paths().adapters)
PLACE = ("--cases", str(mini.CASES), "--adapters-folder", str(mini.ADAPTERS))


def asked(question: Question) -> list[Case]:
    """The everyday cases that answer a question."""
    found = [c for c in CASES if {c.id, c.id.partition("[")[0]} & set(question.cases)]
    return [case for case in found if case.use == "everyday"]


def test_they_are_few() -> None:
    assert len([case for case in CASES if case.smoke]) <= 30


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.title)
def test_they_answer_every_question_about_everyday_programs(question: Question) -> None:
    assert not asked(question) or any(case.smoke for case in asked(question))


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
def test_the_first_variant_offers_one_wherever_it_offers_an_answer(adapter: Adapter) -> None:
    variant = adapter.variants[0]
    for question in QUESTIONS:
        offered = [case for case in asked(question) if lacking(case, variant) is None]
        assert not offered or any(case.smoke for case in offered), question.title


def test_a_smoke_run_is_these_cases_on_every_variant(tmp_path: Path) -> None:
    """Known deviations that show in other cases are no matter."""
    words = ("run", "--adapter", "mini", "--variant", "right", "--variant", "wrong", *PLACE)
    listed = commands.conformance(tmp_path, *words, "--smoke", "--collect-only", "-q").stdout
    pairs = set(re.findall(r"::(\S+)\[(\S+?)\]", listed))
    assert pairs == {("mini/square", "mini/right"), ("mini/square", "mini/wrong")}
    done = commands.conformance(tmp_path, *words, "--smoke")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "explains nothing" not in done.stdout
    assert commands.conformance(tmp_path, "report", *PLACE[:2]).returncode == 0
    text = (tmp_path / "reports" / "report.md").read_text().replace("\\", "")
    assert "A smoke run covers part of the cases: mini (--smoke)" in text


def test_without_smoke_cases_nothing_is_selected(tmp_path: Path) -> None:
    (tmp_path / "cases").mkdir()
    text = next(mini.CASES.glob("*.yaml")).read_text().replace("    smoke: true\n", "")
    (tmp_path / "cases" / "mini.yaml").write_text(text)
    place = ("--cases", str(tmp_path / "cases"), *PLACE[2:])
    done = commands.conformance(tmp_path, "run", "--adapter", "mini", *place, "--smoke")
    assert done.returncode == 2
    assert "no case was selected" in done.stderr
