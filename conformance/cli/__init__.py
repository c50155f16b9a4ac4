"""The command line: `conformance`. Each command is a module of this package."""


def main() -> None:
    """The console script. Imports late: worker processes import this module too."""
    from conformance.cli.app import run_app

    run_app()
