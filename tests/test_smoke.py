"""The smoke selection: what is chosen, what it runs, and that those on file are as they should be."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml
from conformance.results import Header, Result, Results, cases_hash, make_footer
from conformance.results import read as read_results
from conformance.run.shards import Pair
from conformance.run.smoke_cover import (
    Requirement,
    choose,
    cover,
    promised_by,
    requirements_of,
    shown_alone,
    shown_by,
    with_unsupported,
)

from conformance.drivers.adapter import all_adapters, read_adapter
from conformance.drivers.implementation import adapt, describe
from conformance.errors import SmokeError
from conformance.judge.known import read as read_known
from conformance.language.load import load_folder
from conformance.model.verdict import Level, Status, Verdict
from conformance.run import smoke, smoke_cover
from tests import commands, mini
from tests.faulty.faults import FOLDER, faults_of, frameworks
from tests.suite_cases import CASES

ROOT = Path(__file__).parent.parent
MINI_CASES = load_folder(mini.CASES)
ADAPTERS = {adapter.name: adapter for adapter in all_adapters(ROOT / "adapters")}
adapters = pytest.mark.parametrize("name", ADAPTERS)
Command = Callable[..., "subprocess.CompletedProcess[str]"]
REASON = "the fault that this variant is made for"


# -- the selections on file --------------------------------------------------------------------------


def promised(name: str) -> smoke_cover.Shown:
    """What each pair of an adapter's selection shows, without running it."""
    adapter = ADAPTERS[name]
    entries, caught = read_known(adapter.known), smoke_cover.read_caught(adapter)
    cases = {case.id: case for case in CASES}
    variants = {variant.id: variant for variant in adapter.variants}
    found = {
        (case, variant): promised_by(cases[case], variants[variant], entries, caught)
        for case, variant in smoke.find(adapter).pairs(adapter)
    }
    return with_unsupported(found, caught)


@adapters
def test_selection_names_what_there_is(name: str) -> None:
    smoke.find(ADAPTERS[name]).validate(ADAPTERS[name], CASES)


@adapters
def test_selection_shows_every_reason_fault_and_variant(name: str) -> None:
    adapter = ADAPTERS[name]
    entries, caught = read_known(adapter.known), smoke_cover.read_caught(adapter)
    missing = requirements_of(adapter, entries, caught).difference(*promised(name).values())
    assert not missing, f"run: {smoke.update_command(adapter)}"


@adapters
def test_nothing_can_be_left_out_of_a_selection(name: str) -> None:
    idle = [pair for pair, things in shown_alone(promised(name)).items() if not things]
    assert not idle, f"run: {smoke.update_command(ADAPTERS[name])}"


@adapters
def test_selection_is_in_the_order_of_a_run(name: str) -> None:
    listed = smoke.find(ADAPTERS[name]).listed
    assert list(listed) == list(ADAPTERS[name].model.variants)
    order = [case.id for case in CASES]
    for cases in listed.values():
        assert list(cases) == sorted(cases, key=order.index)


@pytest.mark.parametrize("framework", frameworks())
def test_every_fault_is_on_record(framework: str) -> None:
    caught = smoke_cover.read_caught(ADAPTERS[framework])
    faults = {fault.name: fault for fault in faults_of(framework)}
    assert set(caught) == set(faults), "run: pytest tests/faulty --update-caught"
    named = {fault.case for fault in faults.values()}
    for name, cases in caught.items():
        assert faults[name].check in cases[faults[name].case]
        assert set(cases) <= named


def test_faults_are_on_record_of_frameworks_that_have_some() -> None:
    recorded = {path.parent.name for path in (ROOT / "adapters").glob(f"*/{smoke_cover.CAUGHT}")}
    assert recorded == set(frameworks()) == {path.name for path in FOLDER.iterdir()}


# -- choosing ----------------------------------------------------------------------------------------


def test_cover_takes_the_cheapest() -> None:
    shown = {"all": {1, 2, 3}, "one": {1}, "two": {2}, "three": {3}}
    assert cover(shown, {"all": 5.0, "one": 1.0, "two": 1.0, "three": 1.0}) == (
        "one",
        "two",
        "three",
    )
    assert cover(shown, {"all": 2.0, "one": 1.0, "two": 1.0, "three": 1.0}) == ("all",)


def test_cover_takes_the_first_of_equals() -> None:
    assert cover({"b": {1}, "a": {1}}, {"a": 1.0, "b": 1.0}) == ("b",)


