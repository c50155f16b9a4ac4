"""How `selective` writes a case: a region's policy as the contexts that checkpoint runs it under."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from conformance.emit.emitter import Emitter
from conformance.emit.expressions import function
from conformance.errors import NotOfferedError
from conformance.model.case import Again, Region, Statement, flat, walk

IMPORTS = (
    "from collections import Counter",
    "from functools import partial",
    "from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts",
)
#: The operator that computes an operation's result, for those that a policy may keep.
OPERATORS: Mapping[str, str] = {
    "add": "add.Tensor",
    "subtract": "sub.Tensor",
    "multiply": "mul.Tensor",
    "divide": "div.Tensor",
    "negative": "neg.default",
    "matmul": "mm.default",
    "linear": "addmm.default",
    "conv2d": "convolution.default",
    "layer_norm": "native_layer_norm.default",
    "embedding": "embedding.default",
    "relu": "relu.default",
    "gelu": "gelu.default",
    "tanh": "tanh.default",
    "sigmoid": "sigmoid.default",
    "sin": "sin.default",
    "cos": "cos.default",
    "exp": "exp.default",
    "log": "log.default",
    "softmax": "_softmax.default",
    "split": "split.Tensor",
    "square": "pow.Tensor_Scalar",
    "sqrt": "sqrt.default",
    "abs": "abs.default",
    "maximum": "maximum.default",
    "cumulative_sum": "cumsum.default",
    # On the CPU dropout draws into its mask in place, and a saved tensor must not be written to; the
    # product of input and mask is the result.
    "dropout": "mul.Tensor",
    "uniform": "rand.default",
    "uniform_from": "rand.generator",
}
#: The same where AOTAutograd traces a region.
TRACED: Mapping[str, str] = {**OPERATORS, "dropout": "native_dropout.default"}
#: A list of operators cannot tell one call of an operator from another.
KEEP_CALLS = """
    def keep_calls(kept):
        \"\"\"Contexts that keep the results of some calls of operators, numbered from 0.\"\"\"

        def contexts():
            seen = Counter()

            def policy(ctx, op, *args, **kwargs):
                number = seen[ctx.is_recompute, op]
                seen[ctx.is_recompute, op] += 1
                if number in kept.get(op, ()):
                    return CheckpointPolicy.MUST_SAVE
                return CheckpointPolicy.PREFER_RECOMPUTE

            return create_selective_checkpoint_contexts(policy)

        return contexts
    """


class Policies:
    """The contexts of regions' policies, which checkpoint is given."""

    #: The operators that operations are, as regions run here.
    operators = OPERATORS

    def __init__(self, emitter: Emitter) -> None:
        self.case, self.code = emitter.case, emitter.code
        self.variant = emitter.variant
        self.eager = emitter.variant.name == "selective"
        #: The regions whose contexts have a name, because they are long, or because several calls need
        #: them.
        self._named: Collection[str] = ()

    def keeps(self, region: Region) -> bool:
        """Whether a call of the region has the contexts of its policy."""
        return not region.contexts

    def write_helpers(self) -> None:
        """Define what policies need, and those that have a name."""
        known = self.operators
        regions = self.case.regions()
        self._refuse(regions)
        chosen = [region for region in regions if not _is_listed(region, known)]
        if chosen:
            self.code(KEEP_CALLS)
        called_often = {node.region for node in walk(self.case.program) if isinstance(node, Again)}
        if self.eager:
            chosen = [r for r in regions if r in chosen or r.name in called_often]
        self._named = {region.name for region in chosen}
        for region in chosen:  # in a compiled function they could not be made
            self.code(f"{function(region.name)}_contexts = {_contexts(region, known)}")

    def _refuse(self, regions: Iterable[Region]) -> None:
        """Raise `NotOfferedError` where calls of operators cannot say what a policy keeps."""
        for region in (region for region in regions if region.save):
            if any(isinstance(node, Again) for node in walk(region.body)):
                raise NotOfferedError(self.variant.id, "a policy around further calls of a region")
            own = [node for node in flat(region.body) if isinstance(node, Statement)]
            for node in filter(region.saves, own):
                if node.op not in self.operators:
                    what = f"a policy that keeps results of {node.op}"
                    raise NotOfferedError(self.variant.id, what)

    def policy(self, region: Region) -> str:
        """The expression of a region's contexts."""
        if region.name in self._named:
            return f"{function(region.name)}_contexts"
        return _contexts(region, self.operators)


class Compiled(Policies):
    """The same where Dynamo leaves regions to Python: a policy where a region has one."""

    def keeps(self, region: Region) -> bool:
        return bool(region.save) and not region.contexts


class Traced(Compiled):
    """The same where AOTAutograd traces regions."""

    operators = TRACED


def _contexts(region: Region, known: Mapping[str, str]) -> str:
    calls = _calls(region, known)
    kept = [(op, n) for op, n, saved in calls if saved]
    if not _is_listed(region, known):
        listed = {op: [n for other, n in kept if other == op] for op, _ in kept}
        return "keep_calls({" + ", ".join(f"{op}: {n}" for op, n in listed.items()) + "})"
    return f"partial(create_selective_checkpoint_contexts, [{', '.join(dict(kept))}])"


def _is_listed(region: Region, known: Mapping[str, str]) -> bool:
    """Whether a list of operators can express the policy: no operator is saved in one call and
    recomputed in another."""
    calls = _calls(region, known)
    return {op for op, _, saved in calls if saved}.isdisjoint(
        op for op, _, saved in calls if not saved
    )


def _calls(region: Region, known: Mapping[str, str]) -> list[tuple[str, int, bool]]:
    """The calls of operators in a region that a policy could keep: the operator, the number of its
    call from 0, and whether the region's policy keeps it."""
    calls: list[tuple[str, int, bool]] = []
    seen: Counter[str] = Counter()
    own = [node for node in flat(region.body) if isinstance(node, Statement)]
    for node in walk(region.body):
        if not isinstance(node, Statement):
            continue
        saved = node in own and region.saves(node)
        if node.op in known:
            operator = f"torch.ops.aten.{known[node.op]}"
            calls.append((operator, seen[operator], saved))
            seen[operator] += 1
    return calls
