"""Writes `inputs`, what a program starts from, and how `run` reads that out of the dict `values`."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from conformance.emit import lists
from conformance.emit.expressions import listed, numpy_fill
from conformance.emit.lists import Item
from conformance.emit.part import Part
from conformance.errors import NotOfferedError
from conformance.model.case import Array, Generator, Value

#: Up to so many entries of a list or dict are written out, more as a comprehension over names.
FEW = 3
_DRAWS = ("normal", "uniform", "integers")


class Tensors(Part):
    """Writes the making of tensors and explicit generators. An adapter says how a tensor is made."""

    @property
    def head(self) -> str:
        """The head of the function that makes the inputs."""
        return "inputs()"

    def tensor(self, array: Array, source: str) -> str:
        """The expression that makes a tensor in `array.dtype` from `source`, a NumPy expression of the
        array's elements (float64 or int64, of `array.shape`)."""
        raise NotImplementedError

    def framework_generator(self, seed: int) -> str:
        """The expression of the framework's explicit generator or key."""
        raise NotOfferedError(self.variant.id, "an explicit generator (`framework_generator`)")

    def generator(self, value: Generator) -> str:
        """The expression that makes an explicit generator; `framework_generator` for its own."""
        if value.library == "numpy":
            return f"np.random.default_rng({value.seed})"
        return self.framework_generator(value.seed)

    def write_of_rank(self) -> None:
        """What a rank draws its own elements from."""
        code, drawn = self.code, [a for a in self.case.arrays if a.fill.kind in _DRAWS]
        if any(array.by_rank for array in drawn):
            code(f"own = np.random.default_rng([{self.case.seed}, {self.offered('rank')} + 1])")

    def write_inputs(self) -> None:
        """`inputs()`: every draw comes from one NumPy generator, in the order of the case."""
        case, code, held = self.case, self.code, self.in_lists
        with code.indent(f"def {self.head}:"):
            if any(a.fill.kind in _DRAWS and not a.by_rank for a in case.arrays):
                code(f"rng = np.random.default_rng({case.seed})")
            if any(array.by_rank for array in case.arrays):
                self.write_of_rank()
            begin = len(code.lines)
            for value in (*case.inputs, *case.parameters, *case.state):
                if isinstance(value, Value):
                    given = value.value
                    made = repr(list(given) if isinstance(given, tuple) else given)
                elif isinstance(value, Generator):
                    made = self.generator(value)
                else:
                    rank = self.words.rank if value.by_rank else ""
                    made = self.tensor(value, numpy_fill(value, rank))
                code(f"{value.name} = {made}")
            taken = {*case.names(), *self.emitter.imported, "rng", "own"}
            code.lines[begin:], entry = lists.series(code.lines[begin:], taken)
            entry |= {name: f'"{item.name}": {item.name}' for name, item in held.items()}
            entries = [entry.get(name, f"{name!r}: {name}") for name in case.names()]
            code(f"return {{{', '.join(dict.fromkeys(entries))}}}")


