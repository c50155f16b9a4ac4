"""The page that says what an adapter offers: the bases have it, and it is enough."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import yaml

from conformance.drivers import contract
from conformance.drivers.adapter import Adapter, all_adapters, read_adapter
from conformance.emit.emitter import Emitter
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


class Emitter:
    def __init__(self, case, variant):
        self.case, self.variant = case, variant

    def write(self):
        if self.case.id != "basics/arithmetic":
            raise NotEmittedError(self.variant.id, "anything else")
        lines = ["def plain():", "    return 1.0", "recomputed = plain", "def run(forward):"]
        lines.append("    return forward()  # pylint: s0")
        return Draft(lines, [Site("phase", "run", "", "forward")])
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


@pytest.mark.parametrize(
    ("base", "protocols"),
    [
        (Emitter, (contract.Emitter, contract.Writes, contract.MayWrite)),
        (Observer, (contract.Observer, contract.Sees, contract.MaySee)),
    ],
)
def test_the_bases_have_what_the_page_says(base: type, protocols: tuple[type, ...]) -> None:
    required = {name for part in protocols for name in getattr(part, "__abstractmethods__", ())}
    assert required == set(base.__abstractmethods__)  # type: ignore[attr-defined]
    own = {
        name: member
        for part in reversed(base.__mro__)
        if part.__module__ != contract.__name__
        for name, member in vars(part).items()
    }
    for part in protocols:
        for name in _members(part):
            assert name in own, name
            if inspect.isfunction(said := vars(part).get(name)):
                words = [[*inspect.signature(f).parameters] for f in (said, own[name])]
                assert words[0] == words[1], name


@pytest.mark.parametrize("adapter", ADAPTERS, ids=[a.name for a in ADAPTERS])
def test_shipped_emitters_have_what_must_be_there(adapter: Adapter) -> None:
    made = adapter.load("emitter").Emitter
    assert not inspect.isabstract(made)
    if made.write_run is Emitter.write_run:
        assert made.write_gradients is not Emitter.write_gradients
        if any("train" not in variant.model.lacks for variant in adapter.variants):
            assert made.write_training is not Emitter.write_training


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
