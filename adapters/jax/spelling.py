"""How JAX writes a case: pure functions, explicit keys, `jax.checkpoint` around a region's function.

Running statistics go into a function and come out of it; random operations take a key that is made
from the seed and folded for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from conformance.adapter import Variant
from conformance.case import Again, Array, Case, Node, Ref, Region, Statement, Tree, Value, walk
from conformance.emit import BACKWARD, FORWARD, Call, Site, Writer, function
from conformance.emit import Spelling as Base
from conformance.operations import OPERATIONS, RANDOM

WIDE = ("float64", "int64", "uint64", "complex128")

HELPERS: Mapping[str, str] = {
    **Base.helpers,
    "dropout": """
        def dropout(key, x, p):
            keep = jax.random.bernoulli(key, 1 - p, x.shape)
            return jnp.where(keep, x / (1 - p), 0)
        """,
    "layer_norm": """
        def layer_norm(x, gamma, beta, eps):
            mean = x.mean(axis=-1, keepdims=True)
            var = x.var(axis=-1, keepdims=True)
            return (x - mean) * lax.rsqrt(var + eps) * gamma + beta
        """,
    "batch_norm": """
        def batch_norm(x, gamma, beta, running_mean, running_var, momentum, eps):
            mean, var = x.mean(axis=(0, 2, 3)), x.var(axis=(0, 2, 3))
            running_mean = (1 - momentum) * running_mean + momentum * mean
            running_var = (1 - momentum) * running_var + momentum * var
            mean, var, gamma, beta = (
                part[:, None, None] for part in (mean, var, gamma, beta)
            )
            y = (x - mean) * lax.rsqrt(var + eps) * gamma + beta
            return y, running_mean, running_var
        """,
    "max_pool2d": """
        def max_pool2d(x, size):
            window = (1, 1, size, size)
            return lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID")
        """,
    "avg_pool2d": """
        def avg_pool2d(x, size):
            window = (1, 1, size, size)
            total = lax.reduce_window(x, 0.0, lax.add, window, window, "VALID")
            return total / size**2
        """,
}


def _axis(call: Call) -> str:
    axis, keepdims = call.options["axis"], call.options["keepdims"]
    words = [] if axis is None else [f"axis={axis}"]
    words += ["keepdims=True"] if keepdims else []
    return f"{call.arguments['x']}.{call.op}({', '.join(words)})"


def _conv2d(call: Call) -> str:
    stride, padding = call.options["stride"], str(call.options["padding"]).upper()
    x, w = call.arguments["x"], call.arguments["w"]
    return f'lax.conv_general_dilated({x}, {w}, ({stride}, {stride}), "{padding}")'


def _uniform(call: Call) -> str:
    low, high = call.options["low"], call.options["high"]
    words = [call.arguments["key"], str(call.options["shape"]), "jnp.float32"]
    if (low, high) != (0, 1):
        words += [f"minval={low}", f"maxval={high}"]
    return f"jax.random.uniform({', '.join(words)})"


class Spelling(Base):
    """Writes one case for `eager` or `jit`."""

    helpers = HELPERS
    imports = (
        "import jax",
        "import jax.numpy as jnp",
        "import numpy as np",
        "from jax import lax",
    )
    operations: Mapping[str, Writer] = {
        "add": "{a} + {b}",
        "subtract": "{a} - {b}",
        "multiply": "{a} * {b}",
        "divide": "{a} / {b}",
        "negative": "-{x}",
        "matmul": "{a} @ {b}",
        "linear": "{x} @ {w}.T + {b}",
        "conv2d": _conv2d,
        "max_pool2d": "max_pool2d({x}, {size})",
        "avg_pool2d": "avg_pool2d({x}, {size})",
        "batch_norm": "batch_norm({x}, {gamma}, {beta}, {running_mean}, {running_var}, "
        "momentum={momentum}, eps={eps})",
        "layer_norm": "layer_norm({x}, {gamma}, {beta}, eps={eps})",
        "embedding": "{table}[{indices}]",
        "relu": "jax.nn.relu({x})",
        "gelu": "jax.nn.gelu({x}, approximate=False)",
        "tanh": "jnp.tanh({x})",
        "sigmoid": "jax.nn.sigmoid({x})",
        "sin": "jnp.sin({x})",
        "cos": "jnp.cos({x})",
        "exp": "jnp.exp({x})",
        "log": "jnp.log({x})",
        "softmax": "jax.nn.softmax({x}, axis={axis})",
        "dropout": "dropout({key}, {x}, p={p})",
        "sum": _axis,
        "mean": _axis,
        "reshape": "{x}.reshape({shape})",
        "permute_dims": "{x}.transpose({axes})",
        "concat": "jnp.concat({arrays}, axis={axis})",
        "split": "jnp.split({x}, {sections}, axis={axis})",
        "astype": "{x}.astype(jnp.{dtype})",
        "stop_gradient": "lax.stop_gradient({x})",
        "uniform": _uniform,
        "raise_if": "raise_if({x}, {flag})",
    }

    def __init__(self, case: Case, variant: Variant) -> None:
        super().__init__(case, variant)
        self._folds = [0]  # random numbers asked for so far, in each function around this place
        ops = {statement.op for _, statement in case.statements()}
        self._random = bool(ops & RANDOM)
        self._key = "key" if "key" not in _all_names(case) else "random_key"
        self._state = tuple(array.name for array in case.state)
        wide = {array.dtype for array in case.arrays}
        wide |= {str(s.options.get("dtype")) for _, s in case.statements()}
        self._wide = bool(wide & {"float64"})

    # -- inputs --------------------------------------------------------------------------------

    def write_helpers(self) -> None:
        if self._wide:
            self.code('jax.config.update("jax_enable_x64", True)')
            self.code("\n")
        super().write_helpers()

    def tensor(self, array: Array, source: str) -> str:
        fill, dtype = array.fill, array.dtype
        if dtype in WIDE and not self._wide:
            dtype = dtype.replace("64", "32")  # what JAX has where 64 bits are not switched on
        if fill.kind == "full":
            shape = f"({array.shape[0]},)" if len(array.shape) == 1 else str(array.shape)
            number: object = fill.numbers[0] if "float" in dtype else int(fill.numbers[0])
            return f"jnp.full({shape}, {number}, jnp.{dtype})"
        return f"jnp.asarray({source}, jnp.{dtype})"

    # -- forward -------------------------------------------------------------------------------

    def write_forward(self, path: str) -> None:
        self.path, self._folds = path, [0]
        names = [*self.case.names(), *([self._key] if self._random else [])]
        with self.code.indent(f"def {path}({', '.join(names)}):"):
            self.write_nodes(self.case.program, "")
            outputs = self.tree(self.case.outputs)
            state = ", ".join(f'"{name}": {name}' for name in self._state)
            self.code(f"return {outputs}, {{{state}}}" if state else f"return {outputs}")
        self.code("\n")

    def write_statement(self, statement: Statement, region: str) -> None:
        site = Site("statement", self.path, region, statement.label, statement.op)
        targets = (*statement.targets, *_updated(statement))
        self.code(f"{', '.join(targets)} = {self.expression(statement)}", site)

    def expression(self, statement: Statement) -> str:
        if statement.op == "is_unwrapped_by":
            argument = statement.arguments[0]
            assert isinstance(argument, Ref)
            name = function(argument.name)
            return "True" if self.path == "plain" else f"remat_{name}.__wrapped__ is {name}"
        return super().expression(statement)

    def spelled(self, statement: Statement) -> Call:
        call = super().spelled(statement)
        if statement.op not in RANDOM:
            return call
        arguments = {**call.arguments, "key": self._next_key()}
        return Call(call.op, arguments, call.options, statement)

    def _next_key(self) -> str:
        self._folds[-1] += 1
        return f"jax.random.fold_in({self._key}, {self._folds[-1] - 1})"

    # -- regions -------------------------------------------------------------------------------

    def write_region(self, region: Region) -> None:
        site = Site("region", self.path, region.name, region.name)
        name = function(region.name)
        self._folds.append(0)
        with self.code.indent(f"def {name}({self.parameters(region)}):", site):
            self.write_unpacking(region)
            self.write_nodes(region.body, region.name)
            self.code(f"return {self.tree(self._given(region, region.gives))}")
        self._folds.pop()
        self.code()
        if self.path == "recomputed" and self._named(region):
            self.code(f"remat_{name} = {self._checkpoint(region)}")

    def parameters(self, region: Region) -> str:
        extra = [*self._threaded(region.body), *([self._key] if self._draws(region.body) else [])]
        return ", ".join([*self.formals(region), *extra, *region.kwargs])

    def write_call(self, node: Region | Again, call: str, region: Region) -> None:
        self.write_assignment(self._given(region, node.gives), self.called(node, call, region))

    def call_arguments(self, node: Region | Again) -> str:
        region = node if isinstance(node, Region) else self.region_named(node.region)
        words = [self.tree(tree) for tree in node.takes]
        words += self._threaded(region.body)
        words += [self._next_key()] if self._draws(region.body) else []
        return ", ".join([*words, *(f"{k}={self.tree(t)}" for k, t in node.kwargs.items())])

    def recompute(self, region: Region) -> str:
        if self._named(region):
            return f"remat_{function(region.name)}"
        return self._checkpoint(region)

    def _checkpoint(self, region: Region) -> str:
        block = "None" if region.block == "invalid" else function(region.name)
        kinds = {v.name: v.value for v in self.case.inputs if isinstance(v, Value)}
        static = tuple(
            place
            for place, tree in enumerate(region.takes)
            if isinstance(tree, Ref) and isinstance(kinds.get(tree.name), bool | str)
        )
        return f"jax.checkpoint({block}{f', static_argnums={static}' if static else ''})"

    def _named(self, region: Region) -> bool:
        """Whether the recomputed callable has a name of its own: it is configured once."""
        again = any(
            isinstance(n, Again) and n.region == region.name for n in walk(self.case.program)
        )
        asked = any(
            s.op == "is_unwrapped_by" and s.arguments == (Ref(region.name),)
            for _, s in self.case.statements()
        )
        return again or asked or region.granularity != "function"

    def _given(self, region: Region, gives: Tree) -> Tree:
        """What a region's function returns: what the case says, and the state that it changed."""
        threaded = self._threaded(region.body)
        return (gives, tuple(Ref(name) for name in threaded)) if threaded else gives

    def _threaded(self, nodes: Iterable[Node]) -> list[str]:
        """The state that these nodes change, in the order of the case."""
        changed = {n for s in self._inside(nodes) for n in _updated(s)}
        return [name for name in self._state if name in changed]

    def _draws(self, nodes: Iterable[Node]) -> bool:
        return any(statement.op in RANDOM for statement in self._inside(nodes))

    def _inside(self, nodes: Iterable[Node]) -> list[Statement]:
        found: list[Statement] = []
        for node in walk(tuple(nodes)):
            if isinstance(node, Statement):
                found.append(node)
            elif isinstance(node, Again):
                found += self._inside(self.region_named(node.region).body)
        return found

    # -- run -----------------------------------------------------------------------------------

    def write_run(self) -> None:
        code = self.code
        with code.indent(self.run_signature()):
            if self._random and self.case.procedure.kind == "train":
                code(f"key = jax.random.key({self.case.seed})")
                code(f"values = {self.inputs_call()}")
            elif self._random:
                key = f'{{"{self._key}": jax.random.key({self.case.seed})}}'
                code(f"values = {self.inputs_call()} | {key}")
            else:
                code(f"values = {self.inputs_call()}")
            if self.case.procedure.kind == "inference":
                self._write_inference()
            elif self.variant.name == "jit":
                self._write_jit()
            else:
                self._write_eager()
        code("\n")

    def _write_inference(self) -> None:
        code = self.code
        if self.variant.name == "jit":
            code(f"arrays = {self._chosen(self._arrays())}")
            code()
            code("@jax.jit")
            with code.indent("def step(arrays):"):
                code("return forward(**values | arrays)", FORWARD)
            code()
            code(f"{self._results()} = step(arrays)")
        else:
            code(f"{self._results()} = forward(**values)", FORWARD)
        code('return {"outputs": outputs' + (', "state": state}' if self._state else "}"))

    def _write_eager(self) -> None:
        code, kind = self.code, self.case.procedure.kind
        code(f"wanted = {self._chosen(self._wanted())}")
        code()
        self._write_loss("values | wanted")
        if kind == "second_order":
            code()
            self._write_total()
        code()
        with self._loop():
            self._write_gradients("jnp.ones_like(total)" if kind == "second_order" else "")
            self._write_update()
        self._write_results()

    def _write_jit(self) -> None:
        code, kind = self.code, self.case.procedure.kind
        code(f"wanted = {self._chosen(self._wanted())}")
        fixed = [name for name in self._arrays() if name not in self._wanted()]
        if fixed and kind != "train":
            code(f"fixed = {self._chosen(fixed)}")
        values = any(isinstance(value, Value) for value in self.case.inputs)
        parts = [*(["values"] if values else []), *(["fixed"] if fixed else []), "wanted"]
        again = ", other" if kind == "second_backward" else ""
        results = f"loss, {self._results()}, gradients"
        results += ", again" if kind in ("second_order", "second_backward") else ""
        code()
        code("@jax.jit")
        with code.indent(f"def step(wanted, {'fixed, ' if fixed else ''}cotangent{again}):"):
            self._write_loss(" | ".join(parts))
            if kind == "second_order":
                code()
                self._write_total()
            code()
            self._write_gradients("cotangent.astype(total.dtype)" if kind == "second_order" else "")
            code(f"return {results}")
        code()
        code("one = jnp.ones(())")
        with self._loop():
            if fixed and kind == "train":
                code(f"fixed = {self._chosen(fixed)}")
            ones = "one, one" if again else "one"
            code(f"{results} = step(wanted, {'fixed, ' if fixed else ''}{ones})")
            self._write_update()
        self._write_results()

    @contextmanager
    def _loop(self) -> Iterator[None]:
        """The loop over training steps; nothing for other procedures."""
        if self.case.procedure.kind != "train":
            yield
            return
        self.code("losses = []")
        name = "number" if self._random else "_"
        with self.code.indent(f"for {name} in range({self.case.procedure.steps}):"):
            if self._random:
                self.code(f'values["{self._key}"] = jax.random.fold_in(key, number)')
            yield

    def _write_loss(self, arguments: str) -> None:
        with self.code.indent("def loss_of(wanted):"):
            self.code(f"{self._results()} = forward(**{arguments})")
            self.code(f"return {self._loss()}, {self._tuple()}")

    def _write_total(self) -> None:
        """The sum of all first gradients, as a function: what second order differentiates."""
        code = self.code
        with code.indent("def total_of(wanted):"):
            code(f"loss, vjp, {self._tuple()} = jax.vjp(loss_of, wanted, has_aux=True)", FORWARD)
            code("(gradients,) = vjp(jnp.ones_like(loss))")
            code("total = sum(gradient.sum() for gradient in gradients.values())")
            code(f"return total, (loss, {self._tuple()}, gradients)")

    def _write_gradients(self, cotangent: str) -> None:
        code, kind = self.code, self.case.procedure.kind
        if kind == "second_order":
            taken = f"loss, {self._tuple()}, gradients"
            code(f"total, vjp, ({taken}) = jax.vjp(total_of, wanted, has_aux=True)")
            code(f"(again,) = vjp({cotangent})", BACKWARD)
            return
        jit = self.variant.name == "jit"
        code(f"loss, vjp, {self._tuple()} = jax.vjp(loss_of, wanted, has_aux=True)", FORWARD)
        one = "cotangent.astype(loss.dtype)" if jit else "jnp.ones_like(loss)"
        code(f"(gradients,) = vjp({one})", BACKWARD)
        if kind == "second_backward":
            other = "other.astype(loss.dtype)" if jit else "jnp.ones_like(loss)"
            code(f"(again,) = vjp({other})", BACKWARD)

    def _write_update(self) -> None:
        """One step of SGD, and the state for the next step."""
        procedure, code = self.case.procedure, self.code
        if procedure.kind != "train":
            return
        rate = procedure.learning_rate
        if self._trained() == self._wanted():
            with code.indent("for name, gradient in gradients.items():"):
                code(f"wanted[name] = wanted[name] - {rate} * gradient")
        else:
            with code.indent(f"for name in {self._listed(self._trained())}:"):
                code(f"wanted[name] = wanted[name] - {rate} * gradients[name]")
        if self._state:
            code("values |= state")
        code("losses.append(loss)")

    def _write_results(self) -> None:
        kind = self.case.procedure.kind
        gradients = "gradients"
        if set(self._wanted()) != set(self.case.wrt):
            gradients = self._chosen(self.case.wrt, "gradients")
        results = ['"outputs": outputs']
        results.append('"losses": losses' if kind == "train" else '"losses": [loss]')
        results.append(f'"gradients": {gradients}')
        if kind in ("second_order", "second_backward"):
            results.append('"again": again')
        if kind == "train":
            parameters = [p.name for p in self.case.parameters]
            if parameters == self._wanted():
                results.append('"parameters": wanted')
            else:
                chosen = self._chosen(parameters, "(values | wanted)")
                results.append(f'"parameters": {chosen}')
        if self._state:
            results.append('"state": state')
        self.code(f"return {{{', '.join(results)}}}")

    def _loss(self) -> str:
        loss, place = self.case.loss, self.loss_place()
        assert loss is not None
        return place if loss.reduction == "none" else f"{place}.{loss.reduction}()"

    def _results(self) -> str:
        return "outputs, state" if self._state else "outputs"

    def _tuple(self) -> str:
        return "(outputs, state)" if self._state else "outputs"

    def _trained(self) -> list[str]:
        return [p.name for p in self.case.parameters if p.gradient]

    def _wanted(self) -> list[str]:
        """The names that gradients are taken of: what the case asks for, and what is trained."""
        if self.case.procedure.kind == "inference":
            return []
        trained = self._trained() if self.case.procedure.kind == "train" else []
        wanted = {*self.case.wrt, *trained}
        return [name for name in self.case.names() if name in wanted]

    def _arrays(self) -> list[str]:
        names = [array.name for array in self.case.arrays]
        return [*names, *([self._key] if self._random else [])]

    def _chosen(self, names: Sequence[str], source: str = "values") -> str:
        """The entries of a dict with these names: written out where they are few."""
        if len(names) > 3 or "|" in source:
            return f"{{name: {source}[name] for name in {self._listed(names)}}}"
        return "{" + ", ".join(f'"{name}": {source}["{name}"]' for name in names) + "}"

    def _listed(self, names: Sequence[str]) -> str:
        """An expression for a sequence of names."""
        return (
            "(" + ", ".join(f'"{name}"' for name in names) + ("," if len(names) == 1 else "") + ")"
        )


def _updated(statement: Statement) -> tuple[str, ...]:
    """The names of the arguments that an operation changes."""
    operation = OPERATIONS[statement.op]
    pairs = zip(operation.tensors, statement.arguments, strict=True)
    return tuple(a.name for n, a in pairs if n in operation.updates and isinstance(a, Ref))


def _all_names(case: Case) -> set[str]:
    made = {name for _, statement in case.statements() for name in statement.targets}
    return made | set(case.names())
