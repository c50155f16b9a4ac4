"""The documentation: links lead somewhere, commands exist, examples work, generated parts are fresh."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from conformance.cli.app import app
from conformance.drivers.adapter import read_adapter
from conformance.emit.programs import EmitFailure, texts
from conformance.errors import CaseError
from conformance.language.load import load_text
from conformance.run.options import OPTIONS
from conformance.run.runner import lacking
from tests import suite_cases
from tools import generated

ROOT = Path(__file__).parent.parent
PAGES = {str(page.relative_to(ROOT)): page for page in generated.pages()}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
#: What pytest takes itself, of what the pages name.
PYTESTS = {"-k", "-x", "-n", "-p", "--lf", "--junitxml"}
pages = pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in a language."""
    return [text for found, text in FENCE.findall(page.read_text("utf-8")) if found == language]


def files(page: Path) -> dict[str, str]:
    """The files that a page gives whole: blocks that begin with a comment that is a path."""
    found = {}
    for _, text in FENCE.findall(page.read_text("utf-8")):
        head, _, rest = text.partition("\n")
        if re.fullmatch(r"# [\w./-]+/[\w.-]+\.(py|yaml|txt)", head):
            found[head[2:]] = rest
    return found


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return FENCE.sub("", page.read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchors that a forge gives a page's headings."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in headings}


@pages
def test_generated_parts_are_fresh(page: Path) -> None:
    text = page.read_text("utf-8")
    assert generated.renewed(text) == text, "run: python tools/pages.py"


def test_every_generated_part_is_shown() -> None:
    texts = [page.read_text("utf-8") for page in PAGES.values()]
    shown = {n for text in texts for n in re.findall(r"<!-- generated: (\S+) -->", text)}
    assert shown == set(generated.PARTS)


@pages
def test_links_lead_somewhere(page: Path) -> None:
    lost = []
    for target in LINK.findall(prose(page)):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        if not other.exists() or (anchor and anchor not in anchors(other)):
            lost.append(target)
    assert not lost


@pages
def test_paths_exist(page: Path) -> None:
    """Every path of the repository that stands in the prose as code."""
    named = re.findall(r"`((?:conformance|adapters|cases|tests|docs|tools)/[\w./-]+)`", prose(page))
    assert not [path for path in named if not (ROOT / path).exists()]


def commands(page: Path) -> Iterator[list[str]]:
    """The commands of ours that a page shows, in consoles and in the prose, as words."""
    shown = [line for text in blocks(page, "console") for line in text.splitlines()]
    lines = [line[2:] for line in shown if line.startswith("$ ")]
    lines += re.findall(r"`((?:conformance|pytest|tox) [^`]+)`", prose(page))
    for line in lines:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in (*lexer, ";"):
            if word and word[0] not in "|&;>":
                words.append(word)
                continue
            if words and Path(words[0]).name in ("conformance", "pytest", "tox"):
                yield [Path(words[0]).name, *words[1:]]
            words = []


@pages
def test_commands_exist(page: Path, pytestconfig: pytest.Config) -> None:
    group: Any = typer.main.get_command(app)
    for program, *words in commands(page):
        named = {w for w in words if re.match("--?[a-z]", w)} - {"--help"}
        if program == "pytest":
            given = {w for w in named - PYTESTS if w not in OPTIONS}
            assert all(hasattr(pytestconfig.option, w[2:].replace("-", "_")) for w in given), words
        elif program == "conformance":
            name = words[0]
            if name.startswith("--"):
                assert name == "--help"
                continue
            assert name in group.commands, f"no command {name}"
            known = {o for p in group.commands[name].params for o in (*p.opts, *p.secondary_opts)}
            known |= {*OPTIONS, *PYTESTS} if name == "run" else set()
            assert not named - known, words


@pages
def test_tox_environments_exist(page: Path) -> None:
    ini = (ROOT / "tox.ini").read_text("utf-8")
    given = re.findall(r"\[testenv:\{?([\w,-]+)\}?\]", ini)
    known = {name for group in given for name in group.split(",")}
    for file in ROOT.glob("adapters/*/releases.txt"):
        listed = re.findall(r"^(?:[0-9]\S+|nightly)", file.read_text("utf-8"), re.MULTILINE)
        known |= {f"{file.parent.name}-{release}" for release in [*listed, "latest"]}
    for program, *words in commands(page):
        if program == "tox" and "-e" in words:
            asked = words[words.index("-e") + 1]
            assert set(asked.split(",")) <= known or asked == "<name>"


@pages
def test_python_blocks_compile(page: Path) -> None:
    for text in blocks(page, "python"):
        compile(text, str(page), "exec")


@pages
def test_yaml_blocks_are_yaml(page: Path) -> None:
    for text in blocks(page, "yaml"):
        yaml.safe_load(re.sub(r"^ *\.\.\.$", "", text, flags=re.MULTILINE))


def test_the_example_case_is_read_as_the_page_says() -> None:
    page = ROOT / "docs" / "cases.md"
    given = files(page)["my_cases/gated.yaml"]
    (case,) = load_text(given, "gated.yaml")
    (failing,) = load_text(given.replace("gives: [a, b]", "gives: [a, {gate: b}]"), "gated.yaml")
    assert failing.regions()[0].gives != case.regions()[0].gives
    torch = read_adapter(ROOT / "adapters" / "torch")
    variant = torch.variant("non-reentrant")
    text = texts(torch, [(case, variant)])[case.id, variant.id]
    assert not isinstance(text, EmitFailure)
    shown = next(b for b in blocks(page, "console") if "conformance emit" in b)
    for line in shown.splitlines():
        if line.startswith("    "):
            assert f"{line}\n" in text.text


def test_the_broken_example_case_is_refused_as_the_page_says() -> None:
    page = ROOT / "docs" / "cases.md"
    name = "my_cases/gated.yaml"
    given = f"# {name}\n{files(page)[name]}".replace("h2 = matmul(", "h2 = matmull(")
    with pytest.raises(CaseError) as caught:
        load_text(given, name)
    assert f"error: {caught.value}\n" in page.read_text("utf-8")


def _follow_the_tutorial(folder: Path) -> Path:
    """The adapter that docs/tutorial.md ends with: its files, and what it changes in them."""
    made = folder / "my_adapter"
    made.mkdir()
    emitter_file = made / "emitter.py"
    text = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    for kind, block in FENCE.findall(text):
        head, _, rest = block.partition("\n")
        if head.startswith("# my_adapter/"):
            (folder / head.removeprefix("# ")).write_text(rest, "utf-8")
        elif kind == "console":
            for line in block.splitlines():
                if line.startswith("$ sed") and " my_adapter/" in line:
                    subprocess.run(shlex.split(line)[1:], cwd=folder, check=True)
        elif block.startswith("    def wait"):
            (made / "observe.py").open("a").write(f"\n{block}")
        elif block.startswith("def emitter"):
            was = emitter_file.read_text("utf-8")
            emitter_file.write_text(was[: was.index("def emitter")] + block)
        elif block.startswith("    operations={"):
            was = emitter_file.read_text("utf-8")
            begin = was.index("    operations={")
            end = was.index("    },\n", begin) + len("    },\n")
            emitter_file.write_text(was[:begin] + block + was[end:])
        elif block.startswith("class Modules"):
            emitter_file.open("a").write(f"\n\n{block}")
    return made


def test_the_tutorial_s_adapter_is_as_long_as_it_says_and_leaves_no_case_broken(
    tmp_path: Path,
) -> None:
    page = ROOT / "docs" / "tutorial.md"
    made = _follow_the_tutorial(tmp_path)
    lines = {file.name: len(file.read_text("utf-8").splitlines()) for file in made.iterdir()}
    assert f"4 files, {sum(lines.values())} lines" in page.read_text("utf-8")
    assert sum(lines.values()) < 200
    adapter = read_adapter(made)
    pairs = [
        (case, variant)
        for variant in adapter.variants
        for case in suite_cases.CASES
        if lacking(case, variant) is None
    ]
    for key, text in texts(adapter, pairs).items():
        assert not isinstance(text, EmitFailure) or text.asked, f"{key}: {text.message}"
