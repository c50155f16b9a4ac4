"""`python -m conformance`: the command, with the Python that is named."""

from conformance.cli import main

main()
