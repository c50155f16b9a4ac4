"""The parts of the documentation that are made from the code.

Between `<!-- generated: NAME -->` and `<!-- end -->`, each page gets anew what the function of that name
below returns (`python tools/pages.py`). The suite's tests fail where that would change a page.
"""

from __future__ import annotations

import ast
import inspect
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from pydantic import BaseModel

from conformance.compare.model import Agreement
from conformance.drivers import contract
from conformance.drivers.adapter import (
    DISCIPLINES,
    AdapterModel,
    Keyword,
    Refusal,
    VariantModel,
    all_adapters,
)
from conformance.emit.emitter import PARTS as ASKED
from conformance.exits import MEANINGS
from conformance.judge.checks import CHECKS
from conformance.judge.known import CauseModel
from conformance.judge.outcomes import MEANING, SIGN
from conformance.language.build import TOLERANCES
from conformance.language.features import CAPABILITIES, feature_names, features_of, meaning
from conformance.language.laws import LAWS
from conformance.language.load import FOUND, load_folder
from conformance.language.operations import OPERATIONS, Operation
from conformance.language.properties import FAMILIES
from conformance.language.spec import (
    ArrayModel,
    CaseModel,
    ErrorModel,
    GradientsModel,
    RegionModel,
)
from conformance.model.case import Case, Procedure
from conformance.model.facts import Fact
from conformance.observe.worker.observer import Observer
from conformance.oracle import tape
from conformance.oracle.expected import expect
from tools.shared import ROOT

DOCS = ROOT / "docs"
_PART = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
#: The cases whose reruns are shown under every discipline.
WORKED = ("structure/unused-output", "regions/nested")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    head = tuple(head)
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


# -- cases -----------------------------------------------------------------------------------------


def operations() -> str:
    rows = ((f"`{o.signature()}`", _meaning(o), o.shape, _needs(o)) for o in OPERATIONS.values())
    return table(("operation", "meaning", "shapes", "its gradient reads"), rows)


#: What the operations give that ask something of the recomputed callable, which the oracle has not.
OF_CALLABLE = {
    "is_unwrapped_by": "Whether its `__wrapped__` is the callable itself (true when plain).",
    "hides_variables_of": "Whether it has no attribute `variables` (true when plain).",
}


def _meaning(operation: Operation) -> str:
    """The first paragraph of the docstring of the oracle's function."""
    if operation.name in OF_CALLABLE:
        return OF_CALLABLE[operation.name]
    return " ".join((inspect.getdoc(getattr(tape, operation.name)) or "").split("\n\n")[0].split())


def _needs(operation: Operation) -> str:
    found = []
    for argument, alternatives in operation.needs.items():
        words = ", or ".join(
            " and ".join(f"`{w}`" for w in sorted(s)) or "nothing" for s in alternatives
        )
        found.append(words if len(operation.needs) == 1 else f"{argument}: {words}")
    return "; ".join(found) or "has none"


def features() -> str:
    by_feature: dict[str, str] = {}
    cases = (case for case in load_folder(ROOT / "cases") if case.family != FOUND)
    for case in sorted(cases, key=lambda case: len(case.statements())):
        for word in features_of(case).case:
            by_feature.setdefault(word, case.id)
    rows = [(word, by_feature.get(word, "")) for word in feature_names() if ":" not in word]
    for family in FAMILIES:
        members = (word for word in sorted(by_feature) if word.startswith(f"{family}:"))
        rows += [(word, by_feature[word]) for word in islice(members, 1)]
    shown = (
        (f"`{w}`", "yes" if w in CAPABILITIES else "", meaning(w), f"`{case}`" if case else "")
        for w, case in rows
    )
    return table(("feature", "capability", "meaning", "a case"), shown)


def tolerances() -> str:
    rows = ((f"`{name}`", f"{t.rtol:g}", f"{t.atol:g}") for name, t in TOLERANCES.items())
    return table(("dtype", "rtol", "atol"), rows)


def _keys(model: type[BaseModel], more: Mapping[str, str] = MappingProxyType({})) -> str:
    """The keys of a model: each with its default and its description, or what `more` says."""
    rows = []
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True)
        switch_or_number = isinstance(default, bool | int | float)
        shown = "required" if field.is_required() else ""
        if switch_or_number or isinstance(default, str):
            shown = f"`{str(default).lower()}`" if default != "" else ""
        meaning = field.description or more.get(name, "")
        if not meaning:
            raise LookupError(f"nothing says what {model.__name__}.{name} is")
        rows.append((f"`{name}`", shown, meaning))
    return table(("key", "default", "meaning"), rows)


