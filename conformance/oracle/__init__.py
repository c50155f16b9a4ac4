"""What is expected of a case: values, gradients, executions, bytes.

Imports `language` and what that imports.
"""
