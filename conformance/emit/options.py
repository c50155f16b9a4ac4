"""The options that recompute is given, and a user's own recompute in the place of the framework's."""

from __future__ import annotations

from conformance.drivers.adapter import Implementation
from conformance.emit.base import OWN_NAMES, Base
from conformance.emit.expressions import function
from conformance.model.case import Region, node_makes, walk


class Options(Base):
    """Writes the keyword arguments of recompute, and calls of the user's own."""

    @property
    def own(self) -> Implementation | None:
        """The user's own recompute that the program uses in place of the framework's, if any."""
        return self.variant.implementation

    @property
    def callee(self) -> str:
        """The name of the user's own recompute in a program; another one if the case uses that name."""
        assert self.own is not None
        name = self.own.function.partition(":")[2]
        first, dot, rest = name.partition(".")
        nodes = list(walk(self.case.program))
        taken = {made for node in nodes for made in node_makes(node)} | set(self.case.names())
        taken |= {function(region.name) for region in self.case.regions()} | OWN_NAMES
        return f"own_{first}{dot}{rest}" if first in taken else name

    def own_keywords(self, region: Region) -> list[str]:
        """The keyword arguments of a call of the user's own recompute: those of every call, then the
        options of the case that it has keywords for."""
        assert self.own is not None
        named = self.own.options
        keywords = [f"{name}={value!r}" for name, value in self.own.always.items()]
        wrong = self.misuse(region)
        if "preserve_rng" in named and not any(w.startswith(named["preserve_rng"]) for w in wrong):
            keywords.append(f"{named['preserve_rng']}={region.preserve_rng}")
        if "merge_adjacent" in named:
            keywords.append(f"{named['merge_adjacent']}={region.merge_adjacent}")
        if "save" in named and region.save:
            keywords.append(f"{named['save']}={self.policy(region)}")
        if "contexts" in named:
            keywords += self.contexts_option(region, named["contexts"])
        return keywords + wrong

    def policy(self, region: Region) -> str:
        """A region's policy as an expression of the framework; by default a list of the case's words."""
        return repr(list(region.save))

    def own_call(self, block: str, arguments: str, region: Region) -> str:
        """A call of a region (`block` is its expression) through the user's own recompute."""
        assert self.own is not None
        keywords = self.own_keywords(region)
        if self.own.style == "call":
            return f"{self.callee}({', '.join(filter(None, [block, arguments, *keywords]))})"
        return f"{self.own_transform(block, region)}({arguments})"

    def own_transform(self, block: str, region: Region) -> str:
        """The recomputed callable of a region that the user's own recompute returns."""
        return f"{self.callee}({', '.join([block, *self.own_keywords(region)])})"

    @staticmethod
    def option(region: Region, option: str, keyword: str) -> list[str]:
        """An option of a region (`preserve_rng`, `merge_adjacent`) as a framework's keyword; empty if it
        has its default value, unless the case writes it explicitly."""
        value = getattr(region, option)
        written = value != (option == "preserve_rng") or option in region.written
        return [f"{keyword}={value}"] if written else []

    #: The keyword with a text as the value of an option that takes none.
    wrong_option: str = ""

    def misuse(self, region: Region) -> list[str]:
        """The keyword argument that recompute should refuse, if the case gives it one (`option`)."""
        if not region.option:
            return []
        self.wrote("option")
        return [
            "unknown_option=True" if region.option == "unknown" else self.offered("wrong_option")
        ]

    def contexts_option(self, region: Region, keyword: str) -> list[str]:
        """The function that gives a region's contexts, as a framework's keyword; empty for none."""
        if not region.contexts:
            return []
        self.wrote("contexts")
        return [f"{keyword}=contexts"]
