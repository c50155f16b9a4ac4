"""Reads adapters and their variants, and puts a user's own recompute in place of a framework's.

Imports `language` and what that imports.
"""
