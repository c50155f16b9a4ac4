"""How programs of several ranks are written: `jax.shard_map` over as many devices, and what is seen of
each. Arrays are divided among the ranks: each has its part of the rows on its device. Under `parallel`,
each has a copy of all parameters, or (`sharded`) a part of the rows, and gathers them where it reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from conformance.emit.emitter import Writer
from conformance.errors import NotOfferedError
from conformance.model.case import Case, leaves
from conformance.model.observation import Array, Leaf, Observation, RandomState, Run
from conformance.model.program import Program

#: Lines before the import of JAX, and after it.
START = ("import os", 'os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count={ranks}"')
OPERATIONS: Mapping[str, Writer] = {
    "all_reduce": 'lax.psum({x}, "ranks")',
    "all_gather": 'lax.all_gather({x}, "ranks", tiled=True)',
    "reduce_scatter": 'lax.psum_scatter({x}, "ranks", tiled=True)',
}
HELPERS = """
    mesh = jax.sharding.Mesh(jax.devices()[:{ranks}], ("ranks",))
    each_rank = jax.sharding.PartitionSpec("ranks"){alike}


    def on_ranks(forward):
        @jax.jit
        @partial(jax.shard_map, mesh=mesh, in_specs={layouts}, out_specs=each_rank)
        def on_rank(values):
            return forward(**values)

        @wraps(forward)
        def on_all(**values):
            return on_rank(values)

        return on_all


    def by_rank(arrays):
        return jax.tree.map(lambda x: x.reshape({ranks}, -1, *x.shape[1:]), arrays)
    """
INPUTS = """
    def inputs():
        ranks = [inputs_of(rank) for rank in range({ranks})]
        sharding = jax.sharding.NamedSharding(mesh, each_rank)
        return jax.tree.map(lambda *parts: jax.device_put(jnp.concat(parts), sharding), *ranks)
    """


ALIKE = "\n    alike = jax.sharding.PartitionSpec()"
#: Where the framework has the parameters on all ranks: these lines in the place of `INPUTS`, and how
#: their gradients become those of data parallelism.
PARALLEL = """
    def inputs():
        ranks = [inputs_of(rank) for rank in range({ranks})]
        parameters = {name: ranks[0][name] for name in {names}}
        own = ({n: x for n, x in values.items() if n not in parameters} for values in ranks)
        divided = jax.tree.map(lambda *parts: jnp.concat(parts), *own)
        return laid(divided, each_rank) | laid(parameters, {layout})


    def laid(arrays, layout):
        return jax.device_put(arrays, jax.sharding.NamedSharding(mesh, layout))


    def averaged(gradients):
        mean = {name: gradients[name] / {ranks} for name in {names} if name in gradients}
        return gradients | mean
    """
GATHER = """
    def gather(x):
        return lax.all_gather(x, "ranks", tiled=True)
    """
LAYOUTS = {"data": "alike", "sharded": "each_rank"}
#: How the note begins that names a parameter which lies on all ranks as one array.
WHOLE = "one array: "


def text(lines: str, ranks: int) -> str:
    return lines.replace("{ranks}", str(ranks))


def parallel(case: Case, held: Sequence[str], variant: str) -> str:
    """`PARALLEL` for a case, in which `values` has its parameters under the names `held`."""
    if case.parallel == "sharded":
        if any(not a.shape or a.shape[0] % case.ranks for a in case.parameters):
            raise NotOfferedError(variant, "a parameter with rows that the ranks cannot divide")
        given = {n for region in case.regions() for n in leaves((region.takes, region.kwargs))}
        if not given.isdisjoint(array.name for array in case.parameters):
            raise NotOfferedError(variant, "a sharded parameter as an argument of a region")
    lines = PARALLEL.replace("{names}", str(tuple(held)))
    return text(lines.replace("{layout}", LAYOUTS[case.parallel]), case.ranks)


def divided(observation: Observation, program: Program) -> Observation:
    """What was seen of all ranks, as what each of them has seen."""
    ranks = program.ranks
    whole = {note.removeprefix(WHOLE) for note in program.notes if note.startswith(WHOLE)}
    first, *others = (
        replace(
            observation,
            plain=_of_rank(observation.plain, rank, ranks, whole),
            recomputed=_of_rank(observation.recomputed, rank, ranks, whole),
        )
        for rank in range(ranks)
    )
    return replace(first, others=tuple(others))


def _of_rank(run: Run, rank: int, ranks: int, whole: Collection[str]) -> Run:
    def part(array: Array, name: str = "") -> Array:
        if name in whole:
            return array
        parts: Array = array.reshape(ranks, -1, *array.shape[1:])
        return parts[rank]

    state = run.random_state
    if state is not None:
        state = RandomState(state.nbytes // ranks, state.copies // ranks)
    return replace(
        run,
        random_state=state,
        outputs=_mapped(part, run.outputs),
        losses=run.losses[rank::ranks],
        gradients={n: None if g is None else part(g, n) for n, g in run.gradients.items()},
        parameters={name: part(array, name) for name, array in run.parameters.items()},
        retained=None if run.retained is None else run.retained // ranks,
    )


def _mapped(part: Callable[[Array], Array], tree: Any) -> Any:
    if isinstance(tree, Leaf):
        return replace(tree, array=part(tree.array))
    if isinstance(tree, dict):
        return {key: _mapped(part, one) for key, one in tree.items()}
    if isinstance(tree, tuple | list):
        return type(tree)(_mapped(part, one) for one in tree)
    return tree