def test_cover_leaves_out_what_later_choices_show_too() -> None:
    shown = {"cheap": {1, 2}, "left": {1, 3}, "right": {2, 4}}
    found = cover(shown, {"cheap": 1.0, "left": 3.0, "right": 3.0})
    assert found == ("left", "right")
    assert all(shown_alone({key: shown[key] for key in found}).values())


def test_cover_of_nothing() -> None:
    assert cover({"a": set()}, {"a": 1.0}) == ()


def made(tmp_path: Path, *variants: str) -> Path:
    """A copy of the miniature adapter with these of its variants."""
    folder = tmp_path / "own"
    shutil.copytree(mini.ADAPTERS / "mini", folder)
    model = yaml.safe_load((folder / "adapter.yaml").read_text())
    model["variants"] = {name: model["variants"][name] for name in variants}
    (folder / "adapter.yaml").write_text(yaml.safe_dump(model, sort_keys=False))
    return folder


def verdict(status: Status, check: str = "gradient") -> Verdict:
    return Verdict(check, status, Level.MUST, "as it is")


def result(case: str, variant: str, *verdicts: Verdict) -> Result:
    return Result(case, variant, verdicts, None, None, "")


PASS = (verdict(Status.PASS, "error"), verdict(Status.PASS))
WRONG = (verdict(Status.PASS, "error"), verdict(Status.FAIL))


def whole_run(*results: Result, selection: str = "", cases: str = "") -> Results:
    variants = tuple(dict.fromkeys(r.variant for r in results))
    header = Header("0", "mini", variants, {}, {}, cases or cases_hash(MINI_CASES), selection)
    return Results(Path("mini.jsonl"), header, results, make_footer(results, {}))


def every(variant: str, *verdicts: Verdict) -> list[Result]:
    return [result(case.id, variant, *verdicts) for case in MINI_CASES]


def test_chooses_a_case_for_each_reason_fault_and_variant(tmp_path: Path) -> None:
    folder = made(tmp_path, "right", "wrong")
    adapter = read_adapter(folder)
    run = whole_run(
        *every("mini/right", *PASS),
        result("mini/square", "mini/wrong", *PASS),
        *every("mini/wrong", *WRONG)[1:],
    )
    caught = {"forgets": {"mini/by-name": ["gradient"], "mini/twice": ["value"]}}
    seconds = {(r.case, r.variant): float(len(r.case)) for r in run.results}
    seconds["mini/by-name", "mini/right"] = 0.5
    # On the wrong variant, the first case passes.
    known_for(folder, "mini/chain*", "mini/by-name", "mini/twice")
    found = choose(adapter, run, MINI_CASES, read_known(adapter.known), caught, seconds)
    # The reason and the fault together at one price; a right gradient needs another case.
    assert found == (
        ("mini/by-name", "mini/right"),
        ("mini/square", "mini/wrong"),
        ("mini/twice", "mini/wrong"),
    )


def choice(adapter, run: Results) -> tuple[Pair, ...]:
    return choose(adapter, run, MINI_CASES, read_known(adapter.known), {}, {})


def test_refuses_results_that_are_no_whole_run(tmp_path: Path) -> None:
    adapter = read_adapter(made(tmp_path, "right", "wrong"))
    whole = [*every("mini/right", *PASS), *every("mini/wrong", *WRONG)]
    for run, message in (
        (whole_run(*whole, selection="-k square"), "not a whole run: only -k square"),
        (whole_run(*whole[:5]), "not a whole run: only mini/right"),
        (whole_run(*whole, cases="x"), "other cases"),
        (whole_run(*whole), "no result shows a right gradient on 'mini/wrong'"),
        (
            whole_run(*every("mini/right", *PASS), *every("mini/wrong", *PASS)),
            f"the reason '{REASON}'",
        ),
    ):
        with pytest.raises(SmokeError, match=message) as caught:
            choice(adapter, run)
        assert "conformance run --adapter" in str(caught.value)


def test_an_unexpected_verdict_shows_nothing() -> None:
    entries = read_known(mini.ADAPTERS / "mini" / "known.yaml")
    known = result("mini/square", "mini/wrong", *WRONG)
    assert shown_by(known, entries, {}) == {Requirement("reason", REASON)}
    for odd in (verdict(Status.FAIL, "value"), verdict(Status.BROKEN, "value")):
        found = result("mini/square", "mini/wrong", *WRONG, odd)
        assert shown_by(found, entries, {}) == set()
    gone = result("mini/square", "mini/wrong", *PASS)
    assert shown_by(gone, entries, {}) == set()


