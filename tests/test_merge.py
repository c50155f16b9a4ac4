"""Shards and their merge are a run that was not divided; what does not belong together is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from conformance import results
from conformance.errors import ComparisonError
from conformance.language.load import load_folder
from conformance.results import Header, Result, Results
from conformance.run.merge import merge
from tests import mini
from tests.commands import conformance

PLACE = ("--cases", str(mini.CASES), "--adapters-folder", str(mini.ADAPTERS))
CHOSEN = ("--variant", "right", "--variant", "wrong", "--variant", "picky", "--variant", "crashing")


def run(folder: Path, *arguments: str, fresh: bool = False) -> subprocess.CompletedProcess[str]:
    return conformance(folder, "run", "--adapter", "mini", *PLACE, *arguments, fresh=fresh)


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in (folder / "reports").glob("*.jsonl"))


def told(found: Results) -> list[bytes]:
    """Each result as it is written, but for the time it took; arrays by the hash of their elements."""
    return [results.encode(timeless(result)).line for result in found.results]


def timeless(result: Result) -> Result:
    seen = result.observation
    return replace(result, observation=seen and replace(seen, seconds=0.0))


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("whole")
    return folder, run(
        folder, *CHOSEN, fresh=True
    )  # what it is compared with has another hash seed


@pytest.fixture(scope="module")
def divided(tmp_path_factory) -> Path:
    """A folder with three shards, the last of them run by two processes."""
    folder = tmp_path_factory.mktemp("divided")
    for number, more in ((3, ("-n", "2")), (1, ()), (2, ())):
        done = run(folder, *CHOSEN, "--shard", f"{number}/3", *more)
        assert done.returncode in (0, 1), done.stderr + done.stdout
    return folder


@pytest.fixture
def shards(divided, tmp_path) -> Path:
    """A copy of that folder."""
    shutil.copytree(divided / "reports", tmp_path / "reports")
    return tmp_path


def test_shards_lie_side_by_side_and_share_nothing(divided) -> None:
    assert names(divided) == [f"mini.shard-{i}-of-3.jsonl" for i in (1, 2, 3)]
    found = [results.read(divided / "reports" / name) for name in names(divided)]
    assert [r.header.shard for r in found] == ["1/3", "2/3", "3/3"]
    assert [r.header.selected for r in found] == [20] * 3
    pairs = [{(r.case, r.variant) for r in each.results} for each in found]
    assert all(pairs)
    assert sum(map(len, pairs)) == len(set.union(*pairs)) == 20
    assert (divided / "reports" / "logs" / "mini.shard-1-of-3.log").is_file()


def test_merged_shards_are_the_whole(whole, shards) -> None:
    folder, ran = whole
    done = conformance(shards, "merge", *PLACE)
    assert done.returncode == ran.returncode == 1
    assert names(shards) == ["mini.jsonl"]
    assert not list((shards / "reports").glob("mini.shard-*"))
    one = results.read(folder / "reports" / "mini.jsonl")
    other = results.read(shards / "reports" / "mini.jsonl")
    assert told(one) == told(other)
    assert replace(one.header, started="") == replace(other.header, started="")
    assert one.footer.statuses == other.footer.statuses
    assert other.footer.seconds["observing"] > 0
    # The same summary, but for the folder.
    text = ran.stdout.replace(str(folder), str(shards)).partition("= conformance =")[2]
    summary = text.partition("results: ")[0].partition("\n")[2]
    assert summary.strip()
    assert [line.rstrip() for line in summary.strip().splitlines()] == [
        line.rstrip() for line in done.stdout.partition("results: ")[0].strip().splitlines()
    ]


def test_merge_without_shards_does_nothing(tmp_path) -> None:
    done = conformance(tmp_path, "merge", *PLACE)
    assert (done.returncode, done.stdout) == (0, "no shards, nothing to merge\n")
    assert not (tmp_path / "reports").exists()


def test_keep_leaves_the_shards(shards) -> None:
    assert conformance(shards, "merge", "--keep", *PLACE).returncode == 1
    assert len(names(shards)) == 4


def test_a_missing_shard_is_refused_and_nothing_is_written(shards) -> None:
    (shards / "reports" / "mini.jsonl").write_text("of before")
    (shards / "reports" / "mini.shard-2-of-3.jsonl").unlink()
    done = conformance(shards, "merge", *PLACE)
    assert done.returncode == 2
    assert "1 of 3 shard is missing: 2/3" in done.stderr
    assert "hint: conformance run --adapter mini --shard 2/3" in done.stderr
    assert "Traceback" not in done.stderr
    assert (shards / "reports" / "mini.jsonl").read_text() == "of before"
    assert len(names(shards)) == 3


@pytest.mark.parametrize("command", ["compare", "report"])
def test_unmerged_shards_are_no_results(shards, command) -> None:
    place = PLACE[:2]
    done = conformance(shards, command, *place)
    assert done.returncode == 2
    assert "only shards here: mini.shard-1-of-3.jsonl" in done.stderr
    assert "conformance merge" in done.stderr
    done = conformance(shards, command, "reports/mini.shard-1-of-3.jsonl", *place)
    assert done.returncode == 2
    assert "shard 1/3 of mini, no whole run" in done.stderr


def test_unmerged_shards_beside_results_are_left_out_aloud(shards, whole) -> None:
    shutil.copytree(whole[0] / "reports", shards / "reports", dirs_exist_ok=True)
    done = conformance(shards, "report", *PLACE[:2])
    assert done.returncode == 0
    assert "left out, not merged: mini.shard-1-of-3.jsonl" in done.stderr


def test_a_run_of_all_takes_the_shards_of_before_away(shards) -> None:
    assert run(shards, "--variant", "right", "-k", "square").returncode == 0
    assert names(shards) == ["mini.jsonl"]
    assert not list((shards / "reports" / "logs").glob("*.shard-*"))


@pytest.fixture
def one_variant(tmp_path) -> Path:
    """An adapter with one variant, and a known deviation of a case that there is not."""
    folder = tmp_path / "adapters" / "mini"
    shutil.copytree(mini.ADAPTERS / "mini", folder)
    head = (folder / "adapter.yaml").read_text().partition("variants:")[0]
    (folder / "adapter.yaml").write_text(
        head + "variants:\n  right: {title: mini.recompute, discipline: whole}\n"
    )
    entry = {
        "case": "mini/gone",
        "variant": "right",
        "check": "gradient",
        "observed": "fail:",
        "cause": "so",
        "reason": "so it was",
    }
    (folder / "known.yaml").write_text(json.dumps([entry]))
    return folder.parent


def test_the_merge_judges_entries_that_explain_nothing(one_variant, tmp_path) -> None:
    place = ("--cases", str(mini.CASES), "--adapters-folder", str(one_variant))
    for number in (1, 2):
        shard = ("--shard", f"{number}/2")
        done = conformance(tmp_path, "run", "--adapter", "mini", *shard, *place)
        assert done.returncode == 0, done.stdout
        assert "explains nothing" not in done.stdout
    done = conformance(tmp_path, "merge", *place)
    assert done.returncode == 1
    assert "known.yaml:1: explains nothing in this run; take it out (so it was)" in done.stdout


def test_a_shard_of_a_selection_and_one_without_anything(tmp_path) -> None:
    chosen = ("--variant", "right", "-k", "square or twice")
    for number in (1, 2, 3):
        assert run(tmp_path, *chosen, "--shard", f"{number}/3").returncode == 0
    sizes = [len(results.read(tmp_path / "reports" / name).results) for name in names(tmp_path)]
    assert sorted(sizes) == [0, 1, 1]
    assert conformance(tmp_path, "merge", *PLACE).returncode == 0
    found = results.read(tmp_path / "reports" / "mini.jsonl")
    assert [r.case for r in found.results] == ["mini/square", "mini/twice"]
    assert found.header.selection == "-k square or twice, 2 of 5 cases"
    done = run(tmp_path, "-k", "nothing-like-it", "--shard", "1/3")
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("--shard", "3/2"), "'3/2' is no shard"), (("--shard", "1/2", "--lf"), "leave --lf")],
)
def test_bad_shards_are_refused(tmp_path, arguments, words) -> None:
    done = run(tmp_path, *arguments)
    assert done.returncode == 2
    assert words in done.stderr


# What belongs together, without processes.


@pytest.fixture
def read(divided) -> list[Results]:
    return [results.read(divided / "reports" / name) for name in names(divided)]


def refused(found: list[Results]) -> str:
    with pytest.raises(ComparisonError) as raised:
        merge(found, load_folder(mini.CASES))
    return str(raised.value)


def with_header(found: Results, **changes: object) -> Results:
    header: Header = replace(found.header, **changes)  # type: ignore[arg-type]
    return replace(found, header=header)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"suite": "9.9"}, "shards of different versions of the suite: 0.1.0 and 9.9"),
        ({"adapter": "other"}, "shards of different adapters: mini and other"),
        ({"implementation": "a:b"}, "shards of different implementations: none and a:b"),
        ({"variants": ("mini/right",)}, "shards of different variants: mini/right, mini/wrong,"),
        ({"cases": "0" * 64}, "shards of different cases: "),
        ({"selection": "-k x"}, "shards of different selections: none and -k x"),
        ({"selected": 19}, "shards of different numbers of cases and variants: 20 and 19"),
        ({"shard": "2/4"}, "shards of runs in 3 and 4 parts"),
        ({"shard": "1/3"}, "shard 1/3 of mini is there twice"),
        ({"shard": ""}, "this is a whole run, and no shard"),
    ],
)
def test_other_headers_are_refused(read, changes, words) -> None:
    assert words in refused([read[0], with_header(read[1], **changes), read[2]])


@pytest.mark.parametrize("package", ["numpy", "python"])
def test_other_versions_are_refused(read, package) -> None:
    old = read[1].header.versions
    other = with_header(read[1], versions={**old, package: "0.0"})
    words = f"shards of different versions: {package} {old[package]} and 0.0"
    assert words in refused([read[0], other, read[2]])


def test_another_platform_is_noted(read) -> None:
    old = read[1].header.versions
    other = with_header(read[1], versions={**old, "platform": "Plan 9"})
    found = merge([read[0], other, read[2]], load_folder(mini.CASES))
    assert found.header.versions["platform"] == f"{old['platform']}, Plan 9"


def test_results_that_are_missing_or_twice_are_refused(read) -> None:
    short = replace(read[1], results=read[1].results[:-1])
    assert "19 of 20 results" in refused([read[0], short, read[2]])
    twice = replace(read[1], results=(*read[1].results, read[0].results[0]))
    assert "is in two shards" in refused([read[0], twice, read[2]])


def test_other_cases_than_those_here_are_refused(read) -> None:
    found = [with_header(each, cases="0" * 64) for each in read]
    assert "of other cases than those here" in refused(found)


def test_the_reference_in_two_shards_is_the_reference(tmp_path) -> None:
    chosen = ("--adapter", "reference", "-k", "captures or loops")
    assert conformance(tmp_path, "run", *chosen, fresh=True).returncode == 0
    one = results.read(tmp_path / "reports" / "reference.jsonl")
    for number in ("1", "2"):
        done = conformance(tmp_path, "run", *chosen, "--shard", f"{number}/2")
        assert done.returncode == 0, done.stdout + done.stderr
    done = conformance(tmp_path, "merge")
    assert done.returncode == 0, done.stdout + done.stderr
    other = results.read(tmp_path / "reports" / "reference.jsonl")
    assert len(one.results) > 10
    assert told(one) == told(other)
