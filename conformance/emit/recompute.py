"""How a region is recomputed: its callable, the options, and a user's own in the framework's place."""

from functools import cached_property

from conformance.drivers.adapter import Implementation
from conformance.emit.expressions import function
from conformance.emit.part import OWN_NAMES, Part
from conformance.errors import NotOfferedError
from conformance.model.case import Again, Region, Statement


class Recompute(Part):
    """Recompute as a transform of a function, `jax.checkpoint(block)(x)`: an adapter writes
    `checkpoint`. What is called more than once is made once, and has a name."""

    #: What the name of a recomputed callable begins with; empty where there are none.
    prefix = "remat_"

    def write_helpers(self) -> None:
        """What recompute is given and a program has to define for it, before all functions."""

    def checkpoint(self, region: Region) -> str:
        """The expression that makes the recomputed callable; `block` has what it is made of."""
        raise NotImplementedError

    def made_once(self, region: Region) -> bool:
        """Whether the recomputed callable is made once and assigned to a name: it is called again, or
        inspected by an operation, or configured."""
        configured = region.granularity in ("module", "operation")
        held = self.forward.is_method(region)
        return configured or held or region.name in self.emitter.named_often

    def name(self, region: Region) -> str:
        """The name of a region's recomputed callable."""
        own = "self." if self.forward.is_method(region) else ""
        return f"{own}{self.prefix}{function(region.name)}"

    def write_made(self, region: Region) -> None:
        """Make a region's recomputed callable, if it has a name."""
        if self.path == "recomputed" and self.made_once(region):
            self.code(f"{self.name(region)} = {self._made(region)}")

    def callable_of(self, region: Region) -> str:
        """The expression of the recomputed callable at a call."""
        return self.name(region) if self.made_once(region) else self._made(region)

    def _made(self, region: Region) -> str:
        if self.own is not None:
            return self.own_transform(self.block(region), region)
        return self.checkpoint(region)

    def called(self, node: Region | Again, region: Region) -> str:
        """The call of a region: in `plain` of the function itself."""
        plain = self.path == "plain"
        callee = self.forward.place(region) if plain else self.callable_of(region)
        return f"{callee}({self.forward.call_arguments(node)})"

    def block(self, region: Region) -> str:
        """What is passed to be recomputed: the region's function, or what is none where the case
        wants that refused."""
        return "None" if region.block == "invalid" else self.forward.place(region)

    def of_callable(self, statement: Statement) -> str:
        """The right-hand side of a statement of `OF_CALLABLES`."""
        region = self.emitter.regions[statement.names()[0]]
        if self.path == "plain":
            return "True"
        if statement.op == "is_unwrapped_by":
            same = "==" if self.forward.is_method(region) else "is"  # each reading binds it anew
            return f"{self.name(region)}.__wrapped__ {same} {self.forward.place(region)}"
        return f'not hasattr({self.name(region)}, "variables")'

    @staticmethod
    def option(region: Region, option: str, keyword: str) -> list[str]:
        """An option of a region (`preserve_rng`, `merge_adjacent`) as a framework's keyword; empty if it
        has its default value, unless the case writes it explicitly."""
        value = getattr(region, option)
        written = value != (option == "preserve_rng") or option in region.written
        return [f"{keyword}={value}"] if written else []

    def misuse(self, region: Region) -> list[str]:
        """The keyword argument that recompute should refuse, if the case gives it one (`option`)."""
        if not region.option:
            return []
        self.code.wrote("option")
        unknown = region.option == "unknown"
        return ["unknown_option=True" if unknown else self.offered("wrong_option")]

    def contexts_option(self, region: Region, keyword: str) -> list[str]:
        """The function that gives a region's contexts, as a framework's keyword; empty for none."""
        if not region.contexts:
            return []
        self.code.wrote("contexts")
        return [f"{keyword}=contexts"]

    def policy(self, region: Region) -> str:
        """A region's policy as an expression of the framework; by default a list of the case's words."""
        return repr(list(region.save))

    @property
    def own(self) -> Implementation | None:
        """The user's own recompute that the program uses in place of the framework's, if any."""
        return self.variant.implementation

    @cached_property
    def own_callee(self) -> str:
        """The name of the user's own recompute in a program; another one if the case uses that name,
        or an import other than of the framework's recompute, which such a program does not call."""
        assert self.own is not None
        name = self.own.function.partition(":")[2]
        first, dot, rest = name.partition(".")
        imported = {
            n for n in self.emitter.imported if not n.startswith(("checkpoint", "recompute"))
        }
        taken = (
            self.emitter.case_names | OWN_NAMES | {*map(function, self.emitter.regions)} | imported
        )
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
            if region.save and region.contexts and named["contexts"] == named.get("save"):
                raise NotOfferedError(self.variant.id, "a policy and contexts by one keyword")
            keywords += self.contexts_option(region, named["contexts"])
        return keywords + wrong

    def own_call(self, block: str, arguments: str, region: Region) -> str:
        """A call of a region (`block` is its expression) through the user's own recompute."""
        assert self.own is not None
        if self.own.style == "call":
            words = filter(
                None, [block, arguments, *self.beside(region, self.own_keywords(region))]
            )
            return f"{self.own_callee}({', '.join(words)})"
        return f"{self.own_transform(block, region)}({arguments})"

    def beside(self, region: Region, keywords: list[str]) -> list[str]:
        """The keywords of a call, beside the arguments of a region, none of which has such a name."""
        if taken := {*region.kwargs} & {word.partition("=")[0] for word in keywords}:
            what = f"the argument {min(taken)}, which is a keyword of the function,"
            raise NotOfferedError(self.variant.id, what)
        return keywords

    def own_transform(self, block: str, region: Region) -> str:
        """The recomputed callable of a region that the user's own recompute returns."""
        return f"{self.own_callee}({', '.join([block, *self.own_keywords(region)])})"


class Calling(Recompute):
    """Recompute as a call that is given the function and its arguments,
    `checkpoint(block, x, preserve_rng_state=False)`."""

    prefix = ""
    #: The function that recomputes.
    callee = "checkpoint"

    def made_once(self, region: Region) -> bool:
        transformed = self.own is not None and self.own.style == "transform"
        return transformed and self.forward.is_method(region)

    def name(self, region: Region) -> str:
        return f"self.recomputed_{function(region.name)}"

    def keywords(self, region: Region) -> list[str]:
        """The keywords of a region's call."""
        return self.option(region, "preserve_rng", "preserve_rng_state")

    def called(self, node: Region | Again, region: Region) -> str:
        block, arguments = self.block(region), self.forward.call_arguments(node)
        if self.path == "plain":
            return f"{self.forward.place(region)}({arguments})"
        if self.made_once(region):
            return f"{self.name(region)}({arguments})"
        if self.own is not None:
            return self.own_call(block, arguments, region)
        words = filter(None, [block, arguments, *self.beside(region, self.keywords(region))])
        return f"{self.callee}({', '.join(words)})"