def test_what_was_not_run_catches_no_fault() -> None:
    caught = {"forgets": {"mini/twice": ["gradient"]}}
    unsupported = result("mini/twice", "mini/picky", verdict(Status.UNSUPPORTED, "error"))
    assert shown_by(unsupported, (), caught) == set()
    assert promised_by(mini.case("twice"), mini.variant("picky"), (), caught) == set()
    ran = promised_by(mini.case("twice"), mini.variant("right"), (), caught)
    assert ran == {Requirement("fault", "forgets"), Requirement("variant", "mini/right")}
    # It refuses a keyword: nothing is promised of what may be refused.
    assert promised_by(mini.case("by-name"), mini.variant("picky"), (), caught) == set()


def test_a_fault_that_no_variant_can_show_is_left_to_implementations() -> None:
    caught = {"forgets": {"mini/twice": ["gradient"]}}
    pair, other = ("mini/twice", "mini/picky"), ("mini/square", "mini/picky")
    variant = Requirement("variant", "mini/picky")
    found = with_unsupported({pair: frozenset(), other: frozenset({variant})}, caught)
    assert found == {pair: {Requirement("fault", "forgets")}, other: {variant}}
    ran = {
        pair: frozenset(),
        ("mini/twice", "mini/right"): frozenset({Requirement("fault", "forgets")}),
    }
    assert with_unsupported(ran, caught) == ran


# -- the file ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "expected variants"),
        ("", "expected variants"),
        ("{", "not YAML"),
        ("right: mini/square", r":1: expected a variant with a list"),
        ("right:\n- a\n- [b]", r":3: expected the id of a case"),
        ("right:\n- a\n- a", r":3: case 'a' is given twice"),
        ("right: [a]\nright: [b]", r":2:1: key 'right' is given twice"),
    ],
)
def test_malformed_selection_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "smoke.yaml"
    file.write_text(text)
    with pytest.raises(SmokeError, match=message):
        smoke.read(file)


def test_malformed_record_of_faults_is_refused(tmp_path: Path) -> None:
    folder = made(tmp_path, "right")
    (folder / smoke_cover.CAUGHT).write_text("fault: [a]\n")
    with pytest.raises(SmokeError, match=r"caught\.yaml: fault"):
        smoke_cover.read_caught(read_adapter(folder))


def test_written_selection_reads_the_same(tmp_path: Path) -> None:
    adapter = read_adapter(made(tmp_path, "right", "wrong"))
    pairs = (
        ("mini/chain[length=2]", "mini/right"),
        ("mini/twice", "mini/right"),
        ("mini/twice", "mini/wrong"),
    )
    file = smoke.write(adapter, pairs)
    found = smoke.find(adapter)
    assert found.pairs(adapter) == pairs
    assert found.cases == ("mini/chain[length=2]", "mini/twice")
    assert "conformance smoke --update --adapter mini" in file.read_text()
    found.validate(adapter, MINI_CASES)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mini/twice", "mini/twicee", r"smoke\.yaml:\d+: no case 'mini/twicee'"),
        ("right", "rigth", r"no variant 'rigth'"),
    ],
)
def test_selection_of_what_is_gone_is_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    adapter = read_adapter(made(tmp_path, "right"))
    file = smoke.write(adapter, [("mini/twice", "mini/right")])
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(SmokeError, match=message) as caught:
        smoke.find(adapter).validate(adapter, MINI_CASES)
    assert "did you mean" in str(caught.value)
    assert "conformance smoke --update" in str(caught.value)


def test_an_implementation_runs_all_cases_on_its_own_variants() -> None:
    host = ADAPTERS["reference"]
    own = adapt(host, describe("package.module:checkpoint"))
    found = smoke.find(host)
    (variant,) = own.variants
    assert found.pairs(own) == tuple((case, variant.id) for case in found.cases)
    found.validate(own, CASES)


# -- commands ----------------------------------------------------------------------------------------


@pytest.fixture
def conformance(tmp_path: Path) -> Command:
    return partial(commands.conformance, tmp_path)


