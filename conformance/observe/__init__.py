"""Running a program and seeing what it does: workers, the observers that adapters derive theirs from.

Imports `emit` and what that imports. A worker imports a framework; nothing here does on being imported.
"""