def case_keys() -> str:
    return _keys(CaseModel)


def array_keys() -> str:
    return _keys(ArrayModel)


def region_keys() -> str:
    return _keys(RegionModel)


def gradient_keys() -> str:
    return _keys(GradientsModel)


def error_keys() -> str:
    return _keys(ErrorModel)


def procedures() -> str:
    """The kinds of `Procedure`, its second paragraph, as a list."""
    text = " ".join(inspect.cleandoc(Procedure.__doc__ or "").split("\n\n")[1].split())
    parts = re.findall(r"`(\w+)`: (.*?)(?= `\w+`: |$)", text)
    return "".join(f"- `{name}`: {meaning}\n" for name, meaning in parts)


# -- adapters --------------------------------------------------------------------------------------


def laws() -> str:
    def rows() -> Iterator[tuple[str, ...]]:
        for name, law in LAWS.items():
            said = "; ".join(f"{quantity}: {words}" for quantity, words in law.words.items())
            constants = ", ".join(f"`{word}`" for word in law.constants)
            yield f"`{name}`", law.title, law.unit, said, constants, law.source

    return table(("law", "of", "in", "says", "constants", "source"), rows())


def adapter_keys() -> str:
    return _keys(
        AdapterModel,
        {
            "name": "How commands name it; also the name of its results file.",
            "title": "The framework's name.",
            "variants": "By name, see below.",
        },
    )


def variant_keys() -> str:
    return _keys(
        VariantModel, {"discipline": f"One of {', '.join(f'`{d}`' for d in DISCIPLINES)}."}
    )


def refusal_keys() -> str:
    return _keys(Refusal)


def keyword_keys() -> str:
    return _keys(Keyword)


def keywords() -> str:
    def rows() -> Iterator[tuple[str, ...]]:
        for adapter in all_adapters(ROOT / "adapters"):
            for keyword, given_as in adapter.model.keywords.items():
                options = " and ".join(f"`{option}`" for option in given_as.options)
                given = f"the case's {options}" if options else f"`{given_as.always}`"
                known = ", ".join(f"`{variant}`" for variant in given_as.known)
                yield f"`{adapter.name}`", f"`{keyword}`", given, known

    return table(("adapter", "keyword", "what it is given", "built on"), rows())


def known_keys() -> str:
    return _keys(CauseModel)


