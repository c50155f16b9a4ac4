"""Somebody's own recompute in the place of a framework's: how it is described, and what is written."""

from __future__ import annotations

import inspect
import re
import textwrap
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from conformance.cli.app import app
from conformance.drivers.adapter import Adapter, find_adapter
from conformance.drivers.implementation import adapt, by_signature, describe
from conformance.emit.programs import EmitFailure, texts
from conformance.errors import ImplementationError
from conformance.model.case import Case
from conformance.run.selection import built_on
from conformance.store import read
from tests.suite_cases import BY_ID as CASES

ROOT = Path(__file__).parents[1]
ADAPTERS = ROOT / "adapters"
TORCH = find_adapter("torch", ADAPTERS)


def program(adapter: Adapter, case: Case, variant: str = "") -> str:
    """The program that a case becomes."""
    chosen = adapter.variant(variant) if variant else adapter.variants[0]
    text = texts(adapter, [(case, chosen)])[case.id, chosen.id]
    assert not isinstance(text, EmitFailure), text
    return text.text


def test_a_function_is_called_with_the_region_its_arguments_and_the_options_it_takes() -> None:
    own = describe("my.memory:keep", ["preserve_rng=rng"], ["limit=3"])
    text = program(adapt(TORCH, own), CASES["randomness/dropout-preserved"])
    assert "from my.memory import keep\n" in text
    assert "keep(block, x, limit=3, rng=True)" in text
    assert "import checkpoint" not in text


def test_a_case_that_asks_for_an_option_without_a_keyword_is_not_supported() -> None:
    without = adapt(TORCH, describe("my.memory:keep")).variants[0].model.lacks
    named = adapt(TORCH, describe("my.memory:keep", ["preserve_rng=rng"])).variants[0].model.lacks
    assert "preserve_rng" in without["preserve-rng-off"]
    assert "preserve-rng-off" not in named
    assert {"policy", "merge-adjacent"} <= set(named)


def test_a_policy_is_given_in_the_words_of_the_framework() -> None:
    case = CASES["policies/save-matmul"]
    own = adapt(TORCH, describe("my.memory:keep", ["save=context_fn"]))
    text = program(own, case)
    assert "context_fn=partial(" in text
    assert "torch.ops.aten.mm.default" in text


@pytest.mark.parametrize(
    ("framework", "written"),
    [
        ("reference", "recomputed_block = keep(block)"),
        ("torch", "keep(block, x, y)"),
        ("jax", "keep(block)(x, y)"),
        ("tf", "recomputed_block = keep(block)"),
        ("paddle", "keep(block, x, y)"),
        ("mindspore", "keep(block, x, y)"),
    ],
)
def test_every_framework_takes_one(framework: str, written: str) -> None:
    own = adapt(find_adapter(framework, ADAPTERS), describe("memory:keep"))
    text = program(own, CASES["structure/two-outputs"])
    assert "from memory import keep\n" in text
    assert written in text


def checkpoint(
    function: Any, *args: Any, use_reentrant: Any = None, context_fn: Any = None, **kwargs: Any
) -> None:
    """A function with keywords of PyTorch's own."""


def without_options(function: Any, *args: Any, **kwargs: Any) -> None:
    """A function without any."""


def transforms(function: Any) -> None:
    """A function that returns the callable."""


def requires(function: Any, *args: Any, limit: int) -> None:
    """A function that cannot be called without a keyword."""


def takes_first(function: Any, offload: bool, *args: Any) -> None:
    """A function with an argument of its own before those of the region."""


CONTEXTS = {"save": "context_fn", "contexts": "context_fn"}
BUILT_ON = ["torch/non-reentrant", "torch/selective", "torch/contexts"]


@pytest.mark.parametrize(
    ("function", "declared", "options", "always", "known"),
    [
        (without_options, {}, {}, {}, []),
        (checkpoint, {}, CONTEXTS, {"use_reentrant": False}, BUILT_ON),
        (
            checkpoint,
            {"options": {"contexts": "own"}},
            {"save": "context_fn", "contexts": "own"},
            {"use_reentrant": False},
            BUILT_ON,
        ),
        (
            checkpoint,
            {"always": {"use_reentrant": True}, "known": ["torch/reentrant"]},
            CONTEXTS,
            {"use_reentrant": True},
            ["torch/reentrant"],
        ),
        (
            checkpoint,
            {"always": {"context_fn": None}},
            {},
            {"context_fn": None, "use_reentrant": False},
            ["torch/non-reentrant"],
        ),
    ],
)
def test_a_signature_says_what_is_not_declared(
    function: Any,
    declared: dict[str, Any],
    options: dict[str, str],
    always: dict[str, object],
    known: list[str],
) -> None:
    own = describe("my.memory:keep")
    own = replace(own, model=own.model.model_copy(update=declared))
    model = by_signature(TORCH, own, inspect.signature(function)).model
    assert (model.options, model.always, model.known) == (options, always, known)


