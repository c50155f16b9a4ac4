"""`action.yml` passes what the commands accept and uses all inputs; issue forms are complete."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.run.options import OPTIONS

ACTION = Path(__file__).parents[1] / "action.yml"
FORMS = sorted(
    path
    for path in (ACTION.parent / ".github/ISSUE_TEMPLATE").glob("*.yml")
    if path.stem != "config"
)
#: Taken by pytest.
PYTESTS = {"--junitxml"}


def action() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(ACTION.read_text("utf-8"))
    return found


def test_options_are_those_of_the_command() -> None:
    known = {*OPTIONS} | PYTESTS
    (text,) = [
        s["run"]
        for s in action()["runs"]["steps"]
        if "conformance" in s["run"] and "run " in s["run"] and "words" in s["run"]
    ]
    assert set(re.findall(r"(?<![\w$])--[a-z-]+", text)) <= known


def test_every_input_reaches_a_step_and_every_variable_a_command() -> None:
    steps = action()["runs"]["steps"]
    given = {name for step in steps for name in re.findall(r"inputs\.(\w+)", str(step["env"]))}
    assert given == set(action()["inputs"])
    for step in steps:
        for name in step["env"]:
            assert f"${name}" in step["run"], name


def test_inputs_never_stand_in_a_script() -> None:
    """They come from whoever calls the action: a shell must not read them as its own words."""
    for step in action()["runs"]["steps"]:
        assert "${{" not in step["run"]


def test_scripts_are_bash() -> None:
    for step in action()["runs"]["steps"]:
        subprocess.run(["bash", "-n", "-c", step["run"]], check=True)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_issue_forms_ask_for_what_they_name(form: Path) -> None:
    found = yaml.safe_load(form.read_text("utf-8"))
    assert set(found) == {"name", "description", "labels", "body"}
    for field in found["body"]:
        assert set(field) - {"validations"} == {"type", "id", "attributes"}
        assert field["type"] in ("input", "textarea")
        assert field["attributes"]["label"]
