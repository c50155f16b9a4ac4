"""Which release of a framework is installed."""

from importlib import metadata


def version(package: str) -> str:
    """The version of a distribution, or of the nightly build that has its module: `tf-nightly` has that
    of `tensorflow`. Raises `PackageNotFoundError` where neither is installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        of_module = metadata.packages_distributions().get(package)
        if not of_module:
            raise
        return metadata.version(of_module[0])