@pytest.mark.parametrize(
    ("function", "always", "words"),
    [
        (
            transforms,
            [],
            "(?s)too many positional arguments.*`style: transform` or `style: module`",
        ),
        (requires, [], "(?s)missing a required .*'limit'.*--always KEYWORD=VALUE"),
        (requires, ["limit=3"], ""),
        (takes_first, [], "the region's arguments come after function, offload"),
    ],
)
def test_what_cannot_be_called_says_what_to_declare(
    function: Any, always: list[str], words: str
) -> None:
    own = describe("my.memory:keep", always=always)
    expected = pytest.raises(ImplementationError, match=words) if words else nullcontext()
    with expected:
        by_signature(TORCH, own, inspect.signature(function))


def test_a_name_that_the_case_has_for_itself_gets_another() -> None:
    own = adapt(TORCH, describe("memory:block"))
    text = program(own, CASES["structure/two-outputs"])
    assert "from memory import block as own_block\n" in text
    assert "own_block(block, x, y)" in text
    own = adapt(TORCH, describe("memory:partial", options=["save=context_fn"]))
    text = program(own, CASES["policies/save-two-operations"])
    assert "from memory import partial as own_partial\n" in text
    assert "context_fn=partial(" in text


def test_a_module_is_wrapped_once(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("function: memory:wrap\nstyle: module\n", "utf-8")
    text = program(adapt(TORCH, describe(str(file))), CASES["structure/two-outputs"])
    assert "block = wrap(Block(" in text


def test_a_file_says_more(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        textwrap.dedent(
            """
            function: memory:keep
            name: mine
            title: My own
            discipline: early-stop
            lacks: {kwargs: not written yet}
            offers: [notices-change]
            path: [lib]
            only: {cases: [basics/*], why: for now}
            """
        ),
        "utf-8",
    )
    own = adapt(TORCH, describe(str(file), discipline="whole"))
    variant = own.variants[0]
    assert [v.id for v in own.variants] == ["mine/eager", "mine/modules"]
    assert (own.name, own.model.title) == ("mine", "My own")
    assert variant.model.discipline == "whole"  # what the command line says goes first
    assert variant.model.lacks["kwargs"] == "not written yet"
    assert "notices-change" not in variant.model.lacks
    assert own.implementation is not None
    assert own.implementation.path == (str(tmp_path / "lib"),)
    assert own.known == tmp_path / "mine.known.yaml"
    assert variant.model.only is not None
    assert variant.model.only.leaves_out("memory/chain-each")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("memory.keep", "names no function"),
        ("memory:keep; import os", "names no function"),
        ("absent.yaml", "No such file"),
    ],
)
def test_what_names_no_function_is_refused(text: str, words: str) -> None:
    with pytest.raises(ImplementationError, match=words):
        describe(text)


