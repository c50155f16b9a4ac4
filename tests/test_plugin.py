"""The pytest plugin, from outside: real sessions on the miniature adapter."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from conformance import store
from conformance.model.result import Results
from tests import commands, mini

pytest_plugins = ["pytester"]
PLUGIN = "conformance.run.pytest_plugin"
MINI = str(mini.ADAPTERS / "mini")


@pytest.fixture
def session(pytester: pytest.Pytester):
    def run(*arguments: str, adapter: str = MINI, fresh: bool = False) -> pytest.RunResult:
        given = ("-p", PLUGIN, "--adapter", adapter, "--cases", str(mini.CASES), *arguments)
        done = commands.pytest_session(pytester.path, *given, fresh=fresh)
        print(done.stdout, done.stderr, sep="\n")  # for whom a test fails
        lines = done.stdout.splitlines(), done.stderr.splitlines()
        return pytest.RunResult(done.returncode, *lines, 0.0)

    return run


def variants(*names: str) -> list[str]:
    return [word for name in names for word in ("--variant", name)]


def read(pytester: pytest.Pytester, name: str = "mini") -> Results:
    return store.read(pytester.path / "reports" / f"{name}.db")


def test_beside_another_project_nothing_is_registered(pytester):
    pytester.makeconftest(
        "def pytest_addoption(parser): parser.addoption('--smoke', action='store_true')"
    )
    pytester.makepyfile("def test_own(request): assert request.config.getoption('--smoke')")
    done = pytester.runpytest_subprocess("--smoke", timeout=60)
    done.assert_outcomes(passed=1)
    assert not (pytester.path / "reports").exists()


def test_without_an_adapter_it_says_so(pytester):
    done = commands.pytest_session(pytester.path, "-p", PLUGIN)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no adapter is named" in done.stderr


def test_an_item_is_a_case_on_a_variant(session):
    done = session("--collect-only", "-q", *variants("right", "picky"))
    ids = [line.partition("::")[2] for line in done.outlines if "::" in line]
    assert ids[:2] == ["mini/square[mini/right]", "mini/square[mini/picky]"]
    assert ids[-1] == "mini/twice[mini/right]"
    assert len(ids) == len(set(ids))
    # What a variant cannot express has no item.
    assert "mini/by-name[mini/right]" in ids
    assert len(ids) == 9


@pytest.mark.parametrize("more", [[], ["-n", "1"]])
def test_what_a_variant_cannot_express_is_stored_and_counted(session, pytester, more):
    done = session(*variants("picky"), *more)
    assert "skipped" not in {k for k, n in done.parseoutcomes().items() if n > 1}
    without = [
        r.case
        for r in read(pytester).results
        if [(v.check, v.status) for v in r.verdicts] == [("error", "unsupported")]
        and r.observation is None
    ]
    assert len(without) == 1
    done.stdout.fnmatch_lines(["*not offered*"])
    # It is selected as its item would be.
    session(*variants("picky"), "-k", "square", *more)
    assert [r.case for r in read(pytester).results] == ["mini/square"]


def test_conforming_variant_is_green(session, pytester):
    done = session(*variants("right"), fresh=True)
    assert done.ret == 0
    found = read(pytester)
    assert found.header.variants == ("mini/right",)
    assert found.header.selection == ""
    assert found.header.versions["numpy"]
    assert [r.case for r in found.results] == [
        "mini/square",
        "mini/chain[length=2]",
        "mini/chain[length=4]",
        "mini/by-name",
        "mini/twice",
    ]
    assert found.header.seconds["observing"] > 0
    assert found.missing == ()
    program = pytester.path / "reports" / found.results[0].program
    assert program.is_file()


def test_order_and_verdicts_are_the_same_with_xdist(session, pytester):
    chosen = variants("right", "wrong", "crashing")
    counts = []
    seen = []
    for more in ([], ["-n", "2"]):
        done = session(*chosen, *more)
        counts.append(done.parseoutcomes())
        seen.append([(r.pair, r.verdicts, repr(r.expected)) for r in read(pytester).results])
    assert seen[0] == seen[1]
    assert [c["failed"] for c in counts] == [5, 5]
    assert [c["passed"] for c in counts] == [counts[0]["passed"]] * 2
    assert not list((pytester.path / "reports").glob("*-wal"))


def test_failure_reads_as_a_verdict(session, pytester):
    done = session(*variants("crashing"), "-k", "square")
    text = done.stdout.str()
    assert "error: crashed: the process died of SIGSEGV" in text
    assert "observed: mini: about to die" in text
    assert (
        "program: " + str(pytester.path / "reports/programs/mini/crashing/mini/square.py") in text
    )
    assert "Traceback" not in text
    assert "session.py" not in text.split("short test summary")[0]


def test_known_deviation_is_an_expected_failure(session):
    done = session("-rx", *variants("wrong"))
    assert done.ret == 0
    assert done.parseoutcomes()["xfailed"] == 5
    done.stdout.fnmatch_lines(["*the fault that this variant is made for*"])


def own_adapter(pytester: pytest.Pytester, known: str) -> str:
    """A copy of the miniature adapter with other known deviations."""
    folder = pytester.mkdir("own")
    for file in (mini.ADAPTERS / "mini").iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    (folder / "known.yaml").write_text(known)
    return str(folder)


def entry(**changes: object) -> str:
    given = {
        "cause": "so",
        "variants": "right",
        "cases": "mini/*",
        "shows": {"gradient": "fail:"},
        "says": "so it was",
    }
    return json.dumps([given | changes])


def test_known_deviation_that_passes_again_fails(session, pytester):
    done = session(*variants("right"), adapter=own_adapter(pytester, entry()))
    assert done.ret == 1
    assert done.parseoutcomes()["failed"] == 5
    done.stdout.fnmatch_lines(["*the known deviation is gone: remove *known.yaml:1 (so it was)*"])


def test_deviation_other_than_the_known_one_fails(session, pytester):
    known = entry(variants="wrong", shows={"gradient": "is None"})
    done = session(*variants("wrong"), adapter=own_adapter(pytester, known))
    assert done.ret == 1
    done.stdout.fnmatch_lines(["*not what *known.yaml:1 describes: 'is None'*"])


def one_variant(pytester: pytest.Pytester, known: str) -> str:
    folder = Path(own_adapter(pytester, known))
    head = (folder / "adapter.yaml").read_text().partition("variants:")[0]
    (folder / "adapter.yaml").write_text(
        head + "variants:\n  right: {title: mini.recompute, discipline: whole}\n"
    )
    return str(folder)


def test_entry_that_explains_nothing_fails_a_full_run(session, pytester):
    adapter = one_variant(pytester, entry(cases="mini/removed"))
    done = session(adapter=adapter)
    assert done.parseoutcomes().get("failed", 0) == 0
    assert done.ret == 1
    done.stdout.fnmatch_lines(["*known.yaml:1: explains nothing in this run; remove the cause*"])
    assert session("-k", "square", adapter=adapter).ret == 0
    assert session("-n", "2", adapter=adapter).ret == 1


def test_a_cause_that_says_nothing_is_refused(session, pytester):
    done = session(adapter=own_adapter(pytester, entry(says="")))
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*known.yaml:1: a cause without 'says'*"])


@pytest.mark.parametrize("more", [[], ["-n", "2"]])
def test_broken_adapter_is_one_message(session, pytester, more):
    before = pytester.mkdir("reports") / "absent.db"
    before.touch()
    done = session(*more, adapter=str(mini.ADAPTERS / "absent"))
    assert done.ret == 3
    text = done.stdout.str() + done.stderr.str()
    assert text.count("No module named 'framework_that_nobody_has'") == 1
    assert "Traceback" not in text
    assert text.count(f"results of an earlier run, unchanged: {before}") == 1
    assert before.exists()


def test_broken_adapter_does_not_stop_another(session, pytester):
    done = session(
        "--adapter", str(mini.ADAPTERS / "absent"), *variants("right"), "--variant", "only"
    )
    assert done.ret == 3
    assert done.parseoutcomes()["passed"] > 0
    assert len(read(pytester).results) == 5


def test_stop_at_the_first_failure_keeps_what_ran(session, pytester):
    done = session("-x", *variants("right", "crashing"))
    assert done.ret == 1
    found = read(pytester)
    assert [(r.case, r.variant) for r in found.results] == [
        ("mini/square", "mini/right"),
        ("mini/square", "mini/crashing"),
    ]
    assert len(found.missing) == 8
    assert found.header.interrupted == ""


@pytest.mark.parametrize("more", [[], ["-n", "2"]])
def test_last_failed(session, more):
    session(*variants("right", "crashing"))
    done = session("--lf", *variants("right", "crashing"), *more)
    outcomes = done.parseoutcomes()
    assert outcomes["failed"] == 5
    assert "passed" not in outcomes


def test_item_by_its_id(session):
    name = f"{mini.CASES / 'mini.yaml'}::mini/chain[length=2][mini/right]"
    assert session(name).parseoutcomes() == {"passed": 1}


@pytest.mark.parametrize("more", [[], ["-n", "2"]])
def test_junit(session, pytester, more):
    session("--junitxml", "out.xml", *variants("right", "crashing"), "-k", "square", *more)
    root = ElementTree.parse(pytester.path / "out.xml").getroot()
    found = {case.get("name"): case for case in root.iter("testcase")}
    failure = found["mini/square[mini/crashing]"].find("failure")
    assert failure is not None
    assert (failure.get("message") or "").startswith("error: crashed: the process died of SIGSEGV")
    passed = found["mini/square[mini/right]"]
    assert {p.get("name"): p.get("value") for p in passed.iter("property")}["outcome"] == "right"


@pytest.mark.parametrize("more", [[], ["-n", "1"]])
def test_a_divided_run_is_read_as_one(session, pytester, more):
    reports = pytester.path / "reports"
    session(*variants("right", "picky"), *more)
    whole = [(r.pair, r.verdicts) for r in read(pytester).results]
    (reports / "mini.db").unlink()
    for number in (1, 2, 3):
        assert session(*variants("right", "picky"), "--shard", f"{number}/3", *more).ret == 0
        (found,) = store.read_folder(reports)
        lacks = f"only shard {', '.join(f'{n}/3' for n in range(1, number + 1))} is here"
        assert (lacks in found.lacks) == (number < 3)
    assert [(r.pair, r.verdicts) for r in found.results] == whole
    assert sorted(path.name for path in reports.glob("*.db")) == [
        "mini.1-of-3.db",
        "mini.2-of-3.db",
        "mini.3-of-3.db",
    ]
    session(*variants("right", "picky"))
    assert [path.name for path in reports.glob("*.db")] == ["mini.db"]


@pytest.mark.parametrize("shard", ["0/2", "3/2", "two", "1/"])
def test_what_is_no_shard_is_refused(session, shard):
    done = session("--shard", shard)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"*found --shard '{shard}', expected NUMBER/OF*"])


@pytest.mark.parametrize("more", [(), ("-n", "1")])
def test_cases_are_selected_by_their_ids_alone(session, pytester, more):
    done = session(*variants("right"), "--case", "mini/squ*", *more)
    done.stdout.no_fnmatch_line("*mini/twice*")
    assert {result.case for result in read(pytester).results} == {"mini/square"}
    assert read(pytester).header.selection.startswith("--case mini/squ*")
    done = session(*variants("right"), "--case", "mini/squares")
    done.stderr.fnmatch_lines(["*no case 'mini/squares'*", "*did you mean 'mini/square'?*"])


def test_unknown_variant_names_the_nearest(session):
    done = session("--variant", "rigth")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*no variant 'rigth'*", "*did you mean 'right'*"])


def test_malformed_case_stops_before_anything_runs(session, pytester):
    folder = pytester.mkdir("bad")
    (folder / "bad.yaml").write_text("family: bad\ncases:\n  one: {}\n")
    done = session("--cases", str(folder))
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert "bad.yaml:3" in done.stderr.str()
