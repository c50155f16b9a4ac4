"""The pytest plugin of a run: `conformance run` loads it, or `pytest -p conformance.run.pytest_plugin`.

It is no entry point: installed beside another project, it adds nothing to that project's pytest.
"""

from functools import partial

import pytest

from conformance.drivers.implementation import describe
from conformance.errors import ConformanceError
from conformance.paths import find_paths
from conformance.run.cluster import Cluster
from conformance.run.options import OPTIONS
from conformance.run.selection import LIMITS, select
from conformance.run.session import Suite
from conformance.words import printable


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance", "conformance of recomputation")
    for name, told in OPTIONS.items():
        group.addoption(name, **told)


def pytest_configure(config: pytest.Config) -> None:
    """Read cases and adapters, and let the hooks of a run in."""
    option = config.getoption
    try:
        paths = find_paths(option("cases"), option("adapters_folder"), option("reports"))
        described = None
        if option("implementation"):
            described = describe(
                option("implementation"), option("option"), option("always"), option("discipline")
            )
        elif option("option") or option("always") or option("discipline"):
            raise ConformanceError(
                "--option, --always and --discipline speak of an implementation",
                hint="name it with --implementation package.module:function",
            )
        if not option("adapter"):
            hint = "--adapter torch; `conformance list --adapters` lists all"
            raise ConformanceError("no adapter is named", hint=hint)
        if option("shard") and (option("lf", False) or option("stepwise", False)):
            raise ConformanceError(
                "--shard needs the same selection on every machine, and what failed last is not",
                hint="leave --lf and --sw out",
            )
        if option("scheduler") and option("numprocesses", None):
            hint = "leave -n out; `dask worker --nworkers` has several processes"
            raise ConformanceError("--scheduler and -n both divide the run", hint=hint)
        cluster = Cluster(option("scheduler")) if option("scheduler") else None
        selection = select(
            option("adapter"),
            option("variant"),
            paths,
            described,
            option("known"),
            smoke=option("smoke"),
            named=[*option("case"), *(f"{name}/*" for name in option("family"))],
            limits={name: option(name) for name in LIMITS if option(name) is not None},
            shard=option("shard"),
            release=partial(cluster.release, wanted=option("release")) if cluster else None,
            device=option("device"),
        )
    except ConformanceError as error:
        raise pytest.UsageError(printable(str(error))) from error
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        folders = {str(p.file.parent) for one in selection.chosen for p in one.programs}
        config.args = [str(paths.cases), *sorted(folders)]
    config.pluginmanager.register(Suite(config, selection, cluster), "conformance-suite")
