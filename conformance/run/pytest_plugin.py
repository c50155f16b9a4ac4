"""The pytest plugin. Inert unless `--adapter` is given; then see `conformance.run.session`."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The plugin's options."""
    group = parser.getgroup("conformance", "conformance of recomputation")
    group.addoption(
        "--adapter",
        action="append",
        default=[],
        metavar="NAME_OR_PATH",
        help="run the conformance cases on this adapter; repeatable",
    )
    group.addoption(
        "--variant",
        action="append",
        default=[],
        metavar="NAME",
        help="only this variant (reentrant, torch/reentrant); repeatable",
    )
    group.addoption(
        "--implementation",
        default="",
        metavar="MODULE:FUNCTION_OR_FILE",
        help="run the cases through this function in the place of the framework's recompute",
    )
    group.addoption(
        "--option",
        action="append",
        default=[],
        metavar="OPTION=KEYWORD",
        help="the function's keyword for an option of cases (preserve_rng=preserve_rng_state)",
    )
    group.addoption(
        "--always",
        action="append",
        default=[],
        metavar="KEYWORD=VALUE",
        help="a keyword that the function is always given (use_reentrant=False)",
    )
    group.addoption(
        "--discipline",
        choices=["whole", "early-stop", "minimal"],
        help="how much the function runs again",
    )
    group.addoption(
        "--known",
        type=Path,
        metavar="FILE",
        help="a list of known deviations, in the place of the adapter's",
    )
    group.addoption(
        "--smoke",
        action="store_true",
        help="only the everyday cases: those with `smoke: true`",
    )
    group.addoption(
        "--case",
        action="append",
        default=[],
        metavar="PATTERN",
        help="only the cases with such an id (growth/*); repeatable",
    )
    group.addoption(
        "--shard",
        metavar="NUMBER/OF",
        help="run one of several parts of about equal length: 2/4 is the second of four",
    )
    group.addoption(
        "--resume",
        action="store_true",
        help="go on from where a run was interrupted or killed",
    )
    group.addoption(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="for one case on one variant, in the place of the adapter's",
    )
    group.addoption(
        "--memory-limit",
        type=float,
        metavar="GIB",
        help="that a worker may allocate, in the place of the adapter's",
    )
    group.addoption("--cases", type=Path, metavar="DIR", help="folder of case files")
    group.addoption("--adapters-folder", type=Path, metavar="DIR", help="folder of adapters")
    group.addoption("--reports", type=Path, metavar="DIR", help="where results go: reports/")


def pytest_configure(config: pytest.Config) -> None:
    """Read cases and adapters, and let the plugin's other half in."""
    if not config.getoption("adapter"):
        return
    # Imported here, so that a pytest session of anything else does not pay for it.
    from dataclasses import replace

    from conformance.drivers.implementation import describe
    from conformance.errors import ConformanceError
    from conformance.paths import find_paths
    from conformance.run.selection import Limits, select
    from conformance.run.session import Suite
    from conformance.run.shards import parse
    from conformance.words import printable

    try:
        paths = find_paths(
            config.getoption("cases"),
            config.getoption("adapters_folder"),
            config.getoption("reports"),
        )
        described = None
        if config.getoption("implementation"):
            described = describe(
                config.getoption("implementation"),
                config.getoption("option"),
                config.getoption("always"),
                config.getoption("discipline"),
            )
        selection = select(
            config.getoption("adapter"),
            config.getoption("variant"),
            paths,
            described,
            config.getoption("known"),
            named=config.getoption("case"),
            limits=Limits(config.getoption("time_limit"), config.getoption("memory_limit")),
        )
        if config.getoption("shard"):
            selection = replace(selection, shard=parse(config.getoption("shard")))
            if config.getoption("lf", False) or config.getoption("stepwise", False):
                raise ConformanceError(
                    "--shard needs the same selection on every machine, and what failed last is not",
                    hint="leave --lf and --sw out",
                )
    except ConformanceError as error:
        raise pytest.UsageError(printable(str(error))) from error
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = [str(paths.cases)]
    config.pluginmanager.register(Suite(config, selection), "conformance-suite")
