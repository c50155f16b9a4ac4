"""Trees of names as a case file writes them: arguments and results of regions, outputs of programs."""

from collections.abc import Mapping

from conformance.language.source import KeyPath, Source, described, is_finite
from conformance.model.case import Literal, Ref, Tree
from conformance.model.containers import KINDS, Listed


class TreeSource(Source):
    """Reads trees. All methods raise `CaseError`."""

    def refuse_nameless(self, raw: object, path: KeyPath) -> None:
        """Refuse an argument, or a part of one, that has no name in the region's body."""
        if isinstance(raw, list | dict):
            for key, part in raw.items() if isinstance(raw, dict) else enumerate(raw):
                self.refuse_nameless(part, (*path, key))
        elif not isinstance(raw, str):
            hint = "declare a value among the inputs: `scale: {value: 2}`"
            raise self.error(f"found {described(raw)}, expected a name", *path, hint=hint)

    def tree(self, raw: object, path: KeyPath) -> Tree:
        if isinstance(raw, str):
            self.identifier(raw, *path)
            return Ref(raw, self.at(*path))
        if raw is None or (isinstance(raw, bool | int | float) and is_finite(raw)):
            return Literal(raw)
        if isinstance(raw, list):
            return tuple(self.tree(part, (*path, i)) for i, part in enumerate(raw))
        if isinstance(raw, dict) and len(raw) == 1 and (kind := next(iter(raw))) in KINDS:
            return self._container(str(kind), raw[kind], (*path, kind))
        if isinstance(raw, dict):
            return {str(k): self.tree(part, (*path, k)) for k, part in raw.items()}
        message = f"found {described(raw)}, expected a name, a list or a mapping"
        raise self.error(message, *path)

    def _container(self, kind: str, raw: object, path: KeyPath) -> Tree:
        """A list, a named tuple or an object: `{list: [a, b]}`, `{named: {q: a, k: b}}`."""
        wanted = list if kind == "list" else dict
        if not isinstance(raw, wanted) or (not raw and kind != "list"):
            message = f"found {described(raw)}, expected the parts of the {kind}"
            example = "[a, b]" if kind == "list" else "{q: a, k: b}"
            raise self.error(message, *path, hint=f"write `{{{kind}: {example}}}`")
        if isinstance(raw, list):
            return Listed(self.tree(part, (*path, i)) for i, part in enumerate(raw))
        assert isinstance(raw, dict)
        for key in raw:
            self.identifier(str(key), *path, key, key=True)
        parts = {str(key): self.tree(part, (*path, key)) for key, part in raw.items()}
        made: Tree = KINDS[kind](parts)
        return made


def same_containers(tree: Tree, other: Tree) -> bool:
    """Whether two trees have the same containers."""
    if type(tree) is not type(other) and not isinstance(tree, Ref | Literal):
        return False
    if isinstance(tree, tuple) and isinstance(other, tuple):
        return len(tree) == len(other) and all(map(same_containers, tree, other))
    if isinstance(tree, Mapping) and isinstance(other, Mapping):
        return set(tree) == set(other) and all(
            same_containers(tree[key], other[key]) for key in tree
        )
    return isinstance(tree, Ref | Literal) and isinstance(other, Ref | Literal)
