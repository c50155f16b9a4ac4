"""The page that says what an adapter offers: the bases have it, and it is enough."""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from conformance.drivers import contract
from conformance.drivers.adapter import Adapter, all_adapters, read_adapter
from conformance.drivers.modules import load_module
from conformance.emit.emitter import Emitter, Parts, Run, Tensors
from conformance.emit.part import Part
from conformance.emit.programs import EmitFailure, texts, write_programs
from conformance.observe.worker import entry
from conformance.observe.worker.observer import Observer
from tests import suite_cases

FOLDER = Path(__file__).parent.parent / "adapters"
ADAPTERS = all_adapters(FOLDER)

EMITTER = """
from conformance.errors import NotEmittedError
from conformance.model.program import Site


class Draft:
    def __init__(self, lines, sites):
        self.lines, self.sites = lines, sites


class Bare:
    def __init__(self, case, variant):
        self.case, self.variant = case, variant

    def write(self):
        if self.case.id != "basics/arithmetic":
            raise NotEmittedError(self.variant.id, "anything else")
        lines = ["def plain():", "    return 1.0", "recomputed = plain", "def run(forward):"]
        lines.append("    return forward()  # pylint: s0")
        return Draft(lines, [Site("phase", "run", "", "forward")])


def emitter(case, variant):
    return Bare(case, variant)
"""
OBSERVE = """
import numpy as np

from conformance.model.observation import Leaf, Observation, Run
from conformance.observe.worker.loaded import load_program


class Observer:
    def __init__(self, variant):
        self.variant = variant

    def warm_up(self):
        pass

    def observe(self, program):
        module = load_program(program)
        plain, recomputed = (
            Run(outputs=Leaf(np.array(module.run(path)), "float64"))
            for path in (module.plain, module.recomputed)
        )
        return Observation(plain, recomputed, {}, {}, 0.0)
"""


def _members(protocol: type) -> set[str]:
    own = {*vars(protocol), *vars(protocol).get("__annotations__", {})}
    return {name for name in own if not name.startswith("_")}


def test_the_base_has_what_the_page_says() -> None:
    assert set(Observer.__abstractmethods__) == {"leaf"}
    for name in _members(contract.Observer):
        said, has = getattr(contract.Observer, name), getattr(Observer, name)
        assert [*inspect.signature(said).parameters] == [*inspect.signature(has).parameters], name
    page = str(contract.__doc__).partition("base class")[2].partition("docs/")[0]
    for name in {*re.findall(r"`(\w+)`", page)} - {"unsupported"}:
        assert hasattr(Observer, name), name


@pytest.mark.parametrize("adapter", ADAPTERS, ids=[a.name for a in ADAPTERS])
def test_shipped_emitters_have_what_must_be_there(adapter: Adapter) -> None:
    case = next(case for case in suite_cases.CASES if case.id == "basics/arithmetic")
    for variant in adapter.variants:
        made = adapter.load("emitter").emitter(case, variant)
        assert type(made.tensors).tensor is not Tensors.tensor
        if type(made.run).write_gradients is Run.write_gradients:  # it writes training alone
            assert made.words.procedures_written == ("train",)
        if "train" not in variant.model.lacks:
            assert type(made.run).write_training is not Run.write_training


@pytest.mark.parametrize("adapter", ADAPTERS, ids=[a.name for a in ADAPTERS])
def test_an_emitter_is_given_its_parts(adapter: Adapter) -> None:
    """Its class is the suite's, and the classes of its parts have few others above them."""
    case = next(case for case in suite_cases.CASES if case.id == "basics/arithmetic")
    for variant in adapter.variants:
        made = adapter.load("emitter").emitter(case, variant)
        assert type(made) is Emitter
        parts = [value for value in vars(made).values() if isinstance(value, Part)]
        assert len(parts) == len(fields(Parts)) - 1  # and the words


def test_no_class_that_writes_programs_has_many_above_it() -> None:
    """At most five, itself and `object` included, in the suite and in every adapter."""
    for adapter in ADAPTERS:
        adapter.load("emitter")
    folders = {f"{load_module(a.folder, 'emitter').__name__.rpartition('.')[0]}" for a in ADAPTERS}
    rooms = ("conformance.emit", *folders)
    modules = [m for name, m in [*sys.modules.items()] if name.startswith(rooms)]
    classes = {c for m in modules for c in vars(m).values() if inspect.isclass(c)}
    of_observers = ("observe", "worker")
    own = {
        c
        for c in classes
        if c.__module__.startswith(rooms) and not any(w in repr(c.__mro__) for w in of_observers)
    }
    assert len(own) > 50
    deep = {c.__qualname__: len(c.__mro__) for c in own if len(c.__mro__) > 5}
    assert not deep


def test_the_page_is_enough(tmp_path: Path) -> None:
    """An adapter that derives from nothing of the suite's writes a program and observes it."""
    folder = tmp_path / "bare"
    folder.mkdir()
    variant = {"title": "one", "discipline": "whole"}
    model = {"name": "bare", "title": "Bare", "packages": [], "variants": {"one": variant}}
    (folder / "adapter.yaml").write_text(yaml.safe_dump(model), "utf-8")
    (folder / "emitter.py").write_text(EMITTER, "utf-8")
    (folder / "observe.py").write_text(OBSERVE, "utf-8")
    adapter = read_adapter(folder)
    cases = {case.id: case for case in suite_cases.CASES}
    pair = cases["basics/arithmetic"], adapter.variant("one")
    (program,) = write_programs(adapter, [pair], tmp_path).values()
    assert not isinstance(program, EmitFailure)
    found = entry.observe(str(folder), program)
    assert found.recomputed.outputs == found.plain.outputs
    assert {site.label for site in program.lines.values()} == {"forward"}
    (other,) = texts(adapter, [(cases["basics/mlp-block"], pair[1])]).values()
    assert isinstance(other, EmitFailure)
    assert other.asked == "anything else"