def known_for(folder: Path, *cases: str) -> None:
    """Let the wrong variant's gradient be known, and something that explains nothing."""
    entries = yaml.safe_load((folder / "known.yaml").read_text())
    gone = {**entries[0], "case": "mini/gone"}
    (folder / "known.yaml").write_text(yaml.safe_dump([{**entries[0], "case": list(cases)}, gone]))


def test_smoke_from_update_to_report(conformance: Command, tmp_path: Path) -> None:
    adapter = str(made(tmp_path, "right", "picky"))
    (Path(adapter) / "known.yaml").unlink()
    place = ("--adapter", adapter, "--cases", str(mini.CASES))
    assert conformance("run", *place).returncode == 0
    done = conformance("smoke", *place, "--update", fresh=True)
    assert done.returncode == 0, done.stderr
    assert "2 programs of " in done.stdout
    before = (Path(adapter) / "smoke.yaml").read_text()
    assert conformance("smoke", *place, "--update").returncode == 0
    assert (Path(adapter) / "smoke.yaml").read_text() == before
    listed = conformance("smoke", *place)
    assert "mini/picky" in listed.stdout

    whole = {(r.case, r.variant): r for r in read_results(tmp_path / "reports/mini.jsonl").results}
    for more, said in (
        (("-m", "smoke"), "-m smoke, "),
        (("--smoke", "-n", "2"), "--smoke, "),
        (("--smoke",), "--smoke, "),
    ):
        done = conformance("run", *place, *more)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "warning" not in done.stdout + done.stderr
        run = read_results(tmp_path / "reports" / "mini.jsonl")
        assert {(r.case, r.variant) for r in run.results} == set(
            smoke.find(read_adapter(Path(adapter))).pairs(read_adapter(Path(adapter)))
        )
        assert run.header.selection.startswith(said)
        for found in run.results:
            assert found.verdicts == whole[found.case, found.variant].verdicts
    assert conformance("compare", "--cases", str(mini.CASES)).returncode == 0
    assert conformance("report", "--cases", str(mini.CASES)).returncode == 0
    for page in ("index.html", "report.md"):
        text = (tmp_path / "reports" / page).read_text().replace("\\", "")
        assert "A smoke selection, not the whole suite: mini (--smoke, " in text
        assert "says nothing of a framework" in " ".join(text.split())
    done = conformance("smoke", *place, "--update")
    assert done.returncode == 2
    assert "not a whole run: only --smoke" in done.stderr


@pytest.mark.parametrize("word", [("--smoke",), ("-m", "smoke"), ("-m", "not smoke")])
def test_adapter_without_a_selection(conformance: Command, tmp_path: Path, word) -> None:
    adapter = str(made(tmp_path, "right"))
    done = conformance("run", "--adapter", adapter, "--cases", str(mini.CASES), *word)
    assert done.returncode == 2
    assert "the adapter 'own' has no smoke selection" in done.stderr
    assert f"conformance smoke --update --adapter {adapter}" in done.stderr
    assert "Traceback" not in done.stderr


def test_entries_that_a_smoke_run_does_not_see_are_no_matter(
    conformance: Command, tmp_path: Path
) -> None:
    folder = made(tmp_path, "wrong")
    adapter = read_adapter(folder)
    # All there is, so that only the option says that this is no whole run.
    smoke.write(adapter, [(case.id, "mini/wrong") for case in MINI_CASES])
    known_for(folder, "mini/*")
    place = ("--adapter", str(folder), "--cases", str(mini.CASES))
    done = conformance("run", *place, "--smoke")
    assert done.returncode == 0, done.stdout
    assert "explains nothing" not in done.stdout
    done = conformance("run", *place)
    assert done.returncode == 1
    assert "explains nothing" in done.stdout


def test_one_variant_of_a_selection(conformance: Command, tmp_path: Path) -> None:
    folder = made(tmp_path, "right", "wrong")
    smoke.write(read_adapter(folder), [("mini/square", "mini/right"), ("mini/twice", "mini/wrong")])
    place = ("--adapter", str(folder), "--cases", str(mini.CASES))
    assert conformance("run", *place, "--smoke", "--variant", "wrong").returncode == 0
    run = read_results(tmp_path / "reports" / "mini.jsonl")
    assert [(r.case, r.variant) for r in run.results] == [("mini/twice", "mini/wrong")]


def test_update_says_whose(conformance: Command) -> None:
    done = conformance("smoke", "--update")
    assert done.returncode == 2
    assert "--update needs --adapter" in done.stderr
