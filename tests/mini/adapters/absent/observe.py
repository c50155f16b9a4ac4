"""Needs a framework that is not installed."""

from framework_that_nobody_has import Observer

__all__ = ["Observer"]
