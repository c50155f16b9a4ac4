"""What is expected of a case, by a NumPy implementation: values, gradients, executions and bytes.

Imports the model and the language (`case`, `program`, `observation`, `verdict`, `operations`) and never
what runs or judges (runner, adapters, results). `tape` imports NumPy alone: programs get a copy of it.
"""