def observer_methods() -> str:
    # Loading an observer would import its framework.
    writers: dict[str, dict[str, None]] = {}
    for path in sorted((ROOT / "adapters").glob("*/*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name == Observer.__name__:
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef):
                        writers.setdefault(inner.name, {})[path.parent.name] = None
    return table(("method", "written by", "what it does"), _methods(Observer, writers))


def _methods(base: type, writers: Mapping[str, Mapping[str, None]]) -> list[tuple[str, str, str]]:
    """The methods of a base class that adapters write, and which of the shipped ones do."""
    # Its own first, then those of the classes that it is put together from.
    parts = [part for part in base.__mro__ if part.__module__ != contract.__name__]
    methods = {
        name: inspect.getattr_static(base, name)
        for name in dict.fromkeys(name for part in parts for name in vars(part))
        if name in writers and not name.startswith("_")
    }
    methods = {name: method for name, method in methods.items() if inspect.isfunction(method)}
    must: frozenset[str] = getattr(base, "__abstractmethods__", frozenset())
    rows = []
    for name, method in sorted(methods.items(), key=lambda pair: pair[0] not in must):
        names = ", ".join(n for n in inspect.signature(method).parameters if n != "self")
        by = "required" if name in must else ", ".join(writers[name])
        rows.append((f"`{name}({names})`", by, _paragraphs(method.__doc__ or "")))
    return rows


# -- checks ----------------------------------------------------------------------------------------


def asked() -> str:
    rows = ((f"`{part}`", *where.rsplit(": ", 1)) for part, where in ASKED.items())
    return table(("part", "asked for by", "written by"), rows)


def checks() -> str:
    rows = (
        (f"[{c.name}](#{c.name.replace(' ', '-')})", c.asks, c.level.value) for c in CHECKS.values()
    )
    return table(("check", "asks", "level"), rows)


def check_pages() -> str:
    """Each check's own docstring."""
    parts = []
    for check in CHECKS.values():
        module = inspect.getmodule(check.judge)
        assert module is not None
        parts.append(
            f"### {check.name}\n\nLevel: {check.level.value}.\n\n{_paragraphs(module.__doc__ or '')}\n"
        )
    return "\n".join(parts)


def _paragraphs(text: str) -> str:
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def disciplines() -> str:
    rows = ((f"`{name}`", _sentence(words)) for name, words in DISCIPLINES.items())
    return table(("discipline", "what runs again in backward"), rows)


def outcomes() -> str:
    rows = ((f"{SIGN[outcome]} {outcome.value}", words) for outcome, words in MEANING.items())
    return table(("outcome", "meaning"), rows)


def facts() -> str:
    """What a verdict may carry, from the docstrings of the values."""
    rows = []
    for kind in typing.get_args(Fact):
        names = ", ".join(f"`{name}`" for name in kind.__struct_fields__)
        rows.append((f"`{kind.__struct_config__.tag}`", names, _paragraphs(kind.__doc__ or "")))
    return table(("`fact`", "fields", "what it says"), rows)


def agreements() -> str:
    text = " ".join((Agreement.__doc__ or "").split("\n\n", 1)[1].split())
    parts = re.findall(r"`([\w ]+)`: (.*?)\.(?= `[\w ]+`: |$)", text)
    assert [name for name, _ in parts] == [status.value for status in Agreement]
    return table(("verdict", "meaning"), ((f"`{name}`", words) for name, words in parts))


def exit_codes() -> str:
    rows = ((f"{code:d}", f"`{code.name}`", words) for code, words in MEANINGS.items())
    return table(("status", "`conformance.exits.Exit`", "meaning"), rows)


def worked() -> str:
    """How often statements run again under each discipline, as the reference says."""
    cases = {case.id: case for case in load_folder(ROOT / "cases")}
    return "\n".join(_worked(cases[name]) for name in WORKED)


def _worked(case: Case) -> str:
    counts = {name: expect(case, name).executions for name in DISCIPLINES}
    statements = {(region, s.label): s for region, s in case.statements()}
    rows = []
    for region, label, phase in counts["whole"]:
        if phase != "rerun" or not region:
            continue
        statement = statements.get((region, label))
        what = f"`{label}`, a {statement.op}" if statement else "**as a whole**"
        allowed = (str(found[region, label, phase]) for found in counts.values())
        rows.append((f"`{region}`", what, *allowed))
    order = list(dict.fromkeys(row[0] for row in rows))
    rows.sort(key=lambda row: (order.index(row[0]), "whole" not in row[1]))
    return f"`{case.id}`:\n\n" + table(("region", "statement", *DISCIPLINES), rows)


PARTS: Mapping[str, Callable[[], str]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        operations,
        tolerances,
        case_keys,
        array_keys,
        region_keys,
        gradient_keys,
        error_keys,
        procedures,
        asked,
        adapter_keys,
        variant_keys,
        refusal_keys,
        keyword_keys,
        keywords,
        known_keys,
        features,
        observer_methods,
        checks,
        check_pages,
        laws,
        disciplines,
        outcomes,
        agreements,
        facts,
        exit_codes,
        worked,
    )
}


def renewed(text: str) -> str:
    """A page's text with its generated parts made anew. Raises `KeyError` for an unknown part."""
    return _PART.sub(lambda found: f"{found[1]}\n{PARTS[found[2]]()}\n{found[3]}", text)


def pages() -> tuple[Path, ...]:
    """Every page of the documentation."""
    listed = (
        *DOCS.glob("*.md"),
        *DOCS.glob("frameworks/*.md"),
        ROOT / "CONTRIBUTING.md",
        ROOT / "README.md",
    )
    return (*sorted(listed), ROOT / "cases" / "README.md", ROOT / "reports" / "README.md")


def changed() -> Mapping[str, str]:
    """The pages whose generated parts have changed, made anew."""
    texts = {page: page.read_text("utf-8") for page in pages()}
    made = {page: renewed(text) for page, text in texts.items()}
    return {str(p.relative_to(ROOT)): text for p, text in made.items() if text != texts[p]}
