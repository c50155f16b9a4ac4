"""The language of case files: from YAML to a case, its operations, the capabilities that it asks for.

Imports `model`.
"""
