"""The pytest plugin, from outside: real sessions on the miniature adapter."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from conformance import results
from tests import commands, mini

pytest_plugins = ["pytester"]
MINI = str(mini.ADAPTERS / "mini")


@pytest.fixture
def session(pytester: pytest.Pytester):
    def run(*arguments: str, adapter: str = MINI, fresh: bool = False) -> pytest.RunResult:
        given = ("--adapter", adapter, "--cases", str(mini.CASES), *arguments)
        done = commands.pytest_session(pytester.path, *given, fresh=fresh)
        print(done.stdout, done.stderr, sep="\n")  # for whom a test fails
        lines = done.stdout.splitlines(), done.stderr.splitlines()
        return pytest.RunResult(done.returncode, *lines, 0.0)

    return run


def variants(*names: str) -> list[str]:
    return [word for name in names for word in ("--variant", name)]


def read(pytester: pytest.Pytester, name: str = "mini") -> results.Results:
    return results.read(pytester.path / "reports" / f"{name}.jsonl")


def test_inert_without_an_adapter(pytester):
    pytester.makefile(".yaml", case="family: x")
    pytester.makepyfile("def test_own(): pass")
    done = pytester.runpytest_subprocess(timeout=60)
    done.assert_outcomes(passed=1)
    assert not (pytester.path / "reports").exists()


def test_does_not_import_what_it_does_not_need(pytester):
    pytester.makepyfile(
        "import sys\ndef test_own(): assert not {'pydantic', 'msgspec', 'numpy'} & set(sys.modules)"
    )
    pytester.runpytest_subprocess("-p", "no:hypothesispytest", timeout=60).assert_outcomes(passed=1)


def test_item_per_case_variant_and_check(session):
    done = session("--collect-only", "-q", *variants("right", "picky"))
    assert "mini.yaml::mini/square[mini/right] gradient" in done.stdout.str()
    ids = [line.partition("::")[2] for line in done.outlines if "::" in line]
    assert ids[:2] == ["mini/square[mini/right] error", "mini/square[mini/right] value"]
    first_picky = ids.index("mini/square[mini/picky] error")
    assert all("[mini/right]" in name for name in ids[:first_picky])
    assert ids[-1].startswith("mini/twice[mini/picky] ")
    assert len(ids) == len(set(ids))


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
    assert found.footer.seconds["observing"] > 0
    program = pytester.path / "reports" / found.results[0].program
    assert program.is_file()


def test_order_and_verdicts_are_the_same_with_xdist(session, pytester):
    chosen = variants("right", "wrong", "crashing")
    counts = []
    seen = []
    arrays = []
    for more in ([], ["-n", "2"]):
        done = session(*chosen, *more)
        counts.append(done.parseoutcomes())
        seen.append([(r.case, r.variant, r.verdicts) for r in read(pytester).results])
        arrays.append((pytester.path / "reports" / "mini.safetensors").read_bytes())
    assert seen[0] == seen[1]
    assert arrays[0] == arrays[1]
    assert [c["failed"] for c in counts] == [5, 5]
    assert [c["passed"] for c in counts] == [counts[0]["passed"]] * 2
    assert not list((pytester.path / "reports").glob(".partial-*"))


def test_xdist_keeps_checks_of_one_observation_together(session, pytester):
    done = session("-n", "2", "-v", *variants("right"))
    logs = [p.name for p in (pytester.path / "reports" / "logs").glob("mini*.log")]
    assert "mini.gw0.log" in logs
    worker: dict[str, set[str]] = {}
    for line in done.outlines:
        if line.startswith("[gw") and "::" in line:
            name = line.partition("::")[2].partition("[mini/right]")[0]
            worker.setdefault(name, set()).add(line[:5])
    assert len(worker) == 5
    assert all(len(found) == 1 for found in worker.values())


def test_crash_is_one_failure_and_the_rest_points_at_it(session):
    done = session("-rs", *variants("crashing"), "-k", "square")
    checks = done.parseoutcomes()
    assert checks["failed"] == 1
    assert "passed" not in checks
    done.stdout.fnmatch_lines(["*not judged (crashed): see mini/square[[]mini/crashing[]] error*"])


def test_crash_shows_where_its_own_item_is_not_selected(session):
    done = session(*variants("crashing"), "-k", "square and gradient")
    assert done.parseoutcomes()["failed"] == 1
    done.stdout.fnmatch_lines(["crashed: the process died of SIGSEGV"])


def test_failure_reads_as_a_verdict(session, pytester):
    done = session(*variants("crashing"), "-k", "square")
    text = done.stdout.str()
    assert "crashed: the process died of SIGSEGV" in text
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


def entry(**changes: str) -> str:
    given = {
        "case": "mini/*",
        "variant": "right",
        "check": "gradient",
        "observed": "fail:",
        "cause": "so",
        "reason": "so it was",
    }
    return json.dumps([given | changes])


def test_known_deviation_that_passes_again_fails(session, pytester):
    done = session(*variants("right"), adapter=own_adapter(pytester, entry()))
    assert done.ret == 1
    assert done.parseoutcomes()["failed"] == 5
    done.stdout.fnmatch_lines(["*known deviation is gone: take *known.yaml:1 out (so it was)*"])


def test_deviation_other_than_the_known_one_fails(session, pytester):
    known = entry(variant="wrong", observed="is None")
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
    adapter = one_variant(pytester, entry(case="mini/removed"))
    done = session(adapter=adapter)
    assert done.parseoutcomes().get("failed", 0) == 0
    assert done.ret == 1
    done.stdout.fnmatch_lines(["*known.yaml:1: explains nothing in this run; take it out*"])
    assert session("-k", "square", adapter=adapter).ret == 0
    assert session("-n", "2", adapter=adapter).ret == 1


def test_entry_without_a_reason_is_refused(session, pytester):
    done = session(adapter=own_adapter(pytester, entry(reason="")))
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*known.yaml:1: a known deviation without a reason*"])


@pytest.mark.parametrize("more", [[], ["-n", "2"]])
def test_broken_adapter_is_one_message(session, pytester, more):
    before = pytester.mkdir("reports") / "absent.jsonl"
    before.touch()
    done = session(*more, adapter=str(mini.ADAPTERS / "absent"))
    assert done.ret == 3
    text = done.stdout.str() + done.stderr.str()
    assert text.count("No module named 'framework_that_nobody_has'") == 1
    assert "Traceback" not in text
    assert text.count(f"of an earlier run, and left as they are: {before}") == 1
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
    assert found.header.selection == "1 of 5 cases"


@pytest.mark.parametrize("more", [[], ["-n", "2"]])
def test_last_failed(session, more):
    session(*variants("right", "crashing"))
    done = session("--lf", *variants("right", "crashing"), *more)
    outcomes = done.parseoutcomes()
    assert outcomes["failed"] == 5
    assert "passed" not in outcomes


def test_item_by_its_id(session):
    name = f"{mini.CASES / 'mini.yaml'}::mini/chain[length=2][mini/right] value"
    assert session(name).parseoutcomes() == {"passed": 1}


@pytest.mark.parametrize("more", [[], ["-n", "2"]])
def test_junit(session, pytester, more):
    session("--junitxml", "out.xml", *variants("right", "crashing"), "-k", "square", *more)
    root = ElementTree.parse(pytester.path / "out.xml").getroot()
    found = {case.get("name"): case for case in root.iter("testcase")}
    failure = found["mini/square[mini/crashing] error"].find("failure")
    assert failure is not None
    assert (failure.get("message") or "").startswith("crashed: the process died of SIGSEGV")
    passed = found["mini/square[mini/right] gradient"]
    assert {p.get("name"): p.get("value") for p in passed.iter("property")}["status"] == "pass"


def test_selection_of_checks_is_what_results_hold(session, pytester):
    session(*variants("right"), "-k", "gradient")
    found = read(pytester)
    assert found.header.selection == "-k gradient"
    assert {v.check for r in found.results for v in r.verdicts} == {"gradient"}


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
