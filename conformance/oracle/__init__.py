"""What is expected of a case, by a NumPy implementation: values, gradients, executions and bytes.

| module | what it computes |
|---|---|
| `tape` | tensors, operations, gradients and regions; programs get a copy of it |
| `interpreter`, `dataflow` | a case run once: values, what made and read each tensor and may save it |
| `executions` | the allowed counts of a whole procedure, and reruns in one backward pass |
| `memory` | bytes kept and held |
| `expected` | all of it for one case: `expect`, `check_printed` |

Imports `language` and what that imports. `tape` imports NumPy alone.
"""
