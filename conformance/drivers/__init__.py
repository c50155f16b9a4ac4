"""What an adapter is: its folder, its variants, what it brings; implementations put in its place.

Imports `language` and what that imports.
"""
