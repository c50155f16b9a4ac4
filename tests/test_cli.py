"""The command line: what it prints, and how it exits."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml

from conformance import store
from conformance.cli import app
from conformance.cli import run as running
from conformance.exits import Exit
from conformance.language import load
from tests import commands, mini

Command = Callable[..., "subprocess.CompletedProcess[str]"]
MINI = ("--adapters-folder", str(mini.ADAPTERS))
CASES = ("--cases", str(mini.CASES))


@pytest.fixture
def conformance(tmp_path) -> Command:
    return partial(commands.conformance, tmp_path)


@pytest.fixture
def run(conformance) -> Command:
    return partial(conformance, "run", *MINI, *CASES)


@pytest.mark.parametrize(
    "command",
    [
        "run",
        "report",
        "compare",
        "list",
        "show",
        "emit",
        "known",
        "fuzz",
        "check",
        "export",
        "schema",
    ],
)
def test_every_command_has_help_with_examples(conformance, command):
    done = conformance(command, "--help")
    assert done.returncode == 0
    assert "Example" in done.stdout
    assert f"  conformance {command}" in done.stdout
    if command in ("run", "compare", "report", "fuzz", "check", "export"):
        assert "  3  an adapter cannot run" in done.stdout


def test_there_are_no_other_commands():
    named = {c.name or c.callback.__name__ for c in app.app.registered_commands}
    assert len(named) == 11
    assert not named & set(app.REMOVED)


@pytest.mark.parametrize("command", app.REMOVED)
def test_a_removed_command_says_what_to_use_instead(monkeypatch, capsys, command):
    monkeypatch.setattr("sys.argv", ["conformance", command, "reports"])
    with pytest.raises(SystemExit) as left:
        app.run_app()
    assert left.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"error: `conformance {command}` was removed; instead: {app.REMOVED[command]}"


@pytest.mark.parametrize("option", running.REMOVED)
def test_a_removed_option_of_a_run_says_what_to_use_instead(monkeypatch, capsys, option):
    for word in (option, f"{option}=3"):
        monkeypatch.setattr("sys.argv", ["conformance", "run", "--adapter", "mini", word])
        with pytest.raises(SystemExit) as left:
            app.run_app()
        assert left.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line == f"error: the option {option} was removed; instead: {running.REMOVED[option]}"


def test_help_documents_exit_codes_and_completion(conformance):
    text = conformance("--help", fresh=True).stdout
    assert "  0  nothing unexpected" in text
    assert "--install-completion" in text
    assert conformance("--version").stdout.strip()


def test_green_run_exits_0_and_ends_with_a_table(run, tmp_path):
    done = run("--adapter", "mini", "--variant", "right", fresh=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "1 of 5 pairs\n"
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["variant", "right"] in lines
    assert ["mini/right", "5"] in lines
    assert " passed" in done.stdout.splitlines()[-1]
    assert "warning" not in done.stdout
    assert "\x1b" not in done.stdout
    assert store.read(tmp_path / "reports" / "mini.db").header.adapter == "mini"


def test_unexpected_verdict_exits_1_and_names_the_program(run, tmp_path):
    done = run("--adapter", "mini", "--variant", "crashing", "-k", "square")
    assert done.returncode == 1
    program = tmp_path / "reports/programs/mini/crashing/mini/square.py"
    assert f"  {program}\n" in done.stdout
    assert "  crashed: the process died of SIGSEGV" in done.stdout
    assert program.is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--adapter", "minni"), "did you mean 'mini'"),
        (("--adapter", "mini", "--variant", "rihgt"), "did you mean 'right'"),
        (("--adapter", "mini", "-k", "nothing-like-it"), "no case was selected"),
        (("--adapter", "mini", "--no-such-option"), "--no-such-option"),
        ((), "--adapter"),
    ],
)
def test_bad_input_exits_2(run, arguments, words):
    done = run(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_missing_framework_exits_3_with_one_message(run):
    done = run("--adapter", "absent")
    assert done.returncode == 3
    assert (done.stdout + done.stderr).count("framework_that_nobody_has") == 1


def test_options_of_pytest_are_passed_on(run, tmp_path):
    done = run("--adapter", "mini", "--variant", "right", "-n", "2", "--junitxml", "out.xml")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.xml").is_file()
    done = run("--adapter", "mini", "--variant", "crashing", "-x")
    assert "1 failed" in done.stdout
    done = run("--adapter", "mini", "--variant", "crashing", "--lf")
    assert "1 failed" in done.stdout.splitlines()[-1]


def test_settings_of_a_project_around_it_do_not_matter(run, tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    (tmp_path / "conftest.py").write_text("raise RuntimeError('not ours')\n")
    assert run("--adapter", "mini", "--variant", "right", "-k", "square").returncode == 0


def test_list(conformance):
    done = conformance("list", "--ids", *CASES)
    assert done.stdout.splitlines() == [case.id for case in load.load_folder(mini.CASES)]
    assert "Two regions" in conformance("list", *CASES).stdout
    assert "mini/chain[length=2]" in conformance("list", "mini", *CASES).stdout
    done = conformance("list", "maxi", *CASES)
    assert done.returncode == 2
    assert "mini" in done.stderr


def test_show(conformance):
    text = conformance("show", "mini/by-name", *CASES).stdout
    assert "needs:   function, kwargs" in text
    assert "gradient" in text
    assert "kwargs: {w: w}" in text
    assert "Two regions" not in text
    assert "twice:" not in text
    done = conformance("show", "mini/by-nam", *CASES)
    assert done.returncode == 2
    assert "did you mean 'mini/by-name'" in done.stderr


def test_a_malformed_case_does_not_stop_show_of_another(tmp_path):
    text = next(mini.CASES.glob("*.yaml")).read_text("utf-8")
    (tmp_path / "good.yaml").write_text(text, "utf-8")
    (tmp_path / "bad.yaml").write_text("family: bad\ncases: {one: {title: x}}\n", "utf-8")
    done = commands.conformance(tmp_path, "show", "mini/square", "--cases", str(tmp_path))
    assert done.returncode == Exit.BAD_INPUT
    assert "case:    mini/square" in done.stdout
    assert "bad.yaml:2" in done.stderr


def test_emit_prints_the_program(conformance):
    place = ("--adapter", "mini", *MINI, *CASES)
    done = conformance("emit", "mini/square", "--variant", "right", *place)
    assert done.returncode == 0
    compile(done.stdout, "square.py", "exec")
    assert "mini.recompute(square)" in done.stdout
    done = conformance("emit", "mini/twice", "--variant", "mini/picky", *place)
    assert done.returncode == 2
    assert "lacks repeated-call" in done.stderr


def test_schemas(conformance):
    assert json.loads(conformance("schema").stdout) == load.schema()
    assert conformance("schema", "results").stdout == store.TABLES.read_text("utf-8")


def test_list_of_adapters(conformance):
    done = conformance("list", "--adapters", *MINI)
    assert done.returncode == 0
    assert "mini: A framework in one file (numpy " in done.stdout
    assert "lacks repeated-call: a region is called once" in done.stdout
    assert "refuses kwargs: ValueError, 'takes no keyword'" in done.stdout
    assert "discipline: whole" in done.stdout


def test_known_lists_and_updates(conformance, run, tmp_path):
    text = conformance("known", "--adapter", "mini", *MINI, "--cases", str(mini.CASES)).stdout
    assert "mini fault: defect, 5 cases" in text
    assert "\n  the fault that this variant is made for\n  [wrong] gradient: fail:\n" in text
    copy = tmp_path / "copy"
    shutil.copytree(mini.ADAPTERS, copy)
    folder = ("--adapters-folder", str(copy))
    file = copy / "mini" / "known.yaml"
    file.unlink()
    assert run("--adapter", "mini", "--variant", "wrong", *folder).returncode == 1
    done = conformance("known", "--adapter", "mini", "--update", *folder)
    assert done.returncode == 0, done.stderr
    (cause,) = yaml.safe_load(file.read_text())
    assert (cause["variants"], list(cause["shows"])) == ("wrong", ["gradient"])
    assert cause["cause"] == cause["says"] == ""
    assert set(cause["cases"]) == {case.id for case in load.load_folder(mini.CASES)}
    done = run("--adapter", "mini", "--variant", "wrong", *folder)
    assert done.returncode == 2
    assert "without 'says'" in done.stderr
    file.write_text(file.read_text().replace("says: ''", "says: it is made to be"))
    done = run("--adapter", "mini", "--variant", "wrong", *folder)
    assert done.returncode == 2
    assert "without 'name'" in done.stderr
    file.write_text(file.read_text().replace("cause: ''", "cause: fault"))
    assert run("--adapter", "mini", "--variant", "wrong", *folder).returncode == 0


def test_compare_and_report(conformance, run, tmp_path):
    assert run("--adapter", "mini", "--variant", "right", "--variant", "picky").returncode == 0
    done = conformance("compare", *CASES)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "2 variants compared" in done.stdout
    assert conformance("report", *CASES).returncode == 0
    assert (tmp_path / "reports" / "index.html").is_file()
    assert (tmp_path / "reports" / "report.md").is_file()


def test_compare_without_results(conformance):
    done = conformance("compare", *CASES)
    assert done.returncode == 2
    assert "found no results" in done.stderr


def test_truncated_results_are_refused(conformance, run, tmp_path):
    run("--adapter", "mini", "--variant", "right", "-k", "square")
    file: Path = tmp_path / "reports" / "mini.db"
    file.write_bytes(file.read_bytes()[:-5000])
    for command in ("compare", "report", "export"):
        done = conformance(command)
        assert done.returncode == 2
        assert done.stderr.startswith("error: ")
        assert "run the adapter again" in done.stderr
