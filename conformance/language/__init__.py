"""The language of case files: loading YAML into cases, their operations, the capabilities they need.

Imports `model`.
"""
