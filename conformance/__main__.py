"""Runs the command line as `python -m conformance`, under whichever Python is called."""

from conformance.cli import main

main()
