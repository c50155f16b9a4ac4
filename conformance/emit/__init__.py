"""From a case to a program that runs by itself: the emitter that adapters derive theirs from.

Imports `drivers` and what that imports.
"""
