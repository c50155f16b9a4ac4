"""From a case to a program that runs by itself: an emitter, and the parts that adapters give it.

Imports `drivers` and what that imports.
"""
