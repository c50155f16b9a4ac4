"""YAML of adapters, read safely and fast.

libyaml reads ten times as fast as PyYAML itself, which may have been built without it. What libyaml
refuses is read again by PyYAML, whose messages people know.
"""

from __future__ import annotations

from typing import Any

import yaml

_Fast: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def compose(text: str) -> yaml.Node | None:
    """The nodes of a text, with their places. Raises `yaml.YAMLError`."""
    try:
        return yaml.compose(text, Loader=_Fast)
    except yaml.YAMLError:
        return yaml.compose(text, Loader=yaml.SafeLoader)


def load(text: str) -> Any:
    """The plain values of a text. Raises `yaml.YAMLError`."""
    try:
        return yaml.load(text, Loader=_Fast)
    except yaml.YAMLError:
        return yaml.safe_load(text)
