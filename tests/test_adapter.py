"""Reading adapters' folders: what is wrong is one message with the file."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from conformance.drivers.adapter import (
    DISCIPLINES,
    Adapter,
    all_adapters,
    find_adapter,
    read_adapter,
)
from conformance.drivers.modules import load_file, load_module
from conformance.errors import AdapterError
from conformance.language.features import CAPABILITIES
from conformance.oracle import tape
from conformance.paths import find_paths

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


def _residuals(**residuals: str) -> dict[str, object]:
    return {"variants": {"one": {"title": "one", "discipline": "whole", "residuals": residuals}}}


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
        (_residuals(cosine="x"), "unknown operation 'cosine'"),
        (_residuals(linear="x wt"), "'linear' saves an unknown 'wt'\n  hint: did you mean 'w'?"),
        (_residuals(region="out flt"), "'region' saves an unknown 'flt'\n  hint: did you mean 'flat'?"),
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


def _files(folder: Path, **texts: str) -> Path:
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    return folder


def test_files_of_an_adapter_import_each_other(tmp_path: Path) -> None:
    """Out of their own folder, whatever other adapters have files and folders of the same names."""
    for number in (1, 2):
        texts = {"a": "from . import b\nfrom .b import kept\n", "b": f"kept = [{number}]\n"}
        _files(tmp_path / str(number) / "my-made", **texts)
    first, second = (load_module(tmp_path / n / "my-made", "a") for n in ("1", "2"))
    assert (first.kept, second.kept) == ([1], [2])
    assert first.b is load_module(tmp_path / "1" / "my-made", "b")
    assert not [*tmp_path.rglob("__pycache__")]  # nor is there anything that could be read again


def test_an_adapter_builds_on_one_beside_it_or_on_a_shipped_one(tmp_path: Path) -> None:
    text = "from ..other import thing\nfrom ..jax import statements\n"
    _files(tmp_path / "made", a=text)
    _files(tmp_path / "other", thing="")
    module = load_module(tmp_path / "made", "a")
    assert module.thing.__file__ == str(tmp_path / "other" / "thing.py")
    assert module.statements.__file__ == str(find_paths().adapters / "jax" / "statements.py")


def test_what_an_adapter_builds_on_has_to_be_there(tmp_path: Path) -> None:
    read_adapter(_adapter(tmp_path, builds_on=["torch"]))
    (tmp_path / "more").mkdir()
    with pytest.raises(AdapterError, match="there is no adapter 'pytorch' beside it"):
        read_adapter(_adapter(tmp_path / "more", builds_on=["pytorch"]))


def test_a_broken_file_of_an_adapter_leaves_nothing(tmp_path: Path) -> None:
    folder = _files(tmp_path / "made", a="from . import b\n", b="raise KeyError\n")
    before = set(sys.modules)
    with pytest.raises(KeyError):
        load_module(folder, "a")
    left = set(sys.modules) - before
    assert not [name for name in left if name.endswith((".a", ".b"))]
    (folder / "b.py").write_text("", "utf-8")
    load_module(folder, "a")
    with pytest.raises(AdapterError, match=r"no such file: c\.py"):
        load_module(folder, "c")
    with pytest.raises(AdapterError, match="has no dot"):
        load_module(_files(tmp_path / "made.too", a=""), "a")


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
        "emitter.py",
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


def _imports(file: Path) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node


@OF_EACH
def test_an_adapter_says_what_it_builds_on(adapter: Adapter) -> None:
    found = {
        (node.module or "").partition(".")[0]
        for file in adapter.folder.glob("*.py")
        for node in _imports(file)
        if isinstance(node, ast.ImportFrom) and node.level == 2
    }
    assert found == set(adapter.model.builds_on)


@OF_EACH
def test_writing_programs_imports_no_framework(adapter: Adapter) -> None:
    """Not even where it is installed: only what the suite needs itself is imported."""
    left, seen = [adapter.folder / "emitter.py"], set()
    while left:
        file = left.pop()
        seen.add(file)
        for node in _imports(file):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert node.level == 1, f"{file.name} imports from another adapter"
                names = [node.module] if node.module else [alias.name for alias in node.names]
                left += {adapter.folder / f"{name}.py" for name in names} - seen
            else:
                module = getattr(node, "module", None)
                for name in [module] if module else [alias.name for alias in node.names]:
                    root = name.partition(".")[0]
                    assert root in {"conformance", *sys.stdlib_module_names}, f"{file}: {name}"
