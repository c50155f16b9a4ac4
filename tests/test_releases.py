"""Releases: which causes hold in one, what a history says, and what tox installs."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

from conformance.compare.releases import History, in_words, read, written
from conformance.drivers.installed import version
from conformance.errors import KnownError, ResultsError
from conformance.judge.known import in_release
from conformance.judge.known import read as read_known
from conformance.model.result import Results
from tests.report_samples import FAIL, PASS, known, result, results

ROOT = Path(__file__).parents[1]
CAUSES = """\
- cause: gone
  fixed: 0.7.0
  when: {case: inference}
  shows: {value: outputs}
  says: It was so.
- cause: came
  since: 0.10.0
  when: {case: inference}
  shows: {value: outputs}
  says: It is so now.
"""


@pytest.mark.parametrize(
    ("release", "causes"),
    [("0.6.2", ["gone"]), ("0.7.0", []), ("0.9.2", []), ("0.10.0", ["came"])],
)
def test_a_cause_holds_in_its_releases(tmp_path: Path, release: str, causes: list[str]) -> None:
    file = tmp_path / "known.yaml"
    file.write_text(CAUSES)
    assert [entry.cause for entry in in_release(read_known(file), release)] == causes
    assert len(in_release(read_known(file), "")) == 2


def test_what_is_no_release_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "known.yaml"
    file.write_text(CAUSES.replace("0.7.0", "the next one"))
    with pytest.raises(KnownError, match=r"known.yaml:1.*expected a release such as"):
        read_known(file)


def of_release(release: str, causes: str, cases: str = "abc") -> Results:
    """A run of these cases, of which those in `causes` deviate."""
    found = [
        result("a/v", case=c, verdicts=[known(FAIL, "why", cause="wrong") if c in causes else PASS])
        for c in cases
    ]
    run = results("a", found)
    return replace(run, header=replace(run.header, versions={"framework": release}))


def test_a_history_tells_what_came_and_what_went() -> None:
    runs = [of_release("0.10.0", ""), of_release("0.9.0", "ab"), of_release("0.8.0", "b", "b")]
    history = History().with_runs(runs, "framework")
    assert history.releases == ("0.8.0", "0.9.0", "0.10.0")
    (row,) = history.rows
    assert row.shows == (1, 2, 0)
    assert row.changed
    assert list(in_words(history, row)) == ["gone in 0.10.0"]
    again = history.with_runs([of_release("0.9.0+cpu", "a", "ac")], "framework")
    assert again.rows[0].shows == (1, 1, 0)  # a later run takes the place of an earlier one


def test_a_release_that_ran_none_of_the_pairs_tells_nothing() -> None:
    runs = [of_release("0.8.0", "", "c"), of_release("0.9.0", "a")]
    (row,) = History().with_runs(runs, "framework").rows
    assert row.shows == (None, 1)
    assert not row.changed


def test_what_was_not_observed_tells_nothing() -> None:
    cells = {("a", "v"): {"0.8.0": "?executions", "0.9.0": "inert", "0.10.0": ""}}
    (row,) = History(("0.8.0", "0.9.0", "0.10.0"), {}, cells).rows
    assert row.shows == (None, 1, 0)


def test_a_history_is_written_and_read(tmp_path: Path) -> None:
    history = History().with_runs([of_release("1.0", "ab"), of_release("1.1", "")], "framework")
    file = tmp_path / "history.csv"
    file.write_text(written(history))
    assert file.read_text() == "variant,cases,1.0,1.1\npairs,,3,3\na/v,a b,wrong,\n"
    assert read(file) == history
    assert read(tmp_path / "none.csv") == History()


@pytest.mark.parametrize("text", ["", "variant,cases,1.0\n", "variant,cases,1.0\npairs,,many\n"])
def test_a_malformed_history_says_so(tmp_path: Path, text: str) -> None:
    file = tmp_path / "history.csv"
    file.write_text(text)
    with pytest.raises(ResultsError, match="malformed"):
        read(file)


def toxfile() -> ModuleType:
    spec = importlib.util.spec_from_file_location("toxfile", ROOT / "toxfile.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_release_takes_the_place_of_the_pin(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("mlx[cpu]==0.32.4\nnumpy==2.4.6  # why\n")
    (tmp_path / "releases.txt").write_text(
        "# why\n0.25.2 numpy==1.26.4\n0.32.4\n0.34.0 python3.12\nnightly mlx-nightly\n"
    )
    requirements, python = toxfile().requirements, toxfile().python
    assert requirements(tmp_path, "0.25.2") == ["mlx[cpu]==0.25.2", "numpy==1.26.4"]
    assert requirements(tmp_path, "latest") == ["mlx[cpu]", "numpy==2.4.6"]
    assert requirements(tmp_path, "0.33.0") == ["mlx[cpu]==0.33.0", "numpy==2.4.6"]
    assert requirements(tmp_path, "0.34.0") == ["mlx[cpu]==0.34.0", "numpy==2.4.6"]
    assert requirements(tmp_path, "nightly") == ["mlx-nightly"]
    assert python(tmp_path, "0.34.0") == "python3.12"
    assert python(tmp_path, "0.33.0") == "python3.11"


def test_the_version_of_a_nightly_build_is_that_of_its_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata, "packages_distributions", lambda: {"made_module": ["numpy"]})
    assert version("made_module") == version("numpy") == metadata.version("numpy")
    with pytest.raises(metadata.PackageNotFoundError):
        version("not_there")
