"""A whole run: which cases on which variants, and the pytest session that they are.

Imports everything but the command line and what reads results.
"""