@pytest.mark.parametrize(
    ("options", "always", "words"),
    [
        (["preserve_rng"], [], "is not NAME=VALUE"),
        (["preserve_rng=a b"], [], "is no keyword"),
        ([], ["limit=os.getcwd()"], "no plain value"),
        ([], ["a-b=1"], "is no keyword"),
    ],
)
def test_options_that_cannot_be_are_refused(
    options: list[str], always: list[str], words: str
) -> None:
    with pytest.raises(ImplementationError, match=words):
        describe("memory:keep", options, always)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("function: a:b\ndisciplin: whole\n", "did you mean 'discipline'"),
        ("function: a:b\nlacks: {kwarg: none}\n", "did you mean 'kwargs'"),
        ("function: a:b\nname: My Own\n", "lower-case"),
        ("function: [\n", "not YAML"),
        ("title: none\n", "function: Field required"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(content, "utf-8")
    with pytest.raises(ImplementationError, match=words) as caught:
        describe(str(file))
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("adapter", "content", "words"),
    [
        ("keras", "function: a:b\n", "takes no implementation"),
        ("jax", "function: a:b\nstyle: module\n", "no style 'module'"),
        ("torch", "function: a:b\noptions: {preserv_rng: a}\n", "did you mean 'preserve_rng'"),
        ("torch", "function: a:b\nvariants: [eagr]\n", "did you mean 'eager'"),
    ],
)
def test_what_an_adapter_has_no_place_for_is_refused(
    tmp_path: Path, adapter: str, content: str, words: str
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(content, "utf-8")
    with pytest.raises(ImplementationError, match=words):
        adapt(find_adapter(adapter, ADAPTERS), describe(str(file)))


OWN = """
import functools

import tape


def keep(function, preserve_rng=True):
    return tape.recompute(function, preserve_rng=preserve_rng)


def nothing(function):
    return function


def two(function, limit):
    return tape.recompute(function)
"""


#: Cases enough to tell one function from another.
FEW = (
    "mlp-block",
    "dropout-preserved",
    "two-outputs",
    "unused-output",
    "keyword-argument",
    "nested",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module of somebody's, and the current one."""
    (tmp_path / "memory.py").write_text(OWN, "utf-8")
    for name in ("basics", "randomness", "structure", "regions"):
        file = yaml.safe_load((ROOT / "cases" / f"{name}.yaml").read_text("utf-8"))
        file["cases"] = {key: case for key, case in file["cases"].items() if key in FEW}
        named = {
            word
            for case in file["cases"].values()
            for section in ("inputs", "parameters")
            for given in [case.get(section, [])]
            for word in (
                [given] if isinstance(given, str) else given if isinstance(given, list) else []
            )
            if isinstance(word, str)
        }
        file["tensors"] = {
            key: made
            for key, made in file.get("tensors", {}).items()
            if any(re.fullmatch(key.replace("$i", "[0-9]+"), word) for word in named)
        }
        (tmp_path / "cases").mkdir(exist_ok=True)
        (tmp_path / "cases" / f"{name}.yaml").write_text(
            yaml.safe_dump(file, sort_keys=False), "utf-8"
        )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*words: str) -> tuple[int, str]:
    """What a command ended with and printed."""
    done = CliRunner().invoke(app, [*words, "--cases", "cases"])
    return done.exit_code, done.output


RUN = ("run", "--adapter", "reference")


def test_a_run_is_green_for_one_that_is_right(folder: Path) -> None:
    code, printed = command(*RUN, "--implementation", "memory:keep")
    assert code == 0, printed
    run = read(folder / "reports" / "memory-keep.db")
    assert (run.header.adapter, run.header.implementation) == ("memory-keep", "memory:keep")


def test_a_family_and_a_case_are_selected_by_their_names(folder: Path) -> None:
    words = ("--implementation", "memory:keep")
    chosen = ("--family", "structure", "--case", "basics/mlp-block")
    assert command(*RUN, *words, *chosen)[0] == 0
    cases = {r.case for r in read(folder / "reports" / "memory-keep.db").results}
    assert {case.partition("/")[0] for case in cases} == {"structure", "basics"}
    assert len(cases) == 4
    done = CliRunner().invoke(app, [*RUN, *words, "--cases", "cases", "--family", "structures"])
    assert done.exit_code == 2
    assert "no case 'structures/*'" in done.output


def test_a_run_fails_for_one_that_recomputes_nothing(folder: Path) -> None:
    assert command(*RUN, "--implementation", "memory:nothing")[0] == 1


def test_one_is_built_on_a_variant(folder: Path) -> None:
    words = ("--implementation", "memory:keep")
    code, printed = command(*RUN, *words, "--known", "reference/float64")
    assert code == 0, printed
    code, printed = command(*RUN, *words, "--known", "reference/float46")
    assert code == 2
    assert "has no variant 'float46'" in printed


def test_one_that_cannot_be_called_is_one_message(folder: Path) -> None:
    code, printed = command(*RUN, "--implementation", "memory:two")
    assert code == 2
    assert printed.count("memory:two(function, limit) cannot be called as") == 1
    assert command(*RUN, "--implementation", "memory:two", "--always", "limit=3")[0] == 0


@pytest.mark.parametrize("function", ["memori:keep", "memory:kept"])
def test_one_that_cannot_be_imported_is_one_message(folder: Path, function: str) -> None:
    code, printed = command(*RUN, "--implementation", function)
    assert code == 3
    assert printed.count(f"{function} cannot be imported") == 1


def test_options_without_an_implementation_are_refused(folder: Path) -> None:
    assert command("run", "--adapter", "reference", "--discipline", "whole")[0] != 0


def test_a_run_under_the_wrong_discipline_says_which_one_fits(folder: Path) -> None:
    words = ("--implementation", "memory:keep", "--discipline", "minimal")
    code, printed = command(*RUN, *words)
    assert code == 1
    assert "pass it under the discipline whole: add --discipline whole" in " ".join(printed.split())


def test_what_is_built_on_a_variant_has_its_discipline_and_what_it_keeps(tmp_path: Path) -> None:
    described = describe("memory:keep", discipline=None)
    model = built_on(described, ["torch/non-reentrant"], ADAPTERS).model
    early = {"dropout": "mask early elements", "solve": "a out mask early"}
    early |= {"loop_sin": "x mask early", "avg_pool2d": "x", "slope_of_sin": "x number"}
    norms = dict.fromkeys(("layer_norm", "batch_norm"), "x gamma mask")
    early |= {"to_complex": "a b asked", **norms}
    assert (model.discipline, model.residuals) == ("early-stop", early)
    assert not model.refuses
    model = built_on(described, ["torch/reentrant"], ADAPTERS).model
    whole = {"slope_of_sin": "x number", "to_complex": "a b asked", **norms}
    assert (model.discipline, model.residuals) == ("whole", whole)
    assert "kwargs" in model.refuses
    other = built_on(describe("a:b", discipline="minimal"), ["torch/non-reentrant"], ADAPTERS)
    assert (other.model.discipline, other.model.residuals) == ("minimal", None)