class Values(Part):
    """Writes single tensors, dicts and lists of them, those that are in lists of parameters included."""

    def gradients(self) -> str:
        """A dict of the gradients that tensors hold, of those that the case asks for."""
        return self.entries(self.case.wrt, part=".grad")

    def state(self) -> list[str]:
        """The entries of the case's state in a dict."""
        return [f'"{array.name}": {self.value(array.name)}' for array in self.case.state]

    def chosen(self, arrays: Iterable[Array]) -> str:
        """A dict of some of the program's tensors by name, out of `values`."""
        return self.entries(array.name for array in arrays)

    def entries(
        self, names: Iterable[str], source: str = "values", part: str = "", *, flat: bool = False
    ) -> str:
        """A dict of the entries of `source` with these names, or of their attribute `part` (`.grad`):
        written out if they are few, else a comprehension over numbers (`w1`, `w2`, …) or names. In a
        `flat` source, tensors that are in lists of `values` have entries of their own."""
        names = list(names)
        if not flat and not self.in_lists.keys().isdisjoint(names):
            return f"{{{', '.join(self._out_of_lists(names, source, part))}}}"
        if len(names) <= FEW and "|" not in source:
            return "{" + ", ".join(f'"{name}": {source}["{name}"]{part}' for name in names) + "}"
        if source == "values" and names == self.value_names():
            each = f"name: value{part} for name, value in values.items()" if part else "**values"
            return f"{{{each}}}"
        series = _series(names)
        if len(series) > FEW or "|" in source:
            return f"{{name: {source}[name]{part} for name in {listed(names)}}}"
        words = []
        for stem, count in series.items():
            name = f'f"{stem}{{i}}"' if count else f'"{stem}"'
            loop = f" for i in range(1, {count + 1})"
            entry = f"{name}: {source}[{name}]{part}"
            words.append(f"**{{{entry}{loop}}}" if count else entry)
        text = ", ".join(words)
        return text.removeprefix("**") if len(words) == 1 else f"{{{text}}}"

    def _out_of_lists(self, names: Sequence[str], source: str, part: str) -> Iterator[str]:
        """The entries of such a dict, with one comprehension for all tensors of a list."""
        for name, item in self._grouped(names):
            if item is None:
                yield f'"{name}": {self.value(name, source)}{part}'
                continue
            stem = name.removesuffix("1")
            one = stem if stem != item.name else "value"
            listed = f'enumerate({source}["{item.name}"], 1)'
            yield f'**{{f"{stem}{{i}}": {one}{part} for i, {one} in {listed}}}'

    def _grouped(self, names: Collection[str]) -> Iterator[tuple[str, Item | None]]:
        """These names; where all of a list is among them, its first name alone, with its place."""
        for name in names:
            item = self.in_lists.get(name)
            held = self.in_lists.items()
            if item is None or any(o.name == item.name and n not in names for n, o in held):
                yield name, None
            elif item.position == 0:
                yield name, item

    def value(self, name: str, source: str = "values") -> str:
        """The expression of a tensor of the program, out of `values` or a dict of the same form."""
        item = self.in_lists.get(name)
        if item is None:
            return f'{source}["{name}"]'
        return f'{source}["{item.name}"][{item.position}]'

    def given(self, names: Iterable[str]) -> list[str]:
        """The names under which `values` has these tensors: those of lists for what is in lists."""
        return lists.arguments(names, self.in_lists)

    def value_names(self) -> list[str]:
        """The keys of the dict `values` of `run`, in order: what `plain` and `recomputed` take."""
        return self.given(name for name in self.case.names() if name not in self.held_once)

    def items(self, names: Iterable[str]) -> str:
        """A list of some of the program's tensors, out of `values`."""
        names = list(names)
        if len(names) > FEW and names == self.value_names():
            return "list(values.values())"
        if not self.in_lists.keys().isdisjoint(names):
            words = [
                self.value(name) if item is None else f'*values["{item.name}"]'
                for name, item in self._grouped(names)
            ]
            alone = len(words) == 1 and words[0][0] == "*"
            return words[0][1:] if alone else f"[{', '.join(words)}]"
        series = _series(names)
        if len(names) > FEW and len(series) == 1:
            ((stem, count),) = series.items()
            return f'[values[f"{stem}{{i}}"] for i in range(1, {count + 1})]'
        if len(names) > FEW:
            return f"[values[name] for name in {listed(names)}]"
        return f"[{', '.join(map(self.value, names))}]"

    def write_clearing(self, statement: str) -> None:
        """Clear the gradients of all tensors that have one; `{tensor}` in `statement` stands for one."""
        asking = [array.name for array in self.case.arrays if array.gradient]
        if len(asking) < FEW:
            for name in asking:
                self.code(statement.format(tensor=self.value(name)))
        else:
            with self.code.indent(f"for name in {listed(asking)}:"):
                self.code(statement.format(tensor="values[name]"))


def _series(names: Sequence[str]) -> dict[str, int]:
    """Names in order; a series numbered from 1 (`w1`, `w2`, …) as its stem with its length, any other
    name with 0."""
    made: dict[str, int] = {}
    last = ""
    for name in names:
        stem = name.rstrip("0123456789")
        number = name.removeprefix(stem)
        if number == "1" and stem not in made:
            made[stem] = 1
        elif last == stem and number == str(made[stem] + 1):
            made[stem] += 1
        else:
            made[name], stem = 0, ""
        last = stem
    series: dict[str, int] = {}
    for stem, many in made.items():
        short = 0 < many < lists.FEWEST
        series |= {f"{stem}{i}": 0 for i in range(1, many + 1)} if short else {stem: many}
    return series
