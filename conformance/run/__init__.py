"""A whole run: which cases on which variants, in which order, and the pytest session that they are. What
needs programs to be run beside that is here, too: probing an implementation, writing an issue.

Imports everything but the command line.
"""
