"""A whole run: which cases on which variants, in which order, and the pytest session that they are.

Imports everything but the command line.
"""
