"""Reading adapters' folders: what is wrong is one message with the file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from conformance.drivers.adapter import (
    DISCIPLINES,
    Adapter,
    all_adapters,
    find_adapter,
    load_file,
    read_adapter,
)
from conformance.errors import AdapterError
from conformance.language.capabilities import CAPABILITIES
from conformance.oracle import tape

FOLDER = Path(__file__).parent.parent / "adapters"
GOOD = {
    "name": "made",
    "title": "Made up",
    "packages": ["numpy"],
    "variants": {"one": {"title": "one", "discipline": "whole"}},
}


def _adapter(folder: Path, **more: object) -> Path:
    made = folder / "made"
    made.mkdir()
    (made / "adapter.yaml").write_text(yaml.safe_dump({**GOOD, **more}), "utf-8")
    return made


def _saves(**saves: str) -> dict[str, object]:
    return {"variants": {"one": {"title": "one", "discipline": "whole", "saves": saves}}}


def test_read(tmp_path: Path) -> None:
    adapter = read_adapter(_adapter(tmp_path))
    assert adapter.name == "made"
    assert [v.id for v in adapter.variants] == ["made/one"]
    assert adapter.variant("one").model.discipline == "whole"
    assert adapter.folder.is_absolute()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"titel": "x"}, "titel"),
        ({"packages": "numpy"}, "packages"),
        ({"variants": {"one": {"title": "one", "discipline": "half"}}}, "discipline"),
        (
            {"variants": {"one": {**GOOD["variants"]["one"], "lacks": {"kwarg": "no"}}}},  # type: ignore[index]
            "unknown capability 'kwarg'\n  hint: did you mean 'kwargs'?",
        ),
        (
            {"variants": {"one": {**GOOD["variants"]["one"], "refuses": {"kwargs": {"raises": "E"}}}}},  # type: ignore[index]
            "match",
        ),
        (_saves(cosine="x"), "unknown operation 'cosine'"),
        (_saves(linear="x wt"), "'linear' saves an unknown 'wt'\n  hint: did you mean 'w'?"),
        (_saves(region="out flt"), "'region' saves an unknown 'flt'\n  hint: did you mean 'flat'?"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, more: dict[str, object], says: str) -> None:
    folder = _adapter(tmp_path, **more)
    with pytest.raises(AdapterError) as caught:
        read_adapter(folder)
    assert says in str(caught.value)
    assert caught.value.where == str(folder / "adapter.yaml")


@pytest.mark.parametrize("text", ["name: [", "!!python/object/apply:os.system ['true']", "7", ""])
def test_not_an_adapter(tmp_path: Path, text: str) -> None:
    (tmp_path / "adapter.yaml").write_text(text, "utf-8")
    with pytest.raises(AdapterError):
        read_adapter(tmp_path)


def test_not_there(tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match=r"no adapter\.yaml here"):
        read_adapter(tmp_path)
    _adapter(tmp_path)
    with pytest.raises(AdapterError, match="did you mean 'made'"):
        find_adapter("mad", tmp_path)
    with pytest.raises(AdapterError, match=r"has no variant 'on'.*\n.*did you mean 'one'"):
        find_adapter("made", tmp_path).variant("on")


def test_found_by_name_and_by_path(tmp_path: Path) -> None:
    folder = _adapter(tmp_path)
    assert find_adapter("made", tmp_path) == find_adapter(str(folder), FOLDER)
    assert [a.name for a in all_adapters(tmp_path)] == ["made"]


def test_a_file_is_loaded_once_and_a_broken_one_leaves_nothing(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text("kept = []\n", "utf-8")
    bad.write_text("raise KeyError\n", "utf-8")
    assert load_file(good, "made_good") is load_file(good, "made_good")
    with pytest.raises(KeyError):
        load_file(bad, "made_bad")
    assert "made_bad" not in sys.modules
    with pytest.raises(AdapterError, match=r"no such file: none\.py"):
        load_file(tmp_path / "none.py", "made_none")


# -- the adapters that are here -------------------------------------------------------------------

ADAPTERS = all_adapters(FOLDER)
OF_EACH = pytest.mark.parametrize("adapter", ADAPTERS, ids=[a.name for a in ADAPTERS])


def test_beside_programs_lie_files_of_the_folder_and_modules_of_the_suite(tmp_path: Path) -> None:
    made = _adapter(tmp_path, beside=["own.py", "conformance.oracle.tape"])
    beside = read_adapter(made).beside
    assert beside == {"own.py": made / "own.py", "tape.py": Path(tape.__file__).resolve()}


def test_the_reference_comes_first() -> None:
    names = [adapter.name for adapter in ADAPTERS]
    assert names == ["reference", *sorted(set(names) - {"reference"})]


@OF_EACH
def test_adapter_folder_is_whole(adapter: Adapter) -> None:
    assert adapter.name == adapter.folder.name
    for name in (
        "spelling.py",
        "observe.py",
        "requirements.txt",
        "known.yaml",
    ):
        assert (adapter.folder / name).is_file(), name
    for file in adapter.beside.values():
        assert file.is_file(), file


@OF_EACH
def test_variants_speak_words_that_are_known(adapter: Adapter) -> None:
    for variant in adapter.variants:
        model = variant.model
        assert model.discipline in DISCIPLINES
        assert not set(model.lacks) & set(model.refuses)
        assert {*model.lacks, *model.refuses} <= set(CAPABILITIES)
        assert all(len(reason) > 10 for reason in model.lacks.values())
