"""How MindSpore writes operations: as functions and operators, or as primitives that a cell holds."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.emit import usual
from conformance.emit.emitter import Call, Writer
from conformance.model.case import Case, Ref


def _reduced(call: Call) -> str:
    axis, keepdims = call.options["axis"], call.options["keepdims"]
    words = {"sum": ("dim", "keepdim"), "mean": ("axis", "keep_dims")}[call.op]
    along = "" if axis is None else f", {words[0]}={axis}"
    keep = f", {words[1]}=True" if keepdims else ""
    return f"ops.{call.op}({call.arguments['x']}{along}{keep})"


def _divide(call: Call) -> str:
    a, b = call.arguments["a"], call.arguments["b"]
    # The operator would take the reciprocal of b first, and multiply.
    return f"{a} / {b}" if isinstance(call.statement.arguments[0], Ref) else f"ops.div({a}, {b})"


def _conv2d(call: Call) -> str:
    stride = "" if call.options["stride"] == 1 else f", stride={call.options['stride']}"
    padding = f', pad_mode="{call.options["padding"]}"'
    return f"ops.conv2d({call.arguments['x']}, {call.arguments['w']}{stride}{padding})"


def _seed(call: Call) -> str:
    seed = call.options["seed"]
    return "" if seed is None else f", seed={seed}"


def _uniform(call: Call) -> str:
    low, high, shape = (call.options[name] for name in ("low", "high", "shape"))
    bounds = ", ".join(f"Tensor({bound}, ms.float32)" for bound in (low, high))
    return f"ops.uniform({shape}, {bounds}{_seed(call)})"


#: How operations are written, in both modes unless `pynative_operations` says otherwise.
OPERATIONS: Mapping[str, Writer] = {
    **usual.OPERATORS,
    **usual.functions("ops"),
    "divide": _divide,
    "matmul": "ops.matmul({a}, {b})",
    "linear": "ops.dense({x}, {w}, {b})",
    "conv2d": _conv2d,
    "max_pool2d": "ops.MaxPool({size}, {size})({x})",
    "avg_pool2d": "ops.avg_pool2d({x}, {size}, {size})",
    "batch_norm": "ops.batch_norm({x}, {running_mean}, {running_var}, {gamma}, {beta}, "
    "training=True, momentum={momentum}, eps={eps})",
    # The functional form has no kernel on the CPU; nn.LayerNorm uses this primitive too.
    "layer_norm": "ops.LayerNorm(-1, -1, {eps})({x}, {gamma}, {beta})[0]",
    "embedding": "ops.gather({table}, {indices}, 0)",
    "relu": "ops.relu({x})",
    "gelu": "ops.gelu({x})",
    "sigmoid": "ops.sigmoid({x})",
    "softmax": "ops.softmax({x}, axis={axis})",
    "dropout": lambda call: (
        f"ops.dropout({call.arguments['x']}, p={call.options['p']}{_seed(call)})"
    ),
    "sum": _reduced,
    "mean": _reduced,
    "slice": usual.sliced,
    "reshape": "{x}.reshape({shape})",
    "permute_dims": "ops.permute({x}, {axes})",
    "concat": "ops.cat({arrays}, axis={axis})",
    "split": "ops.tensor_split({x}, {sections}, axis={axis})",
    "astype": "{x}.astype(ms.{dtype})",
    "to_complex": "ops.Complex()({a}, {b})",
    "real": "ops.real({x})",
    "imag": "ops.imag({x})",
    "stop_gradient": "ops.stop_gradient({x})",
    "uniform": _uniform,
    "uniform_from": "Tensor({generator}.uniform({low}, {high}, {shape}), ms.float32)",
    "numpy_uniform": "Tensor(np.random.uniform({low}, {high}, {shape}), ms.float32)",
    "python_uniform": "Tensor(random.uniform({low}, {high}), ms.float32)",
    "max": "ops.amax({x}, axis={axis}, keepdims={keepdims})",
    "solve": "ops.MatrixSolve()({a}, {b})",
    "rrelu": "ops.rrelu({x}, {low}, {high})",
    "loop_sin": "loop_sin({x}, {times})",
    "custom_sin": "custom_sin({x})",
    "slope_of_sin": "slope_of_sin({x})",
    "accumulate_sin": "accumulate_sin({x}, {total})",
    "hooked": "hooked({x}, {scale})",
    "add_in_place": "{a}.add_({b})",
}
#: The constructor of an operation's primitive, where one primitive does all of it.
PRIMITIVES: Mapping[str, str] = {
    "add": "Add()",
    "subtract": "Sub()",
    "multiply": "Mul()",
    "divide": "Div()",
    "negative": "Neg()",
    "matmul": "MatMul()",
    "linear": "Dense()",
    "conv2d": 'Conv2D({channels}, {kernel}, pad_mode="{padding}", stride={stride})',
    "max_pool2d": "MaxPool({size}, {size})",
    "avg_pool2d": "AvgPool({size}, {size})",
    "relu": "ReLU()",
    "tanh": "Tanh()",
    "sigmoid": "Sigmoid()",
    "sin": "Sin()",
    "cos": "Cos()",
    "exp": "Exp()",
    "log": "Log()",
    "square": "Square()",
    "sqrt": "Sqrt()",
    "abs": "Abs()",
    "maximum": "Maximum()",
    "softmax": "Softmax({axis})",
    "split": "Split({axis}, {sections})",
}
#: Functions and cells that a program defines for itself, by the operation that calls them. `custom_sin`
#: is a rule written by hand, as a cell's `bprop`.
HELPERS: Mapping[str, str] = {
    "loop_sin": """
        def sin_once(_, x):
            return ops.sin(x)


        def loop_sin(x, times):
            return ops.ForiLoop()(0, times, sin_once, x, False)
        """,
    "hooked": """
        def hooked(x, scale):
            def scaled(gradient):  # ops.vmap parses hooks, but no lambda in an argument
                return gradient * scale

            x.register_hook(scaled)
            return x
        """,
    "custom_sin": """
        class CustomSin(nn.Cell):
            def construct(self, x):
                return ops.sin(x)

            def bprop(self, x, out, dout):
                return (2 * ops.cos(x) * dout,)


        custom_sin = CustomSin()
        """,
    "slope_of_sin": """
        def slope_of_sin(x):
            return ms.grad(lambda x: ops.sin(x).sum())(x)
        """,
    "accumulate_sin": """
        def accumulate_sin(x, total):
            ops.assign_add(total, ops.stop_gradient(x).sum(0))
            return ops.sin(x)
        """,
}
#: A rule that reads what it has saved, as often as the case says.
_READING_SAVED = """
    class CustomSin(ms._Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return ops.sin(x)

        @staticmethod
        def backward(ctx, dout):
            for _ in range({reads}):
                (x,) = ctx.saved_tensors
            return 2 * ops.cos(x) * dout


    custom_sin = CustomSin.apply
    """


def pynative_operations(case: Case) -> dict[str, Writer]:
    """What is written in another way in PyNative mode."""
    # `add_` writes nothing on the CPU in PyNative mode: it gives a new tensor. `copy_` writes, its
    # gradient is right, and backward raises where what it wrote over was saved.
    writers: dict[str, Writer] = {"add_in_place": "{a}.copy_({a} + {b})"}
    if case.procedure.order > 1:
        # `ops.matmul` itself has a gradient whose gradient lacks a part.
        writers["matmul"] = "ops.MatMul()({a}, {b})"
    return writers


def pynative_helpers(case: Case) -> dict[str, str]:
    """What is defined in another way in PyNative mode."""
    rules = (s.options for _, s in case.statements() if s.op == "custom_sin")
    reads = max((int(str(options.get("reads", 1))) for options in rules), default=1)
    return {"custom_sin": _READING_SAVED.format(reads=reads)} if reads > 1 else {}
