"""How `model-train` and `model-train-graph` write a case: `mindspore.Model` trains a network."""

from __future__ import annotations

from conformance.emit.code import BACKWARD, FORWARD
from conformance.errors import AdapterError

from .procedures import Procedures

#: The results of a step are available when it has ended.
KEPT = """
    class Kept(ms.Callback):
        def __init__(self):
            super().__init__()
            self.losses = []

        def on_train_step_end(self, run_context):
            loss, self.gradients = run_context.original_args().net_outputs
            self.losses.append(loss)
    """


class Trains(Procedures):
    """Writes `run` as a training by `mindspore.Model`, of a network that ends in the loss.

    What the network gives is kept beside the loss: in graph mode in a parameter, since a step is a
    compiled graph, which hands Python no tensor that lies inside it.
    """

    def write_training(self) -> None:
        code, case = self.code, self.case
        code(f"weights = {self.values.items(self.plan.weights)}")
        self._write_loss_cell()
        code(KEPT)
        columns = (f'"{name}": values["{name}"].asnumpy()' for name in self.plan.inputs)
        code(
            f"""
            loss, kept = Loss(), Kept()
            optimizer = nn.SGD(weights, learning_rate={case.procedure.learning_rate})
            # the step that Model makes itself, which would give the loss alone
            step = nn.TrainOneStepCell(loss, optimizer, sens=1.0, return_grad=True)
            columns = {{{", ".join(columns)}}}
            data = ms.dataset.NumpySlicesDataset(columns, shuffle=False)
            data = data.batch(len(columns["{self.plan.inputs[0]}"]))
            """
        )
        train = f"train({case.procedure.steps}, data, callbacks=kept, dataset_sink_mode=False)"
        code(f"ms.Model(step).{train}", FORWARD if self.plan.graph else None)
        code("gradients = list(kept.gradients.values())")
        gradients = (f'"{name}": gradients[{self.plan.weights.index(name)}]' for name in case.wrt)
        code(
            f"""
            return {{
                "outputs": loss.outputs,
                "losses": kept.losses,
                "gradients": {{{", ".join(gradients)}}},
                "parameters": {self.values.chosen(case.parameters)}{self.state_entry()}
            }}
            """
        )

    def _write_loss_cell(self) -> None:
        """The network and its loss, as the cell that is trained."""
        code, given = self.code, ", ".join(self.plan.inputs)
        with code.indent("class Loss(nn.Cell):"):
            with code.indent("def __init__(self):"):
                code("super().__init__(auto_prefix=False)")
                code("self.network = network")
                if self.plan.graph:
                    zeros = self._zeros()
                    code(f'self.outputs = Parameter({zeros}, name="outputs", requires_grad=False)')
            with code.indent(f"def construct({', '.join(['self', *self.plan.inputs])}):"):
                if self.plan.graph:
                    code(f"outputs = self.network({given})")
                    code("ops.assign(self.outputs, outputs)")
                else:
                    code(f"self.outputs = outputs = self.network({given})", FORWARD)
                code(f"return {self.loss()}", None if self.plan.graph else BACKWARD)

    def _zeros(self) -> str:
        """Zeros of the shape and dtype of what the network gives, which is one tensor."""
        # Only here: writing other programs does without the oracle.
        from conformance.oracle.interpreter import Interpreter, make_inputs
        from conformance.oracle.tape import Tensor, quiet

        with quiet():
            outputs, _ = Interpreter(self.case, None).forward(make_inputs(self.case))
        if not isinstance(outputs, Tensor):
            raise AdapterError(f"{self.variant.id} trains networks that give one tensor")
        return f"ops.zeros({outputs.shape}, ms.{outputs.dtype})"
